//! Listings of keys and extents. DAOS lists keys in its own order, and continues a listing only from one of its own
//! anchors. So this module reads the whole listing, sorts it, and returns it page by page.
use super::net::without;
use super::or_empty;
use super::proof::{Digest, Read};
use super::read::Reader;
use super::rules::{is_flat, is_foreign};
use crate::binding::{AkeyFetch, ListedExtent};
use esker_backend::check::check_keys;
use esker_backend::object::list::after;
use esker_os::ForkLock;
use esker_types::limits::DAOS_LISTING_BYTES_MAX;
use esker_types::ops::{AkeyRef, Anchor, Cond, KeyScope, ListLimit, StoredExtent, View};
use esker_types::{
    Epoch, ErrorKind, Extent, FLAT_AKEY, KeyBatch, KeyKind, ObjectId, ObjectType, Result,
    decode_key, encode_key,
};
use std::collections::VecDeque;
use std::sync::Arc;

/// The keys of a level of an object, encoded and sorted.
#[derive(Default)]
struct Sorted {
    keys: Vec<Vec<u8>>,
    /// Total length of the keys.
    bytes: usize,
}

impl Sorted {
    fn new(keys: Vec<Vec<u8>>) -> Self {
        let bytes = keys.iter().map(Vec::len).sum();
        Self { keys, bytes }
    }
}

/// The subject of a listing: an object, one of its dkeys if akeys were listed, and a state.
type Listed = (ObjectId, Option<Vec<u8>>, View);

/// Number of unfinished listings whose keys a container handle keeps.
const RECENT: usize = 4;

/// The most recent unfinished listings of a container, the latest last, as far as their keys have at most
/// [`DAOS_LISTING_BYTES_MAX`] together. A call for the next page continues one.
#[derive(Default)]
pub(super) struct Recent(ForkLock<VecDeque<(Listed, Arc<Sorted>)>>);

impl Recent {
    /// The keys of this listing; `None` if it is not among the most recent.
    fn get(&self, listed: &Listed) -> Option<Arc<Sorted>> {
        let recent = self.0.lock();
        recent.iter().find(|(known, _)| known == listed).map(|(_, keys)| Arc::clone(keys))
    }

    /// Stores a listing that has more pages, and drops it after the last one. The latest one is kept whatever its size.
    fn update(&self, listed: Listed, keys: Arc<Sorted>, anchor: &Anchor) {
        let mut recent = self.0.lock();
        recent.retain(|(known, _)| *known != listed);
        if matches!(anchor, Anchor::After { .. }) {
            recent.push_back((listed, keys));
        }
        let mut bytes: usize = recent.iter().map(|(_, keys)| keys.bytes).sum();
        while recent.len() > RECENT || recent.len() > 1 && bytes > DAOS_LISTING_BYTES_MAX {
            bytes -= recent.pop_front().map_or(0, |(_, keys)| keys.bytes);
        }
    }
}

/// State of an akey after a punch of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Survivors {
    /// The akey does not exist.
    Absent,
    /// The akey exists without records. It may have a single value.
    None,
    /// The akey has a single value or records that were not punched.
    Some,
}

impl Reader<'_> {
    /// True if the object has a key.
    pub(super) async fn exists(&self) -> Result<bool> {
        let keys = self.object.keys(self.tx(), None, true, DAOS_LISTING_BYTES_MAX).await;
        Ok(!or_empty(keys)?.is_empty())
    }

    /// True if a dkey has an akey.
    pub(super) async fn has_akeys(&self, dkey: &[u8]) -> Result<bool> {
        if is_flat(self.oid) {
            return self.has_flat(dkey).await;
        }
        let keys = self.object.keys(self.tx(), Some(dkey), true, DAOS_LISTING_BYTES_MAX).await;
        Ok(!or_empty(keys)?.is_empty())
    }

    /// True if a dkey has this akey, whatever its kind of value.
    pub(super) async fn has_akey(&self, dkey: &[u8], akey: &[u8]) -> Result<bool> {
        if is_flat(self.oid) {
            return Ok(akey == FLAT_AKEY && self.has_flat(dkey).await?);
        }
        self.has_akey_that(dkey, |key| key == akey).await
    }

    /// True if a dkey of an object that is not flat has an akey that `is_wanted` accepts.
    pub(super) async fn has_akey_that(
        &self,
        dkey: &[u8],
        is_wanted: impl Fn(&[u8]) -> bool,
    ) -> Result<bool> {
        or_empty(self.object.has_akey(self.tx(), dkey, is_wanted).await)
    }

    /// The dkeys of an object, in the order of DAOS.
    pub(super) async fn stored_dkeys(&self) -> Result<Vec<Vec<u8>>> {
        or_empty(self.object.keys(self.tx(), None, false, DAOS_LISTING_BYTES_MAX).await)
    }

    /// The akeys of a dkey of an object that is not flat, in the order of DAOS.
    pub(super) async fn stored_akeys(&self, dkey: &[u8]) -> Result<Vec<Vec<u8>>> {
        or_empty(self.object.keys(self.tx(), Some(dkey), false, DAOS_LISTING_BYTES_MAX).await)
    }

    /// True if a flat object has a dkey. Its akeys are not listed: DAOS does not store their names, and the engine of
    /// DAOS crashes if a transaction that has listed them commits.
    async fn has_flat(&self, dkey: &[u8]) -> Result<bool> {
        let is_kv = self.oid.object_type().is_some_and(ObjectType::is_kv);
        // Dkey 0 of an Array has the attributes, a single value.
        let has_records = !is_kv && dkey != [0; 8];
        let asked = AkeyFetch {
            akey: FLAT_AKEY.to_vec(),
            extents: has_records.then(|| vec![Extent::new(0, 1)]),
            record_size: 0,
            room: 0,
            cond: 0,
        };
        let cond = Cond::DKEY_FETCH.bits();
        let (outcome, _) = self.object.fetch(self.tx(), dkey, cond, &[asked]).await?;
        match outcome {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            outcome => outcome.map(|()| true),
        }
    }

    /// The next keys after `anchor`, which is advanced.
    pub(super) async fn list_keys(
        &self,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        let dkey = match scope {
            KeyScope::Dkeys => None,
            KeyScope::Akeys(dkey) => Some(dkey),
        };
        let from = anchor.clone();
        let page = self.page_of_keys(dkey, anchor, limit).await?;
        let read = || Read::Keys { dkey: dkey.map(<[u8]>::to_vec), anchor: from, limit };
        self.note(read, || Digest::of_keys(&page, anchor));
        Ok(page)
    }

    /// Lists dkeys, or akeys of `dkey`, from the anchor on, without recording the read.
    pub(super) async fn page_of_keys(
        &self,
        dkey: Option<&[u8]>,
        anchor: &mut Anchor,
        limit: ListLimit,
    ) -> Result<KeyBatch> {
        if let Some(dkey) = dkey {
            check_keys(self.oid, dkey, None)?;
        }
        let listed = (self.oid, dkey.map(<[u8]>::to_vec), self.view);
        // A transaction must read the keys again, so that its commit detects changes.
        let is_proved = self.tokens.is_some() || self.is_transaction();
        let recent = match anchor {
            Anchor::End => return Ok(KeyBatch::default()),
            Anchor::After { .. } if !is_proved => self.opened.listing.get(&listed),
            _ => None,
        };
        let keys = match recent {
            Some(keys) => keys,
            None => Arc::new(Sorted::new(self.sorted(dkey).await?)),
        };
        let page = page(self.kind(dkey), &keys.keys, anchor, limit)?;
        if !is_proved {
            self.opened.listing.update(listed, keys, anchor);
        }
        Ok(page)
    }

    /// Kind of the dkeys, or with a `dkey` of its akeys.
    fn kind(&self, dkey: Option<&[u8]>) -> KeyKind {
        if dkey.is_some() { self.oid.akey_kind() } else { self.oid.dkey_kind() }
    }

    /// All dkeys, or all akeys of a dkey, encoded and sorted.
    pub(super) async fn sorted(&self, dkey: Option<&[u8]>) -> Result<Vec<Vec<u8>>> {
        let keys = match dkey {
            Some(dkey) if is_flat(self.oid) => self
                .has_flat(dkey)
                .await
                .map(|has| has.then(|| FLAT_AKEY.to_vec()).into_iter().collect()),
            _ => self.object.keys(self.tx(), dkey, false, DAOS_LISTING_BYTES_MAX).await,
        };
        let kind = self.kind(dkey);
        let encode = |key: Vec<u8>| {
            let mut encoded = Vec::with_capacity(key.len() + 2);
            encode_key(kind, &key, &mut encoded).map(|()| encoded)
        };
        let mut all = or_empty(keys)?.into_iter().map(encode).collect::<Result<Vec<_>>>()?;
        all.sort_unstable();
        all.dedup();
        Ok(all)
    }

    /// The next extents of an array after `anchor`, which is the next record.
    pub(super) async fn list_extents(
        &self,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
    ) -> Result<Vec<StoredExtent>> {
        let from = anchor.clone();
        let page = self.page_of_extents(key, anchor, entries).await?;
        let read = || Read::Extents {
            dkey: key.dkey.to_vec(),
            akey: key.akey.to_vec(),
            anchor: from,
            entries,
        };
        self.note(read, || Digest::of_extents(&page, anchor));
        Ok(page)
    }

    /// All extents of an array. With `only_size`, those of the first page that has any, which tell the record size. A
    /// single value has none.
    ///
    /// For a single value of a flat object DAOS fails with `NoHandle`, as if the container were closed. Then the dkey
    /// is fetched: if that works, the container is open and there are no extents; if not, its error is returned.
    pub(super) async fn all_extents(
        &self,
        (dkey, akey): (&[u8], &[u8]),
        only_size: bool,
    ) -> Result<Vec<ListedExtent>> {
        let most = DAOS_LISTING_BYTES_MAX;
        let all = self.object.extents(self.tx(), (dkey, akey), only_size, most).await;
        match or_empty(all) {
            Err(error) if error.kind() == ErrorKind::NoHandle && is_flat(self.oid) => {
                self.has_flat(dkey).await.map(|_| Vec::new())
            }
            outcome => outcome,
        }
    }

    /// State of the akey after a punch of `punched`. Extents are listed until a remaining record is found.
    pub(super) async fn survivors(
        &self,
        (dkey, akey): (&[u8], &[u8]),
        punched: &[Extent],
    ) -> Result<Survivors> {
        let survives = |extent: Extent| !without(vec![extent], punched).is_empty();
        let found = self.object.has_extent(self.tx(), (dkey, akey), survives).await;
        match found {
            Ok(true) => Ok(Survivors::Some),
            Ok(false) => self.survivors_of_none(dkey, akey).await,
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Survivors::Absent),
            // A single value: see `all_extents`.
            Err(error) if error.kind() == ErrorKind::NoHandle && is_flat(self.oid) => {
                self.survivors_of_none(dkey, akey).await
            }
            Err(error) => Err(error),
        }
    }

    /// State of an akey that has no records.
    async fn survivors_of_none(&self, dkey: &[u8], akey: &[u8]) -> Result<Survivors> {
        let exists = self.has_akey(dkey, akey).await?;
        Ok(if exists { Survivors::None } else { Survivors::Absent })
    }

    /// Lists extents from the anchor on, without recording the read.
    pub(super) async fn page_of_extents(
        &self,
        key: AkeyRef<'_>,
        anchor: &mut Anchor,
        entries: usize,
    ) -> Result<Vec<StoredExtent>> {
        check_keys(self.oid, key.dkey, Some(key.akey))?;
        if is_foreign(self.oid, key.akey) {
            *anchor = Anchor::End;
        }
        let Some(from) = anchor.record()? else { return Ok(Vec::new()) };
        let rest = Extent::new(from, u64::MAX - from);
        let names = (key.dkey, key.akey);
        let left = self.all_extents(names, false).await?.into_iter().filter_map(|listed| {
            let extent = listed.extent.intersect(rest)?;
            let (record_size, epoch) = (listed.record_size, Epoch(listed.epoch.max(1)));
            Some(StoredExtent { extent, record_size, epoch })
        });
        let mut page: Vec<_> = left.collect();
        let is_end = page.len() <= entries;
        page.truncate(entries);
        *anchor = match page.last() {
            _ if is_end => Anchor::End,
            Some(last) => Anchor::at_record(last.extent.end()),
            None => Anchor::at_record(from),
        };
        Ok(page)
    }
}

/// The keys after `anchor` within `limit`; `anchor` is advanced past them.
fn page(
    kind: KeyKind,
    keys: &[Vec<u8>],
    anchor: &mut Anchor,
    limit: ListLimit,
) -> Result<KeyBatch> {
    let from = match &*anchor {
        Anchor::Start => 0,
        Anchor::After { position, .. } => keys.partition_point(|key| key <= position),
        Anchor::End => keys.len(),
    };
    let (mut batch, mut next) = (KeyBatch::default(), from);
    for encoded in keys[from..].iter().take(limit.entries) {
        let key = decode_key(kind, encoded).ok_or_else(Anchor::foreign)?;
        let bytes = batch.byte_len().saturating_add(key.len());
        if !batch.is_empty() && bytes > limit.bytes {
            break;
        }
        batch.push(&key);
        next += 1;
    }
    if next == keys.len() {
        *anchor = Anchor::End;
    } else if let Some(last) = next.checked_sub(1).filter(|last| *last >= from) {
        *anchor = after(0, keys[last].clone());
    }
    Ok(batch)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two programs that list two objects in turn must not each read the whole listing for every page.
    #[test]
    fn several_unfinished_listings_are_kept() {
        let recent = Recent::default();
        let listed = |lo| (ObjectId { hi: 0, lo }, None, View::Latest);
        let update = |lo, anchor: &Anchor| recent.update(listed(lo), Arc::default(), anchor);
        let known = || (0..=RECENT as u64).filter(|lo| recent.get(&listed(*lo)).is_some()).count();
        update(0, &after(0, Vec::new()));
        update(1, &after(0, Vec::new()));
        assert_eq!(known(), 2);
        update(0, &Anchor::End);
        assert!(recent.get(&listed(0)).is_none() && recent.get(&listed(1)).is_some());
        (0..=RECENT as u64).for_each(|lo| update(lo, &after(0, Vec::new())));
        assert_eq!(known(), RECENT);
    }

    /// Listings that nobody finishes must not take several times the memory of the largest one.
    #[test]
    fn unfinished_listings_are_kept_within_the_limit_of_one() {
        let recent = Recent::default();
        let listed = |lo| (ObjectId { hi: 0, lo }, None, View::Latest);
        let update = |lo, bytes| {
            let keys = Arc::new(Sorted { keys: Vec::new(), bytes });
            recent.update(listed(lo), keys, &after(0, Vec::new()));
        };
        let known = || (0..4).filter(|lo| recent.get(&listed(*lo)).is_some()).collect::<Vec<_>>();
        let half = DAOS_LISTING_BYTES_MAX / 2;
        update(0, half);
        update(1, half);
        assert_eq!(known(), [0, 1]);
        update(2, 1);
        assert_eq!(known(), [1, 2]);
        update(3, DAOS_LISTING_BYTES_MAX + 1);
        assert_eq!(known(), [3]);
    }

    /// A page ends at its limit of entries or bytes, but has at least one key.
    #[test]
    fn pages_follow_each_other_within_their_limits() {
        let encode = |text: &str| {
            let mut encoded = Vec::new();
            encode_key(KeyKind::Bytes, text.as_bytes(), &mut encoded).unwrap();
            encoded
        };
        let keys: Vec<_> = ["a", "bb", "ccc", "dddd"].map(encode).into();
        let (mut anchor, mut seen) = (Anchor::Start, Vec::new());
        for limit in [ListLimit { entries: 9, bytes: 3 }, ListLimit { entries: 1, bytes: 1 }] {
            let batch = page(KeyKind::Bytes, &keys, &mut anchor, limit).unwrap();
            seen.push(batch.iter().map(<[u8]>::to_vec).collect::<Vec<_>>());
        }
        assert_eq!(seen, [vec![b"a".to_vec(), b"bb".to_vec()], vec![b"ccc".to_vec()]]);
        let batch = page(KeyKind::Bytes, &keys, &mut anchor, ListLimit::entries(9)).unwrap();
        assert!(batch.iter().eq([b"dddd"]) && anchor.is_end());
    }
}
