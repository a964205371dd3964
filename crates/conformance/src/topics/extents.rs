//! A simple model of records, with which array akeys are compared.
use super::store::{Store, refused};
use esker::{Access, Object, Wait};
use esker_types::ops::{AkeyRef, Anchor, Cond, Fetch, FetchReply, Sink, Source, Update, Value};
use esker_types::{ErrorKind, Extent, Result};

/// Fills buffers before they are read into.
pub(super) const UNTOUCHED: u8 = 0xee;

/// Joins runs of adjacent records.
pub(crate) fn joined(extents: impl IntoIterator<Item = Extent>) -> Vec<Extent> {
    let mut runs: Vec<Extent> = Vec::new();
    for extent in extents {
        match runs.last_mut() {
            Some(last) if last.end() == extent.start => last.count += extent.count,
            _ => runs.push(extent),
        }
    }
    runs
}

/// An array akey of the backend, and a simple model of it.
pub(super) struct Twin {
    pub(super) object: Object,
    dkey: Vec<u8>,
    akey: Vec<u8>,
    record_size: u64,
    /// The model: whether each record exists, and the bytes of all records.
    present: Vec<bool>,
    bytes: Vec<u8>,
}

impl Twin {
    /// A new object with an array that has no records yet.
    pub(super) fn new(store: &Store, record_size: u64) -> Result<Self> {
        Self::with_keys(store, record_size, b"d".to_vec(), b"a".to_vec())
    }

    pub(super) fn with_keys(
        store: &Store,
        record_size: u64,
        dkey: Vec<u8>,
        akey: Vec<u8>,
    ) -> Result<Self> {
        let object = store.object()?;
        Ok(Self { object, dkey, akey, record_size, present: Vec::new(), bytes: Vec::new() })
    }

    /// Writes `extents` with the bytes of `data`, which holds them in the same order without gaps.
    pub(super) fn write(&mut self, extents: &[Extent], data: &[u8]) -> Result<()> {
        self.update(Value::Array {
            record_size: self.record_size,
            extents,
            data: Source::One(data),
        })?;
        let mut at = 0;
        for extent in extents {
            let len = (extent.count * self.record_size) as usize;
            self.records_of(*extent, true).copy_from_slice(&data[at..at + len]);
            at += len;
        }
        Ok(())
    }

    /// Punches records in the object and in the model.
    pub(super) fn punch(&mut self, extents: &[Extent]) -> Result<()> {
        self.update(Value::PunchExtents(extents))?;
        for extent in extents {
            self.records_of(*extent, false).fill(UNTOUCHED);
        }
        Ok(())
    }

    /// Updates the array of the backend, but not the model.
    pub(super) fn update(&self, value: Value<'_>) -> Result<()> {
        let update = Update { akey: &self.akey, value, cond: Cond::NONE };
        self.object.update(&self.dkey, Cond::NONE, &[update], Access::Latest).wait()
    }

    /// Sets whether records of the model exist, and returns their bytes, to be changed.
    fn records_of(&mut self, extent: Extent, present: bool) -> &mut [u8] {
        let (start, end) = (extent.start as usize, extent.end() as usize);
        if end > self.present.len() {
            self.present.resize(end, false);
            self.bytes.resize(end * self.record_size as usize, UNTOUCHED);
        }
        self.present[start..end].fill(present);
        &mut self.bytes[start * self.record_size as usize..end * self.record_size as usize]
    }

    /// Compares everything that the backend reports about the array with the model.
    #[track_caller]
    pub(super) fn compare(&self) -> Result<()> {
        self.compare_part(&[Extent::new(0, self.present.len() as u64 + 3)])?;
        assert_eq!(self.listed(2)?, self.runs(Extent::new(0, u64::MAX)), "extents listed");
        Ok(())
    }

    /// Compares some of the records with the model.
    #[track_caller]
    pub(super) fn compare_part(&self, extents: &[Extent]) -> Result<()> {
        let records: u64 = extents.iter().map(|extent| extent.count).sum();
        let mut buffer = vec![UNTOUCHED; (records * self.record_size) as usize];
        let cut = buffer.len() / 3;
        let (head, tail) = buffer.split_at_mut(cut);
        let sink = Sink::Many(vec![head, tail]);
        let mut fetch = Fetch::array(&self.akey, 0, extents, sink);
        fetch.request.want_filled = true;
        let fetches = std::slice::from_mut(&mut fetch);
        self.object.fetch(&self.dkey, Cond::NONE, fetches, Access::Latest).wait()?;
        let FetchReply { size, filled, filled_bytes, .. } = fetch.reply;
        let exists = self.present.contains(&true);
        assert_eq!(size, if exists { self.record_size } else { 0 }, "record size");
        let expected = extents.iter().flat_map(|extent| self.runs(*extent));
        assert_eq!(joined(filled), joined(expected), "records found in {extents:?}");
        assert_eq!(filled_bytes, self.filled_bytes(extents), "bytes filled of {extents:?}");
        let expected: Vec<u8> = extents.iter().flat_map(|extent| self.content(*extent)).collect();
        let wrong = buffer.iter().zip(&expected).position(|(found, wanted)| found != wanted);
        assert_eq!(wrong, None, "first wrong byte in {extents:?}");
        Ok(())
    }

    /// Runs of existing records inside `extent`.
    fn runs(&self, extent: Extent) -> Vec<Extent> {
        let end = extent.end().min(self.present.len() as u64);
        let inside = (extent.start..end).filter(|record| self.present[*record as usize]);
        joined(inside.map(|record| Extent::new(record, 1)))
    }

    /// Bytes from the begin of the buffer to the end of the last record that a fetch of these extents finds.
    fn filled_bytes(&self, extents: &[Extent]) -> u64 {
        let (mut at, mut filled) = (0, 0);
        for extent in extents {
            if let Some(last) = self.runs(*extent).last() {
                filled = at + (last.end() - extent.start) * self.record_size;
            }
            at += extent.count * self.record_size;
        }
        filled
    }

    /// The buffer after a fetch of this extent: records that do not exist leave it unchanged.
    fn content(&self, extent: Extent) -> Vec<u8> {
        let size = self.record_size as usize;
        let mut bytes = vec![UNTOUCHED; extent.count as usize * size];
        for run in self.runs(extent) {
            let from = run.start as usize * size;
            let to = (run.start - extent.start) as usize * size;
            let len = run.count as usize * size;
            bytes[to..to + len].copy_from_slice(&self.bytes[from..from + len]);
        }
        bytes
    }

    /// The extents, listed in steps of `entries`.
    fn listed(&self, entries: usize) -> Result<Vec<Extent>> {
        let mut all = Vec::new();
        let mut anchor = Anchor::Start;
        let key = AkeyRef { dkey: &self.dkey, akey: &self.akey };
        while !anchor.is_end() {
            let list = self.object.list_extents(key, &mut anchor, entries, Access::Latest);
            for stored in list.wait()? {
                assert_eq!(stored.record_size, self.record_size);
                assert!(stored.epoch.0 > 0, "an extent has an epoch");
                all.push(stored.extent);
            }
        }
        Ok(joined(all))
    }

    /// Fetches one record into `len` bytes, expecting records of `size` bytes. Returns the result, and the record size
    /// in the reply.
    pub(super) fn fetch_sized(&self, size: u64, len: usize) -> (Result<()>, u64) {
        let mut buffer = vec![UNTOUCHED; len];
        let extents = [Extent::new(0, 1)];
        let mut fetch = Fetch::array(&self.akey, size, &extents, Sink::One(&mut buffer));
        let fetches = std::slice::from_mut(&mut fetch);
        let result = self.object.fetch(&self.dkey, Cond::NONE, fetches, Access::Latest).wait();
        (result, fetch.reply.size)
    }

    /// Fails the test unless the backend refuses an update with this kind of error.
    #[track_caller]
    pub(super) fn refuses(&self, value: Value<'_>, kind: ErrorKind) {
        refused(self.update(value), kind);
    }
}
