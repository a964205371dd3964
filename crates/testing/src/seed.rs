//! Where everything that a test draws begins.

/// Environment variable that sets the seed.
pub const SEED_VARIABLE: &str = "ESKER_SEED";

/// The seed where nobody sets one.
const FIXED: u64 = 1;

/// The seed in [`SEED_VARIABLE`], else a fixed one; printed, so that whoever sees a failure can have it again.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(FIXED);
    println!("{SEED_VARIABLE}={seed}");
    seed
}
