//! Records the reads of a transaction, each with a digest of its result. DAOS does not report versions of single
//! values. So the commit repeats the reads within the DAOS transaction that writes, and compares the digests.
use super::container::Opened;
use super::fetch::{Got, Want};
use super::read::Reader;
use crate::binding::Tx;
use esker_backend::encoding::{Parts, begin, finish, put_bytes, put_u32, put_u64};
use esker_types::ops::{
    AkeyRef, Anchor, Cond, Edge, KeyFound, KeyQuery, ListLimit, StoredExtent, View,
};
use esker_types::{Error, ErrorKind, Extent, KeyBatch, ObjectId, Result};
use sha2::{Digest as _, Sha256};

/// The first bytes of a token.
const MAGIC: &[u8; 8] = b"DAOSREAD";

/// Bytes of a digest in a token.
const DIGEST_BYTES: usize = 16;

/// A hash of the result of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Digest([u8; DIGEST_BYTES]);

/// A read that can be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A fetch of akeys.
    Fetch { dkey: Vec<u8>, cond: Cond, wants: Vec<Want> },
    /// A page of dkeys, or of the akeys of a dkey.
    Keys { dkey: Option<Vec<u8>>, anchor: Anchor, limit: ListLimit },
    /// A page of extents.
    Extents { dkey: Vec<u8>, akey: Vec<u8>, anchor: Anchor, entries: usize },
    /// A query.
    Query(Asked),
    /// The epoch of the object.
    Epoch,
}

/// A query in a form that can be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Asked {
    edge: Edge,
    dkey: Option<Vec<u8>>,
    after: Option<Vec<u8>>,
    akey: Option<Vec<u8>>,
    want_akey: bool,
    want_extent: bool,
}

/// Result of repeating the read of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holds {
    /// The read has the same result.
    Yes,
    /// The read has another result.
    No,
}

/// Repeats the read of a token within `tx`, and compares the results.
pub(super) async fn holds(opened: &Opened, tx: &Tx, token: &[u8]) -> Result<Holds> {
    let (oid, read, before) = Read::of_token(token).ok_or_else(foreign)?;
    let object = opened.container.object(oid, opened.writable)?;
    let tx = Some(tx.clone());
    let reader = Reader { opened, object, oid, tx, view: View::Latest, tokens: None };
    let now = read.again(&reader).await?;
    Ok(if now == before { Holds::Yes } else { Holds::No })
}

#[cold]
fn foreign() -> Error {
    let message = "proof of what was read that this pool did not give: read again, and restart";
    Error::new(ErrorKind::TxRestart, message)
}

impl Digest {
    /// Hash of the bytes that `parts` writes.
    fn hash(parts: impl FnOnce(&mut Vec<u8>)) -> Self {
        let mut bytes = Vec::new();
        parts(&mut bytes);
        let hash = Sha256::digest(&bytes);
        let mut short = [0; DIGEST_BYTES];
        short.copy_from_slice(&hash[..DIGEST_BYTES]);
        Self(short)
    }

    /// Digest of a number.
    pub(super) fn of_number(number: u64) -> Self {
        Self::hash(|out| put_u64(out, number))
    }

    /// Digest of the result of a fetch, or of a condition that did not hold.
    pub(super) fn of_fetch(got: &Result<Vec<Got>>) -> Self {
        Self::hash(|out| {
            let Ok(all) = got else { return put_u32(out, u32::MAX) };
            for got in all {
                put_u64(out, got.size);
                put_extents(out, &got.filled);
                got.pieces().for_each(|(at, bytes)| {
                    put_u64(out, at);
                    put_bytes(out, bytes);
                });
            }
        })
    }

    /// Returns the digest of a page of a listing of keys, and of the anchor after it.
    pub(super) fn of_keys(keys: &KeyBatch, anchor: &Anchor) -> Self {
        Self::hash(|out| {
            keys.iter().for_each(|key| put_bytes(out, key));
            put_anchor(out, anchor);
        })
    }

    /// Returns the digest of a page of a listing of extents, and of the anchor after it.
    pub(super) fn of_extents(extents: &[StoredExtent], anchor: &Anchor) -> Self {
        Self::hash(|out| {
            for stored in extents {
                put_extents(out, &[stored.extent]);
                put_u64(out, stored.record_size);
                put_u64(out, stored.epoch.0);
            }
            put_anchor(out, anchor);
        })
    }

    /// Digest of the reply to a query.
    pub(super) fn of_found(found: Option<&KeyFound>) -> Self {
        Self::hash(|out| {
            if let Some(found) = found {
                put_bytes(out, &found.dkey);
                put_bytes(out, &found.akey);
                put_extents(out, found.extent.as_slice());
            }
        })
    }
}

impl Read {
    /// Describes a query, so that it can be repeated at the commit.
    pub(super) fn query(query: KeyQuery<'_>) -> Self {
        let owned = |key: Option<&[u8]>| key.map(<[u8]>::to_vec);
        Self::Query(Asked {
            edge: query.edge,
            dkey: owned(query.dkey),
            after: owned(query.after),
            akey: owned(query.akey),
            want_akey: query.want_akey,
            want_extent: query.want_extent,
        })
    }

    /// Repeats the read, to find out whether its result would now be another. An error of the read counts as a result
    /// only if something is not found.
    async fn again(&self, reader: &Reader<'_>) -> Result<Digest> {
        match self {
            Self::Fetch { dkey, cond, wants } => {
                let got = reader.read(dkey, *cond, wants).await;
                match got {
                    Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
                    got => Ok(Digest::of_fetch(&got)),
                }
            }
            Self::Keys { dkey, anchor, limit } => {
                let mut anchor = anchor.clone();
                let keys = reader.page_of_keys(dkey.as_deref(), &mut anchor, *limit).await?;
                Ok(Digest::of_keys(&keys, &anchor))
            }
            Self::Extents { dkey, akey, anchor, entries } => {
                let (mut anchor, key) = (anchor.clone(), AkeyRef { dkey, akey });
                let found = reader.page_of_extents(key, &mut anchor, *entries).await?;
                Ok(Digest::of_extents(&found, &anchor))
            }
            Self::Query(asked) => {
                let found = reader.find(asked.query()).await?;
                Ok(Digest::of_found(found.as_ref()))
            }
            Self::Epoch => Ok(Digest::of_number(reader.latest_epoch().await?.0)),
        }
    }

    /// The proof of this read of object `oid` as a token: how to repeat the read, and the digest of its result.
    pub(super) fn to_token(&self, oid: ObjectId, digest: Digest) -> Vec<u8> {
        let mut out = begin(MAGIC);
        out.extend_from_slice(&oid.to_bytes());
        out.extend_from_slice(&digest.0);
        match self {
            Self::Fetch { dkey, cond, wants } => {
                put_u32(&mut out, 0);
                put_bytes(&mut out, dkey);
                put_u64(&mut out, cond.bits());
                put_u32(&mut out, wants.len() as u32);
                wants.iter().for_each(|want| put_want(&mut out, want));
            }
            Self::Keys { dkey, anchor, limit } => {
                put_u32(&mut out, 1);
                put_key(&mut out, dkey.as_deref());
                put_anchor(&mut out, anchor);
                put_u64(&mut out, limit.entries as u64);
                put_u64(&mut out, limit.bytes as u64);
            }
            Self::Extents { dkey, akey, anchor, entries } => {
                put_u32(&mut out, 2);
                put_bytes(&mut out, dkey);
                put_bytes(&mut out, akey);
                put_anchor(&mut out, anchor);
                put_u64(&mut out, *entries as u64);
            }
            Self::Query(asked) => {
                put_u32(&mut out, 3);
                asked.put(&mut out);
            }
            Self::Epoch => put_u32(&mut out, 4),
        }
        finish(out)
    }

    /// Decodes a token: the object, the read, and the digest of its result. `None` if this backend did not make it.
    fn of_token(token: &[u8]) -> Option<(ObjectId, Self, Digest)> {
        let mut parts = Parts::open(MAGIC, token)?;
        let oid = ObjectId::from_bytes(parts.take(16)?.try_into().ok()?);
        let digest = Digest(parts.take(DIGEST_BYTES)?.try_into().ok()?);
        let read = match parts.u32()? {
            0 => Self::Fetch {
                dkey: parts.bytes()?.to_vec(),
                cond: Cond::from_bits_truncate(parts.u64()?),
                wants: (0..parts.u32()?).map(|_| want(&mut parts)).collect::<Option<_>>()?,
            },
            1 => {
                let (dkey, anchor) = (key(&mut parts)?, anchor(&mut parts)?);
                let entries = usize::try_from(parts.u64()?).ok()?;
                let bytes = usize::try_from(parts.u64()?).ok()?;
                Self::Keys { dkey, anchor, limit: ListLimit { entries, bytes } }
            }
            2 => Self::Extents {
                dkey: parts.bytes()?.to_vec(),
                akey: parts.bytes()?.to_vec(),
                anchor: anchor(&mut parts)?,
                entries: usize::try_from(parts.u64()?).ok()?,
            },
            3 => Self::Query(Asked::parse(&mut parts)?),
            4 => Self::Epoch,
            _ => return None,
        };
        Some((oid, read, digest))
    }
}

impl Asked {
    /// Returns the query that was proved, to run it again.
    fn query(&self) -> KeyQuery<'_> {
        KeyQuery {
            edge: self.edge,
            dkey: self.dkey.as_deref(),
            after: self.after.as_deref(),
            akey: self.akey.as_deref(),
            want_akey: self.want_akey,
            want_extent: self.want_extent,
        }
    }

    /// Encodes the query.
    fn put(&self, out: &mut Vec<u8>) {
        put_u32(out, u32::from(self.edge == Edge::Max));
        for key in [&self.dkey, &self.after, &self.akey] {
            put_key(out, key.as_deref());
        }
        put_u32(out, self.want_akey.into());
        put_u32(out, self.want_extent.into());
    }

    /// Decodes a query.
    fn parse(parts: &mut Parts<'_>) -> Option<Self> {
        let edge = if parts.u32()? == 0 { Edge::Min } else { Edge::Max };
        let (dkey, after, akey) = (key(parts)?, key(parts)?, key(parts)?);
        let (want_akey, want_extent) = (parts.u32()? != 0, parts.u32()? != 0);
        Some(Self { edge, dkey, after, akey, want_akey, want_extent })
    }
}

/// Encodes an optional key.
fn put_key(out: &mut Vec<u8>, key: Option<&[u8]>) {
    put_u32(out, key.is_some().into());
    put_bytes(out, key.unwrap_or_default());
}

/// Decodes an optional key. The outer `None` means that bytes are missing.
fn key(parts: &mut Parts<'_>) -> Option<Option<Vec<u8>>> {
    let (is_given, key) = (parts.u32()? != 0, parts.bytes()?);
    Some(is_given.then(|| key.to_vec()))
}

/// Encodes extents.
fn put_extents(out: &mut Vec<u8>, extents: &[Extent]) {
    put_u32(out, extents.len() as u32);
    for extent in extents {
        put_u64(out, extent.start);
        put_u64(out, extent.count);
    }
}

/// Decodes extents; `None` if bytes are missing.
fn extents(parts: &mut Parts<'_>) -> Option<Vec<Extent>> {
    (0..parts.u32()?).map(|_| Some(Extent::new(parts.u64()?, parts.u64()?))).collect()
}

/// Encodes an anchor, without its shard, which is always 0.
fn put_anchor(out: &mut Vec<u8>, anchor: &Anchor) {
    let (kind, position) = match anchor {
        Anchor::Start => (0, &[][..]),
        Anchor::After { position, .. } => (1, position.as_slice()),
        Anchor::End => (2, &[][..]),
    };
    put_u32(out, kind);
    put_bytes(out, position);
}

/// Decodes an anchor.
fn anchor(parts: &mut Parts<'_>) -> Option<Anchor> {
    let (kind, position) = (parts.u32()?, parts.bytes()?.to_vec());
    Some(match kind {
        0 => Anchor::Start,
        1 => Anchor::After { shard: 0, position },
        _ => Anchor::End,
    })
}

/// Encodes one fetch of a proof.
fn put_want(out: &mut Vec<u8>, want: &Want) {
    put_bytes(out, &want.akey);
    put_u32(out, want.extents.is_some().into());
    put_extents(out, want.extents.as_deref().unwrap_or_default());
    put_u64(out, want.record_size);
    put_u32(out, want.room.is_some().into());
    put_u64(out, want.room.unwrap_or_default());
    put_u32(out, want.want_filled.into());
    put_u64(out, want.cond.bits());
}

/// Decodes one fetch of a proof; `None` if bytes are missing.
fn want(parts: &mut Parts<'_>) -> Option<Want> {
    let akey = parts.bytes()?.to_vec();
    let (is_array, extents) = (parts.u32()? != 0, extents(parts)?);
    let record_size = parts.u64()?;
    let (has_room, room) = (parts.u32()? != 0, parts.u64()?);
    let (want_filled, cond) = (parts.u32()? != 0, Cond::from_bits_truncate(parts.u64()?));
    let (extents, room) = (is_array.then_some(extents), has_room.then_some(room));
    Some(Want { akey, extents, record_size, room, want_filled, cond })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One read of each kind, and a second listing of keys.
    fn reads() -> Vec<Read> {
        let want = Want {
            akey: b"a".to_vec(),
            extents: Some(vec![Extent::new(3, 4)]),
            record_size: 8,
            room: Some(32),
            want_filled: true,
            cond: Cond::AKEY_FETCH,
        };
        let single = Want { extents: None, room: None, ..want.clone() };
        let dkey = b"d".to_vec();
        let anchor = Anchor::After { shard: 0, position: vec![1, 2] };
        let query = KeyQuery {
            edge: Edge::Max,
            dkey: None,
            after: Some(b"x"),
            akey: Some(b"a"),
            want_akey: false,
            want_extent: true,
        };
        vec![
            Read::Fetch { dkey: dkey.clone(), cond: Cond::NONE, wants: vec![want, single] },
            Read::Keys { dkey: None, anchor: Anchor::Start, limit: ListLimit::entries(7) },
            Read::Keys { dkey: Some(dkey.clone()), anchor, limit: ListLimit::entries(7) },
            Read::Extents { dkey, akey: b"a".to_vec(), anchor: Anchor::at_record(5), entries: 9 },
            Read::query(query),
            Read::Epoch,
        ]
    }

    #[test]
    fn tokens_round_trip_and_damage_is_detected() {
        let (oid, digest) = (ObjectId { hi: 1, lo: 2 }, Digest::of_number(7));
        for read in reads() {
            let token = read.to_token(oid, digest);
            assert_eq!(Read::of_token(&token), Some((oid, read, digest)));
            assert_eq!(Read::of_token(&token[..token.len() - 1]), None);
        }
        assert_eq!(Read::of_token(b"another backend's token"), None);
    }

    #[test]
    fn digests_tell_results_apart() {
        let got = |size, bytes: &[u8]| {
            let (data, pieces) = (bytes.to_vec(), vec![(0, 0..bytes.len())]);
            Digest::of_fetch(&Ok(vec![Got { size, data, pieces, ..Got::default() }]))
        };
        assert_eq!(got(1, b"a"), got(1, b"a"));
        assert_ne!(got(1, b"a"), got(1, b"b"));
        assert_ne!(got(1, b""), got(2, b""));
        let missing = Digest::of_fetch(&Err(ErrorKind::NotFound.into()));
        assert_ne!(missing, Digest::of_fetch(&Ok(vec![Got::default()])));
    }
}
