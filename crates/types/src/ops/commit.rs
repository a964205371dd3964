//! Commits over several nodes, in two phases.
use super::Change;
use crate::{Epoch, Uuid};

/// Identifies a commit over several nodes. Drawn at random by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CommitId(pub Uuid);

/// A commit as its nodes know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Commit {
    /// Identifies it.
    pub id: CommitId,
    /// Number of the node that decides about it: the first of those that take part.
    pub coordinator: u32,
}

/// What one node prepares for a commit.
#[derive(Clone, Copy, Debug)]
pub enum Preparation<'a> {
    /// The part of a change that concerns this node: its writes, and the tokens that the node gave.
    Change(Change<'a>),
    /// A snapshot of the container, with this name.
    Snapshot(&'a str),
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// It is prepared, and may still be committed or given up.
    Undecided,
    /// It is committed at this epoch.
    Committed(Epoch),
    /// It was given up, or never reached the node.
    GivenUp,
}
