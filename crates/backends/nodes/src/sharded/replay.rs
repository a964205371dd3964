//! Effect of a change's earlier writes on the existence of an object, for a conditional punch that comes after them.
use esker_types::ObjectId;
use esker_types::ops::{Update, Value, Write, WriteOp};
use std::collections::BTreeMap;

/// Keys of an object that the writes of a change have added or removed. Records that they punch do not count: their akey
/// is taken to exist as before.
#[derive(Default)]
pub(crate) struct Replay<'a> {
    /// True if a write has punched the object, so that nothing is left of what the store has.
    is_punched: bool,
    dkeys: BTreeMap<&'a [u8], Dkey<'a>>,
}

/// State of a dkey that writes have changed.
#[derive(Default)]
struct Dkey<'a> {
    /// True if a write has punched the dkey.
    is_punched: bool,
    /// Whether each akey exists that was written or punched since.
    akeys: BTreeMap<&'a [u8], bool>,
}

impl<'a> Replay<'a> {
    /// Replays the writes to one object.
    pub(crate) fn from_writes(oid: ObjectId, writes: &[Write<'a>]) -> Self {
        let mut replay = Self::default();
        let of_object = writes.iter().filter(|write| write.oid == oid);
        of_object.for_each(|write| replay.apply(&write.op));
        replay
    }

    fn apply(&mut self, op: &WriteOp<'a>) {
        match *op {
            WriteOp::Update { dkey, updates, .. } => {
                for update in updates.iter().filter(|update| adds_data(update)) {
                    self.dkeys.entry(dkey).or_default().akeys.insert(update.akey, true);
                }
            }
            WriteOp::PunchObject { .. } => {
                *self = Self { is_punched: true, dkeys: BTreeMap::new() };
            }
            WriteOp::PunchDkey { dkey, .. } => {
                self.dkeys.insert(dkey, Dkey { is_punched: true, akeys: BTreeMap::new() });
            }
            WriteOp::PunchAkeys { dkey, akeys, .. } => {
                let of_dkey = self.dkeys.entry(dkey).or_default();
                of_dkey.akeys.extend(akeys.iter().map(|akey| (*akey, false)));
            }
        }
    }

    /// Whether the object exists; `None` if that depends on the store.
    pub(crate) fn exists(&self) -> Option<bool> {
        let is_added = self.dkeys.values().any(|dkey| dkey.akeys.values().any(|exists| *exists));
        (is_added || self.is_punched).then_some(is_added)
    }

    /// Number of dkeys that the writes have changed.
    pub(crate) fn dkeys(&self) -> usize {
        self.dkeys.len()
    }

    /// Number of akeys of a dkey that the writes have changed.
    pub(crate) fn akeys(&self, dkey: &[u8]) -> usize {
        self.dkeys.get(dkey).map_or(0, |dkey| dkey.akeys.len())
    }

    /// Whether a dkey that the store has still exists, if no write has added an akey; `None` if that depends on its
    /// akeys.
    pub(crate) fn keeps_dkey(&self, dkey: &[u8]) -> Option<bool> {
        match self.dkeys.get(dkey) {
            None => Some(true),
            Some(changed) if changed.is_punched => Some(false),
            Some(_) => None,
        }
    }

    /// Whether an akey that the store has still exists.
    pub(crate) fn keeps_akey(&self, dkey: &[u8], akey: &[u8]) -> bool {
        self.dkeys.get(dkey).is_none_or(|dkey| !dkey.akeys.contains_key(akey))
    }
}

/// True if an update creates its akey.
fn adds_data(update: &Update<'_>) -> bool {
    match &update.value {
        Value::Single(_) => true,
        Value::Array { extents, .. } => extents.iter().any(|extent| !extent.is_empty()),
        Value::PunchExtents(_) => false,
    }
}
