//! All akeys of a container.
use super::history::{History, Snapshots};
use super::records::Stored;
use esker_types::{Epoch, ObjectId, Result, encode_key};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where an akey is; its keys are encoded, so that these compare as DAOS orders them.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Place {
    pub(crate) oid: ObjectId,
    pub(crate) dkey: Vec<u8>,
    pub(crate) akey: Vec<u8>,
}

/// The dkey of an object in its encoded form.
pub(crate) fn encode_dkey(oid: ObjectId, dkey: &[u8]) -> Result<Vec<u8>> {
    let mut encoded = Vec::new();
    encode_key(oid.dkey_kind(), dkey, &mut encoded)?;
    Ok(encoded)
}

/// An akey of an object in its encoded form.
pub(crate) fn encode_akey(oid: ObjectId, akey: &[u8]) -> Result<Vec<u8>> {
    let mut encoded = Vec::new();
    encode_key(oid.akey_kind(), akey, &mut encoded)?;
    Ok(encoded)
}

/// An akey as a reader sees it.
pub(crate) struct Seen<'a, P = Arc<[u8]>> {
    pub(crate) place: &'a Place,
    pub(crate) epoch: Epoch,
    pub(crate) value: &'a Stored<P>,
}

/// Every akey there is or that a snapshot shows.
pub(crate) struct Tree<P = Arc<[u8]>>(BTreeMap<Place, History<P>>);

impl<P> Default for Tree<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P> Tree<P> {
    /// Content of an akey.
    pub(crate) fn get(&self, place: &Place, at: Epoch) -> Option<&Stored<P>> {
        self.0.get(place)?.at(at).map(|(_, value)| value)
    }

    /// All akeys that exist, in order, from `start` on.
    pub(crate) fn from(&self, start: Place, at: Epoch) -> impl Iterator<Item = Seen<'_, P>> {
        self.0.range(start..).filter_map(move |(place, history)| {
            history.at(at).map(|(epoch, value)| Seen { place, epoch, value })
        })
    }

    /// Those of an object.
    pub(crate) fn object(&self, oid: ObjectId, at: Epoch) -> impl Iterator<Item = Seen<'_, P>> {
        let start = Place { oid, ..Place::default() };
        self.from(start, at).take_while(move |seen| seen.place.oid == oid)
    }

    /// Those of a dkey.
    pub(crate) fn dkey<'a>(
        &'a self,
        oid: ObjectId,
        dkey: &'a [u8],
        at: Epoch,
    ) -> impl Iterator<Item = Seen<'a, P>> {
        let start = Place { oid, dkey: dkey.to_vec(), akey: Vec::new() };
        let is_inside = move |seen: &Seen<'_, P>| seen.place.oid == oid && seen.place.dkey == dkey;
        self.from(start, at).take_while(is_inside)
    }

    /// Gives an akey a new version.
    pub(crate) fn put(
        &mut self,
        place: Place,
        epoch: Epoch,
        value: Option<Stored<P>>,
        snapshots: &Snapshots,
    ) {
        let history = self.0.entry(place.clone()).or_default();
        history.push(epoch, value);
        history.prune(snapshots);
        if history.is_empty() {
            self.0.remove(&place);
        }
    }

    /// Drops what neither the latest state nor a snapshot shows.
    pub(crate) fn prune(&mut self, snapshots: &Snapshots) {
        self.0.retain(|_, history| {
            history.prune(snapshots);
            !history.is_empty()
        });
    }
}
