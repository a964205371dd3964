//! Random changes, applied to both sides.
use super::space::{Space, akeys, dkey, extents_apart, is_usually_array, pick, sum, value_len};
use esker_backend::OwnedWrites;
use esker_testing::Random;
use esker_types::ops::{Cond, Source, Update, Value, Write, WriteOp};
use esker_types::{Extent, ObjectId, Result};

/// Record sizes; most akeys use only one of them.
const RECORD_SIZES: [u64; 4] = [1, 1, 8, 100];

/// A buffer of `count` random writes.
pub(super) fn changes(random: &mut Random, space: &Space, count: u64) -> Result<OwnedWrites> {
    let lasts = space.lasting_kinds;
    let mut buffer = OwnedWrites::default();
    for _ in 0..count {
        let oid = space.oid(random);
        match random.below(20) {
            0 => punch_object(random, oid, count == 1, &mut buffer)?,
            1 | 2 => punch_dkey(random, oid, &mut buffer)?,
            3 | 4 => punch_akeys(random, oid, &mut buffer)?,
            _ => update(random, oid, lasts, &mut buffer)?,
        }
    }
    Ok(buffer)
}

/// One of the conditions in one of five cases, otherwise none.
fn condition(random: &mut Random, choices: &[Cond]) -> Cond {
    match random.one_in(5) {
        true => *pick(random, choices),
        false => Cond::NONE,
    }
}

/// Adds the removal of an object. Only a removal that is `alone` in its transaction may have a condition. It is
/// unspecified whether a condition on a whole object sees earlier writes of its transaction.
fn punch_object(
    random: &mut Random,
    oid: ObjectId,
    alone: bool,
    buffer: &mut OwnedWrites,
) -> Result<()> {
    let cond = if alone { condition(random, &[Cond::PUNCH]) } else { Cond::NONE };
    buffer.add(&[Write { oid, op: WriteOp::PunchObject { cond } }])
}

fn punch_dkey(random: &mut Random, oid: ObjectId, buffer: &mut OwnedWrites) -> Result<()> {
    let (dkey, cond) = (dkey(random, oid), condition(random, &[Cond::PUNCH]));
    buffer.add(&[Write { oid, op: WriteOp::PunchDkey { dkey: &dkey, cond } }])
}

fn punch_akeys(random: &mut Random, oid: ObjectId, buffer: &mut OwnedWrites) -> Result<()> {
    let (dkey, akeys) = (dkey(random, oid), akeys(random, oid));
    let akeys: Vec<_> = akeys.iter().map(Vec::as_slice).collect();
    let cond = condition(random, &[Cond::PUNCH]);
    buffer.add(&[Write { oid, op: WriteOp::PunchAkeys { dkey: &dkey, akeys: &akeys, cond } }])
}

/// New content of one akey, with its bytes.
enum Content {
    Single(Vec<u8>),
    Array { record_size: u64, extents: Vec<Extent>, data: Vec<u8> },
    Punch(Vec<Extent>),
}

impl Content {
    /// Random content for an akey: an array or a single value, rarely of another kind than before. Never of another
    /// kind with `lasts`, for a backend where a removed akey keeps its kind ([`Space::lasting_kinds`]).
    fn random(random: &mut Random, akey: &[u8], lasts: bool) -> Self {
        let is_usual = is_usually_array(akey);
        let is_array = is_usual && !random.one_in(30) || random.one_in(30);
        let is_array = if lasts { is_usual } else { is_array };
        match (is_array, random.one_in(5)) {
            (false, _) => {
                let len = value_len(random);
                Self::Single(random.bytes(len as usize))
            }
            (true, true) => Self::Punch(extents_apart(random)),
            (true, false) => Self::array(random, sum(akey), lasts),
        }
    }

    /// Random records of an array. The sum of the bytes of the akey, `sum`, determines the usual record size.
    fn array(random: &mut Random, sum: u8, lasts: bool) -> Self {
        let usual = RECORD_SIZES[usize::from(sum / 2) % RECORD_SIZES.len()];
        let other = if random.one_in(30) { *pick(random, &RECORD_SIZES) } else { usual };
        let record_size = if lasts { usual } else { other };
        let extents = extents_apart(random);
        let records: u64 = extents.iter().map(|extent| extent.count).sum();
        Self::Array { record_size, extents, data: random.bytes((records * record_size) as usize) }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Single(data) => Value::Single(Source::One(data)),
            Self::Array { record_size, extents, data } => {
                Value::Array { record_size: *record_size, extents, data: Source::One(data) }
            }
            Self::Punch(extents) => Value::PunchExtents(extents),
        }
    }
}

fn update(random: &mut Random, oid: ObjectId, lasts: bool, buffer: &mut OwnedWrites) -> Result<()> {
    let (dkey, akeys) = (dkey(random, oid), akeys(random, oid));
    let cond = condition(random, &[Cond::DKEY_INSERT, Cond::DKEY_UPDATE]);
    let contents: Vec<_> = akeys.iter().map(|akey| Content::random(random, akey, lasts)).collect();
    let mut updates = Vec::new();
    for (akey, content) in akeys.iter().zip(&contents) {
        let cond = condition(random, &[Cond::AKEY_INSERT, Cond::AKEY_UPDATE]);
        updates.push(Update { akey, value: content.value(), cond });
    }
    buffer.add(&[Write { oid, op: WriteOp::Update { dkey: &dkey, cond, updates: &updates } }])
}
