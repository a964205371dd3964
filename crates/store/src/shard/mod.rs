//! A target, which is one shard of a pool. All access to its index, its write buffer and its data goes through it.
//!
//! [`Target::view_of`] is the only way to read a target, and [`Target::lock`] the only way to change it.
//! [`crate::commit`] makes commits over several targets.
pub(crate) mod buffer;
pub(crate) mod change;
pub(crate) mod container;
pub(crate) mod doubt;
pub(crate) mod extents;
pub(crate) mod group;
mod held_pages;
pub(crate) mod huge;
pub(crate) mod index_space;
mod list;
pub(crate) mod lock;
pub(crate) mod open_pool;
mod query;
mod read;
pub(crate) mod read_leases;
pub(crate) mod redo;
pub(crate) mod reserved_pages;
mod scan;
pub(crate) mod segment;
pub(crate) mod snapshots;
mod view;
pub(crate) mod walk;

pub(crate) use view::{ReadView, Scope, all_data};

use crate::data::{Data, table};
use crate::format::superblock::{self, INDEX, Superblock};
use crate::index::lmdb::{DATA, Index, Mode};
use crate::io::folder::{Folder, missing_part_error};
use crate::shared::control::{
    Control, ProcessSlot, TargetAtomics, conflict_slot, object_slot, punch_slot,
};
use buffer::PutBatch;
use esker_types::info::{ContainerId, Durability};
use esker_types::ops::{ReadAt, ReadTokens};
use esker_types::{Error, ErrorKind, ObjectId, Result};
use group::Group;
use index_space::IndexSpace;
use open_pool::OpenPool;
use segment::claim::AppendSlots;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};

/// One shard of an open pool.
pub struct Target {
    number: u32,
    index: Arc<Index>,
    data: Data,
    pub(crate) control: Arc<Control>,
    append_slots: AppendSlots,
    index_space: Option<IndexSpace>,
    segment_bytes: u64,
    segments: u32,
    pins: read::Pins,
    /// Bytes of each segment that are already in the page table of this process.
    prepared: Vec<AtomicU64>,
    durability: Durability,
    has_long_keys: bool,
    /// Held by the thread of this process that coordinates a commit with this target.
    pub(crate) coordinating: Mutex<()>,
    /// Changes of threads of this process that share a sync.
    group: Group,
    /// Puts into the write buffer of threads of this process that share a sync.
    puts: Group<PutBatch>,
    /// Transaction id from which on free pages may be reserved again.
    reserving_pause: AtomicU64,
    /// Transaction id from which on the pages that readers hold back are counted again.
    count_pause: AtomicU64,
    /// The pool of the target. It is set when the pool is open.
    pub(crate) pool: OnceLock<Weak<OpenPool>>,
    /// Completes or aborts a commit over several targets that left this one in doubt, or waits for its end. The
    /// function belongs to the layer above, which makes such commits.
    resolve: fn(&Target) -> Result<()>,
}

/// Maximum number of threads of one process that append to one target at the same time.
const APPEND_SLOTS: usize = 8;

/// Bytes of a segment that are entered into the page table at once. New memory takes milliseconds per MiB, and a single
/// write should not wait for several such steps.
const PREPARED_AT_ONCE: u64 = 1 << 20;

/// Longest append for which space is written ahead.
const SMALL_APPEND: u64 = 64 << 10;

/// Mode in which the index of a pool is opened.
fn index_mode(pool: &Folder, superblock: &Superblock) -> Mode {
    match (superblock.durability, superblock.guarded) {
        _ if pool.is_read_only() => Mode::ReadOnly,
        (Durability::Commit, _) => Mode::Synced,
        (Durability::Process, true) => Mode::Guarded,
        (Durability::Process, false) => Mode::Mapped,
    }
}

/// Refuses an index whose file was truncated. LMDB would initialize an empty file, as if nothing had been stored.
fn refuse_truncated(index: &Folder, superblock: &Superblock) -> Result<()> {
    let Some(info) = index.info(DATA, superblock.file_permissions())? else { return Ok(()) };
    let (found, wanted) = (info.len(), superblock.index_file_bytes());
    if found >= wanted {
        return Ok(());
    }
    let file = index.path().join(DATA);
    let message = format!(
        "{} has {found} bytes of {wanted}: restore it, or copy the readable data with `esker pool salvage`",
        file.display()
    );
    Err(Error::new(ErrorKind::Corrupt, message))
}

/// Records that a transaction has read a dkey of an object or, for `None`, the complete object. A punch of the object
/// changes the second slot, and not that of each dkey.
fn note_read_of_object(
    view: &ReadView<'_>,
    tokens: &ReadTokens,
    container: ContainerId,
    oid: ObjectId,
    dkey: Option<&[u8]>,
) {
    view.note_slot_read(tokens, slot_of(container, oid, dkey));
    view.note_slot_read(tokens, punch_slot(container, oid));
}

/// Slot of the conflict table that each change of a dkey or, for `None`, of any dkey of an object touches.
fn slot_of(container: ContainerId, oid: ObjectId, dkey: Option<&[u8]>) -> u32 {
    match dkey {
        Some(dkey) => conflict_slot(container, oid, dkey),
        None => object_slot(container, oid),
    }
}

impl Target {
    /// Opens the index and the data file of target `number`. `resolve` ends or waits for its doubt.
    pub(crate) fn open(
        pool: &Folder,
        superblock: &Superblock,
        control: Arc<Control>,
        number: u32,
        resolve: fn(&Self) -> Result<()>,
    ) -> Result<Self> {
        let mode = superblock.file_permissions();
        let folder_mode = superblock.directory_permissions_max();
        let folder = pool.folder(&superblock::target_name(number), folder_mode);
        let folder = folder.map_err(missing_part_error)?;
        let index_folder = folder.folder(INDEX, folder_mode).map_err(missing_part_error)?;
        refuse_truncated(&index_folder, superblock)?;
        let index = Index::open(
            &index_folder,
            superblock.index_file_bytes(),
            index_mode(pool, superblock),
            mode,
            Some(control.turn_word(number)),
        )?;
        Ok(Self {
            number,
            index,
            data: Data::open(&folder, superblock)?,
            control,
            append_slots: AppendSlots::new(APPEND_SLOTS),
            index_space: IndexSpace::open(&index_folder, superblock)?,
            segment_bytes: superblock.segment_bytes,
            segments: superblock.segments,
            pins: read::Pins::new(superblock.segments),
            prepared: (0..superblock.segments).map(|_| AtomicU64::new(0)).collect(),
            durability: superblock.durability,
            has_long_keys: superblock.has_long_keys(),
            coordinating: Mutex::default(),
            group: Group::new(),
            puts: Group::new(),
            reserving_pause: AtomicU64::new(0),
            count_pause: AtomicU64::new(0),
            pool: OnceLock::new(),
            resolve,
        })
    }

    /// Number of the target in its pool.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }

    /// True if the format of the pool supports long keys.
    pub(crate) fn has_long_keys(&self) -> bool {
        self.has_long_keys
    }

    /// Bytes per segment.
    #[must_use]
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Number of segments.
    #[must_use]
    pub fn segment_count(&self) -> u32 {
        self.segments
    }

    /// The pool of the target; `None` while the pool is being opened.
    pub(crate) fn pool(&self) -> Option<Arc<OpenPool>> {
        self.pool.get().and_then(Weak::upgrade)
    }

    pub(crate) fn is_durable(&self) -> bool {
        self.durability == Durability::Commit
    }

    /// Syncs the data file if commits must survive a crash of the machine.
    pub(crate) fn sync_data(&self) -> Result<()> {
        if self.is_durable() { self.data.sync() } else { Ok(()) }
    }

    /// Offset of a segment in the data file.
    pub(crate) fn segment_offset(&self, segment: u32) -> u64 {
        u64::from(segment) * self.segment_bytes
    }

    /// Atomics of the target that processes share.
    pub(crate) fn shared(&self) -> TargetAtomics<'_> {
        self.control.target(self.number)
    }

    /// Slot of this process.
    pub(crate) fn process(&self) -> ProcessSlot {
        self.control.slot
    }

    /// True if the process with that slot is alive.
    pub(crate) fn is_alive(&self, slot: ProcessSlot) -> bool {
        self.control.is_alive(slot)
    }

    /// Number of segments that the index never gets, so that the data file remains usable.
    pub(crate) fn data_segments_min(&self) -> u32 {
        table::RESERVE as u32 + 2
    }

    /// Prepares the end of a segment for an append to `part`, and some more. In memory, the pages up to there are entered
    /// into the page table. On a disk, space that was never written is written if the append is small.
    pub(crate) fn prepare(&self, segment: u32, part: Range<u64>) {
        let prepared = &self.prepared[segment as usize];
        let from = prepared.load(Ordering::Relaxed);
        if part.end > from {
            let until = part.end.next_multiple_of(PREPARED_AT_ONCE).min(self.segment_bytes);
            let begin = self.segment_offset(segment);
            self.data.prepare(begin + from, (until - from) as usize);
            if part.end - part.start <= SMALL_APPEND {
                self.data.write_ahead(&(begin + part.end..begin + until));
            }
            prepared.store(until, Ordering::Relaxed);
        }
    }

    /// A consistent view of data of one object. For a transaction, this records that it has read the dkey or, for
    /// `None`, the complete object.
    #[inline(always)]
    pub(crate) fn view_of_object(
        &self,
        scope: Scope<'_>,
        at: ReadAt<'_>,
        container: ContainerId,
        oid: ObjectId,
        dkey: Option<&[u8]>,
    ) -> Result<ReadView<'_>> {
        let view = self.view_of(scope.at(at.view))?;
        if let Some(tokens) = at.tokens {
            note_read_of_object(&view, tokens, container, oid, dkey);
        }
        Ok(view)
    }

    /// The index.
    pub(crate) fn index(&self) -> &Arc<Index> {
        &self.index
    }

    /// Error for damaged data of this target; it names the object.
    pub(crate) fn damaged(&self, key: &[u8], what: &str) -> Error {
        let place = crate::format::keys::DataKey::parse(key).map_or_else(
            |_| "an unknown object".to_owned(),
            |key| format!("object {} of container {}", key.oid, key.container().0),
        );
        Error::new(
            ErrorKind::Checksum,
            format!(
                "{what} of {place} on target {} does not match its checksum: restore it",
                self.number
            ),
        )
    }
}

#[cfg(test)]
impl Target {
    pub(crate) fn data(&self) -> &Data {
        &self.data
    }

    pub(crate) fn buffer_atomics(&self) -> &[crate::sync::AtomicU64] {
        self.write_buffer().map_or(&[], |buffer| buffer.atomics())
    }
}
