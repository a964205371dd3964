//! The work of `zarr`: arrays in `esker.zarr.Store`, and in the store that zarr has for directories.
//!
//! Its processes run the Python program [`WORK`]. Each has an array of its own, and reads that of the next process.
use serde::Serialize;
use std::path::PathBuf;

/// The Python program.
pub(crate) const WORK: &str = include_str!("work.py");

/// Chunks that a commit replaces, as in that program.
pub const COMMIT_CHUNKS: u64 = 16;

/// The job of one process.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Job {
    pub(crate) rank: u32,
    pub(crate) procs: u32,
    pub(crate) cpu: Option<u32>,
    /// The container, as the package opens it.
    pub(crate) url: String,
    /// Its name.
    pub(crate) container: String,
    /// Directory on the same medium, for the other store.
    pub(crate) files: PathBuf,
    pub(crate) size_bytes: u64,
    pub(crate) chunks: u64,
    pub(crate) seed: u64,
}

/// A store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Store {
    /// `esker.zarr.Store`.
    Esker,
    /// `zarr.storage.LocalStore`.
    Local,
}

/// A phase, which all processes enter at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Write an array.
    Write,
    /// Read the array of the next process.
    Read,
    /// List its keys.
    List,
    /// Replace chunks of the own array, some in each commit.
    Commit,
    /// Remove the own array; not measured.
    Remove,
}

impl Phase {
    /// Measured phases, in order.
    pub const MEASURED: [Self; 4] = [Self::Write, Self::Read, Self::List, Self::Commit];

    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Read => "read",
            Self::List => "list",
            Self::Commit => "commit",
            Self::Remove => "remove",
        }
    }
}

/// Next operation of a process.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Step {
    pub(crate) store: Store,
    pub(crate) phase: Phase,
    pub(crate) round: u32,
}
