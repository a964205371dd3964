//! Whether the indexes of a pool are known to be sound.
//!
//! LMDB follows what a page says, so a damaged page leads reads and writes astray. Verifying all pages takes time.
//! The control file records when that can be skipped: as long as a process lives that has verified them, and
//! afterwards as long as the file system shows that nobody has written to the files since.
use crate::format::superblock::{self, Superblock};
use crate::index::lmdb::DATA;
use crate::io::folder::Folder;
use crate::shared::control::{Control, ProcessSlot};
use esker_types::limits::PROCESSES_MAX;
use esker_types::{Error, Result, StableHash};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Set in a stamp; clear in the number of a process.
const STAMP: u64 = 1 << 63;

/// Verifies all pages and record checksums of the indexes, unless they are known to be sound, and records this
/// process as the one that knows. Call with the setup lock held.
///
/// # Errors
/// `Corrupt` if something is damaged.
pub(super) fn begin(pool: &Folder, superblock: &Superblock, control: &Control) -> Result<()> {
    if control.is_current() && is_alive(control) {
        // The other process stays recorded: processes that come and go beside it are no reason to verify again.
        return Ok(());
    }
    if !(control.is_current() && is_as_left(pool, superblock, control)?) {
        super::setup::refuse_damaged(pool, true)?;
    }
    control.verified_by().store(own(control.slot), Ordering::Release);
    Ok(())
}

/// Hands this over to another process or, if there is none, records a stamp of the files. Can be repeated, with
/// `last` from the time before.
pub(super) fn end(pool: &Path, superblock: &Superblock, control: &Control, last: &AtomicU64) {
    let next = match control.other_alive() {
        Some(other) => own(other),
        None => stamp(pool, superblock).unwrap_or(0),
    };
    let word = control.verified_by();
    let replace =
        |mine| word.compare_exchange(mine, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let before = last.load(Ordering::Relaxed);
    if replace(own(control.slot)) || before != 0 && replace(before) {
        last.store(next, Ordering::Relaxed);
    }
}

fn own(slot: ProcessSlot) -> u64 {
    u64::from(slot.0) + 1
}

/// True if nobody has written to the indexes since the stamp was recorded.
fn is_as_left(pool: &Folder, superblock: &Superblock, control: &Control) -> Result<bool> {
    let word = control.verified_by().load(Ordering::Acquire);
    Ok(word & STAMP != 0 && stamp(&pool.handle(), superblock)? == word)
}

/// True if another live process is recorded.
fn is_alive(control: &Control) -> bool {
    let word = control.verified_by().load(Ordering::Acquire);
    let slot = word.checked_sub(1).filter(|slot| *slot < PROCESSES_MAX as u64);
    let slot = slot.map(|slot| ProcessSlot(slot as u32)).filter(|slot| *slot != control.slot);
    slot.is_some_and(|slot| control.is_alive(slot))
}

/// A stamp that changes with each write to an index that the file system knows of.
fn stamp(pool: &Path, superblock: &Superblock) -> Result<u64> {
    let mut hasher = StableHash.build_hasher();
    for number in 0..superblock.targets {
        let path = pool.join(superblock::target_name(number)).join(superblock::INDEX).join(DATA);
        let info = path.symlink_metadata();
        let info =
            info.map_err(|error| Error::io(format_args!("looking at {}", path.display()), &error))?;
        for word in
            [info.dev(), info.ino(), info.len(), info.ctime() as u64, info.ctime_nsec() as u64]
        {
            hasher.write_u64(word);
        }
    }
    Ok(hasher.finish() | STAMP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::tests::Scratch;
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::ops::{Cond, Source, Update, Value, Write, WriteOp};
    use esker_types::{ErrorKind, ObjectClass, ObjectId, ObjectType};
    use std::fs::File;
    use std::os::unix::fs::FileExt;
    use std::sync::Arc;

    /// What the next process to open a closed pool knows of its indexes.
    fn known(pool: &Scratch, set: impl FnOnce(&Control)) -> bool {
        let folder = Folder::open(&pool.path()).unwrap();
        let superblock = Superblock::read_in(&folder).unwrap();
        let control = Arc::new(Control::open(&folder, &superblock).unwrap());
        set(&control);
        let known = is_as_left(&folder, &superblock, &control).unwrap();
        crate::shared::double_open::leave(&control);
        known
    }

    /// In a process of its own: the pool to write to and leave open.
    const LEFT_OPEN: &str = "ESKER_TEST_LEFT_OPEN";

    /// Writes to a container of a pool and never closes what it opened.
    fn leave_open(path: &Path) {
        let pool = Pool::open(path).unwrap();
        let state = Arc::clone(pool.opened().unwrap());
        let uuid = state.create_container(&Default::default()).unwrap().uuid;
        let container =
            state.open_container(ContainerRef::Uuid(uuid), OpenMode::ReadWrite).unwrap();
        let value = Value::Single(Source::One(b"value"));
        let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
        let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
        let oid = ObjectId::generate(0, 1, ObjectType::KvHashed, ObjectClass::S1);
        state.write(&container, 0, &[Write { oid, op }], &[], None).unwrap();
        assert!(state.targets[0].has_buffered_puts().unwrap());
        std::mem::forget((pool, state, container));
    }

    #[test]
    fn a_program_that_ends_without_closing_its_pool_vouches_for_it() {
        if let Some(path) = std::env::var_os(LEFT_OPEN) {
            return leave_open(Path::new(&path));
        }
        let mut pool = Scratch::new(24 << 20, |spec| {
            (spec.targets, spec.write_buffer) = (Some(2), Some(true));
        });
        pool.close();
        let name =
            "pool::verified::tests::a_program_that_ends_without_closing_its_pool_vouches_for_it";
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = program.args(["--exact", name]).env(LEFT_OPEN, pool.path()).status().unwrap();
        assert!(ended.success());
        assert!(known(&pool, |_| ()), "left in good order");
        pool.reopen();
        let state = pool.opened();
        assert!(!state.targets[0].has_buffered_puts().unwrap(), "all of it is in the index");
    }

    /// Writes to a file until its times show it.
    fn write_to(path: &Path, at: u64, change: impl Fn(&mut [u8])) {
        let file = File::options().read(true).write(true).open(path).unwrap();
        let mut bytes = [0; 16];
        file.read_exact_at(&mut bytes, at).unwrap();
        change(&mut bytes);
        let times = || file.metadata().map(|info| (info.ctime(), info.ctime_nsec())).unwrap();
        let before = times();
        esker_testing::wait_for("the file system's clock", || {
            file.write_all_at(&bytes, at).unwrap();
            times() != before
        });
    }

    #[test]
    fn indexes_are_looked_at_again_once_somebody_has_written_to_them() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        let index = pool.path().join("target-1/index/data.mdb");
        assert!(known(&pool, |_| ()), "left in good order");
        pool.reopen();
        pool.close();
        assert!(known(&pool, |_| ()), "and again");
        write_to(&index, 8192, |_| ());
        assert!(!known(&pool, |_| ()), "somebody has written to it");
        pool.reopen();
        pool.close();
        assert!(known(&pool, |_| ()), "and has done no harm");
        let nobody = |control: &Control| (control.slot.0 + 2) % PROCESSES_MAX as u32;
        let died = |c: &Control| c.verified_by().store(u64::from(nobody(c)) + 1, Ordering::Release);
        assert!(!known(&pool, died), "who knew is dead");
        // The number by which LMDB knows its files.
        write_to(&index, 16, |bytes| bytes[0] ^= 0x40);
        let refused = Pool::open(&pool.path()).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        assert!(refused.message().contains("esker pool salvage"), "{refused}");
        known(&pool, |control| {
            let noted = control.mappings().filter(|note| note.load(Ordering::Acquire) != 0);
            assert_eq!(noted.count(), 1, "who was refused leaves no note behind");
        });
    }
}
