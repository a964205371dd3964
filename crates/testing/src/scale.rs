//! The duration of the torture tests in `tests/`.

/// Environment variable with the number of rounds of the crash tests, to which the other torture tests scale their
/// duration.
pub const ROUNDS_VARIABLE: &str = "ESKER_TORTURE_ROUNDS";

/// Default number of rounds.
pub const ROUNDS: u64 = 200;

/// `count` at the default number of rounds, scaled in proportion otherwise; at least one.
#[must_use]
pub fn scaled(count: u64) -> u64 {
    let given = std::env::var(ROUNDS_VARIABLE).ok().and_then(|rounds| rounds.parse().ok());
    (count * given.unwrap_or(ROUNDS)).div_ceil(ROUNDS).max(1)
}
