//! Commits over several nodes, in two phases.
use super::Change;
use crate::info::Part;
use crate::{Epoch, Error, ErrorKind, Result, Uuid};

/// Identifies a commit over several nodes. The client draws it: 8 bytes are the [start](CommitId::start) of the commit,
/// the others are random. Ids therefore sort by their start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CommitId(pub Uuid);

/// Bytes of an id before the random ones.
const START_LEN: usize = 8;

impl CommitId {
    /// Id of a new commit. It begins with `start`, the coordinator's clock as the client last knew it, or 0. The last
    /// bytes of `random` distinguish commits of the same start.
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

/// A commit over several nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Commit {
    /// Identifies it.
    pub id: CommitId,
    /// Number of the node that decides the commit: the first of its nodes.
    pub coordinator: u32,
}

impl Commit {
    /// Refuses a commit over nodes unless this node's pool, at position `part`, belongs to several nodes and the
    /// coordinator is one of them.
    ///
    /// # Errors
    /// `NotSupported`, `Invalid`.
    pub fn check(self, part: Part) -> Result<()> {
        let (kind, message) = match part {
            Part::WHOLE => {
                let message =
                    "this pool is on one node: it does not take part in commits over several";
                (ErrorKind::NotSupported, message)
            }
            Part { nodes, .. } if self.coordinator >= nodes => {
                (ErrorKind::Invalid, "the coordinator of a commit is not a node of the pool")
            }
            _ => return Ok(()),
        };
        Err(Error::new(kind, message))
    }

    /// Refuses to decide a commit that another node coordinates.
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
    /// True if the commit decision may have been swept: decisions of commits that started before `swept` are.
    #[must_use]
    pub fn may_be_swept(self, swept: Epoch) -> bool {
        self.id.start() < swept
    }

    /// Refuses to prepare a commit on its coordinator in two cases. If it started before `swept`, its decision may be
    /// gone, and this may be a late copy of the request. If it starts after the node's `clock`, the start did not come
    /// from this node.
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

    /// The error of a query for a commit whose decision may have been swept.
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

/// Work that one node prepares for a commit.
#[derive(Clone, Copy, Debug)]
pub enum Preparation<'a> {
    /// The writes of a change to this node, and the tokens that the node gave.
    Change(Change<'a>),
    /// A snapshot of the container, with this name.
    Snapshot(&'a str),
}

/// State of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Outcome {
    /// It is prepared, and may still be committed or aborted.
    Undecided,
    /// It is committed at this epoch.
    Committed(Epoch),
    /// It was aborted, or never reached the node.
    Aborted,
    /// The node has no decision, and has swept decisions about commits of that age: it was committed or aborted. All
    /// its other nodes have followed the decision. A node that still has it prepared has a late copy, which it aborts.
    Unknown,
}

/// Commit decisions of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decisions {
    /// The node's clock. The node accepts commits that start with it.
    pub clock: Epoch,
    /// True if the node stores the maximum of decisions. It then prepares no further commits that it coordinates.
    pub is_full: bool,
    /// The oldest decisions by the start of their commits, up to the requested number.
    pub oldest: Vec<Decided>,
}

/// A commit decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Decided {
    /// The commit.
    pub id: CommitId,
    /// True if it was committed; otherwise it was aborted.
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
    fn commit_must_start_between_swept_decisions_and_the_clock() {
        let start = |start| {
            let id = CommitId::new(Epoch(start), Uuid([7; 16]));
            Commit { id, coordinator: 0 }.check_start(Epoch(10), Epoch(20)).map_err(|it| it.kind())
        };
        assert_eq!([start(10), start(20)], [Ok(()); 2]);
        assert_eq!([start(0), start(9), start(21)], [Err(ErrorKind::Again); 3]);
    }
}
