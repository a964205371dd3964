//! A backend beside the in-memory reference: both do the same random operations, and every answer is
//! compared. What happens follows from a seed alone, so each failure can be had again.
//!
//! ```
//! use esker_backend::Pool;
//! use esker_memory::Memory;
//! use esker_testkit::model;
//! use std::sync::Arc;
//!
//! model::run(1, 200, &|| Arc::new(Memory::new(2)) as Arc<dyn Pool>);
//! ```
mod changes;
mod driver;
mod reads;
mod space;

use driver::Driver;
use esker_backend::Pool;
use std::sync::Arc;

/// Does `steps` operations that follow from `seed` on a fresh subject and on the reference.
///
/// # Panics
/// Where the two differ. The message names the seed and the step.
pub fn run(seed: u64, steps: u64, make_subject: &dyn Fn() -> Arc<dyn Pool>) {
    let outcome = Driver::new(seed, make_subject()).and_then(|mut driver| driver.run(steps));
    assert!(
        outcome.is_ok(),
        "{}={seed}: unexpected error: {outcome:?}",
        esker_testing::SEED_VARIABLE
    );
}
