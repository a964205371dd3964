//! All akeys of a container.
use super::history::{History, Snapshots};
use super::records::Stored;
use esker_types::{Epoch, ObjectId, Result, encode_key};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The path of an akey. Its keys are encoded, so that they compare in DAOS's order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct AkeyPath {
    /// The object.
    pub oid: ObjectId,
    /// Its dkey, encoded.
    pub dkey: Vec<u8>,
    /// Its akey, encoded.
    pub akey: Vec<u8>,
}

/// A dkey of an object in encoded form.
pub fn encode_dkey(oid: ObjectId, dkey: &[u8]) -> Result<Vec<u8>> {
    let mut encoded = Vec::new();
    encode_key(oid.dkey_kind(), dkey, &mut encoded)?;
    Ok(encoded)
}

/// An akey of an object in encoded form.
pub fn encode_akey(oid: ObjectId, akey: &[u8]) -> Result<Vec<u8>> {
    let mut encoded = Vec::new();
    encode_key(oid.akey_kind(), akey, &mut encoded)?;
    Ok(encoded)
}

/// An akey as a reader sees it.
pub struct Seen<'a, P = Arc<[u8]>> {
    /// Its path.
    pub path: &'a AkeyPath,
    /// Its epoch.
    pub epoch: Epoch,
    /// Its content.
    pub value: &'a Stored<P>,
}

/// Every akey that exists or that a snapshot shows.
pub struct Tree<P = Arc<[u8]>>(BTreeMap<AkeyPath, History<P>>);

impl<P> Default for Tree<P> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<P> Tree<P> {
    /// The content of an akey, as a reader at `at` sees it.
    pub fn get(&self, path: &AkeyPath, at: Epoch) -> Option<&Stored<P>> {
        self.0.get(path)?.at(at).map(|(_, value)| value)
    }

    /// All akeys that exist for a reader at `at`, in order, from `start` on.
    pub fn from(&self, start: AkeyPath, at: Epoch) -> impl Iterator<Item = Seen<'_, P>> {
        self.0.range(start..).filter_map(move |(path, history)| {
            history.at(at).map(|(epoch, value)| Seen { path, epoch, value })
        })
    }

    /// All existing akeys of an object, in order.
    pub fn object(&self, oid: ObjectId, at: Epoch) -> impl Iterator<Item = Seen<'_, P>> {
        let start = AkeyPath { oid, ..AkeyPath::default() };
        self.from(start, at).take_while(move |seen| seen.path.oid == oid)
    }

    /// All existing akeys of a dkey, in order.
    pub fn dkey<'a>(
        &'a self,
        oid: ObjectId,
        dkey: &'a [u8],
        at: Epoch,
    ) -> impl Iterator<Item = Seen<'a, P>> {
        let start = AkeyPath { oid, dkey: dkey.to_vec(), akey: Vec::new() };
        let is_inside = move |seen: &Seen<'_, P>| seen.path.oid == oid && seen.path.dkey == dkey;
        self.from(start, at).take_while(is_inside)
    }

    /// Adds a version of an akey, or with `None` the note that it was punched. Versions that no snapshot can see any
    /// more are dropped.
    pub fn put(
        &mut self,
        path: AkeyPath,
        epoch: Epoch,
        value: Option<Stored<P>>,
        snapshots: &Snapshots,
    ) {
        let history = self.0.entry(path.clone()).or_default();
        history.push(epoch, value);
        history.prune(snapshots);
        if history.is_empty() {
            self.0.remove(&path);
        }
    }

    /// Moves all akeys of another tree into this one.
    pub fn append(&mut self, other: &mut Self) {
        self.0.append(&mut other.0);
    }

    /// Removes versions that neither the latest state nor a snapshot shows.
    pub fn prune(&mut self, snapshots: &Snapshots) {
        self.0.retain(|_, history| {
            history.prune(snapshots);
            !history.is_empty()
        });
    }
}
