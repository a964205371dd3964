//! The work of `esker bench tx`: transactions mixed with puts and gets, by several processes on one pool.
//!
//! Each process puts values under new keys of a Key-Value of its own and gets some of them, as in `kv`. Between them,
//! it runs transactions on counters that all processes share: each reads two counters and increments both.
mod counters;
pub mod limits;
pub mod worker;

use crate::job::{Job, LoadStep};
use crate::measure::Measured;
use serde::{Deserialize, Serialize};

/// Kinds of operations in a mixture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A put of a value under a new key.
    Put,
    /// A get of a value that the process has put.
    Get,
    /// A transaction that increments two counters.
    Transaction,
}

/// Number of kinds.
pub const KINDS: usize = 3;

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TxJob {
    /// Puts and gets: the store, the values, and `ops` of each in a round.
    pub job: Job,
    /// One operation in this number is a transaction.
    pub every: u64,
    /// Number of counters.
    pub counters: u64,
    /// Targets of the pool, by which the two counters of a transaction are on different ones; 1 if that is not known.
    pub targets: u32,
}

/// A phase of all processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TxStep {
    /// A step of `kv`: a limit, or unmeasured work on the keys of a round.
    Load(LoadStep),
    /// Set the counters to zero; not measured.
    Reset,
    /// Puts, gets and transactions of a round.
    Mix(u32),
    /// Check all counters and their sum; not measured.
    Sum {
        /// Increments since the reset.
        increments: u64,
    },
}

impl TxStep {
    /// Name in errors.
    fn name(self) -> &'static str {
        match self {
            Self::Load(step) => step.name(),
            Self::Reset => "reset",
            Self::Mix(_) => "mix",
            Self::Sum { .. } => "sum",
        }
    }
}

/// The reply to a step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TxDone {
    /// All operations.
    pub all: Measured,
    /// Operations by [`Kind`].
    pub kinds: [Measured; KINDS],
    /// Commits that conflicts refused and that were repeated.
    pub conflicts: u64,
}
