//! Changes to objects.
use super::{ReadTokens, Source};
use crate::{Error, ErrorKind, Extent, ObjectId, Result};

/// Conditions an operation must meet, with the bit values of DAOS (`DAOS_COND_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cond(pub u64);

impl Cond {
    /// No condition.
    pub const NONE: Self = Self(0);
    /// A punch fails where there is nothing to punch.
    pub const PUNCH: Self = Self(0x01);
    /// The dkey must not exist.
    pub const DKEY_INSERT: Self = Self(0x02);
    /// The dkey must exist.
    pub const DKEY_UPDATE: Self = Self(0x04);
    /// The dkey must exist (fetch).
    pub const DKEY_FETCH: Self = Self(0x08);
    /// The akey must not exist.
    pub const AKEY_INSERT: Self = Self(0x10);
    /// The akey must exist.
    pub const AKEY_UPDATE: Self = Self(0x20);
    /// The akey must exist (fetch).
    pub const AKEY_FETCH: Self = Self(0x40);
    /// Conditions on akeys come with each akey.
    pub const PER_AKEY: Self = Self(0x80);

    /// True where every bit of `other` is set.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets of conditions.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// New content of one akey.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A single value, replaced as a whole. May be empty.
    Single(Source<'a>),
    /// Records of an array; `data` holds those of all extents, one after the other.
    Array {
        /// Bytes per record; every extent of an akey has the same.
        record_size: u64,
        /// Which records.
        extents: &'a [Extent],
        /// Their bytes: record size times the count of all extents.
        data: Source<'a>,
    },
    /// Removes records of an array.
    PunchExtents(&'a [Extent]),
}

/// One akey of an update.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The akey.
    pub akey: &'a [u8],
    /// Its new content.
    pub value: Value<'a>,
    /// [`Cond::AKEY_INSERT`] or [`Cond::AKEY_UPDATE`], or none.
    pub cond: Cond,
}

/// Names a change, so that one that is sent again after its answer was lost is not done twice. Drawn at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChangeId(pub [u8; 16]);

/// Everything that is done as a whole: all of its writes at one epoch, or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'a> {
    /// What to do, in order. Each write sees those before it.
    pub writes: &'a [Write<'a>],
    /// Proof of what a transaction has read. The change is refused with [`ErrorKind::TxRestart`] where any of it
    /// has changed since.
    pub tokens: Option<&'a ReadTokens>,
    /// Set where the change may be sent again: see [`ChangeId`].
    pub id: Option<ChangeId>,
}

impl<'a> Change<'a> {
    /// These writes, outside any transaction.
    #[must_use]
    pub fn of(writes: &'a [Write<'a>]) -> Self {
        Self { writes, tokens: None, id: None }
    }
}

/// A change to one object.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The object; it comes into being with its first update.
    pub oid: ObjectId,
    /// What to do with it.
    pub op: WriteOp<'a>,
}

/// What a [`Write`] does. All akeys of one update change together or not at all.
#[derive(Clone, Copy, Debug)]
pub enum WriteOp<'a> {
    /// New content for akeys of one dkey.
    Update {
        /// The dkey.
        dkey: &'a [u8],
        /// [`Cond::DKEY_INSERT`] or [`Cond::DKEY_UPDATE`], or none.
        cond: Cond,
        /// The akeys.
        updates: &'a [Update<'a>],
    },
    /// Removes everything of the object.
    PunchObject {
        /// [`Cond::PUNCH`] or none.
        cond: Cond,
    },
    /// Removes everything under a dkey.
    PunchDkey {
        /// The dkey.
        dkey: &'a [u8],
        /// [`Cond::PUNCH`] or none.
        cond: Cond,
    },
    /// Removes akeys of a dkey, all or (with a condition that fails) none.
    PunchAkeys {
        /// The dkey.
        dkey: &'a [u8],
        /// The akeys.
        akeys: &'a [&'a [u8]],
        /// [`Cond::PUNCH`] or none.
        cond: Cond,
    },
}

/// Refuses a fetch or update whose buffer does not hold exactly its records.
pub fn check_array_len(record_size: u64, extents: &[Extent], buffer: u64) -> Result<u64> {
    let mut records: u64 = 0;
    for extent in extents {
        extent.check()?;
        records = records.saturating_add(extent.count);
    }
    match records.checked_mul(record_size) {
        Some(bytes) if bytes == buffer => Ok(records),
        _ => Err(Error::new(
            ErrorKind::Invalid,
            format!(
                "{records} records of {record_size} bytes do not match a buffer of {buffer} bytes"
            ),
        )),
    }
}
