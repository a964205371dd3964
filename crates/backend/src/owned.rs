//! The writes of a transaction, as copies that own their data.
use crate::check::check_write;
use esker_types::limits::{TX_BYTES_MAX, TX_OPS_MAX};
use esker_types::ops::{AkeyRef, Cond, Source, Update, Value, Write, WriteOp};
use esker_types::{Error, ErrorKind, Extent, ObjectId, Result, memory};
use std::fmt;

/// Overhead in bytes that counts towards the limit for every write, akey and extent.
const OVERHEAD_BYTES: usize = 64;

/// Writes in order.
#[derive(Debug, Default)]
pub struct OwnedWrites {
    writes: Vec<Owned>,
    bytes: usize,
}

#[derive(Debug)]
struct Owned {
    oid: ObjectId,
    cond: Cond,
    op: OwnedOp,
}

#[derive(Debug)]
enum OwnedOp {
    Update { dkey: Vec<u8>, updates: Vec<OwnedUpdate> },
    PunchObject,
    PunchDkey { dkey: Vec<u8> },
    PunchAkeys { dkey: Vec<u8>, akeys: Vec<Vec<u8>> },
}

#[derive(Debug)]
struct OwnedUpdate {
    akey: Vec<u8>,
    cond: Cond,
    value: OwnedValue,
}

enum OwnedValue {
    Single(Vec<u8>),
    Array { record_size: u64, extents: Vec<Extent>, data: Vec<u8> },
    PunchExtents(Vec<Extent>),
}

/// Prints lengths instead of bytes.
impl fmt::Debug for OwnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Single(data) => write!(f, "a single value of {} bytes", data.len()),
            Self::Array { record_size, extents, .. } => {
                write!(f, "records of {record_size} bytes in {extents:?}")
            }
            Self::PunchExtents(extents) => write!(f, "a punch of {extents:?}"),
        }
    }
}

/// The lists that a [`Write`] made from an [`Owned`] refers to.
pub enum Parts<'a> {
    None,
    Updates(Vec<Update<'a>>),
    Akeys(Vec<&'a [u8]>),
}

impl OwnedWrites {
    /// True if there are no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// True if at most one check can fail when the writes are applied: there is at most one write, and an update has
    /// one akey.
    pub fn is_simple(&self) -> bool {
        match self.writes.as_slice() {
            [] => true,
            [Owned { op: OwnedOp::Update { updates, .. }, .. }] => updates.len() == 1,
            [_] => true,
            _ => false,
        }
    }

    /// The dkeys of an object that are updated, in the order of the writes.
    pub fn updated_dkeys(&self, oid: ObjectId) -> impl Iterator<Item = &[u8]> {
        let is_of_object = move |write: &&Owned| write.oid == oid;
        self.writes.iter().filter(is_of_object).filter_map(|write| match &write.op {
            OwnedOp::Update { dkey, .. } => Some(dkey.as_slice()),
            _ => None,
        })
    }

    /// True if the last write that changes a record of an array stores it, false if that write removes it. `None` if no
    /// write changes it.
    #[must_use]
    pub fn stores_record(&self, oid: ObjectId, key: AkeyRef<'_>, record: u64) -> Option<bool> {
        let of_object = self.writes.iter().rev().filter(|write| write.oid == oid);
        of_object.filter_map(|write| write.op.stores_record(key, record)).next()
    }

    /// Appends copies of `writes`: all of them, or none if one is rejected.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] beyond [`TX_OPS_MAX`], [`ErrorKind::NoMemory`] beyond [`TX_BYTES_MAX`] or the limit of
    /// the process, and those of [`check_write`].
    pub fn add(&mut self, writes: &[Write<'_>]) -> Result<()> {
        writes.iter().try_for_each(check_write)?;
        let bytes = writes.iter().map(cost).fold(self.bytes, usize::saturating_add);
        check_limits(self.writes.len() + writes.len(), bytes)?;
        let copies = writes.iter().map(Owned::new).collect::<Result<Vec<_>>>()?;
        self.writes.extend(copies);
        self.bytes = bytes;
        Ok(())
    }

    /// The lists that [`OwnedWrites::writes`] refers to.
    pub fn parts(&self) -> Vec<Parts<'_>> {
        self.writes.iter().map(Owned::parts).collect()
    }

    /// The writes in the form that a backend takes; `parts` are those of [`OwnedWrites::parts`].
    pub fn writes<'a>(&'a self, parts: &'a [Parts<'a>]) -> Vec<Write<'a>> {
        self.writes.iter().zip(parts).map(|(owned, parts)| owned.write(parts)).collect()
    }
}

/// Checks the size of a transaction. Too many operations fail with `Overflow`, too many bytes with `NoMemory`.
fn check_limits(ops: usize, bytes: usize) -> Result<()> {
    if ops > TX_OPS_MAX {
        return Err(Error::new(
            ErrorKind::Overflow,
            format!("a transaction holds at most {TX_OPS_MAX} operations (TX_OPS_MAX)"),
        ));
    }
    if bytes > TX_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::NoMemory,
            format!("a transaction holds at most {TX_BYTES_MAX} bytes (TX_BYTES_MAX)"),
        ));
    }
    Ok(())
}

/// Approximate memory use of a copy in bytes.
fn cost(write: &Write<'_>) -> usize {
    let keys = |keys: &[&[u8]]| keys.iter().map(|key| key.len() + OVERHEAD_BYTES).sum::<usize>();
    OVERHEAD_BYTES
        + match write.op {
            WriteOp::Update { dkey, updates, .. } => {
                dkey.len() + updates.iter().map(update_cost).sum::<usize>()
            }
            WriteOp::PunchObject { .. } => 0,
            WriteOp::PunchDkey { dkey, .. } => dkey.len(),
            WriteOp::PunchAkeys { dkey, akeys, .. } => dkey.len() + keys(akeys),
        }
}

/// The bytes of memory that a copy of an update takes, approximately.
fn update_cost(update: &Update<'_>) -> usize {
    let (data, extents) = match update.value {
        Value::Single(data) => (data.len(), 0),
        Value::Array { extents, data, .. } => (data.len(), extents.len()),
        Value::PunchExtents(extents) => (0, extents.len()),
    };
    let data = usize::try_from(data).unwrap_or(usize::MAX);
    data.saturating_add(update.akey.len() + (1 + extents) * OVERHEAD_BYTES)
}

impl Owned {
    /// Copies a write, with its keys and data, so that a transaction can keep it until its commit.
    fn new(write: &Write<'_>) -> Result<Self> {
        let (cond, op) = match write.op {
            WriteOp::Update { dkey, cond, updates } => {
                let updates = updates.iter().map(OwnedUpdate::new).collect::<Result<_>>()?;
                (cond, OwnedOp::Update { dkey: dkey.to_vec(), updates })
            }
            WriteOp::PunchObject { cond } => (cond, OwnedOp::PunchObject),
            WriteOp::PunchDkey { dkey, cond } => (cond, OwnedOp::PunchDkey { dkey: dkey.to_vec() }),
            WriteOp::PunchAkeys { dkey, akeys, cond } => {
                let akeys = akeys.iter().map(|akey| akey.to_vec()).collect();
                (cond, OwnedOp::PunchAkeys { dkey: dkey.to_vec(), akeys })
            }
        };
        Ok(Self { oid: write.oid, cond, op })
    }

    /// The updates or akeys of this write, borrowed, for [`Owned::write`].
    fn parts(&self) -> Parts<'_> {
        match &self.op {
            OwnedOp::Update { updates, .. } => {
                Parts::Updates(updates.iter().map(OwnedUpdate::update).collect())
            }
            OwnedOp::PunchAkeys { akeys, .. } => {
                Parts::Akeys(akeys.iter().map(Vec::as_slice).collect())
            }
            OwnedOp::PunchObject | OwnedOp::PunchDkey { .. } => Parts::None,
        }
    }

    /// This write in borrowed form. `parts` come from [`Owned::parts`].
    fn write<'a>(&'a self, parts: &'a Parts<'a>) -> Write<'a> {
        let cond = self.cond;
        let op = match (&self.op, parts) {
            (OwnedOp::Update { dkey, .. }, Parts::Updates(updates)) => {
                WriteOp::Update { dkey, cond, updates }
            }
            (OwnedOp::Update { dkey, .. }, _) => WriteOp::Update { dkey, cond, updates: &[] },
            (OwnedOp::PunchAkeys { dkey, .. }, Parts::Akeys(akeys)) => {
                WriteOp::PunchAkeys { dkey, akeys, cond }
            }
            (OwnedOp::PunchAkeys { dkey, .. }, _) => WriteOp::PunchAkeys { dkey, akeys: &[], cond },
            (OwnedOp::PunchObject, _) => WriteOp::PunchObject { cond },
            (OwnedOp::PunchDkey { dkey }, _) => WriteOp::PunchDkey { dkey, cond },
        };
        Write { oid: self.oid, op }
    }
}

impl OwnedOp {
    /// True if it stores a record of an array, false if it removes it, `None` if it does not change it.
    fn stores_record(&self, AkeyRef { dkey, akey }: AkeyRef<'_>, record: u64) -> Option<bool> {
        match self {
            Self::Update { dkey: own, updates } if own == dkey => {
                let of_akey = updates.iter().rev().filter(|update| update.akey == akey);
                of_akey.filter_map(|update| update.value.stores_record(record)).next()
            }
            Self::PunchObject => Some(false),
            Self::PunchDkey { dkey: own } => (own == dkey).then_some(false),
            Self::PunchAkeys { dkey: own, akeys } => {
                (own == dkey && akeys.iter().any(|own| own == akey)).then_some(false)
            }
            Self::Update { .. } => None,
        }
    }
}

impl OwnedValue {
    /// True if it stores a record, false if it removes it, `None` if it does not change it.
    fn stores_record(&self, record: u64) -> Option<bool> {
        let (extents, stores) = match self {
            Self::Array { extents, .. } => (extents, true),
            Self::PunchExtents(extents) => (extents, false),
            Self::Single(_) => return None,
        };
        let has = |extent: &Extent| record >= extent.start && record - extent.start < extent.count;
        extents.iter().any(has).then_some(stores)
    }
}

impl OwnedUpdate {
    /// Copies an update and its data, so that it can outlive the buffers of the caller.
    fn new(update: &Update<'_>) -> Result<Self> {
        let value = match update.value {
            Value::Single(data) => OwnedValue::Single(copy(data)?),
            Value::Array { record_size, extents, data } => {
                OwnedValue::Array { record_size, extents: extents.to_vec(), data: copy(data)? }
            }
            Value::PunchExtents(extents) => OwnedValue::PunchExtents(extents.to_vec()),
        };
        Ok(Self { akey: update.akey.to_vec(), cond: update.cond, value })
    }

    /// The update as the functions that write take it: it borrows its data from `self`.
    fn update(&self) -> Update<'_> {
        let value = match &self.value {
            OwnedValue::Single(data) => Value::Single(Source::One(data)),
            OwnedValue::Array { record_size, extents, data } => {
                Value::Array { record_size: *record_size, extents, data: Source::One(data) }
            }
            OwnedValue::PunchExtents(extents) => Value::PunchExtents(extents),
        };
        Update { akey: &self.akey, value, cond: self.cond }
    }
}

/// Copies data into a new buffer. Fails with `NoMemory` if the buffer cannot be allocated.
fn copy(source: Source<'_>) -> Result<Vec<u8>> {
    let len = source.len();
    let mut bytes = memory::room(usize::try_from(len).unwrap_or(usize::MAX))?;
    source.visit(0, len, |piece| bytes.extend_from_slice(piece));
    Ok(bytes)
}
