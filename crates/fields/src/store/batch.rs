//! Batches of field numbers that writers reserve.
//!
//! A writer has a lease on the marker of each batch until its fields are in an index. Two kinds of pools do not tell
//! for certain that a writer is dead: those that do not show the leases of other processes, and those over nodes, whose
//! leases end with a connection. There the marker also stores when the batch was reserved. A purge removes that record
//! before it looks for unflushed fields. A flush reads it in its transaction, unless its lease is certain, so that it fails
//! if a purge may have removed its fields.
use super::{FieldStore, damaged_catalogue_error, fetch_many, layout, put, read_short};
use crate::limits::{MARKERS_MAX, UNFLUSHED_SECONDS};
use esker::{Access, Object, Wait, side_by_side, task};
use esker_types::ops::Cond;
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

/// Dkey of a marker.
const TIMES: &[u8] = b"times";
/// Akey of the time at which a writer reserved the batch.
const RESERVED: &[u8] = b"reserved";
/// Akey of the time at which a purge found a batch without a time. Earlier releases stored none.
const FOUND: &[u8] = b"found";

/// The batches of a flush, by their first numbers: losses of the lease on the marker when the batch was reserved.
pub(super) type Batches = BTreeMap<u64, u64>;

/// A batch of field numbers that a writer reserved.
pub(super) struct Batch {
    pub(super) akey: Vec<u8>,
    pub(super) first: u64,
    pub(super) count: u64,
}

impl Batch {
    /// Parses an entry of the catalogue; `None` if it is not an entry of a writer.
    pub(super) fn parse(akey: Vec<u8>, count: &[u8]) -> Option<Self> {
        let first = u64::from_be_bytes(akey.as_slice().try_into().ok()?);
        let count = u64::from_le_bytes(count.try_into().ok()?);
        let fits = count <= layout::NUMBERS && first.checked_add(count).is_some();
        fits.then_some(Self { akey, first, count })
    }
}

/// Now, in seconds since 1970.
pub(super) fn now_seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl FieldStore {
    /// True if markers store times.
    fn has_times(&self) -> bool {
        let capabilities = self.container().capabilities();
        capabilities.asynchronous || !capabilities.shared_leases
    }

    /// Records that this process reserves a batch now.
    pub(super) fn record_batch(&self, first: u64) -> Result<()> {
        match self.has_times() {
            true => self.record_time(&self.marker(first)?, RESERVED),
            false => Ok(()),
        }
    }

    /// Stores the current time under an akey of a marker.
    fn record_time(&self, marker: &Object, akey: &[u8]) -> Result<()> {
        let now = now_seconds().to_le_bytes();
        marker.update(TIMES, Cond::NONE, &[put(akey, &now)], Access::Latest).wait()
    }

    /// False if a purge may have removed unflushed fields of these batches. A flush checks this in its transaction. On
    /// pools that show the leases of other processes, it reads only the markers whose lease was lost since the batch was
    /// reserved.
    pub(super) fn has_batches(&self, batches: &Batches, access: Access<'_>) -> Result<bool> {
        let is_sure = self.container().capabilities().shared_leases;
        let mut markers = Vec::new();
        for (first, losses) in batches {
            let marker = self.marker(*first)?;
            if !is_sure || self.container().lease_losses(marker.oid()) != *losses {
                markers.push(marker);
            }
        }
        let read =
            async |marker| read_short(marker, TIMES, &[RESERVED], size_of::<u64>(), access).await;
        let reads = markers.iter().map(|marker| task(read(marker)));
        let times = side_by_side(reads.collect(), MARKERS_MAX).wait();
        let times = times.into_iter().collect::<Result<Vec<_>>>()?;
        Ok(times.iter().flatten().all(Option::is_some))
    }

    /// True if the writer of a batch has ended. On pools that do not show the leases of other processes, it counts as
    /// ended [`UNFLUSHED_SECONDS`] after it reserved the batch. With `doit`, records when a batch without a time was
    /// found.
    pub(super) fn is_dead(&self, batch: &Batch, doit: bool) -> Result<bool> {
        let marker = self.marker(batch.first)?;
        if is_held(&marker)? {
            return Ok(false);
        }
        if self.container().capabilities().shared_leases {
            return Ok(true);
        }
        let times = fetch_many(&marker, TIMES, &[RESERVED, FOUND], Access::Latest)?;
        match times.into_iter().flatten().next() {
            Some(time) => {
                let time = time.try_into().map_err(|_| damaged_catalogue_error())?;
                Ok(now_seconds().saturating_sub(u64::from_le_bytes(time)) >= UNFLUSHED_SECONDS)
            }
            None if doit => self.record_time(&marker, FOUND).map(|()| false),
            None => Ok(false),
        }
    }

    /// Makes later flushes of fields of a batch fail. Fields that are in no index after this never will be.
    pub(super) fn end_flushes(&self, batch: &Batch) -> Result<()> {
        if !self.has_times() {
            return Ok(());
        }
        let marker = self.marker(batch.first)?;
        self.atomically(|transaction| {
            marker.punch_akeys(TIMES, &[RESERVED], Cond::NONE, Access::Tx(transaction)).wait()
        })
    }

    /// Forgets a batch whose unflushed fields are gone.
    pub(super) fn forget(&self, batch: &Batch) -> Result<()> {
        if self.has_times() {
            self.marker(batch.first)?.punch(Cond::NONE, Access::Latest).wait()?;
        }
        let catalogue = self.catalogue();
        catalogue.punch_akeys(layout::WRITERS, &[&batch.akey], Cond::NONE, Access::Latest).wait()
    }
}

/// True if a process has a lease on a marker. Marking it to be unlinked on last close only reveals leases: what it
/// stores is removed by a purge.
fn is_held(marker: &Object) -> Result<bool> {
    marker.unlink_on_last_close().wait()
}

#[cold]
pub(super) fn purged_error() -> Error {
    let text = "fields that were archived since the last flush are lost: a purge of the store took this writer for \
                dead and removed them, or this flush had succeeded before and others have removed its fields since; \
                archive them again, and flush";
    Error::new(ErrorKind::DataLoss, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::purge::{Purged, tests::purge};
    use crate::{FieldWriter, Key, Schema};
    use esker::{Pool, PosixPool};
    use esker_types::info::OpenMode;
    use std::path::PathBuf;

    /// A pool of plain files, which does not show the leases of other processes. Each opening of it counts as a process.
    struct Place(PathBuf);

    impl Place {
        /// A new pool with an empty store.
        fn new(name: &str) -> (Self, FieldStore) {
            let name = format!("esker-fields-{name}-{}", std::process::id());
            let place = Self(std::env::temp_dir().join(name));
            PosixPool::create(&place.0, false).unwrap();
            let schema = Schema::parse("[a [b [c]]]", "test").unwrap();
            let store = FieldStore::create(&place.pool(), "fields", &schema).unwrap();
            (place, store)
        }

        fn pool(&self) -> Pool {
            let url = format!("posix:{}", self.0.display());
            Pool::connect(&url, OpenMode::ReadWrite).unwrap()
        }

        /// The store as another process opens it.
        fn other(&self) -> FieldStore {
            FieldStore::open(&self.pool(), "fields", OpenMode::ReadWrite).unwrap()
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    /// Archives a field without a flush.
    fn archive(writer: &mut FieldWriter, c: u32) {
        writer.archive(&Key::parse(&format!("a=1,b=1,c={c}")).unwrap(), b"field").unwrap();
    }

    /// The bytes of all fields that a reader finds.
    fn fields(store: &FieldStore) -> Vec<Vec<u8>> {
        let found = store.find(&store.everything()).unwrap().fields;
        found.iter().map(|field| field.read().unwrap()).collect()
    }

    /// Changes the only batch of a store: its marker has a time, as if it were stored long ago, or none.
    fn change_time(store: &FieldStore, akey: Option<&[u8]>) {
        let entries = crate::store::all_akeys(store.catalogue(), layout::WRITERS).unwrap();
        let [first] = &entries[..] else { panic!("{entries:?}") };
        let marker = store.marker(u64::from_be_bytes(first[..].try_into().unwrap())).unwrap();
        marker.punch(Cond::NONE, Access::Latest).wait().unwrap();
        let Some(akey) = akey else { return };
        let time = (now_seconds() - UNFLUSHED_SECONDS).to_le_bytes();
        marker.update(TIMES, Cond::NONE, &[put(akey, &time)], Access::Latest).wait().unwrap();
    }

    #[test]
    fn purge_by_another_process_keeps_unflushed_fields() {
        let (place, store) = Place::new("keeps");
        let mut writer = store.writer();
        archive(&mut writer, 0);
        assert_eq!(purge(&place.other()).unwrap(), Purged::default());
        writer.flush().unwrap();
        assert_eq!(fields(&place.other()), [b"field"]);
    }

    #[test]
    fn flush_after_purge_of_its_old_fields_fails() {
        let (place, store) = Place::new("old");
        let mut writer = store.writer();
        archive(&mut writer, 0);
        writer.flush().unwrap();
        archive(&mut writer, 1);
        change_time(&store, Some(RESERVED));
        assert_eq!(purge(&place.other()).unwrap().unflushed, 1);
        let refused = writer.flush().unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DataLoss, "{refused}");
        assert_eq!(fields(&store), [b"field"]);
        archive(&mut writer, 1);
        writer.flush().unwrap();
        assert_eq!(fields(&place.other()), [b"field"; 2]);
    }

    /// A purge that found an old batch and was killed leaves its entry, which the next purge finds.
    #[test]
    fn batch_without_time_is_kept_from_when_it_was_found() {
        let (place, store) = Place::new("found");
        let mut writer = store.writer();
        archive(&mut writer, 0);
        drop(writer);
        change_time(&store, None);
        for _ in 0..2 {
            assert_eq!(purge(&place.other()).unwrap(), Purged::default());
        }
        change_time(&store, Some(FOUND));
        assert_eq!(purge(&place.other()).unwrap().unflushed, 1);
        assert!(crate::store::all_akeys(store.catalogue(), layout::WRITERS).unwrap().is_empty());
    }
}
