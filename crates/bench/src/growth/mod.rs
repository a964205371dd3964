//! `esker bench growth`: cost of operations as a store grows from size to size.
//!
//! Entries are small values under keys of a Key-Value, or Arrays of one piece. Their keys and ids are spread over the
//! whole range, so an index has no favourable order. The limit is a file of the same values, which grows with the
//! store.
pub mod medium;
pub mod worker;

use serde::{Deserialize, Serialize};

/// A phase of the one process that works on the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrowthStep {
    /// Open the pool and read one of `entries` entries, as a program does after a restart.
    Open {
        /// Entries in the store.
        entries: u64,
    },
    /// Append the values of entries `from` to `to` to the file.
    Append {
        /// The first one.
        from: u64,
        /// The one after the last.
        to: u64,
    },
    /// Store entries `from` to `to`.
    Put {
        /// The first one.
        from: u64,
        /// The one after the last.
        to: u64,
    },
    /// Read values at random offsets of the file.
    Pread {
        /// Values in the file.
        entries: u64,
        /// Values to read.
        ops: u64,
    },
    /// Read entries at random, and compare them with what was stored.
    Get {
        /// Entries in the store.
        entries: u64,
        /// Entries to read.
        ops: u64,
    },
}
