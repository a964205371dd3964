//! Helpers for the tests of all crates: random draws, waiting, fuzzing, and reporting skipped tests.
//!
//! [`fuzz`] feeds parsers of untrusted bytes, [`linear`] checks histories of concurrent operations. A test draws from [`seed`], which is fixed by default, so that a
//! failure shows again on any machine; `make soak` sets another seed in each round. A test waits for a
//! condition with [`wait_for`], never for a fixed time.
#![forbid(unsafe_code)]

mod fuzz;
pub mod linear;
mod random;
mod skip;
mod wait;

pub use fuzz::fuzz;
pub use random::{Random, SEED_VARIABLE, rounds, seed};
pub use skip::{SKIPPED_VARIABLE, skip};
pub use wait::{HANG, pause, wait_for};
