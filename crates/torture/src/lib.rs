//! Parameters of the torture tests in `tests/`: a seed that replays a failure, and the duration.
//!
//! `ESKER_SEED` sets the seed, `ESKER_TORTURE_ROUNDS` the number of rounds of the crash tests, to which the other
//! tests scale their duration. `ESKER_EXPLORE` selects the stops at which a writer is explored: `all`, or the number of one.
#![forbid(unsafe_code)]

pub use esker_testing::{HANG, Random, SEED_VARIABLE, pause, seed, skip, wait_for};

/// Environment variable that sets the duration of the tests.
pub const ROUNDS_VARIABLE: &str = "ESKER_TORTURE_ROUNDS";

/// Default number of rounds.
pub const ROUNDS: u64 = 200;

/// `count` at the default number of rounds, scaled in proportion otherwise; at least one.
#[must_use]
pub fn scaled(count: u64) -> u64 {
    let given = std::env::var(ROUNDS_VARIABLE).ok().and_then(|rounds| rounds.parse().ok());
    (count * given.unwrap_or(ROUNDS)).div_ceil(ROUNDS).max(1)
}
