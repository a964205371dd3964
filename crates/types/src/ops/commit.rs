//! Commits over several nodes, in two phases.
use super::Change;
use crate::info::Part;
use crate::{Epoch, Error, ErrorKind, Result, Uuid};

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

impl Commit {
    /// Refuses a commit in which a pool cannot take part, because it lies on one node, or the coordinator is none of its
    /// nodes.
    ///
    /// # Errors
    /// `NotSupported`, `Invalid`.
    pub fn check(self, part: Part) -> Result<()> {
        let (kind, message) = match part {
            Part::WHOLE => {
                let message =
                    "this pool lies on one node: it takes no part in commits over several";
                (ErrorKind::NotSupported, message)
            }
            Part { nodes, .. } if self.coordinator >= nodes => {
                (ErrorKind::Invalid, "the coordinator of a commit is no node of the pool")
            }
            _ => return Ok(()),
        };
        Err(Error::new(kind, message))
    }

    /// Refuses to decide about a commit that another node coordinates.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check_decided_by(self, part: Part) -> Result<()> {
        if self.coordinator == part.node {
            return Ok(());
        }
        let (here, there) = (part.node, self.coordinator);
        let message = format!("node {there} decides about the commit, and this is node {here}");
        Err(Error::new(ErrorKind::Invalid, message))
    }
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
