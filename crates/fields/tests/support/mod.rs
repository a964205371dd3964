//! Support for tests of properties.
use esker_testing::{Random, SEED_VARIABLE, seed};

/// Runs a property on random input. A failure prints the seed.
pub(crate) fn for_random(rounds: u64, property: impl Fn(&mut Random)) {
    let seed = seed();
    println!("{SEED_VARIABLE}={seed}");
    let mut random = Random::new(seed, 0);
    (0..rounds).for_each(|_| property(&mut random));
}
