//! Write lock of a target, through which all changes are made.
//!
//! The lock is that of LMDB, which survives the death of its owner. While a process holds it, no other process commits
//! a transaction or appends to the write buffer. The owner decides about the buffered puts: [`WriteLock::flush`]
//! includes them in its transaction, and [`WriteLock::retain_buffer`] keeps them on top of it. If the lock is dropped,
//! nothing changes.
use super::Target;
use super::change::{Change, headroom_pages};
use crate::index::txn::{Txn, WriteTxn};
use crate::shared::control::{ProcessSlot, parse_writer_word, writer_word};
use crate::shared::read_version::{ReadVersion, Version};
use crate::shared::write_buffer::{LockedBuffer, Puts};
use crate::sync::fence;
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::sync::atomic::Ordering;

/// The write lock of a target.
pub(crate) struct WriteLock<'t> {
    target: &'t Target,
    pub(super) buffer: Option<LockedBuffer<'t>>,
    txn: WriteTxn,
}

impl Target {
    /// Takes the write lock when no commit over several targets is in progress. Work on free pages that is due is done
    /// before, once.
    pub(crate) fn lock(&self) -> Result<WriteLock<'_>> {
        let mut tended = false;
        loop {
            let lock = self.until_not_in_doubt(|| self.lock_in_doubt())?;
            match self.free_page_work(&lock.txn)?.filter(|_| !tended) {
                None => return Ok(lock),
                // An error of this optional work must not refuse the change.
                Some(due) => {
                    tended = true;
                    let _ = self.do_free_page_work(lock.retain_buffer(), due);
                }
            }
        }
    }

    /// Begins a write transaction, even if the target is in doubt, and without the buffered puts. It publishes its id
    /// to readers before it changes anything ([`Target::is_overwritten`]).
    pub(crate) fn begin_bare(&self) -> Result<WriteTxn> {
        let txn = self.index.write(|process| self.control.is_turn_alive(process))?;
        let word = writer_word(txn.id(), self.process());
        self.shared().writer().store(word, Ordering::Release);
        fence(Ordering::Release);
        Ok(txn)
    }

    /// True if a read transaction may have copied a later state than its id says.
    ///
    /// LMDB reads the id of the last commit, then copies the roots from one of two meta pages. The transaction after
    /// the next one overwrites that page before its commit is complete.
    #[inline]
    pub(crate) fn is_overwritten(&self, id: u64) -> Result<bool> {
        fence(Ordering::Acquire);
        let (writer, _) = parse_writer_word(self.shared().writer().load(Ordering::Relaxed));
        // An id that no writer can have results from damage.
        Ok(writer > id + 1 && writer <= self.index.last_commit()? + 1)
    }

    /// Takes the write lock, even if a commit over several targets is in progress.
    pub(crate) fn lock_in_doubt(&self) -> Result<WriteLock<'_>> {
        let txn = self.begin_bare()?;
        let buffer = self.write_buffer().map(|buffer| LockedBuffer::lock(buffer, txn.id() - 1));
        Ok(WriteLock { target: self, buffer: buffer.transpose()?, txn })
    }

    /// Begins a transaction that includes the buffered puts, when no commit over several targets is in progress.
    pub(crate) fn begin_write(&self) -> Result<WriteTxn> {
        self.lock()?.flush()
    }

    /// Begins a transaction that includes the buffered puts, even if a commit over several targets is in progress.
    pub(crate) fn begin_in_doubt(&self) -> Result<WriteTxn> {
        self.lock_in_doubt()?.flush()
    }

    /// Begins a transaction that only frees space in the index. It retains the buffered puts, which may need that
    /// space.
    pub(crate) fn begin_for_room(&self) -> Result<WriteTxn> {
        self.lock_in_doubt().map(WriteLock::retain_buffer)
    }

    /// Commits the buffered puts, if there are any, without freeing space for them. In a durable pool, it also commits
    /// that puts which are not published never take effect, even if they are in the redo log.
    ///
    /// # Errors
    /// `NoSpace` if the index has no space for the puts.
    pub(crate) fn flush_if_fits(&self) -> Result<()> {
        if !self.has_buffered_puts()? {
            return Ok(());
        }
        let txn = self.begin_write()?;
        if txn.includes_buffer { txn.commit() } else { Ok(()) }
    }

    /// Commits the buffered puts, and frees space for them.
    pub(crate) fn flush(&self) -> Result<()> {
        self.with_room(|| self.flush_if_fits())
    }

    /// Commits the undamaged puts of a damaged write buffer and empties it. Returns their number. No other process may
    /// have the pool open. If the damage hides that the puts were committed before, a key that was removed since then
    /// reappears.
    pub(crate) fn recover_buffer(&self) -> Result<usize> {
        let Some(buffer) = self.write_buffer() else { return Ok(0) };
        let puts = buffer.recover();
        let mut txn = self.begin_bare()?;
        apply_puts(self, &mut txn, &puts)?;
        let last = txn.id() - 1;
        self.note_flushed(&mut txn, last)?;
        txn.commit()?;
        buffer.reset();
        Ok(puts.iter().count())
    }

    /// The process of the last commit, if the read transaction with this id misses that commit.
    fn owner_of_missed_commit(&self, id: u64) -> Result<Option<ProcessSlot>> {
        let newest = self.last_commit()?;
        if newest <= id {
            return Ok(None);
        }
        let (number, process) = self.last_writer();
        Ok((number == newest).then_some(process))
    }

    /// Id of the last write transaction, and its process.
    fn last_writer(&self) -> (u64, ProcessSlot) {
        parse_writer_word(self.shared().writer().load(Ordering::Acquire))
    }

    /// True if the read transaction with this id misses a commit whose process died in it. Such a commit is on the
    /// medium. But LMDB stores the id of the last commit in its lock file, so it becomes visible only when a process
    /// takes the write lock. Only durable pools need this check: in other pools, commits are acknowledged after they
    /// are visible.
    #[inline]
    pub(crate) fn misses_commit_of_dead(&self, id: u64) -> Result<bool> {
        if !self.is_durable() {
            return Ok(false);
        }
        let Some(process) = self.owner_of_missed_commit(id)? else { return Ok(false) };
        // The owner also counts as alive if a process has just taken its slot. That process has changed the word before.
        let nobody = Some(ProcessSlot::NOBODY);
        Ok(!self.is_alive(process) || self.owner_of_missed_commit(id)? == nobody)
    }

    /// Publishes the last commit if its process died in it, and its slot was taken since. Otherwise, the write lock is
    /// not taken, since its owner may be stopped.
    pub(crate) fn publish_commit_of_predecessor(&self) -> Result<()> {
        let nobody = ProcessSlot::NOBODY;
        if self.last_writer().1 != nobody || self.control.read_only {
            return Ok(());
        }
        let shown = self.index.read()?.id();
        match self.owner_of_missed_commit(shown)? == Some(nobody) {
            // Taking the write lock is enough.
            true => self.begin_bare().map(drop),
            false => Ok(()),
        }
    }

    /// Fails if something that a transaction has read from this target has changed since. Without the write lock the
    /// answer may be wrong, since an aborted change may have left a version.
    pub(crate) fn expect_unchanged(&self, read_versions: &[ReadVersion]) -> Result<()> {
        self.expect_versions(read_versions, |slot| slot.load(Ordering::Acquire))
    }

    /// Fails if a slot of this target has a later version than was read. `version_of` loads the version of a slot.
    fn expect_versions(
        &self,
        read_versions: &[ReadVersion],
        version_of: impl Fn(&crate::sync::AtomicU64) -> u64,
    ) -> Result<()> {
        let atomics = self.shared();
        let mut on_target = read_versions.iter().filter(|read| read.target == self.number());
        let is_stale = |read: &ReadVersion| {
            version_of(&atomics.conflicts()[read.slot as usize]) > read.version
        };
        match on_target.any(is_stale) {
            false => Ok(()),
            true => Err(Error::new(
                ErrorKind::TxRestart,
                "data that the transaction read has changed: restart it",
            )),
        }
    }
}

/// Applies buffered puts in a transaction.
fn apply_puts(target: &Target, txn: &mut WriteTxn, puts: &Puts) -> Result<()> {
    let mut change = Change::new(target, txn, Epoch(0));
    puts.iter().try_for_each(|put| change.apply_buffered(&put))?;
    // No versions are noted, unlike in [`Change::finish`]: the puts noted theirs when they were buffered.
    change.store_dead_bytes()
}

#[cfg(test)]
impl WriteLock<'_> {
    pub(crate) fn buffered_puts(&self) -> Result<Puts> {
        self.buffer.map(|buffer| buffer.puts()).transpose().map(Option::unwrap_or_default)
    }
}

impl<'t> WriteLock<'t> {
    pub(super) fn target(&self) -> &'t Target {
        self.target
    }

    /// The transaction, which holds the lock. It does not include the buffered puts.
    pub(super) fn into_txn(self) -> WriteTxn {
        self.txn
    }

    /// The index without the buffered puts.
    pub(super) fn committed(&self) -> &Txn {
        &self.txn
    }

    /// Version of the index together with the buffer.
    fn version(&self) -> Version {
        match &self.buffer {
            Some(buffer) => buffer.version(),
            None => Version::committed(self.txn.id() - 1),
        }
    }

    /// Fails if something that a transaction has read from this target has changed since.
    ///
    /// If a slot has a version later than that of the target, a change that died or was aborted left it. The earlier
    /// version is lost, so the version of the last change is assumed. A transaction that restarts for this reason reads
    /// a later version and succeeds.
    pub(crate) fn expect_unchanged(&self, read_versions: &[ReadVersion]) -> Result<()> {
        let last = self.version().0;
        self.target.expect_versions(read_versions, |slot| {
            let version = slot.load(Ordering::Acquire);
            if version > last {
                slot.store(last, Ordering::Release);
            }
            version.min(last)
        })
    }

    /// Applies the buffered puts in a transaction, in which the caller makes its change. If the transaction is aborted,
    /// the puts remain in the buffer.
    ///
    /// # Errors
    /// `NoSpace` if the index has no space for the puts; `Corrupt` if the buffer is damaged.
    pub(crate) fn flush(self) -> Result<WriteTxn> {
        let Self { mut txn, target, buffer } = self;
        let Some(buffer) = buffer.filter(LockedBuffer::has_appended) else { return Ok(txn) };
        let mut puts = buffer.puts()?;
        // Sorting keeps the newest put of a key last.
        puts.sort();
        apply_puts(target, &mut txn, &puts)?;
        target.note_flushed(&mut txn, buffer.base())?;
        // In a durable pool, the transaction also notes that it excludes the puts that are not published.
        txn.includes_buffer = !puts.is_empty() || target.is_durable();
        Ok(txn)
    }

    /// Begins a transaction that must not change anything that a buffered put may change. The puts remain on top of its
    /// commit.
    pub(crate) fn retain_buffer(self) -> WriteTxn {
        let Self { txn, buffer, .. } = self;
        if let Some(buffer) = buffer {
            buffer.retain(txn.id());
        }
        txn
    }

    /// Number of puts for which the index has free pages, `pages_per_put` each. Only half of the pages are counted,
    /// since those freed last may not be reusable yet. Pages that readers hold back are not counted.
    pub(super) fn fitting_put_count(&self, pages_per_put: u64) -> Result<u64> {
        let (used, total) = self.target.pages(&self.txn)?;
        let free = total.saturating_sub(used + headroom_pages(total)) / 2;
        Ok(self.target.usable_pages_up_to(free)? / pages_per_put)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::shard::Scope;
    use crate::tests::Scratch;
    use esker_types::info::Durability;
    use std::sync::atomic::Ordering;

    /// The word of a dead or failed writer may delay other writers, but it changes nothing else.
    #[test]
    fn writer_that_never_commits_does_not_block_others() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let target = &state.targets[0];
        for word in [u64::MAX, 0, 7] {
            target.shared().writer().store(word, Ordering::Release);
            target.change(|change| change.put(b"Tkey", &word.to_le_bytes())).unwrap();
            let txn = target.view_of(Scope::Committed).unwrap();
            assert_eq!(txn.get(b"Tkey").unwrap(), Some(&word.to_le_bytes()[..]));
        }
    }

    /// After a process has taken the slot of the last writer, the pool can be opened although another writer is stopped.
    #[test]
    fn visible_commit_needs_no_lock_to_publish() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let state = pool.opened();
        let target = &state.targets[0];
        target.change(|change| change.put(b"Tkey", b"value")).unwrap();
        let held = target.begin_write().unwrap();
        let word = writer_word(target.last_commit().unwrap(), ProcessSlot::NOBODY);
        target.shared().writer().store(word, Ordering::Release);
        // Taking the lock would wait for this very thread.
        target.publish_commit_of_predecessor().unwrap();
        drop(held);
    }

    /// Environment variable for the child process of a test: the pool in which it dies.
    const DIE_IN: &str = "ESKER_TEST_DIE_IN";

    /// Leaves a pool like a process that is killed in a synced commit. It has written its meta page, but not yet LMDB's
    /// id of the last commit.
    fn crash_in_commit(pool: &std::path::Path) -> ! {
        let pool = Pool::open(pool).unwrap();
        let state = pool.opened().unwrap();
        let target = &state.targets[0];
        target.change(|change| change.put(b"Tkey", b"new")).unwrap();
        let done = target.index.last_commit().unwrap();
        let _held = target.begin_write().unwrap();
        target.shared().writer().store(writer_word(done, target.process()), Ordering::Release);
        let locks = pool.path().join("target-0/index/lock.mdb");
        let locks = std::fs::File::options().write(true).open(locks).unwrap();
        let number_at = 8; // Behind LMDB's magic and version.
        std::os::unix::fs::FileExt::write_all_at(&locks, &(done - 1).to_le_bytes(), number_at)
            .unwrap();
        std::process::exit(0)
    }

    fn put(target: &Target, key: &[u8], value: &[u8]) {
        target.change(|change| change.put(key, value)).unwrap();
    }

    /// Value of the key that [`crash_in_commit`] changes.
    fn value(target: &Target) -> Option<Vec<u8>> {
        target.view_of(Scope::Committed).unwrap().get(b"Tkey").unwrap().map(<[u8]>::to_vec)
    }

    /// A pool in which another process has died ([`crash_in_commit`]). The test with this name starts itself as that
    /// process.
    fn pool_after_crash(test: &str) -> Scratch {
        if let Some(pool) = std::env::var_os(DIE_IN) {
            crash_in_commit(pool.as_ref());
        }
        let pool = Scratch::new(24 << 20, |spec| {
            (spec.targets, spec.durability) = (Some(2), Some(Durability::Commit));
        });
        put(&pool.opened().targets[0], b"Tkey", b"old");
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args([&format!("shard::lock::tests::{test}"), "--exact"])
            .env(DIE_IN, pool.path())
            .status();
        assert!(status.unwrap().success());
        pool
    }

    #[test]
    fn commit_of_dead_process_is_visible_at_once_or_never() {
        let pool = pool_after_crash("commit_of_dead_process_is_visible_at_once_or_never");
        let state = pool.opened();
        let target = &state.targets[0];
        let first = value(target);
        put(target, b"Tother", b"value");
        assert_eq!(first, value(target), "it became visible with the next commit");
        assert_eq!(first.as_deref(), Some(&b"new"[..]));
    }

    /// A process that opens the pool has taken the slot, but has not published the commit yet.
    #[test]
    fn commit_of_dead_process_is_visible_after_its_slot_is_taken() {
        let pool = pool_after_crash("commit_of_dead_process_is_visible_after_its_slot_is_taken");
        let state = pool.opened();
        let target = &state.targets[0];
        let dead = target.last_writer().1;
        let new_process = pool.control_of_other();
        assert!(new_process.try_slot(dead).unwrap() && target.is_alive(dead));
        assert_eq!(value(target).as_deref(), Some(&b"new"[..]));
    }
}
