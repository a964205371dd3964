//! Object ids as programs choose them.
use crate::names::Named;
use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// Objects that one thread places at a time; each such block has random numbers of its own.
pub(super) const BLOCK: u64 = 1 << 16;

/// Ranks of the job of [`Ids::Ranks`].
const RANKS: u64 = 64;

/// Ids that each process of [`Ids::Blocks`] allocates at a time, and how many of them it uses.
const ALLOCATED: u64 = 1024;
const USED: u64 = 100;

/// Choice of the user's 96 bits of object ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[value(rename_all = "kebab-case")]
pub enum Ids {
    /// One after the other, as `allocate_oids` returns them.
    Consecutive,
    /// All 96 bits at random.
    Random,
    /// Multiples of 16.
    Strided16,
    /// Multiples of 4096.
    Strided4096,
    /// A rank in the upper half of the lower word, and a counter of each rank below it.
    Ranks,
    /// Processes allocate 1024 ids at a time and use the first 100.
    Blocks,
}

impl std::fmt::Display for Ids {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name())
    }
}

impl Ids {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Consecutive,
        Self::Random,
        Self::Strided16,
        Self::Strided4096,
        Self::Ranks,
        Self::Blocks,
    ];

    /// The user's bits of the `number`-th object: those of the upper and the lower word.
    pub(super) fn bits(self, number: u64, rng: &mut Rng) -> (u64, u64) {
        match self {
            Self::Consecutive => (0, number),
            Self::Random => (u64::from(rng.u32(..)), rng.u64(..)),
            Self::Strided16 => (0, number << 4),
            Self::Strided4096 => (0, number << 12),
            Self::Ranks => (0, ((number % RANKS) << 32) | (number / RANKS)),
            Self::Blocks => (0, number / USED * ALLOCATED + number % USED),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn no_id_is_chosen_twice() {
        for ids in Ids::ALL {
            let mut rng = Rng::with_seed(1);
            let chosen: HashSet<_> = (0..10_000).map(|number| ids.bits(number, &mut rng)).collect();
            assert_eq!(chosen.len(), 10_000, "{}", ids.name());
        }
    }
}
