//! Reserved free pages. They are free pages of an index that LMDB is kept from using, so that few pages are in use and
//! these stay in the cache.
//!
//! LMDB first reuses the pages that have been free for longest. After a large removal, it cycles through thousands of
//! pages: every commit writes to pages that are no longer in a cache, and maintains a deep tree of free pages. So free
//! pages beyond the need of commits are reserved as values of a table of their own. They are released before the index
//! would grow. `docs/decisions/0014-parked-pages.md` has measurements.
use super::Target;
use super::doubt::{applied_key, last_applied};
use crate::format::keys::{Key, Table};
use crate::index::txn::{Txn, WriteTxn};
use esker_types::{ErrorKind, Result};
use std::sync::atomic::Ordering;

/// If there are fewer free pages than this, reserved ones are released.
const FREE_MIN: u64 = 96;
/// If there are more free pages than this, some are reserved.
const FREE_MAX: u64 = 256;
/// Number of pages that one commit reserves or releases.
const BATCH: u64 = 64;
/// Number of commits to wait if readers of old states hold back free pages.
const PAUSE: u64 = 256;
/// Number of commits to wait after pages were freed that cannot be used yet.
const SETTLE: u64 = 4;
/// A reader at most this many commits behind holds back few pages.
const LAG_MAX: u64 = 8;
/// Number of pages that one commit releases if a change found no space. LMDB's list of them must fit on one page.
const RETURN_BATCH: u64 = 256;
/// Maximum number of such commits in a row.
const RETURNS_MAX: usize = 16;

/// Bytes of a page for LMDB's headers, next to a value that fills the page.
const MARGIN: u64 = 64;

/// Work on free pages before a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FreePageWork {
    /// Reserve this number of pages.
    Reservation(u64),
    /// Release this number of pages.
    Release(u64),
    /// Grow the index.
    Growth,
}

fn reserved_key(number: u32) -> Key {
    Key::table(Table::ReservedPages).push(&number.to_be_bytes())
}

/// Number of entries of a table whose keys are numbers from zero on.
pub(crate) fn count(txn: &Txn, table: Table) -> Result<u32> {
    let table = Key::table(table);
    let last = txn.cursor()?.seek_before(&table.successor())?;
    let last = last.and_then(|(key, _)| key.strip_prefix(&*table));
    Ok(last
        .and_then(|number| number.try_into().ok())
        .map_or(0, |n| u32::from_be_bytes(n).saturating_add(1)))
}

/// Number of pages in use and of all pages. The `reserved` pages count as free. The `idle` pages count neither as used
/// nor as pages of the index: they are in blocks of the index's file that it does not use.
fn used_and_total(txn: &Txn, reserved: u64, idle: u64) -> Result<(u64, u64)> {
    let pages = txn.pages()?;
    Ok((pages.used.saturating_sub(reserved.saturating_add(idle)), pages.total.saturating_sub(idle)))
}

impl Target {
    /// Variant of [`Target::pages`] that counts the reserved pages in the index. The shared count may be wrong by a
    /// batch after a process died, until pages are reserved or released again.
    pub(crate) fn pages_counted(&self, txn: &Txn) -> Result<(u64, u64)> {
        used_and_total(txn, count(txn, Table::ReservedPages)?.into(), self.idle_pages())
    }

    /// Number of index pages in use and of all index pages. Reserved pages count as free, and pages of blocks that the
    /// index does not use ([`Target::idle_pages`]) do not count.
    pub(crate) fn pages(&self, txn: &Txn) -> Result<(u64, u64)> {
        used_and_total(
            txn,
            self.shared().reserved_pages().load(Ordering::Relaxed),
            self.idle_pages(),
        )
    }

    /// Counts the reserved pages and stores the count.
    pub(crate) fn count_reserved(&self) -> Result<()> {
        let reserved = count(&*self.index.read()?, Table::ReservedPages)?;
        self.shared().reserved_pages().store(u64::from(reserved), Ordering::Relaxed);
        Ok(())
    }

    /// Work on free pages that the index needs before a change: growing it, or reserving or releasing pages. `None` if
    /// there is nothing to do.
    pub(crate) fn free_page_work(&self, txn: &WriteTxn) -> Result<Option<FreePageWork>> {
        if self.wants_block(txn)? {
            return Ok(Some(FreePageWork::Growth));
        }
        if !self.index.is_mapped() {
            return Ok(None);
        }
        let free = txn.free_pages()?;
        if free < FREE_MIN {
            let reserved = self.shared().reserved_pages().load(Ordering::Relaxed);
            // Released pages could not be used as long as a reader lags.
            let is_of_use = reserved > 0 && !self.has_lagging_reader(txn)?;
            return Ok(is_of_use.then_some(FreePageWork::Release(BATCH)));
        }
        if free <= FREE_MAX || txn.id() < self.reserving_pause.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if self.index.oldest_listed()? + LAG_MAX < txn.id() {
            self.reserving_pause.store(txn.id() + PAUSE, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(Some(FreePageWork::Reservation(BATCH.min(free - FREE_MAX))))
    }

    /// Reserves or releases free pages in the transaction `txn`, or grows the index, as `due` says.
    pub(crate) fn do_free_page_work(&self, mut txn: WriteTxn, due: FreePageWork) -> Result<()> {
        if due == FreePageWork::Growth {
            drop(txn);
            return self.grow_index(1, false).map(drop);
        }
        let (id, before) = (txn.id(), count(&txn, Table::ReservedPages)?);
        let after = match due {
            FreePageWork::Reservation(pages) => reserve(&mut txn, before, pages)?,
            FreePageWork::Release(pages) => release(&mut txn, before, pages)?,
            FreePageWork::Growth => before,
        };
        let reach = self.index.high_water_pages()?;
        // The count is stored with the write lock held, so that a later count is not overwritten. If the commit fails,
        // the next transaction counts again.
        self.shared().reserved_pages().store(u64::from(after), Ordering::Relaxed);
        txn.commit()?;
        if self.index.high_water_pages()? > reach {
            // The free pages cannot be used yet, so LMDB used pages from the end of the file.
            self.reserving_pause.store(id + SETTLE, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Commits without a change, so that pages freed by the last commit can be reused. If the index has no space even
    /// for that, it does nothing.
    fn commit_for_page_reuse(&self) -> Result<()> {
        let mut txn = self.begin_for_room()?;
        let (key, value) = (applied_key(), last_applied(&txn)?.0.to_le_bytes());
        match txn.put(&key, &value).and_then(|()| txn.commit()) {
            Err(error) if error.kind() == ErrorKind::NoSpace => Ok(()),
            aged => aged,
        }
    }

    /// Releases reserved pages for a change that found no space. True if there were any.
    pub(crate) fn return_pages(&self) -> Result<bool> {
        self.count_reserved()?;
        let latest = self.index.read()?.id();
        self.reserving_pause.store(latest + PAUSE, Ordering::Relaxed);
        let mut any = false;
        // Releasing pages needs pages too, so small batches first free some for the large ones.
        let batches = (4..8).map(|power| 1 << power).chain([RETURN_BATCH; RETURNS_MAX]);
        for batch in batches {
            if self.shared().reserved_pages().load(Ordering::Relaxed) == 0 {
                break;
            }
            match self.do_free_page_work(self.begin_for_room()?, FreePageWork::Release(batch)) {
                Err(error) if error.kind() == ErrorKind::NoSpace => break,
                result => result?,
            }
            any = true;
        }
        Ok(any)
    }
}

/// Runs `work`, for which space must exist, and repeats it once after `NoSpace`. LMDB reuses the pages that a commit
/// frees only after another commit. Until then, a full index may have no page even for a removal.
pub(crate) fn retry_after_page_reuse<T>(
    targets: &[&Target],
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    match work() {
        Err(error) if error.kind() == ErrorKind::NoSpace => {
            targets.iter().try_for_each(|target| target.commit_for_page_reuse())?;
            work()
        }
        result => result,
    }
}

/// Reserves `pages` more pages of the index, besides `reserved` that are reserved already, by one value each that fills
/// a page. Returns the number of all reserved pages.
fn reserve(txn: &mut WriteTxn, reserved: u32, pages: u64) -> Result<u32> {
    let len = (txn.pages()?.bytes - MARGIN) as usize;
    let after = reserved.saturating_add(pages as u32);
    (reserved..after).try_for_each(|number| txn.reserve(&reserved_key(number), len).map(drop))?;
    Ok(after)
}

/// Releases `pages` of the `reserved` pages. Returns the number of pages that remain reserved.
fn release(txn: &mut WriteTxn, reserved: u32, pages: u64) -> Result<u32> {
    let after = reserved.saturating_sub(pages as u32);
    for number in (after..reserved).rev() {
        txn.delete(&reserved_key(number))?;
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    const KEYS: u32 = 12_000;

    /// Runs `test` on the first target of a pool.
    fn with_target(medium: &str, test: impl FnOnce(&Target)) {
        let medium = std::path::Path::new(medium);
        let pool = Scratch::on(medium, 256 << 20, |spec| {
            spec.targets = Some(2);
            spec.index_percent = Some(12);
        });
        test(&pool.opened().targets[0]);
    }

    fn key(number: u32) -> Vec<u8> {
        [b"T".as_slice(), &number.to_be_bytes()].concat()
    }

    /// Puts all keys, one per commit.
    fn fill(target: &Target) {
        for number in 0..KEYS {
            target.change(|change| change.put(&key(number), &[7; 200])).unwrap();
        }
    }

    fn empty(target: &Target, keys: std::ops::Range<u32>) {
        let all = |change: &mut crate::shard::change::Change<'_>| {
            keys.clone().try_for_each(|number| change.delete(&key(number)).map(drop))
        };
        target.change(all).unwrap();
    }

    /// Makes a number of small commits.
    fn commits(target: &Target, number: u32) {
        for _ in 0..number {
            target.change(|change| change.put(b"Rone", b"value")).unwrap();
        }
    }

    fn reserved(target: &Target) -> u64 {
        target.shared().reserved_pages().load(Ordering::Relaxed)
    }

    #[test]
    fn pages_freed_by_removal_are_reserved_and_reused() {
        with_target("/dev/shm", |target| {
            fill(target);
            let mut most = u64::MAX;
            let (used, _) = target.pages(&target.index.read().unwrap()).unwrap();
            for _ in 0..3 {
                empty(target, 0..KEYS);
                commits(target, 100);
                let txn = target.index.read().unwrap();
                let free = txn.free_pages().unwrap();
                assert!(reserved(target) > used / 2, "{} of {used}", reserved(target));
                assert!((FREE_MIN..=FREE_MAX + BATCH).contains(&free), "{free} free");
                assert_eq!(u64::from(count(&txn, Table::ReservedPages).unwrap()), reserved(target));
                assert!(target.pages(&txn).unwrap().0 < FREE_MIN, "reserved pages count as used");
                drop(txn);
                fill(target);
                let last = target.index.high_water_pages().unwrap();
                assert!(last <= most, "{last} pages where {most} were enough");
                most = last + last / 8;
            }
            target.shared().reserved_pages().store(77, Ordering::Relaxed);
            target.count_reserved().unwrap();
            let counted = count(&target.index.read().unwrap(), Table::ReservedPages).unwrap();
            assert_eq!(u64::from(counted), reserved(target));
        });
    }

    /// The damaged key claims the largest number of reserved pages.
    #[test]
    fn damaged_count_does_not_panic() {
        with_target("/dev/shm", |target| {
            target.change(|change| change.put(&reserved_key(u32::MAX), b"x")).unwrap();
            target.count_reserved().unwrap();
            commits(target, 10);
            target.return_pages().unwrap();
            commits(target, 10);
        });
    }

    #[test]
    fn pages_of_old_readers_are_not_reserved() {
        with_target("/dev/shm", |target| {
            fill(target);
            let reader = target.index.read().unwrap();
            empty(target, 0..KEYS);
            commits(target, 2 * PAUSE as u32);
            assert!(reserved(target) <= 2 * BATCH, "{} reserved", reserved(target));
            drop(reader);
            commits(target, 2 * PAUSE as u32);
            assert!(reserved(target) > 500, "{} reserved", reserved(target));
        });
    }

    /// Puts keys in batches of a thousand until the index is full; returns the number of keys.
    fn fill_up(target: &Target) -> u32 {
        let thousand = |first: u32| {
            target.change(|change| {
                change.check_room()?;
                (first..first + 1000).try_for_each(|number| change.put(&key(number), &[7; 200]))
            })
        };
        (0..).step_by(1000).find(|&first| thousand(first).is_err()).unwrap()
    }

    #[test]
    fn full_index_can_be_refilled_from_reserved_pages() {
        with_target("/dev/shm", |target| {
            let room = fill_up(target);
            for _ in 0..3 {
                (0..room).step_by(1000).for_each(|first| empty(target, first..first + 1000));
                commits(target, 200);
                assert!(reserved(target) > 500, "{} reserved", reserved(target));
                // Simulates a process that died before it stored the count of reserved pages.
                target.shared().reserved_pages().store(0, Ordering::Relaxed);
                let again = fill_up(target);
                assert!(again >= room / 20 * 19, "{again} keys where {room} found room");
            }
        });
    }

    #[test]
    fn index_written_by_system_calls_reserves_no_pages() {
        with_target("/var/tmp", |target| {
            let all = |change: &mut crate::shard::change::Change<'_>| {
                (0..KEYS).try_for_each(|number| change.put(&key(number), &[7; 200]))
            };
            target.change(all).unwrap();
            empty(target, 0..KEYS);
            commits(target, 20);
            assert_eq!(reserved(target), 0);
        });
    }
}
