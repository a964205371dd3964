//! A change of one target's index, under way.
use crate::control::{conflict_slot, container_slot, object_slot, punch_slot};
use crate::io::txn::{Inserted, Txn, WriteTxn};
use crate::keys::{Key, Table, history_key};
use crate::pages::PAGE;
use crate::record::{Record, RecordBytes};
use crate::target::Target;
use esker_types::info::ContainerId;
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

/// What a change did to the index, as a coordinator writes it down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A key got a value.
    Put(Vec<u8>, Vec<u8>),
    /// A key was removed.
    Delete(Vec<u8>),
    /// All keys that begin so were removed: as short for a large object as for a small one.
    DeleteAll(Vec<u8>),
}

/// A transaction with what has to be settled before its commit.
pub(crate) struct Change<'t> {
    target: &'t Target,
    txn: &'t mut WriteTxn,
    /// When this change happens.
    pub(crate) epoch: Epoch,
    /// Bytes that died, by segment.
    dead: SmallVec<[(u32, u64); 4]>,
    /// Slots of the conflict table that change.
    touched: SmallVec<[u32; 8]>,
    /// Newest snapshot of the container looked at last.
    newest_snapshot: Option<(ContainerId, Option<Epoch>)>,
    /// Every step, where a coordinator must be able to repeat them.
    journal: Option<Vec<Step>>,
    changed: bool,
    /// Pages in use before this change, where there are hardly any left.
    tight: Option<u64>,
    /// Records of several pages were put: they may take what is kept free.
    has_large: bool,
    scratch: RecordBytes,
}

/// The part of the index that is kept free so that deletions always find room: one in sixteen pages,
/// 64 at least.
pub(crate) fn reserved_pages(total: u64) -> u64 {
    (total / 16).max(64)
}

/// True where not even deletions can hope for much room, whoever else is done with the index.
pub(super) fn is_full(target: &Target) -> Result<bool> {
    let (used, total) = target.pages(&*target.index.read()?)?;
    Ok(used + reserved_pages(total) / 2 > total)
}

/// True where only deletions still have room.
pub(super) fn is_tight(target: &Target) -> Result<bool> {
    let (used, total) = target.pages(&*target.index.read()?)?;
    Ok(used + reserved_pages(total) > total)
}

fn note_put(journal: &mut Option<Vec<Step>>, key: &[u8], value: &[u8]) {
    if let Some(journal) = journal {
        journal.push(Step::Put(key.to_vec(), value.to_vec()));
    }
}

impl<'t> Change<'t> {
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

    /// Keeps every step for a coordinator.
    pub(crate) fn with_journal(mut self) -> Self {
        self.journal = Some(Vec::new());
        self
    }

    pub(crate) fn target(&self) -> &'t Target {
        self.target
    }

    /// The index as it stands with this change.
    pub(crate) fn txn(&self) -> &Txn {
        self.txn
    }

    /// Sets a key.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.changed = true;
        note_put(&mut self.journal, key, value);
        self.txn.put(key, value)
    }

    /// Removes a key.
    pub(crate) fn delete(&mut self, key: &[u8]) -> Result<bool> {
        self.changed = true;
        if let Some(journal) = &mut self.journal {
            journal.push(Step::Delete(key.to_vec()));
        }
        self.txn.delete(key)
    }

    /// Announces that all keys with a prefix go, one by one, by [`Change::delete_announced`].
    pub(crate) fn announce_removal(&mut self, prefix: &[u8]) {
        if let Some(journal) = &mut self.journal {
            journal.push(Step::DeleteAll(prefix.to_vec()));
        }
    }

    /// Removes a key whose prefix was announced.
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

    /// Sets a key of the data table that is not there yet to a record.
    pub(crate) fn insert_record(
        &mut self,
        key: &[u8],
        record: &Record<'_>,
    ) -> Result<Inserted<'_>> {
        self.scratch.clear();
        record.encode(&key[1..], &mut self.scratch);
        self.changed = true;
        self.has_large |= self.scratch.len() > PAGE;
        let inserted = self.txn.insert(key, &self.scratch)?;
        if let Inserted::Between(..) = inserted {
            note_put(&mut self.journal, key, &self.scratch);
        }
        Ok(inserted)
    }

    /// Announces that the change adds something. Where only deletions still have room it is refused by
    /// [`Change::finish`], unless it finds room on pages that deletions left half empty.
    pub(crate) fn check_room(&mut self) -> Result<()> {
        let (used, total) = self.target.pages(self.txn)?;
        if self.tight.is_none() && used + reserved_pages(total) > total {
            self.tight = Some(used);
        }
        Ok(())
    }

    fn check_growth(&self) -> Result<()> {
        if self.tight.is_none() && !self.has_large {
            return Ok(());
        }
        let (used, total) = self.target.pages(self.txn)?;
        if used <= self.tight.unwrap_or_else(|| total.saturating_sub(reserved_pages(total))) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NoSpace,
            format!(
                "the index of target {} is full: delete something, or make a larger pool",
                self.target.number()
            ),
        ))
    }

    /// Takes a record out of the present: into history where a snapshot shows it, else its bytes die.
    /// The key itself is left to the caller.
    pub(crate) fn retire(
        &mut self,
        container: ContainerId,
        key: &[u8],
        record: &Record<'_>,
    ) -> Result<()> {
        if self.is_in_snapshot(container, record.epoch)? {
            let mut value = RecordBytes::from_slice(&self.epoch.0.to_le_bytes());
            record.encode(&key[1..], &mut value);
            return self.put(&history_key(key, record.epoch), &value);
        }
        self.bury(record);
        Ok(())
    }

    /// Notes that the bytes of a record are dead: a change even where nothing else is one.
    pub(crate) fn bury(&mut self, record: &Record<'_>) {
        let Some((segment, bytes)) = record.holds() else { return };
        self.changed = true;
        match self.dead.iter_mut().find(|(known, _)| *known == segment) {
            Some((_, sum)) => *sum += bytes,
            None => self.dead.push((segment, bytes)),
        }
    }

    /// True where a snapshot shows what was written at `epoch` and has been there since.
    pub(crate) fn is_in_snapshot(&mut self, container: ContainerId, epoch: Epoch) -> Result<bool> {
        Ok(self.newest_snapshot(container)?.is_some_and(|newest| epoch <= newest))
    }

    fn newest_snapshot(&mut self, container: ContainerId) -> Result<Option<Epoch>> {
        if self.target.words().snapshots.load(Ordering::Acquire) == 0 {
            return Ok(None);
        }
        if let Some((_, newest)) = self.newest_snapshot.filter(|(known, _)| *known == container) {
            return Ok(newest);
        }
        let newest = crate::snapshots::newest(self.txn, container)?;
        self.newest_snapshot = Some((container, newest));
        Ok(newest)
    }

    /// Notes for conflict detection that a dkey is about to change.
    pub(crate) fn touch(&mut self, container: ContainerId, oid: ObjectId, dkey: &[u8]) {
        let (object, dkey) = (object_slot(container, oid), conflict_slot(container, oid, dkey));
        self.touched.extend_from_slice(&[container_slot(container), object, dkey]);
    }

    /// Notes for conflict detection that a whole object goes, with all its dkeys.
    pub(crate) fn touch_object(&mut self, container: ContainerId, oid: ObjectId) {
        let (object, punch) = (object_slot(container, oid), punch_slot(container, oid));
        self.touched.extend_from_slice(&[container_slot(container), object, punch]);
    }

    /// Writes down what died and what changed; the last thing before the commit. (A version noted for
    /// a change that is then given up would look like a conflict to all readers until the next one.)
    pub(crate) fn finish(&mut self) -> Result<()> {
        let (words, version) = (self.target.words(), self.txn.id());
        if !self.changed {
            return Ok(());
        }
        self.check_growth()?;
        for slot in self.touched.drain(..) {
            words.conflicts[slot as usize].store(version, Ordering::Release);
        }
        for (segment, bytes) in std::mem::take(&mut self.dead) {
            let key = Key::table(Table::Segment).push(&segment.to_be_bytes());
            let before = self.txn.get(&key)?.map_or(0, crate::segment::collect::dead_bytes);
            self.put(&key, &(before + bytes).to_le_bytes())?;
        }
        Ok(())
    }

    /// The steps, for the coordinator.
    pub(crate) fn into_journal(self) -> Vec<Step> {
        self.journal.unwrap_or_default()
    }

    /// Says of an error whether the transaction it happened in can still be used by others.
    pub(crate) fn failed(&self, error: Error) -> super::group::Failed {
        super::group::Failed { error, spoiled: self.changed }
    }
}
