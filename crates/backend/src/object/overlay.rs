//! Writes before they take effect: an overlay over the tree that is applied when all of them have succeeded.
use super::records::{Payload, Records, Stored};
use super::tree::{AkeyPath, Tree, encode_akey, encode_dkey};
use crate::check::check_write;
use esker_types::ops::{Cond, Source, Update, Value, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The latest state of a container with uncommitted writes on top.
pub struct Overlay<'a, P = Arc<[u8]>> {
    tree: &'a Tree<P>,
    epoch: Epoch,
    changed: BTreeMap<AkeyPath, Option<Stored<P>>>,
}

impl<'a, P: Payload> Overlay<'a, P> {
    /// An overlay without writes. Writes added to it get `epoch`.
    pub fn new(tree: &'a Tree<P>, epoch: Epoch) -> Self {
        Self { tree, epoch, changed: BTreeMap::new() }
    }

    /// The changed akeys, with their new content.
    pub fn finish(self) -> BTreeMap<AkeyPath, Option<Stored<P>>> {
        self.changed
    }

    /// Adds a write, which sees the previous ones.
    pub fn write(&mut self, write: &Write<'_>) -> Result<()> {
        check_write(write)?;
        let oid = write.oid;
        match write.op {
            WriteOp::Update { dkey, cond, updates } => self.update(oid, dkey, cond, updates),
            WriteOp::PunchObject { cond } => self.punch(self.existing(oid, None), cond),
            WriteOp::PunchDkey { dkey, cond } => {
                let dkey = encode_dkey(oid, dkey)?;
                self.punch(self.existing(oid, Some(&dkey)), cond)
            }
            WriteOp::PunchAkeys { dkey, akeys, cond } => self.punch_akeys(oid, dkey, akeys, cond),
        }
    }

    /// The value of an akey with the changes made so far.
    fn current(&self, path: &AkeyPath) -> Option<&Stored<P>> {
        match self.changed.get(path) {
            Some(value) => value.as_ref(),
            None => self.tree.get(path, Epoch::MAX),
        }
    }

    /// The existing akeys of an object or of one dkey.
    fn existing(&self, oid: ObjectId, dkey: Option<&[u8]>) -> Vec<AkeyPath> {
        let start = AkeyPath { oid, dkey: dkey.unwrap_or_default().to_vec(), akey: Vec::new() };
        let is_inside =
            |path: &AkeyPath| path.oid == oid && dkey.is_none_or(|dkey| path.dkey == dkey);
        let old = self.tree.from(start.clone(), Epoch::MAX).map(|seen| seen.path);
        let old = old.take_while(|path| is_inside(path));
        let new = self.changed.range(start..).map(|(path, _)| path);
        let new = new.take_while(|path| is_inside(path));
        let mut all: Vec<_> = old.chain(new).cloned().collect();
        all.sort();
        all.dedup();
        all.retain(|path| self.current(path).is_some());
        all
    }

    /// Applies updates of a dkey: all of them, or none if one of their conditions is not met.
    fn update(
        &mut self,
        oid: ObjectId,
        dkey: &[u8],
        cond: Cond,
        updates: &[Update<'_>],
    ) -> Result<()> {
        let dkey = encode_dkey(oid, dkey)?;
        let exists = || !self.existing(oid, Some(&dkey)).is_empty();
        check(cond, Cond::DKEY_INSERT, Cond::DKEY_UPDATE, exists, "dkey")?;
        let path = |update: &Update<'_>| {
            let akey = encode_akey(oid, update.akey)?;
            Ok(AkeyPath { oid, dkey: dkey.clone(), akey })
        };
        let paths: Vec<_> = updates.iter().map(path).collect::<Result<_>>()?;
        for (update, path) in updates.iter().zip(&paths) {
            let exists = || self.current(path).is_some();
            check(update.cond, Cond::AKEY_INSERT, Cond::AKEY_UPDATE, exists, "akey")?;
        }
        updates.iter().zip(paths).try_for_each(|(update, path)| self.set(path, &update.value))
    }

    /// Sets the value of an akey. Extents replace the records that they overlap. A punch of an akey that does not exist
    /// changes nothing.
    fn set(&mut self, path: AkeyPath, value: &Value<'_>) -> Result<()> {
        let new = match *value {
            Value::Single(data) => Some(self.single(&path, data)?),
            Value::Array { record_size, extents, data } => {
                let mut records = self.records(&path, Some(record_size))?;
                let mut offset = 0;
                for &extent in extents {
                    records.write(extent, data, offset, self.epoch);
                    offset += extent.count * record_size;
                }
                some_records(records)
            }
            Value::PunchExtents(extents) => {
                let mut records = self.records(&path, None)?;
                extents.iter().for_each(|&extent: &Extent| records.remove(extent));
                some_records(records)
            }
        };
        if new.is_some() || self.current(&path).is_some() {
            self.changed.insert(path, new);
        }
        Ok(())
    }

    /// A single value for an akey, which must not hold an array.
    fn single(&self, path: &AkeyPath, data: Source<'_>) -> Result<Stored<P>> {
        match self.current(path) {
            Some(Stored::Array(_)) => Err(mixed()),
            _ => Ok(Stored::Single(P::take(data, 0, data.len()))),
        }
    }

    /// A copy of the records of an array that is to be changed; empty if it does not exist. `record_size` is that of
    /// the new records; a punch gives `None` and accepts any size.
    fn records(&self, path: &AkeyPath, record_size: Option<u64>) -> Result<Records<P>> {
        match (self.current(path), record_size) {
            (Some(Stored::Single(_)), _) => Err(mixed()),
            (Some(Stored::Array(records)), Some(size)) if size != records.record_size => {
                Err(Error::new(
                    ErrorKind::Invalid,
                    format!(
                        "record size {size} differs from the stored size {}",
                        records.record_size
                    ),
                ))
            }
            (Some(Stored::Array(records)), _) => Ok(records.clone()),
            (None, size) => Ok(Records::new(size.unwrap_or(1))),
        }
    }

    /// Removes the existing akeys `paths`. Fails with `Cond::PUNCH` if there are none: then the key or object to be
    /// punched does not exist.
    fn punch(&mut self, paths: Vec<AkeyPath>, cond: Cond) -> Result<()> {
        if paths.is_empty() && cond.has(Cond::PUNCH) {
            return Err(missing_key_error("key to be punched"));
        }
        self.changed.extend(paths.into_iter().map(|path| (path, None)));
        Ok(())
    }

    /// Removes akeys of a dkey. With `Cond::PUNCH`, fails if one of them does not exist.
    fn punch_akeys(
        &mut self,
        oid: ObjectId,
        dkey: &[u8],
        akeys: &[&[u8]],
        cond: Cond,
    ) -> Result<()> {
        let dkey = encode_dkey(oid, dkey)?;
        let mut paths = Vec::new();
        for akey in akeys {
            let path = AkeyPath { oid, dkey: dkey.clone(), akey: encode_akey(oid, akey)? };
            match self.current(&path) {
                Some(_) => paths.push(path),
                None if cond.has(Cond::PUNCH) => return Err(missing_key_error("akey")),
                None => {}
            }
        }
        self.punch(paths, Cond::NONE)
    }
}

/// Returns the array as a stored value, or None if it has no records: such an array does not exist.
fn some_records<P: Payload>(records: Records<P>) -> Option<Stored<P>> {
    (!records.is_empty()).then_some(Stored::Array(records))
}

/// Checks the conditions of `cond` on a key: `insert` requires that it is new, `update` that it exists. `exists` is
/// called only if one of them is set. `what` names the key in the error.
fn check(
    cond: Cond,
    insert: Cond,
    update: Cond,
    exists: impl Fn() -> bool,
    what: &str,
) -> Result<()> {
    if cond.has(insert) && exists() {
        return Err(Error::new(ErrorKind::Exists, format!("{what} already exists")));
    }
    if cond.has(update) && !exists() {
        return Err(missing_key_error(what));
    }
    Ok(())
}

/// The error of a condition that requires a key. `what` names the key.
pub fn missing_key_error(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("{what} does not exist"))
}

fn mixed() -> Error {
    Error::new(ErrorKind::NoPermission, "an akey holds either a single value or an array")
}
