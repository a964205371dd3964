//! The control file: words that all processes of a pool share while it is in use.
//!
//! It holds what need not survive the machine: who owns which segment, the last epoch of each target,
//! versions for conflict detection. After a restart of the machine it is made anew from the indexes.
//! Bytes past the words exist only to be locked; `docs/format.md` draws both.
mod epochs;
mod locks;
mod processes;

pub(crate) use locks::PROCESS_BYTES;

use crate::copies;
use crate::holds::{self, HOLD_WORDS};
use crate::io::folder::{Folder, Use};
use crate::io::own::Own;
use crate::io::{lock, map::Words, sys};
use crate::superblock::Superblock;
use crate::sync::AtomicU64;
use epochs::Epochs;
use esker_types::info::ContainerId;
use esker_types::limits::PROCESSES_MAX;
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result, StableHash};
use locks::BYTE_PROCESS;
use std::fs::File;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::Ordering;

/// Name of the control file in the directory of a pool.
pub(crate) const NAME: &str = "control";

const MAGIC: u64 = u64::from_le_bytes(*b"ESKRCTL1");
const HEADER_WORDS: usize = 512;
const TARGET_HEAD_WORDS: usize = 8;
/// Place among them of the epoch of a commit that is under way.
const IN_DOUBT: usize = 0;
/// Slots of a target's conflict table.
pub(crate) const CONFLICT_SLOTS: usize = 4096;
pub(crate) const SEGMENT_WORDS: usize = 4;
const PROCESS_WORDS: usize = 2;

/// Number of a process among those that have the pool open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessSlot(pub(crate) u32);

/// The control file of a pool, as one process has it open.
pub(crate) struct Control {
    /// Has the locks.
    file: Own,
    words: Words,
    /// Nobody can write to the pool: the words are a copy of this process's own, and nothing is locked.
    pub(crate) read_only: bool,
    /// Words before those of processes.
    targets_end: usize,
    /// Words of one target.
    target_words: usize,
    segments: usize,
    boot_id: u64,
    /// Held over what is done to the dead: the locks of a file do not tell threads apart.
    burying: Mutex<()>,
    /// This process.
    pub(crate) slot: ProcessSlot,
}

/// Shared words of one target.
pub(crate) struct TargetWords<'c> {
    /// Not zero while a commit over several targets is under way: its epoch.
    pub(crate) in_doubt: &'c AtomicU64,
    /// Not zero where some container has a snapshot.
    pub(crate) snapshots: &'c AtomicU64,
    /// Counts segments as they are freed, so that the last one freed is found.
    pub(crate) freed: &'c AtomicU64,
    /// Index pages that are parked, as far as is known.
    pub(crate) parked: &'c AtomicU64,
    /// Blocks of the index it does not use, as far as is known.
    pub(crate) blocks: &'c AtomicU64,
    /// The transaction that has, or had last, the right to change the index.
    pub(crate) writer: &'c AtomicU64,
    /// Versions for conflict detection.
    pub(crate) conflicts: &'c [AtomicU64],
    /// The segment table.
    pub(crate) segments: &'c [AtomicU64],
}

/// Shared words of one segment.
pub(crate) struct SegmentWords<'c> {
    /// State and owner.
    pub(crate) state: &'c AtomicU64,
    /// Bytes appended so far.
    pub(crate) tail: &'c AtomicU64,
    /// Bytes of data that commits have named.
    pub(crate) published: &'c AtomicU64,
    /// With data: its tail when that was last counted. Dead: last transaction that may look at it. Free: when
    /// it was freed.
    pub(crate) stamp: &'c AtomicU64,
}

impl<'c> TargetWords<'c> {
    /// The words of segment `number`.
    pub(crate) fn segment(&self, number: u32) -> SegmentWords<'c> {
        SegmentWords::of(self.segments, number)
    }
}

impl<'c> SegmentWords<'c> {
    /// Those of segment `number` in a segment table.
    pub(crate) fn of(table: &'c [AtomicU64], number: u32) -> Self {
        let words = &table[number as usize * SEGMENT_WORDS..][..SEGMENT_WORDS];
        Self { state: &words[0], tail: &words[1], published: &words[2], stamp: &words[3] }
    }
}

/// Words one target takes.
fn target_words(segments: usize) -> usize {
    (TARGET_HEAD_WORDS + CONFLICT_SLOTS + segments * SEGMENT_WORDS).next_multiple_of(HEADER_WORDS)
}

/// Words in front of those of processes.
fn targets_end(targets: usize, segments: usize) -> usize {
    HEADER_WORDS + targets * target_words(segments)
}

/// Bytes of the control file of a pool.
pub(crate) fn file_size(targets: usize, segments: usize) -> u64 {
    let words = targets_end(targets, segments) + PROCESSES_MAX * PROCESS_WORDS + HOLD_WORDS;
    (words * 8) as u64
}

/// Gives the control file of a pool the words it lacks: the first release made it without those of
/// processes.
fn lengthen(file: &File, targets: usize, segments: usize, path: &Path) -> Result<()> {
    let size = file.metadata().map_err(failed("opening", path))?.len();
    let (old, new) = ((targets_end(targets, segments) * 8) as u64, file_size(targets, segments));
    if size < old {
        let message = format!("{} is cut short: run `esker pool check`", path.display());
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    match size < new {
        true => sys::reserve(file, size, new - size).map_err(failed("lengthening", path)),
        false => Ok(()),
    }
}

/// A file system that is mounted for reading only here may be mounted for writing elsewhere.
fn refuse_beside_writers(file: &File, path: &Path) -> Result<()> {
    match lock::any_held_by_other(file, PROCESS_BYTES).map_err(failed("looking at", path))? {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::Busy,
            format!(
                "{} is mounted for reading only here, and in use where it is mounted for writing: use it \
                 there, or end its users",
                path.display()
            ),
        )),
    }
}

/// Slot of an object in a conflict table.
pub(crate) fn object_slot(container: ContainerId, oid: ObjectId) -> u32 {
    conflict_slot(container, oid, &[])
}

/// Slot of the existence of an object as a whole, which its punch changes under all of its dkeys.
pub(crate) fn punch_slot(container: ContainerId, oid: ObjectId) -> u32 {
    conflict_slot(container, ObjectId { hi: !oid.hi, lo: !oid.lo }, &[])
}

/// Slot of the list of a container's objects in a conflict table.
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

fn failed(doing: &str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    let what = format!("{doing} {}", path.display());
    move |error| Error::io(&what, &error)
}

impl Control {
    /// Opens the control file in the directory of a pool and takes a process slot.
    ///
    /// # Errors
    /// `Overflow` where [`PROCESSES_MAX`] processes have it open, `Busy` where they live in another
    /// PID name space.
    pub(crate) fn open(pool: &Folder, superblock: &Superblock) -> Result<Self> {
        let (targets, segments) = (superblock.targets as usize, superblock.segments as usize);
        let file = pool.file(NAME, pool.most(), superblock.file_permissions())?;
        let path = &pool.path().join(NAME);
        let count = (file_size(targets, segments) / 8) as usize;
        let read_only = pool.is_read_only();
        let words = if read_only {
            refuse_beside_writers(&file, path)?;
            Words::copy_of(&file, count)
        } else {
            lengthen(&file, targets, segments, path)?;
            Words::new(&file, count)
        };
        let words = words.map_err(failed("mapping", path))?;
        let file = Own::new(&file, pool.most() == Use::Write).map_err(failed("opening", path))?;
        let boot_id = sys::boot_id().map_err(failed("reading the boot id for", path))?;
        let targets_end = targets_end(targets, segments);
        let mut control = Self {
            file,
            words,
            read_only,
            targets_end,
            target_words: target_words(segments),
            segments,
            boot_id,
            burying: Mutex::default(),
            slot: ProcessSlot(0),
        };
        copies::refuse(&control)?;
        control.slot = control.exclusively(|| {
            control.join_namespace()?;
            let slot = control.take_slot()?;
            holds::forget_predecessors(&control, slot);
            Ok(slot)
        })?;
        copies::enter(&control);
        Ok(control)
    }

    fn take_slot(&self) -> Result<ProcessSlot> {
        let first = std::process::id() as usize;
        for step in 0..PROCESSES_MAX {
            let slot = (first + step) % PROCESSES_MAX;
            if self.lock(lock::Kind::Exclusive, BYTE_PROCESS + slot as u64)? {
                return Ok(ProcessSlot(slot as u32));
            }
        }
        Err(Error::new(
            ErrorKind::Overflow,
            format!("{PROCESSES_MAX} processes (PROCESSES_MAX) have the pool open: close some"),
        ))
    }

    /// True where the words were set up since the machine started.
    pub(crate) fn is_current(&self) -> bool {
        self.words[0].load(Ordering::Acquire) == MAGIC
            && self.words[1].load(Ordering::Acquire) == self.boot_id
    }

    /// True where the words were ever set up.
    pub(crate) fn was_used(&self) -> bool {
        self.words[0].load(Ordering::Acquire) == MAGIC
    }

    /// Forgets what the words said before the machine started: any of them may have been lost.
    pub(crate) fn forget(&self) {
        self.words[3].store(0, Ordering::Release);
        self.words[4].store(0, Ordering::Release);
        holds::forget_all(self);
    }

    /// Declares the words set up. That they were must outlive the machine, or an unclean stop of it would
    /// look like a pool never used.
    pub(crate) fn set_current(&self) -> Result<()> {
        self.words[1].store(self.boot_id, Ordering::Release);
        self.words[0].store(MAGIC, Ordering::Release);
        if self.read_only {
            return Ok(());
        }
        let synced = self.file.get().and_then(File::sync_data);
        synced.map_err(|error| Error::io("syncing the control file", &error))
    }

    /// Refuses to work beside processes of another PID name space, whose deaths nobody would see.
    fn join_namespace(&self) -> Result<()> {
        let mine = sys::pid_namespace();
        let theirs = self.words[2].load(Ordering::Acquire);
        if theirs != mine && self.others_alive() {
            return Err(Error::new(
                ErrorKind::Busy,
                "the pool is in use by processes of another PID name space (a container?): \
                 run all of them in one",
            ));
        }
        self.words[2].store(mine, Ordering::Release);
        Ok(())
    }

    /// Counts destroyed containers, so that handles notice.
    pub(crate) fn destroyed_containers(&self) -> &AtomicU64 {
        &self.words[3]
    }

    /// An epoch later than all before, on whatever target and in whatever process. Call with the write
    /// lock of the index held that will carry it.
    pub(crate) fn next_epoch(&self) -> Epoch {
        Epochs(&self.words[4]).next(Epoch::now())
    }

    /// Makes sure that later epochs are later than `epoch`.
    pub(crate) fn pass_epoch(&self, epoch: Epoch) {
        Epochs(&self.words[4]).pass(epoch);
    }

    /// The word that says whether a commit over several targets is under way on target `number`. Each read asks
    /// it: no [`TargetWords`] is built.
    #[inline]
    pub(crate) fn in_doubt(&self, number: u32) -> &AtomicU64 {
        let begin = HEADER_WORDS + number as usize * self.target_words;
        &self.words[begin + IN_DOUBT]
    }

    /// The words of target `number`.
    #[inline]
    pub(crate) fn target(&self, number: u32) -> TargetWords<'_> {
        let begin = HEADER_WORDS + number as usize * self.target_words;
        let words = &self.words[begin..begin + self.target_words];
        let (head, rest) = words.split_at(TARGET_HEAD_WORDS);
        let (conflicts, rest) = rest.split_at(CONFLICT_SLOTS);
        TargetWords {
            in_doubt: &head[IN_DOUBT],
            snapshots: &head[1],
            freed: &head[2],
            parked: &head[3],
            writer: &head[4],
            blocks: &head[5],
            conflicts,
            segments: &rest[..self.segments * SEGMENT_WORDS],
        }
    }
}
