//! Queries by listing, for backends that have no faster way.
use crate::check::check_keys;
use crate::container::OpenContainer;
use esker_types::ops::{AkeyRef, Anchor, Edge, KeyFound, KeyQuery, KeyScope, ListLimit, ReadAt};
use esker_types::{Error, ErrorKind, Extent, KeyKind, ObjectId, Result, encode_key};

/// Keys and extents per listing.
const ENTRIES: usize = 1024;

/// A key with its encoded form, by which keys are sorted.
type Encoded = (Vec<u8>, Vec<u8>);

/// One object of a container, as a query reads it.
struct Queried<'a, C: ?Sized> {
    container: &'a C,
    oid: ObjectId,
    query: KeyQuery<'a>,
    at: ReadAt<'a>,
}

/// Answers [`OpenContainer::query_key`] by means of the other operations.
///
/// # Errors
/// [`ErrorKind::Invalid`] for keys of another kind, and the errors of listings.
pub(crate) async fn query_by_listing<'a, C: OpenContainer + ?Sized>(
    container: &'a C,
    oid: ObjectId,
    query: KeyQuery<'a>,
    at: ReadAt<'a>,
) -> Result<Option<KeyFound>> {
    check(oid, &query)?;
    let queried = Queried { container, oid, query, at };
    for dkey in queried.dkeys().await? {
        let found = queried.find_in(dkey).await?;
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// Checks the keys of a query, and that a query for extents names an akey or wants one.
fn check(oid: ObjectId, query: &KeyQuery<'_>) -> Result<()> {
    if query.want_extent && query.akey.is_none() && !query.want_akey {
        return Err(Error::new(ErrorKind::Invalid, "a query for extents needs an akey"));
    }
    if let Some(akey) = query.akey {
        encode(oid.akey_kind(), akey)?;
    }
    query.dkey.map_or(Ok(()), |dkey| check_keys(oid, dkey, query.akey))
}

fn encode(kind: KeyKind, key: &[u8]) -> Result<Vec<u8>> {
    let mut encoded = Vec::new();
    encode_key(kind, key, &mut encoded).map(|()| encoded)
}

impl<C: OpenContainer + ?Sized> Queried<'_, C> {
    /// The dkeys to search, in the order of the search.
    async fn dkeys(&self) -> Result<Vec<Vec<u8>>> {
        if let Some(dkey) = self.query.dkey {
            return Ok(vec![dkey.to_vec()]);
        }
        let kind = self.oid.dkey_kind();
        let bound = self.query.bound(kind)?;
        let mut listed = self.list(kind, KeyScope::Dkeys).await?;
        listed.retain(|(encoded, _)| *encoded > bound);
        Ok(self.in_order(listed))
    }

    /// Lists all keys, each with its encoded form, which sorts as the store does.
    async fn list(&self, kind: KeyKind, scope: KeyScope<'_>) -> Result<Vec<Encoded>> {
        let (mut listed, mut anchor) = (Vec::new(), Anchor::Start);
        while !anchor.is_end() {
            let limit = ListLimit::entries(ENTRIES);
            let batch =
                self.container.list_keys(self.oid, scope, &mut anchor, limit, self.at).await?;
            for key in batch.iter() {
                listed.push((encode(kind, key)?, key.to_vec()));
            }
        }
        Ok(listed)
    }

    /// The keys in the order in which the query visits them.
    fn in_order(&self, mut keys: Vec<Encoded>) -> Vec<Vec<u8>> {
        keys.sort_unstable();
        if self.query.edge == Edge::Max {
            keys.reverse();
        }
        keys.into_iter().map(|(_, key)| key).collect()
    }

    /// Answers the query from the akeys of one dkey. None if they do not have what it looks for.
    async fn find_in(&self, dkey: Vec<u8>) -> Result<Option<KeyFound>> {
        let mut akeys = self.list(self.oid.akey_kind(), KeyScope::Akeys(&dkey)).await?;
        akeys.retain(|(_, akey)| self.query.akey.is_none_or(|wanted| wanted == akey));
        for akey in self.in_order(akeys) {
            let key = AkeyRef { dkey: &dkey, akey: &akey };
            let extent = match self.query.want_extent {
                true => self.outer_extent(key).await?,
                false => None,
            };
            if extent.is_some() == self.query.want_extent {
                let is_named = self.query.want_akey || self.query.akey.is_some();
                let akey = if is_named { akey } else { Vec::new() };
                return Ok(Some(KeyFound { dkey, akey, extent }));
            }
        }
        Ok(None)
    }

    /// The first or last extent of an akey; `None` for a single value.
    async fn outer_extent(&self, key: AkeyRef<'_>) -> Result<Option<Extent>> {
        let (mut found, mut anchor) = (None, Anchor::Start);
        while !anchor.is_end() {
            let page =
                self.container.list_extents(self.oid, key, &mut anchor, ENTRIES, self.at).await?;
            found = match self.query.edge {
                Edge::Min => page.first(),
                Edge::Max => page.last(),
            }
            .map(|stored| stored.extent)
            .or(found);
            if found.is_some() && self.query.edge == Edge::Min {
                break;
            }
        }
        Ok(found)
    }
}
