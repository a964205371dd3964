//! Limits of Esker. Exceeding one gives a typed error that names it.

/// Longest dkey or akey in bytes. A longer one is refused with [`crate::ErrorKind::KeyTooBig`].
pub const KEY_MAX: usize = 512 << 10;

/// Longest dkey or akey in bytes that the index of a target stores in full. For a longer one, the index has its first
/// bytes and a hash; each record under it has the rest.
pub const KEY_WHOLE_MAX: usize = 1024;

/// Longest dkey plus akey that the index stores in full, once encoded (a zero byte inside a key takes two).
pub const KEY_PAIR_MAX: usize = 1900;

/// Longest pool or container label in bytes (DAOS: `DAOS_PROP_LABEL_MAX_LEN`).
pub const LABEL_MAX: usize = 127;

/// Longest name of a user attribute in bytes (DAOS: 511).
pub const ATTR_NAME_MAX: usize = 511;

/// Longest value of a user attribute in bytes.
pub const ATTR_VALUE_MAX: usize = 64 * 1024;

/// Values of at most this many bytes are stored inside the index, larger ones in segments.
pub const INLINE_MAX: usize = 1024;

/// Longest piece of data under one index entry; longer updates are split into pieces of this size.
pub const EXTENT_BYTES_MAX: usize = 4 << 20;

/// Most blocks by which the index of a target can grow; each has 1 MiB, or one segment if that is smaller.
pub const INDEX_BLOCKS_MAX: u32 = 1 << 16;

/// Pages of an index that are reserved for removals. Changes that add data leave them free, also while readers of old
/// states keep other pages from reuse.
pub const PAGES_FOR_REMOVALS: u64 = 64;

/// Bytes under one checksum, so that a small read of a large extent verifies little (DAOS: csum chunk).
pub const CHECKSUM_CHUNK: usize = 32 << 10;

/// Longest single value in bytes.
pub const SINGLE_VALUE_MAX: u64 = EXTENT_BYTES_MAX as u64;

/// Largest record size of an array in bytes.
pub const RECORD_SIZE_MAX: u64 = EXTENT_BYTES_MAX as u64;

/// Most targets a pool can have, on each of its nodes.
pub const TARGETS_MAX: usize = 64;

/// Most nodes a pool can have.
pub const NODES_MAX: u32 = 512;

/// Concurrent readers (threads, over all processes) one target admits.
pub const READERS_MAX: u32 = 4096;

/// Views (values read in place, without a copy) that one process may have at a time. Each keeps a segment from
/// being reused, and each such segment takes a file descriptor.
pub const VIEWS_MAX: usize = 4096;

/// Processes that may have one pool open at a time.
pub const PROCESSES_MAX: usize = 4096;

/// Buckets of the table of objects in use, over all processes of a pool. Each has room for 7 objects of a process. An
/// object that does not fit counts as in use until no process has the pool open.
pub const LEASE_BUCKETS: usize = 8192;

/// Most bytes of data and keys one transaction may buffer before its commit.
pub const TX_BYTES_MAX: usize = 256 << 20;

/// Most operations one transaction may buffer before its commit.
pub const TX_OPS_MAX: usize = 1 << 16;

/// Most akeys in one fetch or update.
pub const AKEYS_PER_OP_MAX: usize = 4096;

/// Most extents in one fetch or update.
pub const EXTENTS_PER_OP_MAX: usize = 1 << 16;

/// Most containers a pool can have over its life time.
pub const CONTAINERS_MAX: u32 = u32::MAX - 1;

/// Most snapshots one container can have at a time.
pub const SNAPSHOTS_MAX: usize = 1024;

/// Most bytes in one dkey of an object that is neither a Key-Value nor an Array, in a posix pool. Every change rewrites
/// the whole file of the dkey.
pub const POSIX_DKEY_MAX: u64 = 256 << 20;

/// Longest single value at dkey 0 of an object of an array type in a posix pool.
pub const POSIX_ARRAY_VALUE_MAX: u64 = 1024;

/// Longest single value stored in the map of a RADOS object; longer ones are objects of their own.
pub const RADOS_INLINE_MAX: usize = 16 << 10;

/// Longest piece of an array stored in the map of a RADOS object.
pub const RADOS_PIECE_INLINE_MAX: usize = 1024;

/// Pieces of an array under one akey above which a rados pool merges adjacent ones.
pub const RADOS_PIECES_MAX: usize = 256;

/// Most bytes in the data of a RADOS object. By default, an OSD refuses requests of more than 90 MiB
/// (`osd_max_write_size`) and objects of more than 128 MiB (`osd_max_object_size`).
pub const RADOS_DATA_MAX: usize = 64 << 20;

/// Chunks of an Array that one transaction of a rados pool removes, if the Array is removed alone.
pub const RADOS_CHUNKS_PER_TX_MAX: usize = 1 << 16;

/// Most bytes of keys, records and small values that one transaction of a rados pool changes.
pub const RADOS_TX_BYTES_MAX: usize = 64 << 20;

/// Most entries of one RADOS object on which a change may depend. A request of Ceph has at most 65,535 operations, and
/// each comparison is one.
pub const RADOS_GUARDS_MAX: usize = 65_000;

/// Entries that a rados pool asks a RADOS object for at a time.
pub const RADOS_PAGE: u64 = 1024;

/// Attempts of an operation on a rados pool while others change the same object.
pub const RADOS_TRIES_MAX: usize = 1000;

/// Attempts of an operation on a daos pool while others change the same data.
pub const DAOS_TRIES_MAX: usize = 1000;

/// Longest dkey or akey in bytes of an object with lexical keys in a pool of a DAOS system. DAOS stores such keys in
/// the anchors of its trees (`EMBEDDED_KEY_MAX` in its `src/include/daos/btree.h`).
pub const DAOS_LEXICAL_KEY_MAX: usize = 100;

/// Most bytes of keys, extents or object ids that one listing of a daos pool holds.
pub const DAOS_LISTING_BYTES_MAX: usize = 1 << 30;

/// Losses that a salvage lists one by one. It only counts the others.
pub const LOSSES_TOLD_MAX: usize = 1000;

/// Commit decisions that a node stores. At this number, the oldest are swept.
pub const DECISIONS_MAX: usize = 1 << 16;

/// Commit decisions that are swept at a time.
pub const DECISIONS_SWEPT_MAX: usize = 4096;

/// Containers whose creation failed on a pool over nodes, and whose parts a process has still to remove. At this number,
/// it creates no further ones.
pub const ABANDONED_CONTAINERS_MAX: usize = 64;

/// Most bytes of the values of a dkey that one operation removes and returns.
pub const TAKEN_BYTES_MAX: u64 = 256 << 10;

/// Slots of [`crate::ops::ChangeId`] whose last change a target remembers, so that a repeated request is not applied
/// twice. The quarter that was unused for longest is removed when they are full.
pub const CHANGE_IDS_MAX: usize = 1 << 16;
