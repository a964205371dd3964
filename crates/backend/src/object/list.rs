//! Listings: target by target, sorted within each, starting after an anchor that names the last entry.
use super::conflicts::Watched;
use super::read::Reader;
use super::records::{Payload, Stored};
use super::tree::{AkeyPath, encode_akey, encode_dkey};
use crate::check::check_keys;
use esker_types::ops::{AkeyRef, Anchor, KeyScope, ListLimit, StoredExtent};
use esker_types::{Error, ErrorKind, Extent, KeyBatch, KeyKind, ObjectId, Result, decode_key};
use std::collections::BTreeSet;

/// The position of an entry in a listing: its target, and its key among the entries of the target.
pub type Position = (u32, Vec<u8>);

impl<P: Payload> Reader<'_, P> {
    /// The next keys after `anchor`, which is advanced.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for an anchor of another listing, or a dkey of another kind.
    pub fn list_keys(
        &mut self,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        match scope {
            KeyScope::Dkeys => self.list_dkeys(anchor, limit),
            KeyScope::Akeys(dkey) => self.list_akeys(dkey, anchor, limit),
        }
    }

    /// Lists a page of the dkeys of the object, and notes the object as read.
    fn list_dkeys(&mut self, anchor: &mut Anchor, limit: ListLimit) -> Result<KeyBatch> {
        self.note(Watched::Object(self.oid));
        let dkeys = self.tree.object(self.oid, self.at).map(|seen| &seen.path.dkey);
        let entries = dkeys.map(|dkey| (self.target_of(dkey), dkey.clone())).collect();
        page_of_keys(self.oid.dkey_kind(), entries, anchor, limit)
    }

    /// Lists a page of the akeys of a dkey, and notes the dkey as read.
    fn list_akeys(
        &mut self,
        dkey: &[u8],
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        check_keys(self.oid, dkey, None)?;
        let dkey = encode_dkey(self.oid, dkey)?;
        self.note_dkey(&dkey);
        let target = self.target_of(&dkey);
        let akeys = self.tree.dkey(self.oid, &dkey, self.at);
        let entries = akeys.map(|seen| (target, seen.path.akey.clone())).collect();
        page_of_keys(self.oid.akey_kind(), entries, anchor, limit)
    }

    /// The next objects after `anchor`, which is advanced.
    pub fn list_objects(&mut self, anchor: &mut Anchor, entries: usize) -> Vec<ObjectId> {
        self.note(Watched::Objects);
        let all = self.tree.from(AkeyPath::default(), self.at).map(|seen| seen.path.oid);
        let all: BTreeSet<_> = all.collect();
        let all = all.into_iter().map(|oid| (0, oid.to_bytes().to_vec())).collect();
        let page = page(all, anchor, ListLimit::entries(entries));
        page.iter()
            .filter_map(|oid| oid.as_slice().try_into().ok().map(ObjectId::from_bytes))
            .collect()
    }

    /// Lists the next stored extents of an array. The anchor becomes the record after the last one listed, so that
    /// extents rewritten during the listing are neither repeated nor skipped.
    pub fn list_extents(
        &mut self,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
    ) -> Result<Vec<StoredExtent>> {
        check_keys(self.oid, key.dkey, Some(key.akey))?;
        let dkey = encode_dkey(self.oid, key.dkey)?;
        self.note_dkey(&dkey);
        let Some(from) = anchor.record()? else { return Ok(Vec::new()) };
        let akey = encode_akey(self.oid, key.akey)?;
        let path = AkeyPath { oid: self.oid, dkey, akey };
        let Some(Stored::Array(records)) = self.tree.get(&path, self.at) else {
            *anchor = Anchor::End;
            return Ok(Vec::new());
        };
        let rest = Extent::new(from, u64::MAX - from);
        let cut = |stored: StoredExtent| {
            stored.extent.intersect(rest).map(|extent| StoredExtent { extent, ..stored })
        };
        let left: Vec<_> = records.stored().filter_map(cut).collect();
        let page: Vec<_> = left.iter().copied().take(entries).collect();
        *anchor = match page.last() {
            _ if page.len() == left.len() => Anchor::End,
            Some(last) => Anchor::at_record(last.extent.end()),
            None => Anchor::at_record(from),
        };
        Ok(page)
    }

    /// Returns the target of a dkey. Backends without targets simulate them, so that listings have the order of a pool
    /// with targets.
    fn target_of(&self, dkey: &[u8]) -> u32 {
        let groups = self.oid.class().groups_on(self.targets);
        (self.home_of(self.oid) + hash(dkey) % groups) % self.targets
    }

    /// Returns the first target of an object, to which its dkeys are placed relatively.
    fn home_of(&self, oid: ObjectId) -> u32 {
        hash(&oid.to_bytes()) % self.targets
    }
}

/// The 32-bit FNV-1a hash.
pub fn hash(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0x811c_9dc5, |sum: u32, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Returns the next page of `entries`, decoded; `anchor` is advanced.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an anchor of another listing.
pub fn page_of_keys(
    kind: KeyKind,
    entries: BTreeSet<Position>,
    anchor: &mut Anchor,
    limit: ListLimit,
) -> Result<KeyBatch> {
    let (mut batch, mut next) = (KeyBatch::default(), anchor.clone());
    for encoded in page_by(entries, &mut next, limit, |encoded| key_len(kind, encoded)) {
        let key = decode_key(kind, &encoded)
            .ok_or_else(|| foreign_anchor_error("a key that cannot be decoded"))?;
        batch.push(&key);
    }
    *anchor = next;
    Ok(batch)
}

/// Length of a key in bytes once it is decoded.
fn key_len(kind: KeyKind, encoded: &[u8]) -> usize {
    decode_key(kind, encoded).map_or(0, |key| key.len())
}

/// The next page of entries; `anchor` is advanced.
pub fn page(entries: BTreeSet<Position>, anchor: &mut Anchor, limit: ListLimit) -> Vec<Vec<u8>> {
    page_by(entries, anchor, limit, <[u8]>::len)
}

/// The entries after `anchor` within `limit`; `anchor` is advanced past them. `len` returns the bytes of an entry. A
/// page has at least one entry, even if that exceeds the limit of bytes.
fn page_by(
    entries: BTreeSet<Position>,
    anchor: &mut Anchor,
    limit: ListLimit,
    len: impl Fn(&[u8]) -> usize,
) -> Vec<Vec<u8>> {
    let is_left = |entry: &Position| match &*anchor {
        Anchor::Start => true,
        Anchor::After { shard, position } => (entry.0, &entry.1) > (*shard, position),
        Anchor::End => false,
    };
    let left: Vec<_> = entries.into_iter().filter(is_left).collect();
    let (mut taken, mut bytes) = (0, 0usize);
    for (_, position) in left.iter().take(limit.entries) {
        bytes = bytes.saturating_add(len(position));
        if taken > 0 && bytes > limit.bytes {
            break;
        }
        taken += 1;
    }
    if taken == left.len() {
        *anchor = Anchor::End;
    } else if let Some((shard, position)) = taken.checked_sub(1).and_then(|last| left.get(last)) {
        *anchor = after(*shard, position.clone());
    }
    left.into_iter().take(taken).map(|(_, position)| position).collect()
}

/// The anchor after a position in a shard.
pub fn after(shard: u32, position: Vec<u8>) -> Anchor {
    Anchor::After { shard, position }
}

fn foreign_anchor_error(what: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!("{what} does not belong to this listing: list from the start"),
    )
}
