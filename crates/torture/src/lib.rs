//! What the torture tests in `tests/` draw from: a seed that replays a failure, and how long to go on.
//!
//! `ESKER_SEED` sets the seed, `ESKER_TORTURE_ROUNDS` the number of rounds of the crash torture, by
//! which the other tests scale themselves.
#![forbid(unsafe_code)]

pub use esker_testing::{HANG, Random, SEED_VARIABLE, pause, seed, skip, wait_for};

/// Environment variable that sets how long the tests go on.
pub const ROUNDS_VARIABLE: &str = "ESKER_TORTURE_ROUNDS";

/// Rounds where nothing else is asked for.
pub const ROUNDS: u64 = 200;

/// `count` at the usual number of rounds, more or fewer in proportion; at least one.
#[must_use]
pub fn scaled(count: u64) -> u64 {
    let given = std::env::var(ROUNDS_VARIABLE).ok().and_then(|rounds| rounds.parse().ok());
    (count * given.unwrap_or(ROUNDS)).div_ceil(ROUNDS).max(1)
}
