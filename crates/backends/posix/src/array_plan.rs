//! The effect of a change on Arrays: steps that can be repeated from the first on, and then have the same result.
use super::array::{ATTRIBUTES, ArrayFiles, FIRST, value_at_zero};
use super::chunk::{check_range, contains, size_differs};
use super::form::{exists, missing_key_error};
use esker_backend::encoding::{Parts, put_bytes, put_extent, put_u32, put_u64};
use esker_types::ops::{Cond, Update, Value, WriteOp};
use esker_types::{Extent, FLAT_AKEY, ObjectId, Result, key_to_u64};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// A step of a change of an Array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ArrayStep {
    /// Sets or removes the value of dkey 0.
    Value(Option<Vec<u8>>),
    /// Writes records.
    Write { dkey: u64, record_size: u64, extents: Vec<Extent>, data: Vec<u8> },
    /// Removes the records of a chunk from `records` on.
    Cut { dkey: u64, records: u64 },
    /// Overwrites records with zeros.
    Zero { dkey: u64, extent: Extent },
    /// Removes the Array.
    Punch,
}

impl ArrayStep {
    /// Appends the step to a journal, from where another process can carry it out.
    pub(super) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Value(value) => {
                put_u32(out, 0);
                put_u32(out, u32::from(value.is_some()));
                put_bytes(out, value.as_deref().unwrap_or_default());
            }
            Self::Write { dkey, record_size, extents, data } => {
                put_u32(out, 1);
                put_u64(out, *dkey);
                put_u64(out, *record_size);
                put_u32(out, extents.len() as u32);
                extents.iter().for_each(|extent| put_extent(out, *extent));
                put_bytes(out, data);
            }
            Self::Cut { dkey, records } => {
                put_u32(out, 2);
                put_u64(out, *dkey);
                put_u64(out, *records);
            }
            Self::Zero { dkey, extent } => {
                put_u32(out, 3);
                put_u64(out, *dkey);
                put_extent(out, *extent);
            }
            Self::Punch => put_u32(out, 4),
        }
    }

    /// Decodes a step of a journal. None if it is damaged or of an unknown kind.
    pub(super) fn take(parts: &mut Parts<'_>) -> Option<Self> {
        Some(match parts.u32()? {
            0 => {
                let (is_set, value) = (parts.u32()? == 1, parts.bytes()?);
                Self::Value(is_set.then(|| value.to_vec()))
            }
            1 => {
                let (dkey, record_size, count) = (parts.u64()?, parts.u64()?, parts.u32()?);
                let extents = (0..count).map(|_| parts.extent()).collect::<Option<_>>()?;
                Self::Write { dkey, record_size, extents, data: parts.bytes()?.to_vec() }
            }
            2 => Self::Cut { dkey: parts.u64()?, records: parts.u64()? },
            3 => Self::Zero { dkey: parts.u64()?, extent: parts.extent()? },
            4 => Self::Punch,
            _ => return None,
        })
    }

    /// The dkey that the step changes; `None` if it removes the whole Array.
    pub(super) fn dkey(&self) -> Option<u64> {
        match self {
            Self::Value(_) => Some(ATTRIBUTES),
            Self::Write { dkey, .. } | Self::Cut { dkey, .. } | Self::Zero { dkey, .. } => {
                Some(*dkey)
            }
            Self::Punch => None,
        }
    }
}

/// The state of a dkey of an Array after the steps so far.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ChunkState {
    /// Dkey 0 has a value.
    pub(super) has_value: bool,
    /// Number of records.
    pub(super) records: u64,
    /// Bytes per record.
    pub(super) record_size: u64,
    /// An incomplete record follows, which a failed write has left.
    pub(super) has_rest: bool,
}

impl ChunkState {
    fn exists(self) -> bool {
        self.has_value || self.records > 0
    }
}

/// The steps of a change, and the state of the dkeys that they concern.
#[derive(Default)]
pub(super) struct ArrayPlan {
    chunks: BTreeMap<(ObjectId, u64), ChunkState>,
    pub(super) steps: Vec<(ObjectId, ArrayStep)>,
}

impl ArrayPlan {
    /// Adds the steps that carry out one write. Its conditions are checked here, before any step.
    ///
    /// # Errors
    /// The errors of the write.
    pub(super) fn add(&mut self, array: &ArrayFiles<'_>, op: &WriteOp<'_>) -> Result<()> {
        match *op {
            WriteOp::Update { dkey, cond, updates } => {
                let dkey = key_to_u64(dkey)?;
                match array.only_update(updates)? {
                    Some(update) => self.update(array, dkey, cond, update),
                    None => self.check(array, dkey, cond).map(drop),
                }
            }
            WriteOp::PunchObject { cond } => self.punch(array, cond),
            WriteOp::PunchDkey { dkey, cond } => self.punch_dkey(array, key_to_u64(dkey)?, cond),
            WriteOp::PunchAkeys { dkey, akeys, cond } => {
                let others = akeys.iter().any(|akey| *akey != FLAT_AKEY);
                match akeys.contains(&FLAT_AKEY) {
                    _ if others && cond.has(Cond::PUNCH) => Err(missing_key_error("akey")),
                    true => self.punch_dkey(array, key_to_u64(dkey)?, cond),
                    false => Ok(()),
                }
            }
        }
    }

    /// State of a chunk within the commit. It is read from the file at first.
    fn state(&mut self, array: &ArrayFiles<'_>, dkey: u64) -> Result<&mut ChunkState> {
        Ok(match self.chunks.entry((array.0.oid, dkey)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(array.state(dkey)?),
        })
    }

    /// Checks the conditions of a write on the existence of a dkey, and returns the state of its chunk after the steps
    /// planned before.
    fn check(&mut self, array: &ArrayFiles<'_>, dkey: u64, cond: Cond) -> Result<&mut ChunkState> {
        let state = self.state(array, dkey)?;
        let (inserts, updates) = (
            Cond::DKEY_INSERT.union(Cond::AKEY_INSERT),
            Cond::DKEY_UPDATE.union(Cond::AKEY_UPDATE),
        );
        match state.exists() {
            true if cond.intersects(inserts) => Err(exists("dkey")),
            false if cond.intersects(updates) => Err(missing_key_error("dkey")),
            _ => Ok(state),
        }
    }

    /// Plans an update of a chunk, after checking its conditions.
    fn update(
        &mut self,
        array: &ArrayFiles<'_>,
        dkey: u64,
        cond: Cond,
        update: &Update<'_>,
    ) -> Result<()> {
        let state = self.check(array, dkey, cond.union(update.cond))?;
        let step = match (dkey, update.value) {
            (ATTRIBUTES, Value::Single(data)) => {
                let value = value_at_zero(array, data)?;
                state.has_value = true;
                ArrayStep::Value(Some(value))
            }
            (FIRST.., Value::Array { data, .. }) if data.is_empty() => return Ok(()),
            (FIRST.., Value::Array { record_size, extents, data }) => {
                check_range(record_size, extents)?;
                if state.records > 0 && state.record_size != record_size {
                    return Err(size_differs(record_size, state.record_size));
                }
                let ends = extents.iter().filter(|extent| !extent.is_empty()).map(|e| e.end());
                state.record_size = record_size;
                state.records = ends.fold(state.records, u64::max);
                let (extents, data) = (extents.to_vec(), data.part(0, data.len()).into_owned());
                ArrayStep::Write { dkey, record_size, extents, data }
            }
            (FIRST.., Value::PunchExtents(extents)) => {
                extents.iter().for_each(|extent| self.cut(array.0.oid, dkey, *extent));
                return Ok(());
            }
            _ => return Err(array.refuse_kind()),
        };
        self.steps.push((array.0.oid, step));
        Ok(())
    }

    /// Removes records of a chunk whose state is known: at its end by a cut, elsewhere by zeros.
    fn cut(&mut self, oid: ObjectId, dkey: u64, extent: Extent) {
        let state = self.chunks.entry((oid, dkey)).or_default();
        let records = match extent.intersect(Extent::new(0, state.records)) {
            Some(part) if part.end() < state.records => {
                self.steps.push((oid, ArrayStep::Zero { dkey, extent: part }));
                return;
            }
            Some(part) => part.start,
            None if state.has_rest && contains(extent, state.records) => state.records,
            None => return,
        };
        (state.records, state.has_rest) = (records, false);
        if records == 0 {
            self.drop_steps_of(oid, dkey);
        }
        self.steps.push((oid, ArrayStep::Cut { dkey, records }));
    }

    /// Drops the steps that change a dkey, because the next step empties it. Otherwise their repetition could fail: a
    /// later step may have written records of another size before the process died.
    fn drop_steps_of(&mut self, oid: ObjectId, dkey: u64) {
        self.steps.retain(|(of, step)| *of != oid || step.dkey() != Some(dkey));
    }

    /// Plans the removal of the value or the records of a dkey. Steps planned for it before have no effect then, and
    /// are dropped.
    fn punch_dkey(&mut self, array: &ArrayFiles<'_>, dkey: u64, cond: Cond) -> Result<()> {
        let state = self.state(array, dkey)?;
        if !state.exists() {
            match (cond.has(Cond::PUNCH), state.has_rest) {
                (true, _) => return Err(missing_key_error("key to be punched")),
                (false, false) => return Ok(()),
                (false, true) => {}
            }
        }
        *state = ChunkState::default();
        self.drop_steps_of(array.0.oid, dkey);
        let step = match dkey {
            ATTRIBUTES => ArrayStep::Value(None),
            _ => ArrayStep::Cut { dkey, records: 0 },
        };
        self.steps.push((array.0.oid, step));
        Ok(())
    }

    /// Plans the removal of all chunks of an array.
    fn punch(&mut self, array: &ArrayFiles<'_>, cond: Cond) -> Result<()> {
        let oid = array.0.oid;
        for dkey in array.dkeys()? {
            self.state(array, dkey)?;
        }
        let mut any = false;
        for (_, state) in self.chunks.range_mut((oid, 0)..=(oid, u64::MAX)) {
            any |= state.exists();
            *state = ChunkState::default();
        }
        if !any && cond.has(Cond::PUNCH) {
            return Err(missing_key_error("key to be punched"));
        }
        // Repeated, these steps could fail, as in `drop_steps_of`.
        self.steps.retain(|(of, _)| *of != oid);
        self.steps.push((oid, ArrayStep::Punch));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_round_trip() {
        let extent = Extent::new(3, 4);
        let data = vec![7; 8];
        let steps = [
            ArrayStep::Value(None),
            ArrayStep::Value(Some(b"v".to_vec())),
            ArrayStep::Write { dkey: 2, record_size: 2, extents: vec![extent], data },
            ArrayStep::Cut { dkey: 1, records: 9 },
            ArrayStep::Zero { dkey: 1, extent },
            ArrayStep::Punch,
        ];
        let mut out = Vec::new();
        steps.iter().for_each(|step| step.put(&mut out));
        let sealed = esker_backend::encoding::finish(out);
        let mut parts = Parts::sealed(&sealed).unwrap();
        let read: Vec<_> = std::iter::from_fn(|| ArrayStep::take(&mut parts)).collect();
        assert_eq!(read, steps);
    }
}
