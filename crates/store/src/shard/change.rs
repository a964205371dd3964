//! Change of the index of one target.
use super::Target;
use super::read_leases::retry_after_leases;
use crate::format::keys::{Key, Table, history_key};
use crate::format::record::{Record, RecordBytes};
use crate::format::superblock::PAGE;
use crate::index::txn::{Inserted, Txn, WriteTxn};
use crate::shared::control::{container_slot, object_slot, punch_slot, touched_slots};
use crate::shared::read_version::Version;
use esker_types::info::ContainerId;
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// An edit of an index, as recorded for a coordinator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexEdit {
    /// A key was set to a value.
    Put(Vec<u8>, Vec<u8>),
    /// A key was removed.
    Delete(Vec<u8>),
    /// All keys with this prefix were removed. The edit is as short for a large object as for a small one.
    DeleteAll(Vec<u8>),
}

/// A write transaction with the bookkeeping that its commit requires.
pub(crate) struct Change<'t> {
    target: &'t Target,
    txn: &'t mut WriteTxn,
    /// Epoch of the change.
    pub(crate) epoch: Epoch,
    /// Bytes that become dead, by segment.
    dead: SmallVec<[(u32, u64); 4]>,
    /// Slots of the conflict table that the change touches.
    touched: SmallVec<[u32; 8]>,
    /// The container that was looked up last, and its newest snapshot.
    newest_snapshot: Option<(ContainerId, Option<Epoch>)>,
    /// All edits, if a coordinator must be able to repeat them.
    journal: Option<Vec<IndexEdit>>,
    changed: bool,
    /// Number of pages in use before this change, if only the headroom is left.
    tight: Option<u64>,
    /// True if the change has put records of several pages or history, which may use up the headroom.
    has_large: bool,
    scratch: RecordBytes,
}

/// Headroom of an index of `total` pages, in pages. It is kept free so that deletions always find space: one in sixteen
/// pages, at least 64.
pub(crate) fn headroom_pages(total: u64) -> u64 {
    (total / 16).max(64)
}

/// True if even deletions may not find space after readers have finished.
fn is_full(target: &Target) -> Result<bool> {
    let (used, total) = target.pages(&*target.index.read()?)?;
    Ok(used + headroom_pages(total) / 2 > total)
}

/// True if part of the headroom of the index is used, so that only deletions find space.
fn is_tight(target: &Target) -> Result<bool> {
    let (used, total) = target.pages(&*target.index.read()?)?;
    Ok(used + headroom_pages(total) > total)
}

/// Adds a put to the journal, if there is one.
fn note_put(journal: &mut Option<Vec<IndexEdit>>, key: &[u8], value: &[u8]) {
    if let Some(journal) = journal {
        journal.push(IndexEdit::Put(key.to_vec(), value.to_vec()));
    }
}

impl<'t> Change<'t> {
    /// An empty change at `epoch`, in an open transaction of the target.
    pub(crate) fn new(target: &'t Target, txn: &'t mut WriteTxn, epoch: Epoch) -> Self {
        Self {
            target,
            txn,
            epoch,
            dead: SmallVec::new(),
            touched: SmallVec::new(),
            newest_snapshot: None,
            journal: None,
            changed: false,
            tight: None,
            has_large: false,
            scratch: RecordBytes::new(),
        }
    }

    /// Makes the change record all its edits, which [`Change::into_journal`] returns to the coordinator.
    pub(crate) fn with_journal(mut self) -> Self {
        self.journal = Some(Vec::new());
        self
    }

    pub(crate) fn target(&self) -> &'t Target {
        self.target
    }

    /// The index, including the edits of this change so far.
    pub(crate) fn txn(&self) -> &Txn {
        self.txn
    }

    /// Sets the value of a key in the index, and records the edit if the change has a journal.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.changed = true;
        note_put(&mut self.journal, key, value);
        self.txn.put(key, value)
    }

    /// Removes a key from the index, and records the edit if the change has a journal. Returns false if the key did not
    /// exist.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.changed = true;
        if let Some(journal) = &mut self.journal {
            journal.push(IndexEdit::Delete(key.to_vec()));
        }
        self.txn.delete(key)
    }

    /// Records that all keys with a prefix are about to be removed, one by one, with [`Change::delete_announced`].
    pub(crate) fn announce_removal(&mut self, prefix: &[u8]) {
        if let Some(journal) = &mut self.journal {
            journal.push(IndexEdit::DeleteAll(prefix.to_vec()));
        }
    }

    /// Removes a key with an announced prefix. Returns false if the key did not exist.
    pub(crate) fn delete_announced(&mut self, key: &[u8]) -> Result<bool> {
        self.changed = true;
        self.txn.delete(key)
    }

    /// Sets a key of the data table to a record.
    pub(crate) fn put_record(&mut self, key: &[u8], record: &Record<'_>) -> Result<()> {
        self.scratch.clear();
        record.encode(&key[1..], &mut self.scratch);
        self.changed = true;
        self.has_large |= self.scratch.len() > PAGE;
        note_put(&mut self.journal, key, &self.scratch);
        self.txn.put(key, &self.scratch)
    }

    /// Inserts a record in the data table; an existing one is not changed.
    pub(crate) fn insert_record(
        &mut self,
        key: &[u8],
        record: &Record<'_>,
    ) -> Result<Inserted<'_>> {
        self.scratch.clear();
        record.encode(&key[1..], &mut self.scratch);
        self.changed = true;
        self.has_large |= self.scratch.len() > PAGE;
        let inserted = self.txn.insert_between(key, &self.scratch)?;
        if let Inserted::Between(..) = inserted {
            note_put(&mut self.journal, key, &self.scratch);
        }
        Ok(inserted)
    }

    /// Replaces the record that prevented the last insertion by the record of that insertion, which is still encoded in
    /// `scratch`. `old` is the record that is replaced.
    pub(crate) fn replace_inserted(
        &mut self,
        container: ContainerId,
        key: &Key,
        old: &Record<'_>,
    ) -> Result<()> {
        self.retire(container, key, old)?;
        note_put(&mut self.journal, key, &self.scratch);
        self.txn.put(key, &self.scratch)
    }

    /// Declares that the change adds data. If only the headroom is left, [`Change::finish`] fails, unless the data fits
    /// on pages that deletions left partly empty.
    ///
    /// # Errors
    /// `NoSpace` if readers of old states hold back all pages but those for removals.
    pub(crate) fn check_room(&mut self) -> Result<()> {
        self.target.check_usable_pages(self.txn)?;
        let (used, total) = self.target.pages(self.txn)?;
        if self.tight.is_none() && used + headroom_pages(total) > total {
            self.tight = Some(used);
        }
        Ok(())
    }

    /// Number of pages of the headroom; `None` if part of it is used, so that only deletions find space.
    pub(crate) fn untouched_headroom(&self) -> Result<Option<u64>> {
        let (used, total) = self.target.pages(self.txn)?;
        let headroom = headroom_pages(total);
        Ok((used + headroom <= total).then_some(headroom))
    }

    /// Fails if the change uses pages of the headroom, although it adds data ([`Change::check_room`]) or has values on
    /// pages of their own.
    fn check_growth(&self) -> Result<()> {
        if self.tight.is_none() && !self.has_large {
            return Ok(());
        }
        let (used, total) = self.target.pages(self.txn)?;
        if used <= self.tight.unwrap_or_else(|| total.saturating_sub(headroom_pages(total))) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NoSpace,
            format!(
                "the index of target {} is full: destroy snapshots, delete something, or make a larger pool",
                self.target.number()
            ),
        ))
    }

    /// Sets a key of the data table to an encoded record of this epoch, and retires the old record. An old record that
    /// is not older remains.
    pub(super) fn replace_encoded(
        &mut self,
        container: ContainerId,
        key: &[u8],
        record: &[u8],
    ) -> Result<()> {
        self.changed = true;
        let Some(old) = self.txn.insert(key, record)? else { return Ok(()) };
        let old = RecordBytes::from_slice(old);
        match Record::decode(&key[1..], &old) {
            Ok(old) if old.epoch >= self.epoch => return Ok(()),
            Ok(old) => self.retire(container, key, &old)?,
            // The epoch of a damaged record is unknown, so the record is replaced.
            Err(_) => {}
        }
        self.txn.put(key, record)
    }

    /// Retires a record: if a snapshot contains it, it moves to history. Otherwise, its bytes become dead. The caller
    /// removes or replaces the key.
    pub(crate) fn retire(
        &mut self,
        container: ContainerId,
        key: &[u8],
        record: &Record<'_>,
    ) -> Result<()> {
        if self.is_in_snapshot(container, record.epoch)? {
            self.check_room()?;
            self.has_large = true;
            let mut value = RecordBytes::from_slice(&self.epoch.0.to_le_bytes());
            record.encode(&key[1..], &mut value);
            return self.put(&history_key(key, record.epoch), &value);
        }
        self.count_dead(record);
        Ok(())
    }

    /// Counts the bytes of a record as dead. This alone makes a commit necessary.
    pub(crate) fn count_dead(&mut self, record: &Record<'_>) {
        let Some((segment, bytes)) = record.segment_use() else { return };
        self.changed = true;
        match self.dead.iter_mut().find(|(known, _)| *known == segment) {
            Some((_, sum)) => *sum += bytes,
            None => self.dead.push((segment, bytes)),
        }
    }

    /// True if a snapshot contains a current record that was written at `epoch`.
    pub(crate) fn is_in_snapshot(&mut self, container: ContainerId, epoch: Epoch) -> Result<bool> {
        Ok(self.newest_snapshot(container)?.is_some_and(|newest| epoch <= newest))
    }

    /// Newest snapshot of a container; `None` if it has no snapshots. That of the last container is cached.
    fn newest_snapshot(&mut self, container: ContainerId) -> Result<Option<Epoch>> {
        if !self.target.shared().may_have_snapshots() {
            return Ok(None);
        }
        if let Some((_, newest)) = self.newest_snapshot.filter(|(known, _)| *known == container) {
            return Ok(newest);
        }
        let newest = super::snapshots::newest(self.txn, container)?;
        self.newest_snapshot = Some((container, newest));
        Ok(newest)
    }

    /// Records for conflict detection that a dkey changes.
    pub(crate) fn touch(&mut self, container: ContainerId, oid: ObjectId, dkey: &[u8]) {
        self.touched.extend_from_slice(&touched_slots(container, oid, dkey));
    }

    /// Records for conflict detection that an object is removed with all its dkeys.
    pub(crate) fn touch_object(&mut self, container: ContainerId, oid: ObjectId) {
        let (object, punch) = (object_slot(container, oid), punch_slot(container, oid));
        self.touched.extend_from_slice(&[container_slot(container), object, punch]);
    }

    /// Stores dead bytes and the versions of changed slots. It is the last step before the commit: the
    /// version of an aborted change looks like a conflict to all readers until the next change.
    pub(crate) fn finish(&mut self) -> Result<()> {
        if !self.changed {
            return Ok(());
        }
        self.check_growth()?;
        let touched = std::mem::take(&mut self.touched);
        note_versions(self.target, Version::committed(self.txn.id()), &touched);
        self.target.expect_no_leases(&touched)?;
        self.store_dead_bytes()
    }

    /// Variant of [`Change::finish`] for a change that is applied later from its journal. Returns the slots of the
    /// conflict table that change then.
    pub(crate) fn finish_prepared(&mut self) -> Result<Vec<u32>> {
        self.check_growth()?;
        self.store_dead_bytes()?;
        Ok(std::mem::take(&mut self.touched).into_vec())
    }

    /// Adds the new dead bytes to the counts in the index.
    pub(super) fn store_dead_bytes(&mut self) -> Result<()> {
        for (segment, bytes) in std::mem::take(&mut self.dead) {
            let key = Key::table(Table::Segment).push(&segment.to_be_bytes());
            let before = self.txn.get(&key)?.map_or(0, super::segment::collect::dead_bytes);
            self.put(&key, &(before + bytes).to_le_bytes())?;
        }
        Ok(())
    }

    /// True if there are edits to commit.
    pub(crate) fn is_changed(&self) -> bool {
        self.changed
    }

    /// The recorded edits, for the coordinator; empty without a journal.
    pub(crate) fn into_journal(self) -> Vec<IndexEdit> {
        self.journal.unwrap_or_default()
    }

    /// Adds to an error whether the transaction already contains edits of this change.
    pub(crate) fn to_failed(&self, error: Error) -> super::group::Failed {
        super::group::Failed { error, spoiled: self.changed }
    }
}

/// Stores `version` in slots of the conflict table. Call it before the change becomes visible.
pub(crate) fn note_versions(target: &Target, version: Version, slots: &[u32]) {
    let atomics = target.shared();
    for slot in slots {
        atomics.conflicts()[*slot as usize].store(version.0, Ordering::Release);
    }
}

/// Maximum number of retries after `NoSpace`. With each, the index grows by twice as much.
const RETRIES: u32 = 12;

/// Runs `work` and repeats it after `NoSpace`, as long as `help` frees space on a target and returns true. `help` also
/// gets the number of the retry. `work` is repeated at least once, since another process may just have freed space.
fn retry<T>(
    targets: &[&Target],
    help: impl Fn(&Target, u32) -> Result<bool>,
    mut work: impl FnMut() -> Result<T>,
) -> Result<T> {
    for retry in 0..RETRIES {
        match work() {
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                let mut moved = retry == 0;
                for target in targets {
                    moved |= help(target, retry)?;
                }
                if !moved {
                    return Err(error);
                }
            }
            result => return result,
        }
    }
    work()
}

/// Runs `work`, which changes the indexes of targets. If it fails with `NoSpace`, frees space and repeats it.
pub(crate) fn with_room<T>(targets: &[&Target], work: impl FnMut() -> Result<T>) -> Result<T> {
    let help = |target: &Target, retry: u32| {
        if target.is_limited_by_readers(&*target.index.read()?)? {
            // Freeing space would use the pages for removals, and no reusable page would result.
            return target.index.wait_for_readers();
        }
        let returned = target.return_pages()?;
        // Each retry asks for twice as many blocks.
        if (retry > 0 || is_tight(target)?) && target.grow_index(2 << retry, true)? {
            return Ok(true);
        }
        let waited = !is_full(target)? && target.index.wait_for_readers()?;
        Ok(returned || waited)
    };
    retry(targets, help, work)
}

impl Target {
    /// Runs `work` in a write transaction of its own, and commits.
    pub(crate) fn change<T>(
        &self,
        mut work: impl FnMut(&mut Change<'_>) -> Result<T>,
    ) -> Result<T> {
        self.with_room(|| {
            let mut txn = self.begin_write()?;
            let epoch = self.control.next_epoch();
            let mut change = Change::new(self, &mut txn, epoch);
            let result = work(&mut change)?;
            change.finish()?;
            txn.commit()?;
            Ok(result)
        })
    }

    /// Runs `work`, which changes the index. If it fails with `NoSpace`, frees space and repeats it.
    pub(crate) fn with_room<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        retry_after_leases(|| with_room(&[self], &mut work))
    }

    /// Runs `work`, which writes to segments. If it fails with `NoSpace`, repeats it once, since the segments that it
    /// filled can be compacted by then.
    pub(crate) fn with_segments<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        match work() {
            Err(error) if error.kind() == ErrorKind::NoSpace => work(),
            result => result,
        }
    }
}
