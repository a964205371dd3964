//! Listings and queries: shard by shard, sorted within each.
use super::fetch::version_proof;
use super::loaded::{Loaded, Want};
use super::names::{self, CHUNK, ENTRY};
use super::piece::Piece;
use super::space::{Page, Space};
use crate::{JOIN_MAX, join_all};
use esker_backend::check::check_keys;
use esker_backend::object::conflicts::Conflicts;
use esker_backend::object::list::after;
use esker_backend::object::read::Reader;
use esker_backend::object::tree::encode_dkey;
use esker_os::executor::task;
use esker_types::info::ContainerId;
use esker_types::limits::RADOS_PAGE;
use esker_types::ops::{
    AkeyRef, Anchor, Edge, KeyFound, KeyQuery, KeyScope, ListLimit, ReadTokens, StoredExtent,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, KeyKind, ObjectId, Result, decode_key};
use std::collections::BTreeSet;
use std::ops::Bound;

/// The object being listed.
pub(super) struct Listing<'a> {
    pub(super) space: Space,
    pub(super) oid: ObjectId,
    pub(super) targets: u32,
    pub(super) tokens: Option<&'a ReadTokens>,
}

/// A batch of keys under construction.
struct BatchBuilder<'a> {
    kind: KeyKind,
    limit: ListLimit,
    batch: KeyBatch,
    anchor: &'a mut Anchor,
}

impl BatchBuilder<'_> {
    /// Adds an encoded key of a shard; false if the batch is full.
    fn add(&mut self, shard: u32, encoded: &[u8]) -> Result<bool> {
        let key = decode_key(self.kind, encoded).ok_or_else(|| foreign_anchor_error("a key"))?;
        let full = self.batch.len() >= self.limit.entries
            || !self.batch.is_empty() && self.batch.byte_len() + key.len() > self.limit.bytes;
        if !full {
            self.batch.push(&key);
            *self.anchor = after(shard, encoded.to_vec());
        }
        Ok(!full)
    }
}

impl Listing<'_> {
    /// Lists a page of dkeys, or of the akeys of a dkey. An error does not change the anchor, so the call can be
    /// repeated.
    pub(super) async fn list_keys(
        &self,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        if anchor.is_end() {
            return Ok(KeyBatch::default());
        }
        let mut next = anchor.clone();
        let keys = match scope {
            KeyScope::Dkeys if names::is_array(self.oid) => {
                self.list_chunks(&mut next, limit).await
            }
            KeyScope::Dkeys => self.list_dkeys(&mut next, limit).await,
            KeyScope::Akeys(dkey) => self.list_akeys(dkey, &mut next, limit).await,
        }?;
        *anchor = next;
        Ok(keys)
    }

    /// Lists a page of the dkeys, one shard after another.
    async fn list_dkeys(&self, anchor: &mut Anchor, limit: ListLimit) -> Result<KeyBatch> {
        let (mut shard, mut position) = match anchor.clone() {
            Anchor::After { shard, position } => (shard, position),
            _ => (0, Vec::new()),
        };
        let kind = self.oid.dkey_kind();
        let mut builder = BatchBuilder { kind, limit, batch: KeyBatch::default(), anchor };
        for object in names::shards(self.oid, self.targets).iter().skip(shard as usize) {
            if !self.list_shard(object, shard, &position, &mut builder).await? {
                return Ok(builder.batch);
            }
            shard += 1;
            position.clear();
        }
        *builder.anchor = Anchor::End;
        Ok(builder.batch)
    }

    /// Adds the dkeys of a shard after `position`; false if the batch is full. A request asks for one key more than the
    /// batch may have, which shows that it is full.
    async fn list_shard(
        &self,
        object: &str,
        shard: u32,
        position: &[u8],
        builder: &mut BatchBuilder<'_>,
    ) -> Result<bool> {
        let mut behind = match position.is_empty() {
            true => Vec::new(),
            false => names::behind(position),
        };
        let mut last = Vec::new();
        loop {
            let most = (builder.limit.entries as u64).saturating_add(1).min(RADOS_PAGE);
            let page = self.space.page(object, &behind, ENTRY, most).await?;
            self.add_version_proof(object, page.version);
            for entry in &page.entries {
                let path = names::akey_path(self.oid, &entry.key)
                    .ok_or_else(|| foreign_anchor_error("a key"))?;
                if path.dkey != last && !builder.add(shard, &path.dkey)? {
                    return Ok(false);
                }
                last = path.dkey;
            }
            if !page.more {
                return Ok(true);
            }
            behind = names::behind(&last);
        }
    }

    /// Lists a page of the dkeys of an array: those in its first object, then the chunks that have records.
    async fn list_chunks(&self, anchor: &mut Anchor, limit: ListLimit) -> Result<KeyBatch> {
        let mut loaded = Loaded::default();
        let head = names::shard(self.oid, 0);
        loaded.read(&self.space, [(self.oid, head, Want::Whole)]).await?;
        let first = loaded.tree.object(self.oid, Epoch::MAX).map(|seen| seen.path.dkey.clone());
        let first: BTreeSet<_> = first.collect();
        let mut chunks = loaded.chunks_of(self.oid);
        chunks.sort_unstable();
        self.add_proofs(&loaded);
        let from = match anchor.clone() {
            Anchor::After { position, .. } => position,
            _ => Vec::new(),
        };
        let kind = self.oid.dkey_kind();
        let mut builder = BatchBuilder { kind, limit, batch: KeyBatch::default(), anchor };
        for dkey in first.iter().filter(|dkey| **dkey > from) {
            if !builder.add(0, dkey)? {
                return Ok(builder.batch);
            }
        }
        chunks.retain(|chunk| chunk.to_be_bytes()[..] > from[..]);
        for part in chunks.chunks(JOIN_MAX) {
            let ask = part.iter().map(|chunk| task(self.has_entries(*chunk)));
            for (chunk, has_entries) in part.iter().zip(join_all(ask.collect()).await) {
                if has_entries? && !builder.add(0, &chunk.to_be_bytes())? {
                    return Ok(builder.batch);
                }
            }
        }
        *builder.anchor = Anchor::End;
        Ok(builder.batch)
    }

    /// True if the chunk has records. The read counts in the transaction of the caller, if any.
    async fn has_entries(&self, chunk: u64) -> Result<bool> {
        let object = names::chunk(self.oid, chunk);
        let page = self.space.page(&object, b"", ENTRY, 1).await?;
        self.add_version_proof(&object, page.version);
        Ok(!page.entries.is_empty())
    }

    /// Lists a page of the akeys of a dkey.
    async fn list_akeys(
        &self,
        dkey: &[u8],
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        check_keys(self.oid, dkey, None)?;
        let dkey = encode_dkey(self.oid, dkey)?;
        let object = names::table(self.oid, &dkey, self.targets);
        let prefix = names::entry(&dkey, &[]);
        let mut behind = match anchor.clone() {
            Anchor::After { position, .. } => names::entry(&dkey, &position),
            _ => Vec::new(),
        };
        let kind = self.oid.akey_kind();
        let mut builder = BatchBuilder { kind, limit, batch: KeyBatch::default(), anchor };
        loop {
            let most = (limit.entries as u64).saturating_add(1).min(RADOS_PAGE);
            let page = self.space.page(&object, &behind, &prefix, most).await?;
            self.add_version_proof(&object, page.version);
            for entry in &page.entries {
                let path = names::akey_path(self.oid, &entry.key)
                    .ok_or_else(|| foreign_anchor_error("a key"))?;
                if !builder.add(0, &path.akey)? {
                    return Ok(builder.batch);
                }
            }
            match page.entries.last() {
                Some(last) if page.more => behind.clone_from(&last.key),
                _ => {
                    *builder.anchor = Anchor::End;
                    return Ok(builder.batch);
                }
            }
        }
    }

    /// Lists a page of the extents of an akey.
    pub(super) async fn list_extents(
        &self,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
    ) -> Result<Vec<StoredExtent>> {
        check_keys(self.oid, key.dkey, Some(key.akey))?;
        let loaded = self.dkey(key.dkey).await?;
        self.reading(&loaded, |reader| reader.list_extents(key, anchor, entries))
    }

    /// Finds the smallest or largest key. The chunks of an Array are in separate objects, so only as many as necessary
    /// are read. Other objects are read as a whole, unless the query names a dkey.
    pub(super) async fn query(&self, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        if let Some(dkey) = query.dkey {
            check_keys(self.oid, dkey, query.akey)?;
            let loaded = self.dkey(dkey).await?;
            return self.reading(&loaded, |reader| reader.query(query));
        }
        match names::is_array(self.oid) {
            true => self.query_array(query).await,
            false => {
                let loaded = self.whole().await?;
                self.reading(&loaded, |reader| reader.query(query))
            }
        }
    }

    /// Finds the smallest or largest key of an Array. The first object has the keys before all chunks. So it decides a
    /// query for the smallest, and otherwise counts only if no chunk has an answer.
    async fn query_array(&self, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        let (mut head, object) = (Loaded::default(), names::shard(self.oid, 0));
        head.read(&self.space, [(self.oid, object.clone(), Want::All(ENTRY.to_vec()))]).await?;
        self.add_proofs(&head);
        let found = self.reading(&head, |reader| reader.query(query))?;
        if query.edge == Edge::Min {
            if found.is_some() {
                return Ok(found);
            }
            let all = self.space.all(&object, CHUNK).await?;
            self.add_version_proof(&object, all.version);
            let mut chunks = chunks_in(&all);
            chunks.reverse();
            return self.query_chunks(query, &chunks).await;
        }
        // The keys of chunks are in descending order.
        let (mut behind, mut more) = (Vec::new(), true);
        while more {
            let page = self.space.page(&object, &behind, CHUNK, RADOS_PAGE).await?;
            self.add_version_proof(&object, page.version);
            let answer = self.query_chunks(query, &chunks_in(&page)).await?;
            if answer.is_some() {
                return Ok(answer);
            }
            more = page.more;
            behind = page.entries.last().map(|entry| entry.key.clone()).unwrap_or_default();
        }
        Ok(found)
    }

    /// The answer of the first of these chunks that has one. Several are read at a time.
    async fn query_chunks(&self, query: KeyQuery<'_>, chunks: &[u64]) -> Result<Option<KeyFound>> {
        let bound = query.bound(self.oid.dkey_kind())?;
        let wanted = chunks.iter().filter(|chunk| chunk.to_be_bytes()[..] > bound[..]);
        let dkeys: Vec<_> = wanted.map(|chunk| chunk.to_ne_bytes()).collect();
        for part in parts_of(&dkeys) {
            let read = part.iter().map(|dkey| task(self.dkey(dkey)));
            for loaded in join_all(read.collect()).await {
                let answer = self.reading(&loaded?, |reader| reader.query(query))?;
                if answer.is_some() {
                    return Ok(answer);
                }
            }
        }
        Ok(None)
    }

    /// Epoch of the last change of the object or of a dkey; zero if it has no keys.
    pub(super) async fn epoch(&self, dkey: Option<&[u8]>) -> Result<Epoch> {
        let loaded = match dkey {
            Some(dkey) => self.dkey(dkey).await?,
            None => self.whole().await?,
        };
        self.reading(&loaded, |reader| reader.epoch(dkey))
    }

    /// Loads everything under a dkey, with a proof of what was read.
    async fn dkey(&self, dkey: &[u8]) -> Result<Loaded> {
        let dkey = encode_dkey(self.oid, dkey)?;
        let object = names::table(self.oid, &dkey, self.targets);
        let mut loaded = Loaded::default();
        let all = Want::All(names::entry(&dkey, &[]));
        loaded.read(&self.space, [(self.oid, object, all)]).await?;
        self.add_proofs(&loaded);
        Ok(loaded)
    }

    /// Reads all records of the object. The read counts in the transaction of the caller, if any.
    async fn whole(&self) -> Result<Loaded> {
        let mut loaded = Loaded::default();
        loaded.read_object(&self.space, self.oid, self.targets).await?;
        self.add_proofs(&loaded);
        Ok(loaded)
    }

    /// Runs `work` on the loaded data. The reader is that of the in-memory backend, so both backends give the same
    /// results.
    fn reading<T>(
        &self,
        loaded: &Loaded,
        work: impl FnOnce(&mut Reader<'_, Piece>) -> Result<T>,
    ) -> Result<T> {
        work(&mut Reader {
            id: ContainerId(0),
            oid: self.oid,
            targets: 1,
            tree: &loaded.tree,
            at: Epoch::MAX,
            tokens: None,
            conflicts: &mut Conflicts::default(),
        })
    }

    /// Adds the versions of all objects of Ceph that were loaded to the tokens.
    fn add_proofs(&self, loaded: &Loaded) {
        loaded
            .tables
            .iter()
            .for_each(|(object, table)| self.add_version_proof(object, table.version));
    }

    /// Adds the version of one object of Ceph to the tokens.
    fn add_version_proof(&self, object: &str, version: Option<u64>) {
        if let Some(tokens) = self.tokens {
            version_proof(object, version).add_to(tokens);
        }
    }

    /// True if the object has a key.
    pub(super) async fn exists(&self) -> Result<bool> {
        let mut first = Anchor::Start;
        let limit = ListLimit::entries(1);
        Ok(!self.list_keys(KeyScope::Dkeys, &mut first, limit).await?.is_empty())
    }
}

/// The chunks that a page of the first object of an Array records, in descending order.
fn chunks_in(page: &Page) -> Vec<u64> {
    page.entries.iter().filter_map(|entry| names::chunk_of(&entry.key)).collect()
}

/// Parts to read concurrently. The first has one element, because the first chunk usually has the answer.
fn parts_of<T>(all: &[T]) -> impl Iterator<Item = &[T]> {
    let (first, rest) = all.split_at(all.len().min(1));
    std::iter::once(first).chain(rest.chunks(JOIN_MAX))
}

/// Returns the objects of a complete set that follow `anchor`. Fails if the anchor belongs to another listing.
pub(super) fn after_anchor<'a>(
    oids: &'a BTreeSet<ObjectId>,
    anchor: &Anchor,
) -> Result<impl Iterator<Item = ObjectId> + use<'a>> {
    let from = match anchor {
        Anchor::Start => Bound::Unbounded,
        Anchor::After { position, .. } => {
            let bytes =
                position.as_slice().try_into().map_err(|_| foreign_anchor_error("the anchor"))?;
            Bound::Excluded(ObjectId::from_bytes(bytes))
        }
        // No object id is greater.
        Anchor::End => Bound::Excluded(ObjectId { hi: u64::MAX, lo: u64::MAX }),
    };
    Ok(oids.range((from, Bound::Unbounded)).copied())
}

#[cold]
fn foreign_anchor_error(what: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("{what} does not belong to this listing: list from the start"),
    )
}
