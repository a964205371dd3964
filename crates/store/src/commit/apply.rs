//! Application of staged writes to the index.
use super::stage::{Content, Piece, Staged, StagedAkey};
use crate::format::keys::{Key, Table};
use crate::format::record::{Record, RecordBytes};
use crate::index::entries::{self, exists};
use crate::index::txn::Inserted;
use crate::shard::buffer::note_array;
use crate::shard::change::Change;
use crate::shard::container::Container;
use crate::shard::extents::{Extents, mixed_kinds_error};
use esker_types::info::ContainerId;
use esker_types::ops::{Cond, Update, Write, WriteOp};
use esker_types::{Error, ErrorKind, ObjectId, Result};

/// Number of keys removed per round. It bounds the memory in use.
const PUNCH_BATCH: usize = 1024;

/// Applies `writes`, whose data is `staged`, to one target.
pub(crate) fn apply(
    change: &mut Change<'_>,
    container: &Container,
    writes: &[Write<'_>],
    staged: &Staged<'_>,
) -> Result<()> {
    let mut applier = Applier { change, container: container.id(), is_partial: false };
    writes.iter().zip(&staged.writes).try_for_each(|(write, akeys)| applier.write(write, akeys))
}

/// Applies `writes` in order, each to its targets among `changes`. A conditional punch of an object checks all targets
/// before any is changed.
pub(crate) fn apply_many(
    changes: &mut [Change<'_>],
    container: &Container,
    writes: &[(Write<'_>, Vec<u32>)],
    parts: &[Staged<'_>],
) -> Result<()> {
    for (index, (write, targets)) in writes.iter().enumerate() {
        check_punch(changes, container, write)?;
        for (change, staged) in changes.iter_mut().zip(parts) {
            if targets.contains(&change.target().number()) {
                let mut applier = Applier { change, container: container.id(), is_partial: true };
                applier.write(write, &staged.writes[index])?;
            }
        }
    }
    Ok(())
}

/// Fails for a conditional punch of an object that exists on none of the targets.
fn check_punch(changes: &[Change<'_>], container: &Container, write: &Write<'_>) -> Result<()> {
    let WriteOp::PunchObject { cond } = write.op else { return Ok(()) };
    if !cond.has(Cond::PUNCH) {
        return Ok(());
    }
    let prefix = Key::object(Table::Data, container.id(), write.oid);
    for change in changes {
        if exists(change.txn(), &prefix)? {
            return Ok(());
        }
    }
    Err(missing_key_error("object"))
}

fn missing_key_error(what: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("the {what} does not exist"))
}

struct Applier<'c, 't> {
    change: &'c mut Change<'t>,
    container: ContainerId,
    /// True if the writes also change other targets.
    is_partial: bool,
}

impl<'t> Applier<'_, 't> {
    /// Applies one write. Its conditions are checked first, and the slots that it changes are noted for conflict
    /// detection.
    fn write(&mut self, write: &Write<'_>, akeys: &[StagedAkey]) -> Result<()> {
        let (table, oid) = (Table::Data, write.oid);
        match write.op {
            WriteOp::Update { dkey, cond, updates } => {
                if akeys.iter().any(|akey| !matches!(akey.content, Content::Punch(_))) {
                    self.change.check_room()?;
                }
                let prefix = Key::dkey(table, self.container, oid, dkey)?;
                self.check_conditions(&prefix, cond, updates, akeys)?;
                self.change.touch(self.container, oid, dkey);
                akeys.iter().try_for_each(|akey| self.update(oid, akey))
            }
            WriteOp::PunchObject { cond } => {
                self.change.touch_object(self.container, oid);
                // For a write to several targets, `check_punch` has checked the condition on all of them.
                let cond = if self.is_partial { Cond::NONE } else { cond };
                self.punch(&Key::object(table, self.container, oid), cond)
            }
            WriteOp::PunchDkey { dkey, cond } => {
                self.change.touch(self.container, oid, dkey);
                self.punch(&Key::dkey(table, self.container, oid, dkey)?, cond)
            }
            WriteOp::PunchAkeys { dkey, akeys, cond } => {
                let prefix = Key::dkey(table, self.container, oid, dkey)?;
                let keys = akeys.iter().map(|akey| prefix.akey(oid, akey));
                let keys = keys.collect::<Result<Vec<_>>>()?;
                if cond.has(Cond::PUNCH) {
                    keys.iter().try_for_each(|key| self.must_exist(key, "akey"))?;
                }
                self.change.touch(self.container, oid, dkey);
                keys.iter().try_for_each(|key| self.punch(key, Cond::NONE))
            }
        }
    }

    /// Checks the conditions of an update: `cond` on the dkey, and those of `updates` on their akeys.
    fn check_conditions(
        &self,
        dkey: &Key,
        cond: Cond,
        updates: &[Update<'_>],
        akeys: &[StagedAkey],
    ) -> Result<()> {
        let dkey_insert = cond.has(Cond::DKEY_INSERT);
        if dkey_insert {
            self.must_not_exist(dkey, "dkey")?;
        }
        if cond.has(Cond::DKEY_UPDATE) {
            self.must_exist(dkey, "dkey")?;
        }
        for (update, akey) in updates.iter().zip(akeys) {
            // A dkey that does not exist has no akeys.
            if update.cond.has(Cond::AKEY_INSERT) && !dkey_insert {
                self.must_not_exist(&akey.prefix, "akey")?;
            }
            if update.cond.has(Cond::AKEY_UPDATE) {
                self.must_exist(&akey.prefix, "akey")?;
            }
        }
        Ok(())
    }

    fn must_exist(&self, prefix: &Key, what: &str) -> Result<()> {
        if exists(self.change.txn(), prefix)? { Ok(()) } else { Err(missing_key_error(what)) }
    }

    fn must_not_exist(&self, prefix: &Key, what: &str) -> Result<()> {
        match exists(self.change.txn(), prefix)? {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::Exists, format!("the {what} already exists"))),
        }
    }

    /// Stores the new content of an akey, or removes ranges of its array.
    fn update(&mut self, oid: ObjectId, akey: &StagedAkey) -> Result<()> {
        match &akey.content {
            Content::Single(piece) => self.put_single(akey, piece),
            Content::Array { record_size, pieces } => {
                note_array(self.change, oid)?;
                pieces.iter().try_for_each(|piece| self.put_extent(akey, *record_size, piece))
            }
            Content::Punch(extents) => {
                let mut array = self.extents();
                extents.iter().try_for_each(|extent| array.clear(&akey.prefix, *extent, None))
            }
        }
    }

    /// Stores a single value in place of an older one. Fails if the akey has an array.
    fn put_single(&mut self, akey: &StagedAkey<'_>, piece: &Piece<'_>) -> Result<()> {
        let (prefix, left_out, epoch) = (&akey.prefix, akey.left_out, self.change.epoch);
        let (key, record) = (prefix.single(), piece.record(epoch, None, left_out));
        match self.change.insert_record(&key, &record)? {
            // The extents of an array follow the key of a single value.
            Inserted::Between(_, Some((after, _))) if after.starts_with(prefix) => {
                Err(mixed_kinds_error())
            }
            Inserted::Between(..) => Ok(()),
            Inserted::Existed(old) => {
                let old = RecordBytes::from_slice(old);
                let old = Record::decode(&key[1..], &old)?;
                self.change.replace_inserted(self.container, &key, &old)
            }
        }
    }

    /// Stores one piece of an array, with records of `record_size` bytes, as an extent.
    fn put_extent(
        &mut self,
        akey: &StagedAkey<'_>,
        record_size: u32,
        piece: &Piece<'_>,
    ) -> Result<()> {
        let record = piece.record(self.change.epoch, Some(record_size), akey.left_out);
        self.extents().put(&akey.prefix, piece.extent, &record)
    }

    fn extents(&mut self) -> Extents<'_, 't> {
        Extents { change: &mut *self.change, container: self.container }
    }

    /// Removes all records under a prefix. Fails if `cond` requires that there is one, and there is none.
    fn punch(&mut self, prefix: &Key, cond: Cond) -> Result<()> {
        if cond.has(Cond::PUNCH) {
            self.must_exist(prefix, "key to punch")?;
        }
        // A journal records the removal of the prefix, so it is as short for many keys as for one.
        self.change.announce_removal(prefix);
        loop {
            let batch = entries::take(self.change.txn(), prefix, prefix, PUNCH_BATCH)?;
            for (key, value) in &batch {
                self.change.retire(self.container, key, &Record::decode(&key[1..], value)?)?;
                self.change.delete_announced(key)?;
            }
            if batch.len() < PUNCH_BATCH {
                return Ok(());
            }
        }
    }
}
