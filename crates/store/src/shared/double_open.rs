//! Prevents two copies of this library in one process (a preloaded library and `libdaos.so`) from opening the same
//! pool. Each copy has its own registry of open pools, but LMDB must not open an index twice in a process. So every
//! process records in its slot of the control file the address at which it mapped that file. A copy refuses to open the
//! pool if it finds a mapping in its own process that it did not make.
use super::control::{Control, ProcessSlot};
use esker_types::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;

const PID_SHIFT: u32 = 40;
const PAGE_SHIFT: u32 = 12;

/// Record of a process: its process id and the page at which it mapped the control file.
fn encode_record(address: usize) -> u64 {
    u64::from(std::process::id()) << PID_SHIFT | address as u64 >> PAGE_SHIFT
}

/// Address in a record from [`encode_record`].
fn address_in(record: u64) -> u64 {
    (record % (1 << PID_SHIFT)) << PAGE_SHIFT
}

/// Fails if another copy of this library has the pool open in this process. A record may be left from a process that
/// died or that executed another program, so the memory map is consulted too.
///
/// # Errors
/// `Busy`.
pub(crate) fn refuse_second_copy(control: &Control) -> Result<()> {
    let own_record = encode_record(control.address());
    let is_of_other_copy =
        |record: &u64| *record >> PID_SHIFT == own_record >> PID_SHIFT && *record != own_record;
    let records = control.mappings().map(|word| word.load(Ordering::Acquire));
    match records.filter(is_of_other_copy).any(|record| control.is_mapped_at(address_in(record))) {
        false => Ok(()),
        true => Err(Error::new(
            ErrorKind::Busy,
            "the pool is open in this process through another copy of Esker (a preloaded library beside \
             libdaos.so?): use one of them",
        )),
    }
}

/// Records that this process, which has `slot`, has the pool open.
pub(crate) fn record(control: &Control, slot: ProcessSlot) {
    control.process(slot).mapping.store(encode_record(control.address()), Ordering::Release);
}

/// Restores the record that [`leave`] removed.
#[cfg(test)]
pub(crate) fn enter(control: &Control) {
    record(control, control.slot);
}

/// Removes the record.
pub(crate) fn leave(control: &Control) {
    control.process(control.slot).mapping.store(0, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    /// Opens the control file without the registry of this process, like another copy of this code does.
    fn open_again(pool: &Scratch) -> Result<()> {
        let folder = crate::io::folder::Folder::open(&pool.path())?;
        Control::open(&folder, &crate::Superblock::read_in(&folder)?).map(drop)
    }

    /// Number of locks of all processes on the control file.
    fn locks_on_control(pool: &Scratch) -> usize {
        use std::os::unix::fs::MetadataExt;
        let inode = std::fs::metadata(pool.path().join("control")).unwrap().ino();
        let inode = format!(":{inode} ");
        let locks = std::fs::read_to_string("/proc/locks").unwrap();
        locks.lines().filter(|line| line.contains(&inode)).count()
    }

    #[test]
    fn second_copy_is_refused_and_first_keeps_its_locks() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let before = locks_on_control(&pool);
        assert!(before >= 1, "the slot of this process is locked");
        for _ in 0..2 {
            let refused = open_again(&pool).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Busy, "{refused}");
            assert!(refused.message().contains("another copy"), "{refused}");
        }
        assert_eq!(locks_on_control(&pool), before);
        pool.close();
        open_again(&pool).unwrap();
        pool.reopen();
    }

    /// Two copies open the pool at the same time, in different threads.
    #[test]
    fn one_of_two_copies_is_refused() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        let folder = crate::io::folder::Folder::open(&pool.path()).unwrap();
        let superblock = crate::Superblock::read_in(&folder).unwrap();
        for _ in 0..50 {
            let together = std::sync::Barrier::new(2);
            let open = || {
                together.wait();
                let opened = Control::open(&folder, &superblock);
                together.wait();
                opened.map(|control| leave(&control)).is_ok()
            };
            let opened = std::thread::scope(|scope| {
                [(); 2].map(|()| scope.spawn(open)).map(|thread| thread.join().unwrap())
            });
            assert!(opened[0] != opened[1], "{opened:?}");
        }
        pool.reopen();
    }

    #[test]
    fn records_of_dead_processes_and_other_programs_are_ignored() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let control = std::sync::Arc::clone(&pool.opened().control);
        let other = crate::shared::control::ProcessSlot((control.slot.0 + 1) % 4096);
        // A record with this process id and an address at which something else is mapped.
        let elsewhere = &raw const pool as usize;
        control.process(other).mapping.store(encode_record(elsewhere), Ordering::Release);
        drop(control);
        pool.reopen();
        let state = pool.opened();
        assert_ne!(state.control.process(state.control.slot).mapping.load(Ordering::Acquire), 0);
    }

    #[test]
    fn process_records_round_trip() {
        let note = encode_record(0x7f12_3456_7000);
        assert_eq!(address_in(note), 0x7f12_3456_7000);
        assert_eq!(note >> PID_SHIFT, u64::from(std::process::id()));
    }
}
