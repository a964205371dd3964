//! Conditions for puts in the write buffer of a target, and their application in a transaction.
use super::change::{Change, headroom_pages, note_versions};
use super::extents::{Extents, fits_between};
use super::lock::WriteLock;
use super::{Target, group};
use crate::data::redo_log::Batch;
use crate::format::keys::{DataKey, Key, Table, is_kv};
use crate::format::record::Record;
use crate::index::entries::exists;
use crate::index::txn::{Txn, WriteTxn};
use crate::shared::control::TouchedSlots;
use crate::shared::write_buffer::{LockedBuffer, Published, Put};
use esker_types::{Epoch, Extent, ObjectId, Result};

/// Maximum number of free pages of the index that a put may need when it is committed: those from the root to a leaf,
/// another leaf for the old value if a snapshot needs it, and pages that split.
const PAGES_PER_PUT: u64 = 8;

/// Approximate number of small values in a full write buffer.
const PUTS_WHEN_FULL: u64 = 400;

/// Maximum length of a key and of a record in the write buffer, in bytes.
const KEY_MAX: usize = 1024;
const RECORD_MAX: usize = 2048;

/// A put of one record, which the write buffer may accept.
pub(crate) struct SinglePut<'w> {
    /// Slots of the conflict table that the put changes.
    pub(crate) slots: TouchedSlots,
    /// Prefix of the akey in the data table.
    pub(crate) akey: &'w Key,
    pub(crate) kind: Kind,
}

/// Kind of a put, and its condition for the write buffer.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// A single value of a Key-Value. There is no condition.
    Value,
    /// A single value of another object. The dkey must not exist.
    First,
    /// An extent of an array. It must not overlap another extent or, if it is the first one, the dkey must not exist.
    Extent {
        /// Indices of the records.
        extent: Extent,
        /// Bytes of a record.
        record_size: u32,
        /// True if the dkey must not exist.
        is_first: bool,
    },
}

impl SinglePut<'_> {
    /// Key of the put in the data table.
    pub(crate) fn key(&self) -> Key {
        match self.kind {
            Kind::Value | Kind::First => self.akey.single(),
            Kind::Extent { extent, .. } => self.akey.extent(extent.start),
        }
    }

    /// Bytes of a record of an array; `None` for a single value.
    pub(crate) fn record_size(&self) -> Option<u32> {
        match self.kind {
            Kind::Value | Kind::First => None,
            Kind::Extent { record_size, .. } => Some(record_size),
        }
    }

    /// Number of array records; zero for a single value.
    fn count(&self) -> u32 {
        match self.kind {
            Kind::Value | Kind::First => 0,
            Kind::Extent { extent, .. } => extent.count as u32,
        }
    }

    /// True if the put does not conflict with the index or the puts in the write buffer.
    fn has_no_conflict(&self, buffer: &OpenBuffer<'_, '_>) -> Result<bool> {
        let (puts, committed) = (buffer.buffer.appended(), buffer.committed);
        match self.kind {
            Kind::Value => Ok(true),
            // Each buffered put has changed the version of its dkey, whose slot is the last one.
            Kind::First | Kind::Extent { is_first: true, .. } => {
                let may_be_buffered = |puts| buffer.target.may_have_put(&puts, self.slots[2]);
                Ok(!puts.is_some_and(may_be_buffered) && self.is_first(committed)?)
            }
            Kind::Extent { extent, record_size, .. } => {
                Ok(self.fits_beside_buffered(puts, extent, record_size)?
                    && fits_between(committed, self.akey, extent, record_size)?)
            }
        }
    }

    /// True if the index has no value under the dkey.
    fn is_first(&self, txn: &Txn) -> Result<bool> {
        let key = self.akey.single();
        exists(txn, DataKey::parse(&key)?.dkey_prefix()).map(|exists| !exists)
    }

    /// True if an extent overlaps none in the buffer, and the akey has no buffered value of another kind or record
    /// size.
    fn fits_beside_buffered(
        &self,
        puts: Option<Published<'_>>,
        extent: Extent,
        record_size: u32,
    ) -> Result<bool> {
        let Some(puts) = puts else { return Ok(true) };
        let name = self.akey.array();
        let overlaps = puts.extents(&name)?.iter().any(|it| it.intersect(extent).is_some());
        if overlaps || puts.has(&self.akey.single())? {
            return Ok(false);
        }
        let Some(last) = puts.last(&name)? else { return Ok(true) };
        let (record, key) = (last.record(), self.akey.extent(last.extent().start));
        Ok(Record::decode(&key[1..], &record).is_ok_and(|it| it.record_size == record_size))
    }
}

/// The write buffer of a target whose write lock is held, on top of the last commit.
pub(crate) struct OpenBuffer<'l, 't> {
    target: &'t Target,
    committed: &'l Txn,
    buffer: LockedBuffer<'t>,
    /// Entries of the redo log. If the pool has none, puts are published at once.
    log: Option<&'l mut Batch>,
}

impl OpenBuffer<'_, '_> {
    /// True if the last commit of the index has data under the dkey with this prefix. No buffered put removes it.
    pub(crate) fn is_committed(&self, dkey: &Key) -> Result<bool> {
        exists(self.committed, dkey)
    }

    /// Appends a put with its key and record. Returns false, and appends nothing, if the buffer cannot accept the put.
    /// The caller then commits it to the index.
    pub(crate) fn append(
        &mut self,
        put: &SinglePut<'_>,
        key: &[u8],
        record: &[u8],
    ) -> Result<bool> {
        let entry = Put { key, record, count: put.count() };
        let fits =
            key.len() <= KEY_MAX && record.len() <= RECORD_MAX && self.buffer.has_room(&entry)?;
        if !fits || !put.has_no_conflict(self)? {
            return Ok(false);
        }
        // The versions are stored as in a commit, so that a transaction detects that the put changes something it has
        // read.
        note_versions(self.target, self.buffer.version_of(&entry), &put.slots);
        if self.target.expect_no_leases(&put.slots).is_err() {
            return Ok(false);
        }
        self.buffer.append(&entry)?;
        match &mut self.log {
            Some(log) => log.add(&entry),
            None => self.buffer.publish(),
        }
        Ok(true)
    }
}

/// Puts of threads of this process that share a sync of the redo log. The transaction holds the write lock.
pub(crate) struct PutBatch {
    txn: WriteTxn,
    /// `None` if the write buffer accepts no puts.
    entries: Option<Batch>,
}

impl PutBatch {
    /// The write buffer, if it accepts puts.
    fn open<'l, 't>(&'l mut self, target: &'t Target) -> Result<Option<OpenBuffer<'l, 't>>> {
        let (committed, last) = (&*self.txn, self.txn.id() - 1);
        let (Some(buffer), Some(log)) = (target.write_buffer(), &mut self.entries) else {
            return Ok(None);
        };
        let buffer = LockedBuffer::locked_before(buffer, last)?;
        Ok(Some(OpenBuffer { target, committed, buffer, log: Some(log) }))
    }
}

impl Target {
    /// Calls `append` with the write buffer, if that accepts puts. A put for which it returns an epoch is visible when
    /// this function returns, and on the medium if commits are synced. `None` if there is no such put.
    pub(crate) fn put(
        &self,
        mut append: impl FnMut(&mut OpenBuffer<'_, '_>) -> Result<Option<Epoch>>,
    ) -> Result<Option<Epoch>> {
        if self.is_durable() {
            let mut done = None;
            group::put(self, &mut |batch| {
                done = batch.open(self)?.map_or(Ok(None), |mut buffer| append(&mut buffer))?;
                Ok(done.unwrap_or_default())
            })?;
            return Ok(done);
        }
        let lock = self.lock_in_doubt()?;
        let Some(buffer) = lock.ready_buffer()? else { return Ok(None) };
        let committed = lock.committed();
        append(&mut OpenBuffer { target: self, committed, buffer, log: None })
    }

    /// Takes the write lock for a batch of puts.
    pub(super) fn begin_puts(&self) -> Result<PutBatch> {
        let lock = self.lock_in_doubt()?;
        let buffer = lock.ready_buffer()?;
        let entries = buffer.map(|buffer| Batch::behind(buffer.base(), buffer.size()));
        Ok(PutBatch { txn: lock.into_txn(), entries })
    }

    /// Stores the entries of a batch in the redo log, with the data of the puts, and publishes the puts. If that fails,
    /// they are never visible: the next owner of the write lock freezes the buffer. As the entries may be in the log,
    /// a commit notes that they are not loaded after a restart of the machine.
    pub(super) fn end_puts(&self, PutBatch { txn, entries }: PutBatch) -> Result<()> {
        let entries = entries.filter(|entries| !entries.is_empty());
        let (Some(entries), Some(buffer)) = (entries, self.write_buffer()) else { return Ok(()) };
        if let Err(error) = self.data.log(entries) {
            drop(txn);
            // If this fails too, the next commit or flush does it.
            let _ = self.flush_if_fits();
            return Err(error);
        }
        LockedBuffer::locked_before(buffer, txn.id() - 1)?.publish();
        Ok(())
    }
}

/// Key of a value that exists if a Key-Value object has an array. A single value in the same object must be refused,
/// which needs a lookup in the index. So the write buffer accepts no puts then.
fn arrays_key() -> Key {
    Key::table(Table::Arrays)
}

/// Records that a Key-Value object has an array, if the pool has write buffers.
pub(crate) fn note_array(change: &mut Change<'_>, oid: ObjectId) -> Result<()> {
    let concerns = change.target().has_write_buffer() && is_kv(oid);
    match concerns && change.txn().get(&arrays_key())?.is_none() {
        true => change.put(&arrays_key(), &[]),
        false => Ok(()),
    }
}

impl Target {
    /// Number of pages that should be free in an index of `total` pages, so that the write buffer can become full. At
    /// most a quarter.
    pub(crate) fn pages_for_buffer(&self, total: u64) -> u64 {
        match self.has_write_buffer() {
            true => (headroom_pages(total) + 2 * PUTS_WHEN_FULL * PAGES_PER_PUT).min(total / 4),
            false => 0,
        }
    }
}

impl<'t> WriteLock<'t> {
    /// The write buffer, after it was moved on top of the last commit if necessary; `None` if there is no write buffer
    /// or if the target is in doubt. If Key-Values have arrays, the moved buffer has space for no puts.
    fn ready_buffer(&self) -> Result<Option<LockedBuffer<'t>>> {
        let Some(mut buffer) = self.buffer.filter(|_| !self.target().is_in_doubt()) else {
            return Ok(None);
        };
        if !buffer.is_live() {
            // Values are buffered without a check for an array under the same akey. So if Key-Values have arrays,
            // nothing is buffered.
            let has_arrays = self.committed().get(&arrays_key())?.is_some();
            buffer.restart(if has_arrays { 0 } else { self.fitting_put_count(PAGES_PER_PUT)? });
        }
        Ok(Some(buffer))
    }
}

impl Change<'_> {
    /// Stores a buffered put in the index, at the epoch of its record.
    pub(super) fn apply_buffered(&mut self, put: &Put<'_>) -> Result<()> {
        let parts = DataKey::parse(put.key)?;
        self.epoch = Record::epoch_of(put.record)?;
        match parts.start.filter(|_| Record::is_inline(put.record)) {
            // An extent is joined with adjacent ones.
            Some(start) => {
                let record = Record::decode(parts.body(), put.record)?;
                let extent = Extent::new(start, record.count);
                let mut array = Extents { change: self, container: parts.container() };
                array.insert(&parts.akey_in_data(), extent, &record)
            }
            None => self.replace_encoded(parts.container(), put.key, put.record),
        }
    }
}
