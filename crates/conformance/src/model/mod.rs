//! Compares a backend with the in-memory reference: both execute the same random operations, and every answer is
//! compared. A seed determines all operations, so every failure can be reproduced.
//!
//! ```
//! use esker_backend::Pool;
//! use esker_backend::memory::Memory;
//! use esker_conformance::model;
//! use std::sync::Arc;
//!
//! model::run(1, 200, &|| Arc::new(Memory::new(2)) as Arc<dyn Pool>);
//! ```
mod changes;
mod driver;
mod reads;
mod space;
mod takes;

use driver::Driver;
use esker_backend::Pool;
use std::sync::Arc;

/// Executes `steps` operations determined by `seed` on a new subject and on the reference.
///
/// # Panics
/// If the two differ. The message names the seed and the step.
pub fn run(seed: u64, steps: u64, make_subject: &dyn Fn() -> Arc<dyn Pool>) {
    let outcome = Driver::new(seed, make_subject()).and_then(|mut driver| driver.run(steps));
    assert!(
        outcome.is_ok(),
        "{}={seed}: unexpected error: {outcome:?}",
        esker_testing::SEED_VARIABLE
    );
}
