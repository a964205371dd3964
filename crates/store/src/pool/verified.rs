//! Record of whether the indexes of a pool are known to be sound.
//!
//! LMDB trusts the fields of a page, so a damaged page misleads reads and writes. Verifying all pages takes time. The
//! control file records when that can be skipped: while a process is alive that has verified them, and afterwards while
//! the file system shows that no process has written to the files.
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

/// Flag of a stamp. It is clear in the number of a process.
const STAMP: u64 = 1 << 63;

/// Verifies all pages and record checksums of the indexes, unless they are known to be sound. Records this process as
/// the one that has verified them. The caller holds the setup lock.
///
/// # Errors
/// `Corrupt` if a page or record is damaged.
pub(super) fn begin(pool: &Folder, superblock: &Superblock, control: &Control) -> Result<()> {
    if control.is_current() && has_live_verifier(control) {
        // The other process stays recorded, so processes that open the pool meanwhile need not verify again.
        return Ok(());
    }
    if !(control.is_current() && matches_stamp(pool, superblock, control)?) {
        super::setup::refuse_damaged(pool, true)?;
    }
    control.verified_by().store(control.slot.word(), Ordering::Release);
    Ok(())
}

/// Records another live process as the verifier or, if there is none, a stamp of the files. It may be called again with
/// `last` from the previous call.
pub(super) fn end(pool: &Path, superblock: &Superblock, control: &Control, last: &AtomicU64) {
    let next = match control.other_alive() {
        Some(other) => other.word(),
        None => stamp(pool, superblock).unwrap_or(0),
    };
    let word = control.verified_by();
    let replace =
        |mine| word.compare_exchange(mine, next, Ordering::AcqRel, Ordering::Relaxed).is_ok();
    let before = last.load(Ordering::Relaxed);
    // The word is changed only if this process set it.
    if replace(control.slot.word()) || before != 0 && replace(before) {
        last.store(next, Ordering::Relaxed);
    }
}

/// True if no process has written to the indexes since the stamp was recorded.
fn matches_stamp(pool: &Folder, superblock: &Superblock, control: &Control) -> Result<bool> {
    let word = control.verified_by().load(Ordering::Acquire);
    Ok(word & STAMP != 0 && stamp(&pool.handle(), superblock)? == word)
}

/// True if another live process is recorded as the verifier.
fn has_live_verifier(control: &Control) -> bool {
    let word = control.verified_by().load(Ordering::Acquire);
    let slot = word.checked_sub(1).filter(|slot| *slot < PROCESSES_MAX as u64);
    let slot = slot.map(|slot| ProcessSlot(slot as u32)).filter(|slot| *slot != control.slot);
    slot.is_some_and(|slot| control.is_alive(slot))
}

/// A stamp that changes with each write to an index that the file system records.
fn stamp(pool: &Path, superblock: &Superblock) -> Result<u64> {
    let mut hasher = StableHash.build_hasher();
    for number in 0..superblock.targets {
        let path = pool.join(superblock::target_name(number)).join(superblock::INDEX).join(DATA);
        let info = path.symlink_metadata();
        let info = info.map_err(|error| {
            Error::io(format_args!("reading the metadata of {}", path.display()), &error)
        })?;
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

    /// True if the next process that opens a closed pool would know that its indexes are sound.
    fn is_known_sound(pool: &Scratch, set: impl FnOnce(&Control)) -> bool {
        let folder = Folder::open(&pool.path()).unwrap();
        let superblock = Superblock::read_in(&folder).unwrap();
        let control = Arc::new(Control::open(&folder, &superblock).unwrap());
        set(&control);
        let is_sound = matches_stamp(&folder, &superblock, &control).unwrap();
        crate::shared::double_open::leave(&control);
        is_sound
    }

    /// A process that opens the pool has taken the slot, but has not verified the indexes yet.
    #[test]
    fn process_in_slot_of_dead_verifier_does_not_count_as_verifier() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        let dead = pool.control_of_other();
        let slot = dead.slot;
        dead.verified_by().store(slot.word(), Ordering::Release);
        drop(dead);
        let (new_process, other) = (pool.control_of_other(), pool.control_of_other());
        assert_eq!(new_process.slot, slot);
        assert!(other.is_alive(slot) && !has_live_verifier(&other));
    }

    /// Environment variable for the child process of a test: the pool to which it writes and which it leaves open.
    const LEFT_OPEN: &str = "ESKER_TEST_LEFT_OPEN";

    /// Writes to a container of a pool and never closes the pool.
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

    /// The test starts itself as the program, which ends without closing the pool.
    #[test]
    fn program_that_exits_without_close_records_sound_indexes() {
        if let Some(path) = std::env::var_os(LEFT_OPEN) {
            return leave_open(Path::new(&path));
        }
        let mut pool = Scratch::new(24 << 20, |spec| {
            (spec.targets, spec.write_buffer) = (Some(2), Some(true));
        });
        pool.close();
        let name = "pool::verified::tests::program_that_exits_without_close_records_sound_indexes";
        let mut program = std::process::Command::new(std::env::current_exe().unwrap());
        let ended = program.args(["--exact", name]).env(LEFT_OPEN, pool.path()).status().unwrap();
        assert!(ended.success());
        assert!(is_known_sound(&pool, |_| ()), "left in good order");
        pool.reopen();
        let state = pool.opened();
        assert!(!state.targets[0].has_buffered_puts().unwrap(), "all of it is in the index");
    }

    /// Writes to a file until its times change.
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
    fn indexes_are_verified_again_after_foreign_writes() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        let index = pool.path().join("target-1/index/data.mdb");
        assert!(is_known_sound(&pool, |_| ()), "left in good order");
        pool.reopen();
        pool.close();
        assert!(is_known_sound(&pool, |_| ()), "and again");
        write_to(&index, 8192, |_| ());
        assert!(!is_known_sound(&pool, |_| ()), "somebody has written to it");
        pool.reopen();
        pool.close();
        assert!(is_known_sound(&pool, |_| ()), "and has done no harm");
        let nobody = |control: &Control| (control.slot.0 + 2) % PROCESSES_MAX as u32;
        let died = |c: &Control| c.verified_by().store(u64::from(nobody(c)) + 1, Ordering::Release);
        assert!(!is_known_sound(&pool, died), "the verifier is dead");
        // Corrupts the magic number of LMDB's files.
        write_to(&index, 16, |bytes| bytes[0] ^= 0x40);
        let refused = Pool::open(&pool.path()).map(drop).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Corrupt, "{refused}");
        assert!(refused.message().contains("esker pool salvage"), "{refused}");
        is_known_sound(&pool, |control| {
            let noted = control.mappings().filter(|note| note.load(Ordering::Acquire) != 0);
            assert_eq!(noted.count(), 1, "the refused process leaves no record");
        });
    }
}
