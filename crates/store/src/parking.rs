//! Free index pages kept out of use, so that those in use stay few and warm.
//!
//! LMDB takes the pages first that have been free for longest. After a large removal thousands of them go
//! round: every commit writes to pages that left all caches long ago, and maintains a tree of free pages
//! that has grown deep. So free pages beyond what commits need are parked as values of a table of their
//! own, and come back before the index would grow. `docs/decisions/0014-parked-pages.md` has the figures.
use crate::io::txn::{Txn, WriteTxn};
use crate::keys::{Key, Table};
use crate::target::Target;
use esker_types::{ErrorKind, Result};
use std::sync::atomic::Ordering;

/// With fewer free pages than this, parked ones are brought back.
const FREE_MIN: u64 = 96;
/// With more free pages than this, some are parked.
const FREE_MAX: u64 = 256;
/// Pages parked or brought back by one commit.
const BATCH: u64 = 64;
/// Commits to let pass where readers of the past keep free pages from being used.
const PAUSE: u64 = 256;
/// Commits to let pass after pages were freed that cannot be used at once.
const SETTLE: u64 = 4;
/// A reader this many commits behind does not keep many pages from being used.
const LAG_MAX: u64 = 8;
/// Pages brought back by one commit where there is no room for a change: LMDB's note of them must not
/// take several pages in a row.
const RETURN_BATCH: u64 = 256;
/// How many such commits may follow each other.
const RETURNS_MAX: usize = 16;

/// What fills one page that holds nothing else, less LMDB's header and some room to be sure.
const MARGIN: u64 = 64;

/// What there is to do about free pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    /// So many are parked.
    Parking(u64),
    /// So many come back.
    Return(u64),
    /// The index grows.
    Growth,
}

fn parked_key(number: u32) -> Key {
    Key::table(Table::Parked).push(&number.to_be_bytes())
}

/// Number of entries of a table whose keys count from zero.
pub(crate) fn count(txn: &Txn, table: Table) -> Result<u32> {
    let table = Key::table(table);
    let last = txn.cursor()?.seek_before(&table.successor())?;
    let last = last.and_then(|(key, _)| key.strip_prefix(&*table));
    Ok(last
        .and_then(|number| number.try_into().ok())
        .map_or(0, |n| u32::from_be_bytes(n).saturating_add(1)))
}

/// Pages in use and in all, but for those that are `parked` and those the index does not have.
fn used_and_total(txn: &Txn, parked: u64, idle: u64) -> Result<(u64, u64)> {
    let pages = txn.pages()?;
    Ok((pages.used.saturating_sub(parked + idle), pages.total.saturating_sub(idle)))
}

impl Target {
    /// As [`Target::pages`], with parked ones counted: their word may be off after the death of a process,
    /// by a batch at most, until the next time something is parked or brought back.
    pub(crate) fn pages_counted(&self, txn: &Txn) -> Result<(u64, u64)> {
        used_and_total(txn, count(txn, Table::Parked)?.into(), self.idle_pages())
    }

    /// Pages of the index that hold something, and all there are.
    pub(crate) fn pages(&self, txn: &Txn) -> Result<(u64, u64)> {
        used_and_total(txn, self.words().parked.load(Ordering::Relaxed), self.idle_pages())
    }

    /// Counts parked pages anew.
    pub(crate) fn count_parked(&self) -> Result<()> {
        let parked = count(&*self.index.read()?, Table::Parked)?;
        self.words().parked.store(u64::from(parked), Ordering::Relaxed);
        Ok(())
    }

    /// What there is to do about free pages before a change, by [`Target::tend`].
    pub(crate) fn due(&self, txn: &WriteTxn) -> Result<Option<Due>> {
        if self.wants_block(txn)? {
            return Ok(Some(Due::Growth));
        }
        if !self.index.is_mapped() {
            return Ok(None);
        }
        let free = txn.free_pages()?;
        if free < FREE_MIN {
            let parked = self.words().parked.load(Ordering::Relaxed);
            return Ok((parked > 0).then_some(Due::Return(BATCH)));
        }
        if free <= FREE_MAX || txn.id() < self.parking_pause.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if self.index.oldest_listed()? + LAG_MAX < txn.id() {
            self.parking_pause.store(txn.id() + PAUSE, Ordering::Relaxed);
            return Ok(None);
        }
        Ok(Some(Due::Parking(BATCH.min(free - FREE_MAX))))
    }

    /// Uses up a transaction on free pages.
    pub(crate) fn tend(&self, mut txn: WriteTxn, due: Due) -> Result<()> {
        if due == Due::Growth {
            drop(txn);
            return self.grow_index(1, false).map(drop);
        }
        let (id, before) = (txn.id(), count(&txn, Table::Parked)?);
        let after = match due {
            Due::Parking(pages) => park(&mut txn, before, pages)?,
            Due::Return(pages) => bring_back(&mut txn, before, pages)?,
            Due::Growth => before,
        };
        let reach = self.index.reach()?;
        // With the write lock held, or a later count could be overwritten. Where the commit comes to
        // nothing the next one counts again.
        self.words().parked.store(u64::from(after), Ordering::Relaxed);
        txn.commit()?;
        if self.index.reach()? > reach {
            // They were freed too recently to be had, so others were taken that had never been used.
            self.parking_pause.store(id + SETTLE, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Brings parked pages back for a change that found no room; true where there were any.
    pub(crate) fn return_pages(&self) -> Result<bool> {
        self.count_parked()?;
        let latest = self.index.read()?.id();
        self.parking_pause.store(latest + PAUSE, Ordering::Relaxed);
        let mut any = false;
        // Bringing pages back takes pages too: the first few make room for the others.
        let batches = (4..8).map(|power| 1 << power).chain([RETURN_BATCH; RETURNS_MAX]);
        for batch in batches {
            if self.words().parked.load(Ordering::Relaxed) == 0 {
                break;
            }
            match self.tend(self.index.write()?, Due::Return(batch)) {
                Err(error) if error.kind() == ErrorKind::NoSpace => break,
                result => result?,
            }
            any = true;
        }
        Ok(any)
    }
}

fn park(txn: &mut WriteTxn, parked: u32, pages: u64) -> Result<u32> {
    let len = (txn.pages()?.bytes - MARGIN) as usize;
    let after = parked.saturating_add(pages as u32);
    (parked..after).try_for_each(|number| txn.reserve(&parked_key(number), len).map(drop))?;
    Ok(after)
}

fn bring_back(txn: &mut WriteTxn, parked: u32, pages: u64) -> Result<u32> {
    let after = parked.saturating_sub(pages as u32);
    for number in (after..parked).rev() {
        txn.delete(&parked_key(number))?;
    }
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;

    const KEYS: u32 = 12_000;

    /// Lets `test` work on the first target of a pool.
    fn with_target(medium: &str, test: impl FnOnce(&Target)) {
        let medium = std::path::Path::new(medium);
        let pool = Scratch::on(medium, 256 << 20, |spec| {
            spec.targets = Some(2);
            spec.index_percent = Some(12);
        });
        test(&pool.state().targets[0]);
    }

    fn key(number: u32) -> Vec<u8> {
        [b"T".as_slice(), &number.to_be_bytes()].concat()
    }

    fn fill(target: &Target) {
        for number in 0..KEYS {
            target.change(|change| change.put(&key(number), &[7; 200])).unwrap();
        }
    }

    fn empty(target: &Target, keys: std::ops::Range<u32>) {
        let all = |change: &mut crate::commit::Change<'_>| {
            keys.clone().try_for_each(|number| change.delete(&key(number)).map(drop))
        };
        target.change(all).unwrap();
    }

    fn commits(target: &Target, number: u32) {
        for _ in 0..number {
            target.change(|change| change.put(b"Rone", b"value")).unwrap();
        }
    }

    fn parked(target: &Target) -> u64 {
        target.words().parked.load(Ordering::Relaxed)
    }

    #[test]
    fn what_a_removal_frees_is_parked_and_comes_back() {
        with_target("/dev/shm", |target| {
            fill(target);
            let mut most = u64::MAX;
            let (used, _) = target.pages(&target.index.read().unwrap()).unwrap();
            for _ in 0..3 {
                empty(target, 0..KEYS);
                commits(target, 100);
                let txn = target.index.read().unwrap();
                let free = txn.free_pages().unwrap();
                assert!(parked(target) > used / 2, "{} of {used}", parked(target));
                assert!((FREE_MIN..=FREE_MAX + BATCH).contains(&free), "{free} free");
                assert_eq!(u64::from(count(&txn, Table::Parked).unwrap()), parked(target));
                assert!(target.pages(&txn).unwrap().0 < FREE_MIN, "parked pages count as used");
                drop(txn);
                fill(target);
                let last = target.index.reach().unwrap();
                assert!(last <= most, "{last} pages where {most} were enough");
                most = last + last / 8;
            }
            target.words().parked.store(77, Ordering::Relaxed);
            target.count_parked().unwrap();
            let counted = count(&target.index.read().unwrap(), Table::Parked).unwrap();
            assert_eq!(u64::from(counted), parked(target));
        });
    }

    #[test]
    fn a_damaged_count_is_no_reason_to_panic() {
        with_target("/dev/shm", |target| {
            target.change(|change| change.put(&parked_key(u32::MAX), b"x")).unwrap();
            target.count_parked().unwrap();
            commits(target, 10);
            target.return_pages().unwrap();
            commits(target, 10);
        });
    }

    #[test]
    fn what_a_reader_may_look_at_is_not_parked() {
        with_target("/dev/shm", |target| {
            fill(target);
            let reader = target.index.read().unwrap();
            empty(target, 0..KEYS);
            commits(target, 2 * PAUSE as u32);
            assert!(parked(target) <= 2 * BATCH, "{} parked", parked(target));
            drop(reader);
            commits(target, 2 * PAUSE as u32);
            assert!(parked(target) > 500, "{} parked", parked(target));
        });
    }

    /// Puts keys by the thousand until there is no room for more; returns how many there are.
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
    fn a_full_index_can_be_filled_again_from_parked_pages() {
        with_target("/dev/shm", |target| {
            let room = fill_up(target);
            for _ in 0..3 {
                (0..room).step_by(1000).for_each(|first| empty(target, first..first + 1000));
                commits(target, 200);
                assert!(parked(target) > 500, "{} parked", parked(target));
                // As if a process had died before it noted what it parked.
                target.words().parked.store(0, Ordering::Relaxed);
                let again = fill_up(target);
                assert!(again >= room / 20 * 19, "{again} keys where {room} found room");
            }
        });
    }

    #[test]
    fn an_index_written_by_system_calls_is_left_alone() {
        with_target("/var/tmp", |target| {
            let all = |change: &mut crate::commit::Change<'_>| {
                (0..KEYS).try_for_each(|number| change.put(&key(number), &[7; 200]))
            };
            target.change(all).unwrap();
            empty(target, 0..KEYS);
            commits(target, 20);
            assert_eq!(parked(target), 0);
        });
    }
}
