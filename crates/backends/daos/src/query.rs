//! Queries of the smallest or largest dkey, akey or extent. DAOS supports the common query, for the end of an array.
//! Other queries list the keys.
use super::or_empty;
use super::proof::{Digest, Read};
use super::read::Reader;
use super::rules::is_foreign;
use esker_backend::check::check_keys;
use esker_types::ops::{Edge, KeyFound, KeyQuery};
use esker_types::{Error, ErrorKind, Extent, KeyKind, Result, decode_key};

/// An akey, and its first or last extent if that is requested.
type Below = (Vec<u8>, Option<Extent>);

impl Reader<'_> {
    /// The smallest or largest key or extent; `None` if there is none. Records the read.
    pub(super) async fn query(&self, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        let found = self.find(query).await?;
        self.note(|| Read::query(query), || Digest::of_found(found.as_ref()));
        Ok(found)
    }

    /// Finds the smallest or largest key or extent, without recording the read.
    pub(super) async fn find(&self, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
        if query.want_extent && query.akey.is_none() && !query.want_akey {
            return Err(Error::new(ErrorKind::Invalid, "a query for extents needs an akey"));
        }
        match query.akey {
            Some(akey) if is_foreign(self.oid, akey) => Ok(None),
            Some(akey) if is_usual(&query) && self.oid.dkey_kind() == KeyKind::Integer => {
                self.find_end(akey, query.edge).await
            }
            _ => self.find_listed(&query).await,
        }
    }

    /// The outermost extent of an akey, over all dkeys.
    async fn find_end(&self, akey: &[u8], edge: Edge) -> Result<Option<KeyFound>> {
        let found = or_empty(self.object.outermost(self.tx(), edge, akey).await)?;
        Ok(found.map(|found| KeyFound {
            dkey: found.dkey.to_vec(),
            akey: akey.to_vec(),
            extent: Some(found.extent),
        }))
    }

    /// Finds the smallest or largest key by listing the keys.
    async fn find_listed(&self, query: &KeyQuery<'_>) -> Result<Option<KeyFound>> {
        let bound = query.bound(self.oid.dkey_kind())?;
        let dkeys = match query.dkey {
            Some(dkey) => {
                check_keys(self.oid, dkey, query.akey)?;
                vec![dkey.to_vec()]
            }
            None => {
                let mut dkeys = self.sorted(None).await?;
                dkeys.retain(|dkey| *dkey > bound);
                from_edge(query.edge, self.decoded(self.oid.dkey_kind(), dkeys)?)
            }
        };
        for dkey in dkeys {
            if let Some((akey, extent)) = self.find_below(&dkey, query).await? {
                return Ok(Some(KeyFound { dkey, akey, extent }));
            }
        }
        Ok(None)
    }

    /// The akey and extent of a query below a dkey; `None` if one of them does not exist.
    async fn find_below(&self, dkey: &[u8], query: &KeyQuery<'_>) -> Result<Option<Below>> {
        let kind = self.oid.akey_kind();
        let all = from_edge(query.edge, self.decoded(kind, self.sorted(Some(dkey)).await?)?);
        let akeys = match query.akey {
            Some(akey) => all.into_iter().filter(|other| other == akey).collect(),
            None => all,
        };
        for akey in akeys {
            let extent = match query.want_extent {
                true => self.edge_of(dkey, &akey, query.edge).await?,
                false => None,
            };
            if extent.is_some() || !query.want_extent {
                let is_told = query.want_akey || query.akey.is_some();
                return Ok(Some((if is_told { akey } else { Vec::new() }, extent)));
            }
        }
        Ok(None)
    }

    /// Returns the first or last extent of an akey. None if it has none.
    async fn edge_of(&self, dkey: &[u8], akey: &[u8], edge: Edge) -> Result<Option<Extent>> {
        let all = self.all_extents((dkey, akey), false).await?;
        let found = if edge == Edge::Min { all.first() } else { all.last() };
        Ok(found.map(|listed| listed.extent))
    }

    /// Decodes keys from the form in which DAOS stores them. `Corrupt` if a key does not have that form.
    fn decoded(&self, kind: KeyKind, keys: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        let damaged = || {
            let message = format!("object {} has a key that cannot be decoded", self.oid);
            Error::new(ErrorKind::Corrupt, message)
        };
        keys.iter().map(|key| decode_key(kind, key).ok_or_else(damaged)).collect()
    }
}

/// True for a query that DAOS supports in the form of the backend trait.
fn is_usual(query: &KeyQuery<'_>) -> bool {
    query.dkey.is_none() && query.after.is_none() && query.want_extent && !query.want_akey
}

/// Returns sorted keys in the order in which a query looks at them: descending if it looks for the largest.
fn from_edge(edge: Edge, mut keys: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
    if edge == Edge::Max {
        keys.reverse();
    }
    keys
}
