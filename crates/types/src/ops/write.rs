//! Changes to objects.
use super::{ReadTokens, Source};
use crate::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};
use bitflags::bitflags;
use std::cmp::Ordering;

bitflags! {
    /// Conditions an operation must meet, with the bit values of DAOS (`DAOS_COND_*`).
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct Cond: u64 {
        /// Punch only if there is something to punch.
        const PUNCH = 0x01;
        /// Insert only: the dkey must not exist.
        const DKEY_INSERT = 0x02;
        /// Update only: the dkey must exist.
        const DKEY_UPDATE = 0x04;
        /// Fetch only if the dkey exists.
        const DKEY_FETCH = 0x08;
        /// Insert only: the akey must not exist.
        const AKEY_INSERT = 0x10;
        /// Update only: the akey must exist.
        const AKEY_UPDATE = 0x20;
        /// Fetch only if the akey exists.
        const AKEY_FETCH = 0x40;
        /// Conditions on akeys come with each akey.
        const PER_AKEY = 0x80;
    }
}

impl Cond {
    /// No condition.
    pub const NONE: Self = Self::empty();

    /// True if all conditions of `other` are included.
    #[must_use]
    pub const fn has(self, other: Self) -> bool {
        self.contains(other)
    }
}

/// New content of one akey.
#[derive(Clone, Copy, Debug)]
pub enum Value<'a> {
    /// A single value, which replaces the old one. May be empty.
    Single(Source<'a>),
    /// Records of an array; `data` holds those of all extents, one after the other.
    Array {
        /// Bytes per record; every extent of an akey has the same.
        record_size: u64,
        /// The records.
        extents: &'a [Extent],
        /// Bytes of the records: record size times the count of all extents.
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

/// Identifies a change, so that a request that is repeated after a lost reply is not applied twice (like sessions,
/// slots and sequence numbers in RFC 8881, section 2.10.6).
///
/// A session uses each slot for one change at a time: the change of a slot is answered or abandoned before the next
/// begins. A backend remembers the last change of each slot, so its memory is bounded by the number of changes in
/// flight. Slots belong to the pool: a client of several containers uses a slot for one of them at a time. A change
/// without writes has no effect and need not be remembered: a repeated one verifies its tokens again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ChangeId {
    /// The session: random, one for each connected client.
    pub session: u64,
    /// Number of the slot, from 0 on. A client uses the lowest free one.
    pub slot: u16,
    /// Number of the change in its slot. It grows with each change; a repeated request keeps its number.
    pub sequence: u64,
}

impl ChangeId {
    /// Compares this change with the last one of its slot, which had the number `sequence` and was applied at `epoch`.
    /// Returns the epoch if it is the same change, `None` if this one is later.
    ///
    /// # Errors
    /// `Invalid` if this one is earlier: a copy that was delayed until its slot was used again.
    pub fn after(&self, sequence: u64, epoch: Epoch) -> Result<Option<Epoch>> {
        match self.sequence.cmp(&sequence) {
            Ordering::Equal => Ok(Some(epoch)),
            Ordering::Greater => Ok(None),
            Ordering::Less => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "change {} of slot {} was sent again after change {sequence} was done: it is not repeated",
                    self.sequence, self.slot
                ),
            )),
        }
    }
}

/// An atomic change: all of its writes at one epoch, or none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'a> {
    /// The writes, in order. Each sees those before it.
    pub writes: &'a [Write<'a>],
    /// Tokens of a transaction's reads. The change fails with [`ErrorKind::TxRestart`] if any of that data has changed
    /// since.
    pub tokens: Option<&'a ReadTokens>,
    /// The tokens need to hold only at one moment since the request. A backend need not guarantee them until the
    /// commit, which may cost it more.
    pub proved_once: bool,
    /// Set if the request may be repeated: see [`ChangeId`].
    pub id: Option<ChangeId>,
    /// The writes may take effect one by one if they concern several nodes. Each is applied as a whole.
    pub one_by_one: bool,
}

impl<'a> Change<'a> {
    /// Creates a change of these writes, outside any transaction.
    #[must_use]
    pub fn from_writes(writes: &'a [Write<'a>]) -> Self {
        Self { writes, tokens: None, proved_once: false, id: None, one_by_one: false }
    }
}

/// A change to one object.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The object; its first update creates it.
    pub oid: ObjectId,
    /// The change.
    pub op: WriteOp<'a>,
}

/// Operation of a [`Write`]. All akeys of one update change atomically.
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
    /// Removes akeys of a dkey: all of them, or none if a condition fails.
    PunchAkeys {
        /// The dkey.
        dkey: &'a [u8],
        /// The akeys.
        akeys: &'a [&'a [u8]],
        /// [`Cond::PUNCH`] or none.
        cond: Cond,
    },
}

impl WriteOp<'_> {
    /// True if it can change data. An update without akeys only checks its conditions.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(self, Self::Update { updates: [], .. })
    }
}

/// Checks that the buffer of a fetch or update has the size of its records, and returns their number.
///
/// # Errors
/// [`ErrorKind::Invalid`] if the sizes differ, or if an extent wraps.
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
