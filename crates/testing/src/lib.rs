//! What tests of all crates share: where they draw from, how they wait, and how they say that they were skipped.
//!
//! A parser of bytes from outside is fed by [`fuzz`]. A test draws from [`seed`], which is the same each time: what
//! fails here fails there. `make soak` sets
//! another one in each round. A test waits for what it needs to come about, with [`wait_for`], and never for a time.
#![forbid(unsafe_code)]

mod fuzz;
mod random;
mod seed;
mod skip;
mod wait;

pub use fuzz::fuzz;
pub use random::{Random, rounds};
pub use seed::{SEED_VARIABLE, seed};
pub use skip::{SKIPPED_VARIABLE, skip};
pub use wait::{HANG, pause, wait_for};
