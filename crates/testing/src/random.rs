//! Random numbers that can be replayed from a printed seed.
use std::ops::Range;

/// Environment variable that sets the seed.
pub const SEED_VARIABLE: &str = "ESKER_SEED";

/// The default seed.
const FIXED: u64 = 1;

/// The seed in [`SEED_VARIABLE`], or a fixed one. Prints it, so that a failure can be replayed.
#[must_use]
pub fn seed() -> u64 {
    let given = std::env::var(SEED_VARIABLE).ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or(FIXED);
    println!("{SEED_VARIABLE}={seed}");
    seed
}

/// Random numbers determined by a seed.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// The numbers of `seed`; each `stream` gives a different sequence.
    #[must_use]
    pub fn new(seed: u64, stream: u64) -> Self {
        let mut streams = fastrand::Rng::with_seed(seed);
        Self(fastrand::Rng::with_seed(streams.u64(..) ^ stream))
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `limit`; zero if `limit` is zero.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.u64(..limit.max(1))
    }

    /// A number in `range`, which is not empty.
    pub fn within(&mut self, range: Range<u64>) -> u64 {
        self.0.u64(range)
    }

    /// True once in `times` draws on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.0.fill(&mut bytes);
        bytes
    }
}

/// The number of rounds of a test: fewer under Miri, where each takes about a thousand times as long.
#[must_use]
pub const fn rounds(wanted: u64) -> u64 {
    if cfg!(miri) { wanted.div_ceil(200) } else { wanted }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_streams_differ() {
        let draw = |seed, stream| Random::new(seed, stream).bytes(20);
        assert_eq!(draw(1, 2), draw(1, 2));
        assert_ne!(draw(1, 2), draw(1, 3));
        assert_ne!(draw(1, 2), draw(2, 2));
    }
}
