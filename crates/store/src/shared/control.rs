//! The control file: atomics that all processes of a pool share while they use it.
//!
//! It stores state that need not survive a restart of the machine: owners of segments, the last epoch, and versions for
//! conflict detection. After a restart it is rebuilt from the indexes. Only the write buffers of version 5 must survive:
//! they hold acknowledged puts. The bytes after the atomics exist only to be
//! locked. `docs/format.md` has the layout of both.
mod processes;

pub(crate) use processes::{BYTE_SETUP, PROCESS_BYTES};

use super::leases::LEASE_TABLE_LEN;
use super::write_buffer::{BUFFER_LEN, Puts, WriteBuffer};
use super::{double_open, leases};
use crate::format::superblock::Superblock;
use crate::io::folder::{Folder, Use, missing_part_error};
use crate::io::map::SharedAtomics;
use crate::io::private_file::PrivateFile;
use crate::io::turn::TurnWord;
use crate::io::{lock, sys};
use crate::sync::AtomicU64;
use esker_types::info::ContainerId;
use esker_types::limits::PROCESSES_MAX;
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result, StableHash};
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Name of the control file in the directory of a pool.
pub(crate) const NAME: &str = "control";

/// Marks the pool of a control file as destroyed, for all processes that have it open. A file that is shorter than its
/// header was never in use, and is left alone.
pub(crate) fn declare_destroyed(file: &File) -> io::Result<()> {
    let offset = 8 * DESTROYED as u64;
    match file.metadata()?.len() < 8 * HEADER_LEN as u64 {
        true => Ok(()),
        false => file.write_all_at(&POOL_DESTROYED.to_ne_bytes(), offset),
    }
}

const MAGIC: u64 = u64::from_le_bytes(*b"ESKRCTL1");
/// Number of atomics of the header, and of a page of 4 KiB.
const HEADER_LEN: usize = 512;
/// Number of atomics of a target before its conflict table.
const TARGET_HEAD_LEN: usize = 8;
/// Position of the turn words, one for each target. A turn word holds the process that may take the write lock.
const TURNS: usize = 64;
/// Position of the count of destroyed containers.
const DESTROYED: usize = 3;
/// Position of the slot + 1 of the engine that has leases for clients on other nodes; zero if there is none.
const ENGINE: usize = 7;
/// Position of the time until which clients may take the leases again that an engine has lost, in microseconds of the
/// machine's uptime.
const LEASES_LOST_UNTIL: usize = 8;
/// Bit of the count of destroyed containers which says that the pool itself was destroyed.
const POOL_DESTROYED: u64 = 1 << 63;
/// Number of slots of a target's conflict table.
pub(crate) const CONFLICT_SLOTS: usize = 4096;
/// Number of atomics of a segment.
pub(crate) const SEGMENT_LEN: usize = 4;
/// Number of atomics of a process.
const PROCESS_LEN: usize = 2;
/// Value that means that no container has a snapshot.
const NO_SNAPSHOTS: u64 = u64::from_le_bytes(*b"ESKRNONE");

/// Slot of a process that has the pool open, below [`PROCESSES_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessSlot(pub(crate) u32);

/// The control file of a pool, opened by this process.
pub(crate) struct Control {
    /// The open file with the locks of this process.
    file: PrivateFile,
    shared: Arc<SharedAtomics>,
    /// True if the pool cannot be written to. Then the atomics are a private copy of this process, and nothing is
    /// locked.
    pub(crate) read_only: bool,
    targets: u32,
    /// Number of atomics before those of processes.
    targets_end: usize,
    /// Number of atomics per target.
    target_len: usize,
    segments: usize,
    has_write_buffers: bool,
    boot_id: u64,
    /// Held by [`Control::while_dead`]. It excludes other threads, which file locks do not.
    reaping: Mutex<()>,
    /// Slot of this process.
    pub(crate) slot: ProcessSlot,
}

/// Shared atomics of one target. Each method looks up one of them, since most callers need only one.
#[derive(Clone, Copy)]
pub(crate) struct TargetAtomics<'c>(&'c [AtomicU64]);

impl<'c> TargetAtomics<'c> {
    /// Epoch of the commit over several targets that is in progress; zero if there is none.
    pub(crate) fn in_doubt(self) -> &'c AtomicU64 {
        &self.0[0]
    }

    /// Records whether any container has a snapshot.
    pub(crate) fn note_snapshots(self, any: bool) {
        self.0[1].store(if any { 1 } else { NO_SNAPSHOTS }, Ordering::Release);
    }

    /// True if some container may have a snapshot. The value for "none" is unlikely to result from damage.
    pub(crate) fn may_have_snapshots(self) -> bool {
        self.0[1].load(Ordering::Acquire) != NO_SNAPSHOTS
    }

    /// Number of segments freed so far. It is the stamp of the segment that was freed last.
    pub(crate) fn freed(self) -> &'c AtomicU64 {
        &self.0[2]
    }

    /// Number of reserved free pages of the index. It may be wrong by a batch after a process died.
    pub(crate) fn reserved_pages(self) -> &'c AtomicU64 {
        &self.0[3]
    }

    /// Transaction id and process slot of the last write transaction that was begun ([`writer_word`]).
    pub(crate) fn writer(self) -> &'c AtomicU64 {
        &self.0[4]
    }

    /// Number of index blocks that are not in use. It may be wrong after a process died.
    pub(crate) fn blocks(self) -> &'c AtomicU64 {
        &self.0[5]
    }

    /// End of the last read lease, in microseconds of the machine's uptime; zero if there never was one.
    pub(crate) fn leased_until(self) -> &'c AtomicU64 {
        &self.0[6]
    }

    /// Time until which no read leases are granted, in microseconds of the machine's uptime.
    pub(crate) fn leases_pause(self) -> &'c AtomicU64 {
        &self.0[7]
    }

    /// The conflict table: in each slot, the version of the last change of its keys.
    pub(crate) fn conflicts(self) -> &'c [AtomicU64] {
        &self.0[TARGET_HEAD_LEN..TARGET_HEAD_LEN + CONFLICT_SLOTS]
    }

    /// The segment table.
    pub(crate) fn segments(self) -> &'c [AtomicU64] {
        &self.0[TARGET_HEAD_LEN + CONFLICT_SLOTS..]
    }

    /// The atomics of segment `number`.
    pub(crate) fn segment(self, number: u32) -> SegmentAtomics<'c> {
        SegmentAtomics::from_table(self.segments(), number)
    }
}

/// Bits of a [`writer_word`] that contain the process slot.
const WRITER_SLOT_BITS: u32 = 16;

/// Id of a write transaction and its process, as one word.
pub(crate) fn writer_word(id: u64, process: ProcessSlot) -> u64 {
    id << WRITER_SLOT_BITS | u64::from(process.0)
}

/// Splits a word from [`writer_word`] into transaction id and process.
pub(crate) fn parse_writer_word(word: u64) -> (u64, ProcessSlot) {
    (word >> WRITER_SLOT_BITS, ProcessSlot((word & ((1 << WRITER_SLOT_BITS) - 1)) as u32))
}

/// Shared atomics of one segment.
pub(crate) struct SegmentAtomics<'c> {
    /// State and owner of the segment.
    pub(crate) state: &'c AtomicU64,
    /// Bytes appended so far.
    pub(crate) tail: &'c AtomicU64,
    /// Bytes of data to which commits refer.
    pub(crate) published: &'c AtomicU64,
    /// Segment with data: its tail when it was last counted. Dead segment: the last transaction that may read it. Free
    /// segment: a counter, which is larger the later it was freed.
    pub(crate) stamp: &'c AtomicU64,
}

impl<'c> SegmentAtomics<'c> {
    /// The atomics of segment `number` in a segment table.
    pub(crate) fn from_table(table: &'c [AtomicU64], number: u32) -> Self {
        let atomics = &table[number as usize * SEGMENT_LEN..][..SEGMENT_LEN];
        Self { state: &atomics[0], tail: &atomics[1], published: &atomics[2], stamp: &atomics[3] }
    }
}

/// Number of atomics of a target that has `segments` segments, rounded up to whole pages.
fn target_len(segments: usize) -> usize {
    (TARGET_HEAD_LEN + CONFLICT_SLOTS + segments * SEGMENT_LEN).next_multiple_of(HEADER_LEN)
}

/// Number of atomics before the atomics of processes: the header and the atomics of all targets.
fn targets_end(targets: usize, segments: usize) -> usize {
    HEADER_LEN + targets * target_len(segments)
}

/// Number of atomics up to the end of the lease table of objects. The first `targets_end` precede the atomics of
/// processes. The atomics of read leases follow the table.
fn leases_end(targets_end: usize) -> usize {
    targets_end + PROCESSES_MAX * PROCESS_LEN + LEASE_TABLE_LEN
}

/// Number of atomics before the write buffers, of which the first `targets_end` precede the atomics of processes.
fn buffers_begin(targets_end: usize, targets: usize) -> usize {
    leases_end(targets_end) + targets * CONFLICT_SLOTS
}

/// Size in bytes of the control file of a pool.
pub(crate) fn file_size(superblock: &Superblock) -> u64 {
    let (targets, segments) = (superblock.targets as usize, superblock.segments as usize);
    // The log of the experimental format is in the place of the write buffers.
    let has_buffers = superblock.has_write_buffer() || superblock.has_old_log();
    let buffers = if has_buffers { targets * BUFFER_LEN } else { 0 };
    ((buffers_begin(targets_end(targets, segments), targets) + buffers) * 8) as u64
}

/// Puts that remained in a write buffer.
#[derive(Default)]
pub(crate) struct LeftInBuffer {
    pub(crate) puts: Puts,
    /// Error of a damaged buffer. Then `puts` has only its undamaged puts.
    pub(crate) damage: Option<Error>,
}

impl LeftInBuffer {
    /// Puts in a write buffer on top of the state of commit `last`, a transaction id. If the buffer is damaged,
    /// recovers its undamaged puts.
    pub(crate) fn from_buffer(buffer: WriteBuffer<'_>, last: u64) -> Self {
        match buffer.left_after(last) {
            Ok(puts) => Self { puts, damage: None },
            Err(error) => Self { puts: buffer.recover(), damage: Some(error) },
        }
    }
}

/// Puts in the write buffer of target `number` on top of commit `last` of its index, in a pool that no process has
/// open.
///
/// # Errors
/// `Io` and other errors of the file system if the control file cannot be read.
pub(crate) fn left_in_buffer(
    pool: &Folder,
    superblock: &Superblock,
    number: u32,
    last: u64,
) -> Result<LeftInBuffer> {
    if !superblock.has_write_buffer() {
        return Ok(LeftInBuffer::default());
    }
    let file = pool.file(NAME, Use::Read, superblock.file_permissions())?;
    let count = (file_size(superblock) / 8) as usize;
    let atomics = SharedAtomics::copy_of(&file, count)
        .map_err(|error| Error::io("reading the control file", &error))?;
    let (targets, segments) = (superblock.targets as usize, superblock.segments as usize);
    let begin = buffers_begin(targets_end(targets, segments), targets);
    let first = begin + number as usize * BUFFER_LEN;
    let buffer = WriteBuffer::from_atomics(&atomics[first..][..BUFFER_LEN]);
    Ok(LeftInBuffer::from_buffer(buffer, last))
}

/// Extends a control file of the first release, which has no atomics for processes and leases.
fn lengthen(file: &File, superblock: &Superblock, path: &Path) -> Result<()> {
    let (targets, segments) = (superblock.targets as usize, superblock.segments as usize);
    let size = file.metadata().map_err(io_error("opening", path))?.len();
    let (old, new) = ((targets_end(targets, segments) * 8) as u64, file_size(superblock));
    if size < old {
        let message = format!("{} is truncated: run `esker pool check`", path.display());
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    match size < new {
        true => sys::reserve(file, size, new - size).map_err(io_error("lengthening", path)),
        false => Ok(()),
    }
}

/// Fails with `Busy` if a process has the pool open for writing: only such processes lock their slot. A file system
/// that is mounted read-only here may be mounted for writing elsewhere.
fn refuse_beside_writers(file: &File, path: &Path) -> Result<()> {
    match lock::any_held_by_other(file, PROCESS_BYTES)
        .map_err(io_error("reading the locks of", path))?
    {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::Busy,
            format!(
                "{} is mounted read-only here, and in use on a mount that is writable: use it there, \
                 or stop its users",
                path.display()
            ),
        )),
    }
}

/// Slot of an object in a conflict table.
pub(crate) fn object_slot(container: ContainerId, oid: ObjectId) -> u32 {
    conflict_slot(container, oid, &[])
}

/// Slot for the existence of an object, which differs from its [`object_slot`]. A punch of the object changes it in
/// place of the slots of all dkeys.
pub(crate) fn punch_slot(container: ContainerId, oid: ObjectId) -> u32 {
    conflict_slot(container, ObjectId { hi: !oid.hi, lo: !oid.lo }, &[])
}

/// Slot for the list of a container's objects in a conflict table.
pub(crate) fn container_slot(container: ContainerId) -> u32 {
    conflict_slot(container, ObjectId { hi: u64::MAX, lo: u64::MAX }, &[])
}

/// Slot of a dkey in a conflict table.
pub(crate) fn conflict_slot(container: ContainerId, oid: ObjectId, dkey: &[u8]) -> u32 {
    let mut hasher = StableHash.build_hasher();
    hasher.write_u32(container.0);
    hasher.write(&oid.to_bytes());
    hasher.write(dkey);
    hasher.finish() as u32 % CONFLICT_SLOTS as u32
}

/// Slots of a conflict table: those of a container, an object and a dkey.
pub(crate) type TouchedSlots = [u32; 3];

/// Slots that a change of a dkey touches.
pub(crate) fn touched_slots(container: ContainerId, oid: ObjectId, dkey: &[u8]) -> TouchedSlots {
    [container_slot(container), object_slot(container, oid), conflict_slot(container, oid, dkey)]
}

fn io_error(doing: &str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let what = format!("{doing} {}", path.display());
    move |error| Error::io(&what, &error)
}

impl ProcessSlot {
    /// The slot as a shared word: slot + 1, because 0 means no process.
    pub(crate) fn word(self) -> u64 {
        u64::from(self.0) + 1
    }

    /// A slot that no process can have.
    pub(crate) const NOBODY: Self = Self(PROCESSES_MAX as u32 + 1);
}

impl Control {
    /// Opens the control file in the directory of a pool and takes a process slot.
    ///
    /// # Errors
    /// `Overflow` if [`PROCESSES_MAX`] processes have the pool open. `Busy` if processes in another PID or time
    /// namespace use it, or another copy of this library in this process. `Busy` also if a pool that is read-only here
    /// has a writer. `Corrupt` if the file is truncated.
    pub(crate) fn open(pool: &Folder, superblock: &Superblock) -> Result<Self> {
        let (targets, segments) = (superblock.targets as usize, superblock.segments as usize);
        let file = pool.file(NAME, pool.most(), superblock.file_permissions());
        let file = file.map_err(missing_part_error)?;
        let path = &pool.path().join(NAME);
        let count = (file_size(superblock) / 8) as usize;
        let read_only = pool.is_read_only();
        let atomics = if read_only {
            refuse_beside_writers(&file, path)?;
            SharedAtomics::copy_of(&file, count)
        } else {
            lengthen(&file, superblock, path)?;
            SharedAtomics::new(&file, count)
        };
        let atomics = atomics.map_err(io_error("mapping", path))?;
        let file = PrivateFile::new(&file, pool.most() == Use::Write)
            .map_err(io_error("opening", path))?;
        let boot_id = sys::boot_id().map_err(io_error("reading the boot id for", path))?;
        let targets_end = targets_end(targets, segments);
        let mut control = Self {
            file,
            shared: Arc::new(atomics),
            read_only,
            targets: superblock.targets,
            targets_end,
            target_len: target_len(segments),
            segments,
            has_write_buffers: superblock.has_write_buffer(),
            boot_id,
            reaping: Mutex::default(),
            slot: ProcessSlot(0),
        };
        control.slot = control.exclusively(|| {
            // The setup lock excludes a second copy that opens the pool in another thread.
            double_open::refuse_second_copy(&control)?;
            control.check_namespaces()?;
            let slot = control.take_slot()?;
            double_open::record(&control, slot);
            Ok(slot)
        })?;
        Ok(control)
    }

    /// Removes the name of the dead process that had `slot` from the shared state: its leases, its turns, and its
    /// records as verifier and as last writer. The caller holds the setup lock.
    fn disown(&self, slot: ProcessSlot) {
        leases::clear_dead_leases(self, slot);
        let process = slot.word();
        let (won, lost) = (Ordering::AcqRel, Ordering::Relaxed);
        let _ = self.verified_by().compare_exchange(process, 0, won, lost);
        for number in 0..self.targets {
            // Readers still see that the last commit has a dead owner.
            let _ = self.target(number).writer().fetch_update(won, lost, |word| {
                let (id, owner) = parse_writer_word(word);
                (owner == slot).then(|| writer_word(id, ProcessSlot::NOBODY))
            });
            TurnWord::end_turn_of(&self.shared, TURNS + number as usize, process);
        }
    }

    /// True if the atomics were set up since the machine started.
    pub(crate) fn is_current(&self) -> bool {
        self.shared[0].load(Ordering::Acquire) == MAGIC
            && self.shared[1].load(Ordering::Acquire) == self.boot_id
    }

    /// True if the atomics were ever set up.
    pub(crate) fn was_used(&self) -> bool {
        self.shared[0].load(Ordering::Acquire) == MAGIC
    }

    /// Discards state from before a restart of the machine, since some of it may have been lost.
    pub(crate) fn discard_state(&self) {
        for number in 0..self.targets {
            let target = self.target(number);
            target.leased_until().store(0, Ordering::Release);
            target.leases_pause().store(0, Ordering::Release);
        }
        self.shared[DESTROYED].store(0, Ordering::Release);
        // The clock. The caller sets it to the last epoch in the indexes afterwards.
        self.shared[4].store(0, Ordering::Release);
        leases::clear_all(self);
        // If an engine had not ended its leases, its clients may still have them. Without a live owner, they count as
        // lost.
        if self.engine().load(Ordering::Acquire) != 0 {
            self.engine().store(u64::from(ProcessSlot::NOBODY.0) + 1, Ordering::Release);
        }
        self.leases_lost_until().store(0, Ordering::Release);
    }

    /// Slot + 1 of the engine that has leases for clients on other nodes; zero if there is none.
    pub(crate) fn engine(&self) -> &AtomicU64 {
        &self.shared[ENGINE]
    }

    /// Time until which leases that an engine has lost may be taken again, in microseconds of the machine's uptime.
    pub(crate) fn leases_lost_until(&self) -> &AtomicU64 {
        &self.shared[LEASES_LOST_UNTIL]
    }

    /// Declares the atomics set up. The file is synced: otherwise, after a crash of the machine the pool would look as
    /// if it had never been used.
    pub(crate) fn set_current(&self) -> Result<()> {
        // Word 0 is stored last: it makes word 1 valid.
        self.shared[1].store(self.boot_id, Ordering::Release);
        self.shared[0].store(MAGIC, Ordering::Release);
        if self.read_only {
            return Ok(());
        }
        let synced = self.file.get().and_then(File::sync_data);
        synced.map_err(|error| Error::io("syncing the control file", &error))
    }

    /// Fails if processes of another PID namespace use the pool, because neither side could detect the death of the
    /// other. Fails also for another time namespace, in which read leases end by another clock.
    fn check_namespaces(&self) -> Result<()> {
        let own_namespaces = sys::namespaces();
        // Word 2 has the namespaces of the processes that have the pool open.
        let recorded = self.shared[2].load(Ordering::Acquire);
        if recorded != own_namespaces && self.others_alive() {
            return Err(Error::new(
                ErrorKind::Busy,
                "the pool is in use by processes of another PID or time namespace (a container?), or of an earlier \
                 release: run all of them in one, and with one release",
            ));
        }
        self.shared[2].store(own_namespaces, Ordering::Release);
        Ok(())
    }

    /// Count of destroyed containers, with the bit [`POOL_DESTROYED`]. Open handles compare it to notice a destruction.
    pub(crate) fn destroyed_containers(&self) -> &AtomicU64 {
        &self.shared[DESTROYED]
    }

    /// Fails with `NoHandle` if the pool was destroyed while this process had it open.
    pub(crate) fn expect_pool(&self) -> Result<()> {
        match self.destroyed_containers().load(Ordering::Acquire) & POOL_DESTROYED {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::NoHandle, "the pool was destroyed while it was open")),
        }
    }

    /// The next epoch, which is later than all epochs before, on any target and in any process. The caller holds the
    /// write lock of the index that will store it.
    pub(crate) fn next_epoch(&self) -> Epoch {
        Epochs(&self.shared[4]).next(Epoch::now())
    }

    /// Ensures that later epochs are later than `epoch`.
    pub(crate) fn pass_epoch(&self, epoch: Epoch) {
        Epochs(&self.shared[4]).pass(epoch);
    }

    /// Ends of the read leases on each slot of the conflict table of target `number`, in microseconds of the machine's
    /// uptime.
    pub(crate) fn read_leases(&self, number: u32) -> &[AtomicU64] {
        let first = leases_end(self.targets_end);
        &self.shared[first + number as usize * CONFLICT_SLOTS..][..CONFLICT_SLOTS]
    }

    /// The write buffer of target `number`, if the pool has write buffers.
    #[inline]
    pub(crate) fn write_buffer(&self, number: u32) -> Option<WriteBuffer<'_>> {
        let atomics = self.has_write_buffers.then(|| self.words_of_buffer(number))?;
        Some(WriteBuffer::from_atomics(atomics))
    }

    /// Atomics of the write buffer of target `number`.
    #[inline]
    fn words_of_buffer(&self, number: u32) -> &[AtomicU64] {
        let begin = buffers_begin(self.targets_end, self.targets as usize);
        &self.shared[begin + number as usize * BUFFER_LEN..][..BUFFER_LEN]
    }

    /// True if the log of an experimental format, which the write buffer replaced, has puts of target `number` on top
    /// of commit `last`.
    pub(crate) fn has_puts_in_old_log(&self, number: u32, last: u64) -> bool {
        let words = self.words_of_buffer(number);
        let word = |at: usize| words[at].load(Ordering::Acquire);
        // Words of the old format: the commits on top of which the puts are, and their length.
        let (base, len, kept) = (word(2), word(4), word(8));
        len > 0 && (base == last || kept == last)
    }

    /// The turn word of target `number`.
    pub(crate) fn turn_word(&self, number: u32) -> TurnWord {
        TurnWord::new(Arc::clone(&self.shared), TURNS + number as usize, self.slot.word())
    }

    /// True if the process in a turn word, its slot + 1, is alive.
    pub(crate) fn is_turn_alive(&self, process: u64) -> bool {
        self.is_alive(ProcessSlot((process - 1) as u32))
    }

    /// True if a process has the turn of target `number`, so that it has the write lock or is about to take it.
    pub(crate) fn is_turn_taken(&self, number: u32) -> bool {
        self.shared[TURNS + number as usize].load(Ordering::Relaxed) != 0
    }

    /// The atomics of target `number`.
    #[inline]
    pub(crate) fn target(&self, number: u32) -> TargetAtomics<'_> {
        let begin = HEADER_LEN + number as usize * self.target_len;
        let len = TARGET_HEAD_LEN + CONFLICT_SLOTS + self.segments * SEGMENT_LEN;
        TargetAtomics(&self.shared[begin..begin + len])
    }
}

/// Latest epoch that the clock of a control file can have: in April 2039. The highest bit marks prepared commits.
pub(crate) const EPOCH_MAX: Epoch = Epoch((1 << 63) - 1);

/// Generator of epochs: returns each epoch once, in ascending order.
struct Epochs<'c>(&'c AtomicU64);

impl Epochs<'_> {
    /// The next epoch: later than all before, and not before `now`. A damaged word counts as zero, which is safe, since
    /// earlier epochs are not later than `now`.
    fn next(&self, now: Epoch) -> Epoch {
        let mut last = self.0.load(Ordering::Relaxed);
        loop {
            let known = if last > EPOCH_MAX.0 { 0 } else { last };
            let next = now.0.max(known + 1);
            match self.0.compare_exchange(last, next, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) => return Epoch(next),
                Err(seen) => last = seen,
            }
        }
    }

    /// Ensures that later epochs are later than `epoch`.
    fn pass(&self, epoch: Epoch) {
        if epoch <= EPOCH_MAX {
            self.0.fetch_max(epoch.0, Ordering::AcqRel);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn damaged_clock_restarts_from_now() {
        let now = Epoch(1 << 61);
        for damaged in [u64::MAX, EPOCH_MAX.0 + 1, 0] {
            let word = AtomicU64::new(damaged);
            let epochs = [0; 3].map(|_| Epochs(&word).next(now));
            assert_eq!(epochs, [now, Epoch(now.0 + 1), Epoch(now.0 + 2)], "{damaged:x}");
        }
    }
}

/// Models under every order in which threads may run.
#[cfg(all(loom, test))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// Each epoch is later than all that were passed or returned before, and no epoch is returned twice.
    #[test]
    fn epochs_are_unique_and_increasing() {
        loom::model(|| {
            let word = Arc::new(AtomicU64::new(0));
            let (now, passed) = (Epoch(100), Epoch(500));
            let others = [false, true].map(|passes| {
                let word = Arc::clone(&word);
                thread::spawn(move || {
                    let epochs = Epochs(&word);
                    if passes {
                        epochs.pass(passed);
                    }
                    epochs.next(now)
                })
            });
            let [first, second] = [Epochs(&word).next(now), Epochs(&word).next(now)];
            let [third, fourth] = others.map(|other| other.join().unwrap());
            assert!(first < second && passed < fourth);
            let all = std::collections::BTreeSet::from([first, second, third, fourth]);
            assert_eq!(all.len(), 4);
        });
    }
}
