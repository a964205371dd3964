//! Results of queries of pools, containers and snapshots.
use crate::{Checksum, Epoch, Uuid};

/// Number of a container within its pool: the prefix of all its keys. Never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ContainerId(pub u32);

/// Optional abilities of a backend. Requests beyond them fail with [`crate::ErrorKind::NotSupported`] when a pool or
/// container is opened, not later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Capabilities {
    /// Snapshots can be taken and read.
    pub snapshots: bool,
    /// Writes to several objects are atomic, and conflicts are detected.
    pub transactions: bool,
    /// Objects of Key-Value and array types can hold any akeys and kinds of values, like other objects. Without this
    /// capability they hold only what Key-Values and Arrays store in them (akey `0`: a single value for each key;
    /// attributes at dkey 0 and records at other dkeys); anything else fails with
    /// [`crate::ErrorKind::NotSupported`].
    pub any_akeys: bool,
    /// Objects of array types distinguish records that were never written or were punched. Without this capability,
    /// such records before the last one of their chunk exist and are zeros.
    pub holes: bool,
    /// A read sees each write to a chunk of an array completely or not at all. Without this capability, a concurrent
    /// read may return a mix of old and new bytes.
    pub atomic_arrays: bool,
    /// Leases (`OpenContainer::lease`) work across processes. Without this capability only leases of this handle on
    /// the pool count, and a process may remove an object while others use it.
    pub shared_leases: bool,
    /// A change with an id that was applied before is not applied again ([`crate::ops::ChangeId`]). Without
    /// this capability such a change fails with [`crate::ErrorKind::NotSupported`].
    pub change_ids: bool,
    /// Replies take time: concurrent operations finish sooner than sequential ones.
    pub asynchronous: bool,
    /// Leases on reads are granted (`OpenContainer::lease_reads`), because repeating a read takes time.
    pub read_leases: bool,
    /// The backend chooses the UUIDs of containers; a request for a certain one fails with
    /// [`crate::ErrorKind::NotSupported`].
    #[cfg_attr(feature = "serde", serde(skip))]
    pub assigns_uuids: bool,
    /// A commit compares the values that the transaction has read with the stored ones. Data that others have rewritten
    /// with the same bytes counts as unchanged. Without this capability that is a conflict.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub proves_by_value: bool,
    /// Records of an array are numbered below 2^63, not below 2^64; writes of others fail with
    /// [`crate::ErrorKind::Invalid`].
    #[cfg_attr(feature = "serde", serde(skip))]
    pub half_range: bool,
    /// Only objects of classes that fit the pool exist. Without this capability an object of any class can be read and
    /// written, since it may have been copied from a larger pool.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub fitting_classes: bool,
    /// Keys of lexical types have at most [`crate::limits::DAOS_LEXICAL_KEY_MAX`] bytes; writes of others fail with
    /// [`crate::ErrorKind::KeyTooBig`].
    #[cfg_attr(feature = "serde", serde(skip))]
    pub short_lexical_keys: bool,
    /// A container holds a file system only if it was created so: with the metadata `prop:layout_type` and
    /// `prop:roots`. Programs of DAOS read it, so that each dkey of a directory must be a name.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub fixed_layouts: bool,
    /// An akey that was removed keeps its kind of value and its record size for a time: a write of the other kind fails
    /// with [`crate::ErrorKind::NoPermission`], and one of another record size with [`crate::ErrorKind::Invalid`]. A
    /// read of the other kind finds no akey, so that a condition on it fails.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub lasting_kinds: bool,
    /// The epoch of an object in a snapshot may be later than its last change there, if the object has changed since.
    /// It is never later than the snapshot.
    #[cfg_attr(feature = "serde", serde(skip))]
    pub late_epochs: bool,
    /// Number of targets over which an object class can spread.
    pub targets: u32,
    /// Number of fault domains among them.
    pub domains: u32,
}

impl Capabilities {
    /// All capabilities of a local backend, on `targets` targets of one fault domain.
    #[must_use]
    pub const fn all(targets: u32) -> Self {
        Self {
            snapshots: true,
            transactions: true,
            any_akeys: true,
            holes: true,
            atomic_arrays: true,
            shared_leases: true,
            change_ids: true,
            asynchronous: false,
            read_leases: false,
            assigns_uuids: false,
            proves_by_value: false,
            half_range: false,
            fitting_classes: false,
            short_lexical_keys: false,
            fixed_layouts: false,
            lasting_kinds: false,
            late_epochs: false,
            targets,
            domains: 1,
        }
    }

    /// No capability and no restriction of its own, on `targets` targets of one fault domain: a backend sets those that
    /// it has.
    #[must_use]
    pub const fn minimal(targets: u32) -> Self {
        Self {
            snapshots: false,
            transactions: false,
            any_akeys: false,
            holes: false,
            atomic_arrays: false,
            shared_leases: false,
            change_ids: false,
            ..Self::all(targets)
        }
    }

    /// The capabilities and restrictions in which the backend differs from [`Capabilities::all`]: name of the field,
    /// and a sentence for users.
    ///
    /// ```
    /// use esker_types::info::Capabilities;
    /// assert_eq!(Capabilities::all(4).exceptions().count(), 0);
    /// let posix = Capabilities { snapshots: false, ..Capabilities::all(4) };
    /// assert!(posix.exceptions().eq([("snapshots", "there are no snapshots")]));
    /// ```
    pub fn exceptions(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let all = [
            (!self.snapshots, "snapshots", "there are no snapshots"),
            (!self.transactions, "transactions", "there are no transactions"),
            (!self.any_akeys, "any_akeys", "Key-Values and Arrays have no akeys but \"0\""),
            (!self.holes, "holes", "records of an Array that were never written are zeros"),
            (!self.atomic_arrays, "atomic_arrays", "a read may see a part of a write to an Array"),
            (
                !self.shared_leases,
                "shared_leases",
                "a file that is removed while another process has it open loses its content",
            ),
            (!self.change_ids, "change_ids", "a change whose reply was lost cannot be sent again"),
            (self.assigns_uuids, "assigns_uuids", "UUIDs of containers cannot be chosen"),
            (
                self.proves_by_value,
                "proves_by_value",
                "a transaction commits although others have written again, as it was, what it read",
            ),
            (self.half_range, "half_range", "record numbers of Arrays end at 2^63"),
            (
                self.fitting_classes,
                "fitting_classes",
                "objects of classes that do not fit the pool cannot be opened",
            ),
            (
                self.short_lexical_keys,
                "short_lexical_keys",
                "keys that are sorted have at most 100 bytes",
            ),
            (
                self.fixed_layouts,
                "fixed_layouts",
                "a container is a file system for programs of DAOS only if it was created as one",
            ),
            (
                self.lasting_kinds,
                "lasting_kinds",
                "an akey that was removed takes the same kind of value and the same record size only",
            ),
            (
                self.late_epochs,
                "late_epochs",
                "the time of the last change of an object in a snapshot may be that of the snapshot",
            ),
        ];
        all.into_iter().filter(|(differs, ..)| *differs).map(|(_, name, text)| (name, text))
    }
}

/// Access mode of an open pool or container (DAOS: `DAOS_PC_*`, `DAOS_COO_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum OpenMode {
    /// Read only.
    ReadOnly,
    /// Read and write, shared with others.
    ReadWrite,
    /// Reading and writing, exclusively; fails with [`crate::ErrorKind::Busy`] if it is open elsewhere.
    Exclusive,
}

/// Name of a container, as a user gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum ContainerRef<'a> {
    /// By label.
    Label(&'a str),
    /// By id.
    Uuid(Uuid),
}

impl<'a> ContainerRef<'a> {
    /// A UUID if the text is one, else a label (labels never look like UUIDs).
    #[must_use]
    pub fn parse(text: &'a str) -> Self {
        Uuid::parse(text).map_or(Self::Label(text), Self::Uuid)
    }
}

/// Space of a pool or target, in bytes. Free space is writable: the reserves for compaction, and for removals from a
/// full index, do not count as free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Space {
    /// Capacity for data.
    pub data_total: u64,
    /// Free space for data, including what the next garbage collection frees.
    pub data_free: u64,
    /// Capacity of the index.
    pub index_total: u64,
    /// Free space of the index.
    pub index_free: u64,
    /// True if the index can grow into space that is free for data.
    pub is_shared: bool,
}

impl Space {
    /// Capacity for index entries and small values.
    #[must_use]
    pub fn entries_total(&self) -> u64 {
        self.index_total + if self.is_shared { self.data_total } else { 0 }
    }

    /// Free space for index entries and small values.
    #[must_use]
    pub fn entries_free(&self) -> u64 {
        self.index_free + if self.is_shared { self.data_free } else { 0 }
    }

    /// Bytes that can certainly be written, whether they are data or index entries.
    #[must_use]
    pub fn free(&self) -> u64 {
        self.data_free.min(self.entries_free())
    }

    /// The fullest of these targets, with its index in `targets`: the pool counts as full when this one is. `None`
    /// without targets.
    #[must_use]
    pub fn fullest(targets: &[Self]) -> Option<(usize, &Self)> {
        targets.iter().enumerate().min_by_key(|(_, target)| (target.free(), target.entries_free()))
    }
}

/// The storage medium of a pool's files, as their file system reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Medium {
    /// tmpfs, DAX: mapped, no system call on the data path.
    Memory,
    /// A disk: pwrite and pread.
    Block,
    /// Another backend, or no medium.
    Other,
}

/// The failure that an acknowledged update survives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Durability {
    /// The end of any process, but not a crash of the machine.
    Process,
    /// A power failure as well.
    Commit,
}

/// Result of a query of a pool.
#[derive(Clone, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PoolInfo {
    /// Its id.
    pub uuid: Uuid,
    /// Its name.
    pub label: String,
    /// Its URL, by which every process of the machine can open it.
    pub url: String,
    /// Space of each target.
    pub targets: Vec<Space>,
    /// Its medium.
    pub medium: Medium,
    /// The failure that an acknowledged update survives.
    pub durability: Durability,
}

/// Result of a query of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ContainerInfo {
    /// Its number.
    pub id: ContainerId,
    /// Its id for users.
    pub uuid: Uuid,
    /// Its name; empty if it has none.
    pub label: String,
    /// Checksum over its data.
    pub checksum: Checksum,
    /// Epoch of its creation; zero if that is not known.
    pub created: Epoch,
    /// Open handles of all processes (best effort: of another process any number counts as one).
    pub handles: u32,
}

impl ContainerInfo {
    /// Epoch of its creation, if that is known.
    #[must_use]
    pub fn creation(&self) -> Option<Epoch> {
        (self.created != Epoch::default()).then_some(self.created)
    }
}

/// Position of a node's pool within a pool over nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The number of the node, from 0 on.
    pub node: u32,
    /// Number of nodes of the pool.
    pub nodes: u32,
}

impl Part {
    /// A pool on one node.
    pub const WHOLE: Self = Self { node: 0, nodes: 1 };

    /// True if the node's number is below the number of nodes, and that is within its limit.
    #[must_use]
    pub fn is_valid(self) -> bool {
        self.node < self.nodes && self.nodes <= crate::limits::NODES_MAX
    }
}

/// A snapshot of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
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
    fn free_space_takes_any_kind_of_data() {
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
