//! A backend beside the in-memory reference: both do the same random operations, and every answer is
//! compared. What happens follows from a seed alone, so each failure can be had again.
//!
//! ```
//! use esker::{backend::Backend, memory::Memory, model};
//! use std::sync::Arc;
//!
//! model::run(model::seed(), 200, &|| Arc::new(Memory::new(2)) as Arc<dyn Backend>);
//! ```
mod changes;
mod driver;
mod reads;
mod space;

use crate::backend::Backend;
pub use crate::random::Random;
use driver::Driver;
use std::sync::Arc;

/// Environment variable that sets the seed.
pub const SEED_VARIABLE: &str = "ESKER_SEED";

/// The seed where nobody sets one: what fails on one machine fails on the next.
const FIXED_SEED: u64 = 1;

/// The seed in [`SEED_VARIABLE`], else a fixed one.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(FIXED_SEED)
}

/// Does `steps` operations that follow from `seed` on a fresh subject and on the reference.
///
/// # Panics
/// Where the two differ. The message names the seed and the step.
pub fn run(seed: u64, steps: u64, make_subject: &dyn Fn() -> Arc<dyn Backend>) {
    let outcome = Driver::new(seed, make_subject()).and_then(|mut driver| driver.run(steps));
    assert!(outcome.is_ok(), "{SEED_VARIABLE}={seed}: unexpected error: {outcome:?}");
}
