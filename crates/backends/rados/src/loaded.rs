//! What is known of the RADOS objects that an operation is about.
use super::names;
use super::piece::{Piece, damaged};
use super::record;
use super::space::{Page, Space};
use crate::join_all;
use esker_backend::object::history::Snapshots;
use esker_backend::object::tree::{AkeyPath, Tree};
use esker_librados::Entry;
use esker_os::executor::task;
use esker_types::{Epoch, ObjectId, Result};
use std::collections::BTreeMap;

/// What was read of the map of one object.
#[derive(Default)]
pub(super) struct Table {
    /// `None` where there is no such object.
    pub(super) version: Option<u64>,
    /// Entries that were found, by key.
    pub(super) entries: BTreeMap<Vec<u8>, Vec<u8>>,
    /// All of some range was read, so the whole object must stay as it is.
    pub(super) ranged: bool,
    /// Single entries were read, perhaps of another version.
    pub(super) keyed: bool,
    /// All entries were read, to be removed.
    pub(super) whole: bool,
}

/// Objects by name, and what their entries say.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) tables: BTreeMap<String, Table>,
    pub(super) tree: Tree<Piece>,
    pub(super) latest: Epoch,
}

/// What of an object is to be read.
pub(super) enum Want {
    /// Entries with these keys.
    Keys(Vec<Vec<u8>>),
    /// Whether any key begins so.
    Any(Vec<u8>),
    /// All entries whose keys begin so.
    All(Vec<u8>),
    /// All entries.
    Whole,
}

impl Loaded {
    /// Reads what is wanted of objects that belong to `oid`, side by side.
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

    fn add(&mut self, oid: ObjectId, object: String, page: Page, want: &Want) -> Result<()> {
        let table = self.tables.entry(object).or_default();
        let keyed = matches!(want, Want::Keys(_));
        if !keyed || table.version.is_none() {
            table.version = page.version;
        }
        table.keyed |= keyed;
        table.ranged |= !keyed;
        table.whole |= matches!(want, Want::Whole);
        for Entry { key, value } in page.entries {
            if let Some(place) = names::place(oid, &key) {
                let (epoch, stored) = record::decode(&value).ok_or_else(bad_record)?;
                self.latest = self.latest.max(epoch);
                self.tree.put(place, epoch, Some(stored), &Snapshots::new());
            }
            table.entries.insert(key, value);
        }
        Ok(())
    }

    /// Reads everything of an object.
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

    /// The chunks that the first object of an array, which was read as a whole, tells of.
    pub(super) fn chunks_of(&self, oid: ObjectId) -> Vec<u64> {
        let head = self.tables.get(&names::shard(oid, 0));
        let keys = head.into_iter().flat_map(|head| head.entries.keys());
        keys.filter_map(|key| names::chunk_of(key)).collect()
    }

    /// True where the first object of an array is known to tell of a chunk.
    pub(super) fn tells_of(&self, oid: ObjectId, chunk: u64) -> bool {
        let head = self.tables.get(&names::shard(oid, 0));
        head.is_some_and(|head| head.entries.contains_key(&names::chunk_key(chunk)))
    }

    /// The record of an akey, as it was read.
    pub(super) fn record(&self, object: &str, place: &AkeyPath) -> Option<&[u8]> {
        let key = names::entry(&place.dkey, &place.akey);
        self.tables.get(object)?.entries.get(&key).map(Vec::as_slice)
    }
}

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
    damaged("a record does not match its checksum")
}
