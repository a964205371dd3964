//! Helpers for the tests of all crates: random draws, waiting, fuzzing, and reporting skipped tests.
//!
//! [`fuzz`] feeds parsers of untrusted bytes, [`linear`] checks histories of concurrent operations. A test draws from
//! [`seed`], which is fixed by default, so that a failure shows again on any machine; `make soak` sets another seed in
//! each round. A test waits for a condition with [`wait_for`], never for a fixed time.
//!
//! The torture tests of native pools, in `tests/torture`, kill, fill, fork, cut the power and damage. Their duration is
//! [`scaled`]. `ESKER_EXPLORE` selects the stops at which a writer is explored: `all`, or the number of one.
#![forbid(unsafe_code)]

mod fuzz;
pub mod linear;
mod random;
mod scale;
mod skip;
mod wait;

pub use fuzz::fuzz;
pub use random::{Random, SEED_VARIABLE, rounds, seed};
pub use scale::{ROUNDS, ROUNDS_VARIABLE, scaled};
pub use skip::{SKIPPED_VARIABLE, skip};
pub use wait::{HANG, pause, wait_for};
