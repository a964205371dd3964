//! What pools, containers and snapshots say about themselves.
use crate::{Checksum, Epoch, Uuid};

/// Number of a container inside its pool: the prefix of all its keys. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContainerId(pub u32);

/// How a pool or container is opened (DAOS: `DAOS_PC_*`, `DAOS_COO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading only.
    ReadOnly,
    /// Reading and writing, beside others.
    ReadWrite,
    /// Reading and writing, alone; fails with [`crate::ErrorKind::Busy`] where others are in.
    Exclusive,
}

/// A container named by its user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerRef<'a> {
    /// By label.
    Label(&'a str),
    /// By id.
    Uuid(Uuid),
}

impl<'a> ContainerRef<'a> {
    /// A UUID where the text is one, else a label (labels never look like UUIDs).
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        Uuid::parse(text).map_or(Self::Label(text), Self::Uuid)
    }
}

/// Space of a pool or target, in bytes. What is free can be written: what is kept back for compaction, and for
/// removals in a full index, is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// What data can take.
    pub data_total: u64,
    /// Of that, free or freed by the next collection.
    pub data_free: u64,
    /// What the index has.
    pub index_total: u64,
    /// Of that, free for entries.
    pub index_free: u64,
    /// What is free for data can become part of the index.
    pub is_shared: bool,
}

impl Space {
    /// All that entries of an index can take, or values of their size.
    #[must_use]
    pub fn entries_total(&self) -> u64 {
        self.index_total + if self.is_shared { self.data_total } else { 0 }
    }

    /// Of that, free.
    #[must_use]
    pub fn entries_free(&self) -> u64 {
        self.index_free + if self.is_shared { self.data_free } else { 0 }
    }

    /// Whatever is written, so much finds room.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.data_free.min(self.entries_free())
    }

    /// The fullest of some targets, which is where a pool is full first, and its number.
    #[must_use]
    pub fn fullest(targets: &[Self]) -> Option<(usize, &Self)> {
        targets.iter().enumerate().min_by_key(|(_, target)| (target.free(), target.entries_free()))
    }
}

/// What the data lies on, found from the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// tmpfs, DAX: mapped, no system call on the data path.
    Memory,
    /// A disk: pwrite and pread.
    Block,
    /// A backend that is not ours, or no medium at all.
    Other,
}

/// What an acknowledged update survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The death of any process; not that of the machine.
    Process,
    /// Loss of power as well.
    Commit,
}

/// A pool as its query shows it.
#[derive(Clone, Debug)]
pub struct PoolInfo {
    /// Its id.
    pub uuid: Uuid,
    /// Its name.
    pub label: String,
    /// Where it is: a URL every process of the machine can open.
    pub url: String,
    /// Space of each target.
    pub targets: Vec<Space>,
    /// What it lies on.
    pub medium: Medium,
    /// What an acknowledged update survives.
    pub durability: Durability,
}

/// A container as its query shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerInfo {
    /// Its number.
    pub id: ContainerId,
    /// Its id for users.
    pub uuid: Uuid,
    /// Its name; empty where it has none.
    pub label: String,
    /// Checksum over its data.
    pub checksum: Checksum,
    /// When it was created.
    pub created: Epoch,
    /// Handles on it, over all processes (best effort: processes, not handles, of others count).
    pub handles: u32,
}

/// A snapshot of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotInfo {
    /// The state it shows.
    pub epoch: Epoch,
    /// Its name; may be empty.
    pub name: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_free_for_whatever_is_written() {
        let fixed = Space {
            data_total: 90,
            data_free: 80,
            index_total: 10,
            index_free: 3,
            is_shared: false,
        };
        assert_eq!((fixed.free(), fixed.entries_free(), fixed.entries_total()), (3, 3, 10));
        let shared = Space { is_shared: true, ..fixed };
        assert_eq!((shared.free(), shared.entries_free(), shared.entries_total()), (80, 83, 100));
        assert_eq!(Space::fullest(&[shared, fixed]).map(|(number, _)| number), Some(1));
        let full = Space { data_free: 0, ..shared };
        assert_eq!(Space::fullest(&[shared, full]).map(|(number, _)| number), Some(1));
    }
}
