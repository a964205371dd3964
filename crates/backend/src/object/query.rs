//! The smallest or largest dkey, akey or extent.
use super::conflicts::Watched;
use super::read::Reader;
use super::records::{Payload, Stored};
use super::tree::{Seen, encode_akey, encode_dkey};
use crate::check::check_keys;
use esker_types::ops::{Edge, KeyFound, KeyQuery};
use esker_types::{Error, ErrorKind, Extent, Result, decode_key};

/// An optional key in encoded form.
type Encoded = Option<Vec<u8>>;

impl<P: Payload> Reader<'_, P> {
    /// The smallest or largest key or extent; `None` if there is none.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a key of another kind.
    pub fn query(&mut self, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        let (dkey, akey) = self.encode_given(&query)?;
        let bound = query.bound(self.oid.dkey_kind())?;
        match &dkey {
            Some(dkey) => self.note_dkey(dkey),
            None => self.note(Watched::Object(self.oid)),
        }
        let fits = |seen: &Seen<'_, P>| {
            dkey.as_ref().is_none_or(|dkey| *dkey == seen.path.dkey)
                && seen.path.dkey > bound
                && akey.as_ref().is_none_or(|akey| *akey == seen.path.akey)
        };
        let of_object = self.tree.object(self.oid, self.at).filter(fits);
        let mut candidates = of_object.filter_map(|seen| Candidate::new(&seen, &query));
        let found = match query.edge {
            Edge::Min => candidates.next(),
            Edge::Max => candidates.last(),
        };
        found.map(|candidate| self.answer(candidate, &query)).transpose()
    }

    /// Encodes the dkey and the akey that the query gives.
    fn encode_given(&self, query: &KeyQuery<'_>) -> Result<(Encoded, Encoded)> {
        if query.want_extent && query.akey.is_none() && !query.want_akey {
            return Err(Error::new(ErrorKind::Invalid, "a query for extents needs an akey"));
        }
        if let Some(dkey) = query.dkey {
            check_keys(self.oid, dkey, query.akey)?;
        }
        let dkey = query.dkey.map(|dkey| encode_dkey(self.oid, dkey)).transpose()?;
        let akey = query.akey.map(|akey| encode_akey(self.oid, akey)).transpose()?;
        Ok((dkey, akey))
    }

    /// Decodes the keys that a query has found.
    fn answer(&self, candidate: Candidate, query: &KeyQuery<'_>) -> Result<KeyFound> {
        let damaged = || Error::new(ErrorKind::Corrupt, "a key that cannot be decoded");
        let dkey = decode_key(self.oid.dkey_kind(), &candidate.dkey).ok_or_else(damaged)?;
        let akey = match query.want_akey && query.akey.is_none() {
            true => decode_key(self.oid.akey_kind(), &candidate.akey).ok_or_else(damaged)?,
            false => query.akey.unwrap_or_default().to_vec(),
        };
        Ok(KeyFound { dkey, akey, extent: candidate.extent })
    }
}

/// An akey that matches the query.
struct Candidate {
    dkey: Vec<u8>,
    akey: Vec<u8>,
    extent: Option<Extent>,
}

impl Candidate {
    /// The result of a query at one akey; `None` if the query looks for an extent, and the akey has none.
    fn new<P: Payload>(seen: &Seen<'_, P>, query: &KeyQuery<'_>) -> Option<Self> {
        let extent = match query.want_extent {
            true => Some(edge_of(seen.value, query.edge)?),
            false => None,
        };
        let (dkey, akey) = (seen.path.dkey.clone(), seen.path.akey.clone());
        Some(Self { dkey, akey, extent })
    }
}

/// The first or last extent that a value has, for a query. A single value has none.
fn edge_of<P: Payload>(value: &Stored<P>, edge: Edge) -> Option<Extent> {
    let Stored::Array(records) = value else { return None };
    let mut stored = records.stored();
    let found = match edge {
        Edge::Min => stored.next(),
        Edge::Max => stored.next_back(),
    };
    found.map(|stored| stored.extent)
}
