//! Writes before they take effect: they stand in a overlay over the tree until all have succeeded.
use super::records::{Payload, Records, Stored};
use super::tree::{AkeyPath, Tree, encode_akey, encode_dkey};
use crate::check::check_write;
use esker_types::ops::{Cond, Source, Update, Value, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The latest state of a container with writes on top of it.
pub struct Overlay<'a, P = Arc<[u8]>> {
    tree: &'a Tree<P>,
    epoch: Epoch,
    changed: BTreeMap<AkeyPath, Option<Stored<P>>>,
}

impl<'a, P: Payload> Overlay<'a, P> {
    /// An overlay without writes; those to come get `epoch`.
    pub fn new(tree: &'a Tree<P>, epoch: Epoch) -> Self {
        Self { tree, epoch, changed: BTreeMap::new() }
    }

    /// Everything that changed, with its new content.
    pub fn finish(self) -> BTreeMap<AkeyPath, Option<Stored<P>>> {
        self.changed
    }

    /// Adds a write, which sees those before it.
    pub fn write(&mut self, write: &Write<'_>) -> Result<()> {
        check_write(write)?;
        let oid = write.oid;
        match write.op {
            WriteOp::Update { dkey, cond, updates } => self.update(oid, dkey, cond, updates),
            WriteOp::PunchObject { cond } => self.punch(self.places(oid, None), cond),
            WriteOp::PunchDkey { dkey, cond } => {
                let dkey = encode_dkey(oid, dkey)?;
                self.punch(self.places(oid, Some(&dkey)), cond)
            }
            WriteOp::PunchAkeys { dkey, akeys, cond } => self.punch_akeys(oid, dkey, akeys, cond),
        }
    }

    fn current(&self, place: &AkeyPath) -> Option<&Stored<P>> {
        match self.changed.get(place) {
            Some(value) => value.as_ref(),
            None => self.tree.get(place, Epoch::MAX),
        }
    }

    /// The akeys that exist, of an object or of one dkey.
    fn places(&self, oid: ObjectId, dkey: Option<&[u8]>) -> Vec<AkeyPath> {
        let start = AkeyPath { oid, dkey: dkey.unwrap_or_default().to_vec(), akey: Vec::new() };
        let is_inside =
            |place: &AkeyPath| place.oid == oid && dkey.is_none_or(|dkey| place.dkey == dkey);
        let old = self.tree.from(start.clone(), Epoch::MAX).map(|seen| seen.place);
        let old = old.take_while(|place| is_inside(place));
        let new = self.changed.range(start..).map(|(place, _)| place);
        let new = new.take_while(|place| is_inside(place));
        let mut all: Vec<_> = old.chain(new).cloned().collect();
        all.sort();
        all.dedup();
        all.retain(|place| self.current(place).is_some());
        all
    }

    fn update(
        &mut self,
        oid: ObjectId,
        dkey: &[u8],
        cond: Cond,
        updates: &[Update<'_>],
    ) -> Result<()> {
        let dkey = encode_dkey(oid, dkey)?;
        let exists = || !self.places(oid, Some(&dkey)).is_empty();
        check(cond, Cond::DKEY_INSERT, Cond::DKEY_UPDATE, exists, "dkey")?;
        let place = |update: &Update<'_>| {
            let akey = encode_akey(oid, update.akey)?;
            Ok(AkeyPath { oid, dkey: dkey.clone(), akey })
        };
        let places: Vec<_> = updates.iter().map(place).collect::<Result<_>>()?;
        for (update, place) in updates.iter().zip(&places) {
            let exists = || self.current(place).is_some();
            check(update.cond, Cond::AKEY_INSERT, Cond::AKEY_UPDATE, exists, "akey")?;
        }
        updates.iter().zip(places).try_for_each(|(update, place)| self.set(place, &update.value))
    }

    fn set(&mut self, place: AkeyPath, value: &Value<'_>) -> Result<()> {
        let new = match *value {
            Value::Single(data) => Some(self.single(&place, data)?),
            Value::Array { record_size, extents, data } => {
                let mut records = self.records(&place, Some(record_size))?;
                let mut offset = 0;
                for &extent in extents {
                    records.write(extent, data, offset, self.epoch);
                    offset += extent.count * record_size;
                }
                some_records(records)
            }
            Value::PunchExtents(extents) => {
                let mut records = self.records(&place, None)?;
                extents.iter().for_each(|&extent: &Extent| records.remove(extent));
                some_records(records)
            }
        };
        if new.is_some() || self.current(&place).is_some() {
            self.changed.insert(place, new);
        }
        Ok(())
    }

    fn single(&self, place: &AkeyPath, data: Source<'_>) -> Result<Stored<P>> {
        match self.current(place) {
            Some(Stored::Array(_)) => Err(mixed()),
            _ => Ok(Stored::Single(P::take(data, 0, data.len()))),
        }
    }

    /// The records of an array to be changed; none of them where it does not exist.
    fn records(&self, place: &AkeyPath, record_size: Option<u64>) -> Result<Records<P>> {
        match (self.current(place), record_size) {
            (Some(Stored::Single(_)), _) => Err(mixed()),
            (Some(Stored::Array(records)), Some(size)) if size != records.record_size => {
                Err(Error::new(
                    ErrorKind::Invalid,
                    format!("records of {size} bytes, where {} are stored", records.record_size),
                ))
            }
            (Some(Stored::Array(records)), _) => Ok(records.clone()),
            (None, size) => Ok(Records::new(size.unwrap_or(1))),
        }
    }

    fn punch(&mut self, places: Vec<AkeyPath>, cond: Cond) -> Result<()> {
        if places.is_empty() && cond.has(Cond::PUNCH) {
            return Err(missing("nothing to punch"));
        }
        self.changed.extend(places.into_iter().map(|place| (place, None)));
        Ok(())
    }

    fn punch_akeys(
        &mut self,
        oid: ObjectId,
        dkey: &[u8],
        akeys: &[&[u8]],
        cond: Cond,
    ) -> Result<()> {
        let dkey = encode_dkey(oid, dkey)?;
        let mut places = Vec::new();
        for akey in akeys {
            let place = AkeyPath { oid, dkey: dkey.clone(), akey: encode_akey(oid, akey)? };
            match self.current(&place) {
                Some(_) => places.push(place),
                None if cond.has(Cond::PUNCH) => return Err(missing("akey")),
                None => {}
            }
        }
        self.punch(places, Cond::NONE)
    }
}

/// An array without records does not exist.
fn some_records<P: Payload>(records: Records<P>) -> Option<Stored<P>> {
    (!records.is_empty()).then_some(Stored::Array(records))
}

fn check(
    cond: Cond,
    insert: Cond,
    update: Cond,
    exists: impl Fn() -> bool,
    what: &str,
) -> Result<()> {
    if cond.has(insert) && exists() {
        return Err(Error::new(ErrorKind::Exists, format!("the {what} exists")));
    }
    if cond.has(update) && !exists() {
        return Err(missing(what));
    }
    Ok(())
}

/// The error for something that a condition asks for.
pub fn missing(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{what}: there is none"))
}

fn mixed() -> Error {
    Error::new(ErrorKind::NoPermission, "an akey holds either a single value or an array")
}
