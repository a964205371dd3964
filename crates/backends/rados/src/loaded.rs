//! The loaded state of the RADOS objects that an operation needs.
use super::names;
use super::piece::{Piece, damaged_pool_error};
use super::record;
use super::space::{Page, Space};
use crate::join_all;
use crate::librados::Entry;
use esker_backend::object::history::Snapshots;
use esker_backend::object::tree::{AkeyPath, Tree};
use esker_os::executor::task;
use esker_types::{Epoch, ObjectId, Result};
use std::collections::BTreeMap;

/// Data that was read of the omap of one object.
#[derive(Default)]
pub(super) struct Table {
    /// `None` if the object does not exist.
    pub(super) version: Option<u64>,
    /// The entries found, by key.
    pub(super) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// A range was read completely, so the transaction depends on the version of the whole object.
    pub(super) ranged: bool,
    /// Single entries were read, possibly from another version.
    pub(super) keyed: bool,
    /// All entries were read, in order to remove them.
    pub(super) whole: bool,
}

/// Loaded objects by name, and the akeys that their entries describe.
#[derive(Default)]
pub(super) struct Loaded {
    /// The loaded objects, by name.
    pub(super) tables: BTreeMap<String, Table>,
    pub(super) tree: Tree<Piece>,
    /// The latest epoch of all records.
    pub(super) latest: Epoch,
    /// Ranges of one object were read from different versions, so the entries are not one state of the object.
    pub(super) is_torn: bool,
}

/// Data to read of an object.
pub(super) enum Want {
    /// Entries with these keys.
    Keys(Vec<Vec<u8>>),
    /// Whether any key has this prefix.
    Any(Vec<u8>),
    /// All entries whose keys have this prefix.
    All(Vec<u8>),
    /// All entries.
    Whole,
}

impl Loaded {
    /// Reads several objects that belong to `oid` concurrently.
    pub(super) async fn read(
        &mut self,
        space: &Space,
        wants: impl IntoIterator<Item = (ObjectId, String, Want)>,
    ) -> Result<()> {
        let read = |(oid, object, want): (ObjectId, String, Want)| {
            task(async move {
                let page = read_one(space, &object, &want).await;
                page.map(|page| (oid, object, page, want))
            })
        };
        for found in join_all(wants.into_iter().map(read).collect()).await {
            let (oid, object, page, want) = found?;
            self.add(oid, object, page, &want)?;
        }
        Ok(())
    }

    /// Adds a page of entries that was read from a RADOS object. Also records how the object was read, because that
    /// determines the guards of the commit.
    fn add(&mut self, oid: ObjectId, object: String, page: Page, want: &Want) -> Result<()> {
        let is_chunk = names::is_chunk(&object);
        let table = self.tables.entry(object).or_default();
        let keyed = matches!(want, Want::Keys(_));
        self.is_torn |= table.ranged && !keyed && table.version != page.version;
        // The version of a listing stays, also if the object did not exist, because the commit checks it.
        if !keyed || (!table.ranged && table.version.is_none()) {
            table.version = page.version;
        }
        table.keyed |= keyed;
        table.ranged |= !keyed;
        // A chunk with an object of its own has all entries of that object.
        table.whole |= match want {
            Want::Whole => true,
            Want::All(_) => is_chunk,
            Want::Keys(_) | Want::Any(_) => false,
        };
        for Entry { key, value } in page.entries {
            if let Some(path) = names::akey_path(oid, &key) {
                let (epoch, stored) = record::decode(&value).ok_or_else(bad_record)?;
                self.latest = self.latest.max(epoch);
                self.tree.put(path, epoch, Some(stored), &Snapshots::new());
            }
            table.entries.insert(key, value);
        }
        Ok(())
    }

    /// Reads everything of an object; an Array has a further object of Ceph for each chunk.
    pub(super) async fn read_object(
        &mut self,
        space: &Space,
        oid: ObjectId,
        targets: u32,
    ) -> Result<()> {
        let all = |object| (oid, object, Want::Whole);
        self.read(space, names::shards(oid, targets).into_iter().map(all)).await?;
        if names::is_array(oid) {
            let chunks = self.chunks_of(oid);
            self.read(space, chunks.into_iter().map(|dkey| all(names::chunk(oid, dkey)))).await?;
        }
        Ok(())
    }

    /// The chunks recorded in the first object of an array, which must have been read completely.
    pub(super) fn chunks_of(&self, oid: ObjectId) -> Vec<u64> {
        let head = self.tables.get(&names::shard(oid, 0));
        let keys = head.into_iter().flat_map(|head| head.entries.keys());
        keys.filter_map(|key| names::chunk_of(key)).collect()
    }

    /// True if the first object of an array is known to record the chunk.
    pub(super) fn records_chunk(&self, oid: ObjectId, chunk: u64) -> bool {
        let head = self.tables.get(&names::shard(oid, 0));
        head.is_some_and(|head| head.entries.contains_key(&names::chunk_key(chunk)))
    }

    /// The record of an akey, as it was read; `None` if there was none, or it was not read.
    pub(super) fn record(&self, object: &str, path: &AkeyPath) -> Option<&[u8]> {
        let key = names::entry(&path.dkey, &path.akey);
        self.tables.get(object)?.entries.get(&key).map(Vec::as_slice)
    }
}

/// Reads what is wanted of one object of Ceph.
async fn read_one(space: &Space, object: &str, want: &Want) -> Result<Page> {
    match want {
        Want::Keys(keys) => {
            let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
            let found = space.entries(object, &keys, None).await?;
            let version = found.as_ref().map(|found| found.version);
            let entries = found.map(|found| found.entries).unwrap_or_default();
            Ok(Page { version, entries, more: false })
        }
        Want::Any(prefix) => space.page(object, b"", prefix, 1).await,
        Want::All(prefix) => space.all(object, prefix).await,
        Want::Whole => space.all(object, b"").await,
    }
}

#[cold]
pub(super) fn bad_record() -> esker_types::Error {
    damaged_pool_error("a record does not match its checksum")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The commit asserts one version of each object, so all ranges of it must be from that version.
    #[test]
    fn ranges_of_one_object_from_different_versions_are_torn() {
        let any = || Want::Any(names::entry(b"dkey", &[]));
        let read = |versions: [Option<u64>; 2], wants: [Want; 2]| {
            let mut loaded = Loaded::default();
            for (version, want) in versions.into_iter().zip(&wants) {
                let page = Page { version, entries: vec![], more: false };
                loaded.add(ObjectId::default(), "o.1".to_owned(), page, want).unwrap();
            }
            loaded.is_torn
        };
        assert!(read([Some(1), Some(2)], [any(), any()]));
        assert!(read([None, Some(2)], [any(), Want::Whole]));
        assert!(!read([Some(2), Some(2)], [any(), any()]));
        // A change of a single key is found by the guard on its record.
        assert!(!read([Some(1), Some(2)], [Want::Keys(vec![]), any()]));
    }

    /// A listing has found no object. Keys that were read afterwards must not replace this condition of the commit.
    #[test]
    fn absence_found_by_a_listing_stays_a_condition() {
        let wants = [Want::Any(names::entry(b"dkey", &[])), Want::Keys(vec![])];
        let mut loaded = Loaded::default();
        for (version, want) in [None, Some(2)].into_iter().zip(&wants) {
            let page = Page { version, entries: vec![], more: false };
            loaded.add(ObjectId::default(), "o.1".to_owned(), page, want).unwrap();
        }
        assert_eq!(loaded.tables["o.1"].version, None);
    }
}
