//! Pages of an index that readers of old states hold back.
//!
//! LMDB reuses a page only if no reader is older than the transaction that freed it. While a reader is stopped, changes
//! first use pages that were free before it began. Then they use pages at the end of the file that were never in use.
//! Growth does not help, since the pages of a block are freed by a transaction too.
//! `docs/decisions/0057-stopped-readers.md` explains the reasons.
use super::Target;
use crate::index::txn::Txn;
use esker_types::limits::PAGES_FOR_REMOVALS;
use esker_types::{Error, ErrorKind, Result};
use std::sync::atomic::Ordering;

/// A reader at most this many commits behind holds back few pages.
const LAG_MAX: u64 = 8;
/// Number of commits until readers are checked again if none lags.
pub(crate) const LAG_PAUSE: u64 = 32;
/// Maximum number of pages that a commit is expected to use. It only delays the next count of pages.
const PAGES_PER_COMMIT: u64 = 64;

impl Target {
    /// Number of pages that LMDB can use now.
    fn usable_pages(&self) -> Result<u64> {
        let oldest = self.index.oldest_listed()?;
        let free = self.index.read()?.free_pages_before(oldest)?;
        Ok(free.saturating_add(self.index.untouched_pages()?))
    }

    /// Number of pages that changes can use now and need not leave to removals, up to `wanted`.
    pub(crate) fn usable_pages_up_to(&self, wanted: u64) -> Result<u64> {
        match self.index.untouched_pages()?.saturating_sub(PAGES_FOR_REMOVALS) {
            untouched if untouched >= wanted => Ok(wanted),
            _ => Ok(self.usable_pages()?.saturating_sub(PAGES_FOR_REMOVALS).min(wanted)),
        }
    }

    /// True if a reader of an old state holds back the pages that the latest transactions before `txn` have freed.
    pub(crate) fn has_lagging_reader(&self, txn: &Txn) -> Result<bool> {
        let lags = |oldest: u64| oldest + LAG_MAX < txn.id();
        // The second call also clears the slots of dead readers. It takes longer, so it is made only if a reader seems
        // to lag.
        Ok(lags(self.index.oldest_listed()?) && lags(self.index.oldest_reader()?))
    }

    /// True if only the pages for removals can be used, because a reader of an old state holds back all others.
    /// Counting pages takes time, so after a count that found some, the next commits do not count.
    pub(crate) fn is_limited_by_readers(&self, txn: &Txn) -> Result<bool> {
        if txn.id() < self.count_pause.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let beyond_removals = |pages: u64| pages.saturating_sub(PAGES_FOR_REMOVALS);
        let untouched = beyond_removals(self.index.untouched_pages()?);
        // Number of pages that are left, and number of commits until they are counted again.
        let (left, pause) = if untouched > 0 {
            (untouched, untouched / PAGES_PER_COMMIT)
        } else if self.has_lagging_reader(txn)? {
            let left = beyond_removals(self.usable_pages()?);
            (left, left / PAGES_PER_COMMIT)
        } else {
            (u64::MAX, LAG_PAUSE)
        };
        if left > 0 {
            self.count_pause.store(txn.id() + pause, Ordering::Relaxed);
        }
        Ok(left == 0)
    }

    /// Fails if [`Target::is_limited_by_readers`].
    pub(crate) fn check_usable_pages(&self, txn: &Txn) -> Result<()> {
        match self.is_limited_by_readers(txn)? {
            false => Ok(()),
            true => Err(held_back_error(self.number())),
        }
    }
}

#[cold]
fn held_back_error(target: u32) -> Error {
    let message = format!(
        "the index of target {target} cannot reuse its free pages, because a process has been reading an old state for long: \
         continue or end stopped processes that use the pool, or make a larger pool"
    );
    Error::new(ErrorKind::NoSpace, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::Scratch;
    use esker_os::executor::without_waiting;

    fn pool(bytes: u64) -> Scratch {
        Scratch::new(bytes, |spec| (spec.targets, spec.huge_pages) = (Some(1), false))
    }

    fn put(target: &Target, number: u32) -> Result<()> {
        let key = [b"T".as_slice(), &number.to_be_bytes()].concat();
        target.change(|change| {
            change.check_room()?;
            change.put(&key, &[7; 200])
        })
    }

    /// Shows that the index gains nothing from more segments while a reader is stopped.
    #[test]
    fn growth_frees_no_page_until_old_reader_ends() {
        let pool = pool(40 << 20);
        let state = pool.opened();
        let target = &state.targets[0];
        (0..100).for_each(|number| put(target, number).unwrap());
        let reader = target.index.read().unwrap();
        let before = target.usable_pages().unwrap();
        assert!(target.grow_index(4, true).unwrap());
        let after = target.usable_pages().unwrap();
        assert!(after <= before, "{after} pages where there were {before}");
        drop(reader);
        put(target, 100).unwrap();
        put(target, 101).unwrap();
        assert!(target.usable_pages().unwrap() > before + 512);
    }

    /// A reader that does not end holds back all pages that changes free.
    #[test]
    fn index_held_back_by_reader_keeps_pages_for_removals_and_does_not_wait() {
        let pool = pool(24 << 20);
        let state = pool.opened();
        let target = &state.targets[0];
        let reader = target.index.read().unwrap();
        let end = (0..).find(|&number| put(target, number).is_err()).unwrap();
        let lent = target.index_segment_count();
        let (refused, would_wait) = without_waiting(|| put(target, end));
        let error = refused.unwrap_err();
        assert_eq!((error.kind(), would_wait), (ErrorKind::NoSpace, false), "{error}");
        assert!(error.to_string().contains("stopped processes"), "{error}");
        assert_eq!(target.index_segment_count(), lent, "growth would be useless");
        let remove = |number: u32| {
            let key = [b"T".as_slice(), &number.to_be_bytes()].concat();
            target.change(|change| change.delete(&key).map(drop))
        };
        (0..8).for_each(|number| remove(number).unwrap());
        drop(reader);
        (end..end + 8000).for_each(|number| put(target, number).unwrap());
        assert!(target.index_segment_count() > lent, "it grows again");
    }

    /// Pages at the end of the file are the only ones that can be used whatever old state a reader reads.
    #[test]
    fn index_grows_before_it_uses_the_end_of_its_file() {
        let pool = pool(64 << 20);
        let state = pool.opened();
        let target = &state.targets[0];
        let whole = target.index.untouched_pages().unwrap();
        (0..20_000).for_each(|number| put(target, number).unwrap());
        let left = target.index.untouched_pages().unwrap();
        assert!(left * 5 > whole, "{left} pages of {whole} are left");
    }
}
