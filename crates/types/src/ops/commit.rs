//! Commits over several nodes, in two phases.
use super::Change;
use crate::info::Part;
use crate::{Epoch, Error, ErrorKind, Result, Uuid};

/// Identifies a commit over several nodes. The client draws it: 8 bytes are the [start](CommitId::start) of the commit, the
/// others are random. So ids sort by their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CommitId(pub Uuid);

/// Bytes of an id before the random ones.
const START_LEN: usize = 8;

impl CommitId {
    /// Id of a new commit. `start` is the clock of its coordinator as the client last knew it, 0 if it never did. The last
    /// bytes of `random` tell apart commits of the same start.
    #[must_use]
    pub const fn new(start: Epoch, random: Uuid) -> Self {
        let mut id = random.0;
        let start = start.0.to_be_bytes();
        let mut byte = 0;
        while byte < START_LEN {
            id[byte] = start[byte];
            byte += 1;
        }
        Self(Uuid(id))
    }

    /// Clock of the coordinator as the client knew it before the commit.
    #[must_use]
    pub fn start(self) -> Epoch {
        let start = self.0.0.first_chunk().copied().unwrap_or_default();
        Epoch(u64::from_be_bytes(start))
    }
}

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

impl Commit {
    /// True if the decision about the commit may have been swept: it started before `swept`.
    #[must_use]
    pub fn may_be_swept(self, swept: Epoch) -> bool {
        self.id.start() < swept
    }

    /// Refuses to prepare a commit on its coordinator if the decision about it may have been swept, as then this may be a late
    /// copy of the request. Also refuses a start that is later than the `clock` of the node, which did not give it out.
    ///
    /// # Errors
    /// `Again`: the client draws a new id.
    pub fn check_start(self, swept: Epoch, clock: Epoch) -> Result<()> {
        if !self.may_be_swept(swept) && self.id.start() <= clock {
            return Ok(());
        }
        let Self { id, coordinator } = self;
        let message = format!(
            "commit {} started before decisions on node {coordinator} were removed, or by another clock: prepare it under a \
             new id, with the present clock of the node",
            id.0
        );
        Err(Error::new(ErrorKind::Again, message))
    }

    /// Error for a question about a commit whose decision may have been swept.
    #[cold]
    #[must_use]
    pub fn unknown(self) -> Error {
        let Self { id, coordinator } = self;
        let message = format!(
            "node {coordinator} does not know any more whether commit {} was committed: read the data before you repeat the \
             change",
            id.0
        );
        Error::new(ErrorKind::TxUncertain, message)
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
    /// The node has nothing about it, and has swept decisions about commits of that age: it was committed or given up. Every
    /// other node that took part has followed the decision. So a node that has it prepared has a late copy, which is given up.
    Unknown,
}

/// Decisions of a node about commits over several nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decisions {
    /// The node's clock. A commit that starts with it is accepted.
    pub clock: Epoch,
    /// The node has as many decisions as it keeps, and prepares no further commits that it coordinates.
    pub is_full: bool,
    /// The oldest decisions by the start of their commits, as many as were asked for.
    pub oldest: Vec<Decided>,
}

/// A decision about one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decided {
    /// The commit.
    pub id: CommitId,
    /// It is committed; otherwise it was given up.
    pub is_committed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_sort_by_their_start() {
        let id = |start, random| CommitId::new(Epoch(start), Uuid([random; 16]));
        let mut ids = [id(u64::MAX, 0), id(256, 1), id(255, 9), id(0, 200), id(256, 0)];
        ids.sort();
        let starts = ids.map(|id| id.start().0);
        assert_eq!(starts, [0, 255, 256, 256, u64::MAX]);
        assert_ne!(id(5, 1), id(5, 2));
    }

    #[test]
    fn a_commit_starts_after_swept_decisions_and_not_after_the_clock() {
        let start = |start| {
            let id = CommitId::new(Epoch(start), Uuid([7; 16]));
            Commit { id, coordinator: 0 }.check_start(Epoch(10), Epoch(20)).map_err(|it| it.kind())
        };
        assert_eq!([start(10), start(20)], [Ok(()); 2]);
        assert_eq!([start(0), start(9), start(21)], [Err(ErrorKind::Again); 3]);
    }
}
