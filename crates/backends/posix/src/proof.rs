//! Tokens of a transaction: the data that it has read, and a digest of that data. The commit computes the digests again
//! and compares them.
use esker_backend::encoding::{
    Parts, begin, finish, put_bytes, put_extent, put_oid, put_u32, put_u64,
};
use esker_types::ops::{Fetch, ReadTokens, Wanted};
use esker_types::{Checksum, Error, ErrorKind, Extent, ObjectId, Result};

/// The first bytes of a token.
const MAGIC: &[u8; 8] = b"ESKRREAD";

/// The data of an object that a read depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// All keys and values.
    Object,
    /// The set of dkeys.
    Dkeys,
    /// The akeys and values of a dkey. Of a chunk of an Array, only its length and these records; with the time of its
    /// last change if `with_epoch` is set.
    Dkey { dkey: Vec<u8>, extents: Vec<Extent>, with_epoch: bool },
}

impl Watched {
    /// Watches a dkey; of a chunk of an Array, only its length.
    pub(super) fn dkey(dkey: &[u8]) -> Self {
        Self::Dkey { dkey: dkey.to_vec(), extents: Vec::new(), with_epoch: false }
    }

    /// Watches a dkey and the time of its last change.
    pub(super) fn dkey_with_epoch(dkey: &[u8]) -> Self {
        Self::Dkey { dkey: dkey.to_vec(), extents: Vec::new(), with_epoch: true }
    }

    /// A dkey, or the object if there is none.
    pub(super) fn dkey_or_object(dkey: Option<&[u8]>) -> Self {
        dkey.map_or(Self::Object, Self::dkey)
    }

    /// Watches the data that fetches of a dkey read.
    pub(super) fn fetched(dkey: &[u8], fetches: &[Fetch<'_>]) -> Self {
        let extents = fetches.iter().flat_map(|fetch| match fetch.request.wanted {
            Wanted::Array(extents) => extents,
            Wanted::Single => &[],
        });
        let extents = extents.copied().collect();
        Self::Dkey { dkey: dkey.to_vec(), extents, with_epoch: false }
    }
}

/// A hash of data that was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest(u64);

impl Digest {
    /// Includes bytes and their number in the digest.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.add_number(bytes.len() as u64);
        self.add_number(Checksum::Crc64.sum(bytes));
    }

    /// Includes a number in the digest.
    pub(super) fn add_number(&mut self, number: u64) {
        let both = [self.0.to_le_bytes(), number.to_le_bytes()];
        self.0 = Checksum::Crc64.sum(both.as_flattened());
    }
}

/// Proof of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    pub(super) oid: ObjectId,
    pub(super) watched: Watched,
    pub(super) digest: Digest,
}

impl Proof {
    /// Adds the encoded proof to the tokens of the reads of a transaction.
    pub(super) fn add_to(&self, tokens: &ReadTokens) {
        let mut out = begin(MAGIC);
        put_oid(&mut out, self.oid);
        put_u64(&mut out, self.digest.0);
        match &self.watched {
            Watched::Object => put_u32(&mut out, 0),
            Watched::Dkeys => put_u32(&mut out, 1),
            Watched::Dkey { dkey, extents, with_epoch } => {
                put_u32(&mut out, 2 + u32::from(*with_epoch));
                put_bytes(&mut out, dkey);
                put_u32(&mut out, extents.len() as u32);
                extents.iter().for_each(|extent| put_extent(&mut out, *extent));
            }
        }
        tokens.add(&finish(out));
    }

    /// Decodes a token; `None` if another backend made it.
    fn from_token(token: &[u8]) -> Option<Self> {
        let mut parts = Parts::open(MAGIC, token)?;
        let oid = parts.oid()?;
        let digest = Digest(parts.u64()?);
        let watched = match parts.u32()? {
            0 => Watched::Object,
            1 => Watched::Dkeys,
            kind @ (2 | 3) => {
                let (dkey, count) = (parts.bytes()?.to_vec(), parts.u32()?);
                let extents = (0..count).map(|_| parts.extent()).collect::<Option<_>>()?;
                Watched::Dkey { dkey, extents, with_epoch: kind == 3 }
            }
            _ => return None,
        };
        Some(Self { oid, watched, digest })
    }

    /// All proofs of a transaction.
    ///
    /// # Errors
    /// `TxRestart` for a token of another backend.
    pub(super) fn all(tokens: &ReadTokens) -> Result<Vec<Self>> {
        let proofs: Option<_> = tokens.map(Self::from_token).into_iter().collect();
        proofs.ok_or_else(changed_read_error)
    }
}

/// The error for data that has changed since it was read.
#[cold]
pub(super) fn changed_read_error() -> Error {
    Error::new(
        ErrorKind::TxRestart,
        "data read by this transaction has changed: restart the transaction",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_round_trip_as_tokens() {
        let mut digest = Digest::default();
        digest.add(b"value");
        let extents = vec![Extent::new(3, 4)];
        let dkey = Watched::Dkey { dkey: b"d".to_vec(), extents, with_epoch: false };
        let watched = [Watched::Object, Watched::Dkeys, dkey, Watched::dkey_with_epoch(b"d")];
        let oid = ObjectId { hi: 1, lo: 2 };
        let proofs = watched.map(|watched| Proof { oid, watched, digest });
        let tokens = ReadTokens::default();
        proofs.iter().for_each(|proof| proof.add_to(&tokens));
        assert_eq!(Proof::all(&tokens).unwrap(), proofs);
        tokens.add(b"cut");
        assert_eq!(Proof::all(&tokens).unwrap_err().kind(), ErrorKind::TxRestart);
    }

    #[test]
    fn digests_depend_on_order_and_boundaries() {
        let digest = |parts: &[&[u8]]| {
            let mut digest = Digest::default();
            parts.iter().for_each(|part| digest.add(part));
            digest
        };
        let all: [&[&[u8]]; 5] = [&[], &[b""], &[b"ab", b"c"], &[b"a", b"bc"], &[b"c", b"ab"]];
        let digests: std::collections::HashSet<_> = all.iter().map(|it| digest(it).0).collect();
        assert_eq!(digests.len(), all.len());
    }
}
