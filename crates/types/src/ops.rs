//! The operations on objects that every backend understands: fetch, write, list, query.
//!
//! The shapes follow the DAOS object API: a dkey names a distribution unit, an akey an attribute in
//! it, and an akey holds either a single value or an array of equal records.
use crate::{Epoch, Error, ErrorKind, Extent, ObjectId, Result};
use std::sync::Mutex;

/// Where the bytes of an update come from: the caller's buffers, in order.
#[derive(Clone, Copy, Debug)]
pub enum Source<'a> {
    /// One buffer.
    One(&'a [u8]),
    /// Several, read one after the other.
    Many(&'a [&'a [u8]]),
}

impl Source<'_> {
    /// Bytes of all buffers together.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::One(buffer) => buffer.len() as u64,
            Self::Many(buffers) => buffers.iter().map(|buffer| buffer.len() as u64).sum(),
        }
    }

    /// True where there is no byte in it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands the `len` bytes from `offset` on to `visit`, piece by piece. Bytes past the end are left out.
    pub fn visit(&self, offset: u64, len: u64, mut visit: impl FnMut(&[u8])) {
        let end = offset.saturating_add(len);
        let mut at = 0;
        let mut piece = |buffer: &[u8]| {
            if let Some((from, to)) = overlap(at, buffer.len(), offset, end) {
                visit(&buffer[from..to]);
            }
            at += buffer.len() as u64;
        };
        match self {
            Self::One(buffer) => piece(buffer),
            Self::Many(buffers) => buffers.iter().for_each(|buffer| piece(buffer)),
        }
    }
}

/// Where the bytes of a fetch go: the caller's buffers, in order.
#[derive(Debug, Default)]
pub enum Sink<'a> {
    /// Nowhere: only sizes are wanted.
    #[default]
    None,
    /// One buffer.
    One(&'a mut [u8]),
    /// Several, filled one after the other.
    Many(Vec<&'a mut [u8]>),
}

impl Sink<'_> {
    /// Bytes of all buffers together.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::None => 0,
            Self::One(buffer) => buffer.len() as u64,
            Self::Many(buffers) => buffers.iter().map(|buffer| buffer.len() as u64).sum(),
        }
    }

    /// True where no byte fits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Hands the places of the `len` bytes from `offset` on to `fill`, piece by piece.
    ///
    /// # Errors
    /// The first error of `fill`.
    pub fn visit(
        &mut self,
        offset: u64,
        len: u64,
        mut fill: impl FnMut(&mut [u8]) -> Result<()>,
    ) -> Result<()> {
        let end = offset.saturating_add(len);
        let mut at = 0;
        let mut piece = |buffer: &mut [u8]| {
            let range = overlap(at, buffer.len(), offset, end);
            at += buffer.len() as u64;
            range.map_or(Ok(()), |(from, to)| fill(&mut buffer[from..to]))
        };
        match self {
            Self::None => Ok(()),
            Self::One(buffer) => piece(buffer),
            Self::Many(buffers) => buffers.iter_mut().try_for_each(|buffer| piece(buffer)),
        }
    }

    /// Copies `bytes` to the places from `offset` on.
    pub fn put(&mut self, offset: u64, bytes: &[u8]) {
        let mut rest = bytes;
        let _ = self.visit(offset, bytes.len() as u64, |place| {
            let (head, tail) = rest.split_at(place.len());
            place.copy_from_slice(head);
            rest = tail;
            Ok(())
        });
    }
}

/// Part of a buffer of `len` bytes that begins at stream offset `at` and lies in `offset..end`.
fn overlap(at: u64, len: usize, offset: u64, end: u64) -> Option<(usize, usize)> {
    let from = offset.clamp(at, at + len as u64) - at;
    let to = end.clamp(at, at + len as u64) - at;
    (from < to).then_some((from as usize, to as usize))
}

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

/// What is wanted of an akey.
#[derive(Clone, Copy, Debug)]
pub enum Wanted<'a> {
    /// Its single value.
    Single,
    /// Records of its array; the sink takes those of all extents, one after the other.
    Array(&'a [Extent]),
}

/// One akey of a fetch: what is wanted, where it goes, and what was found.
///
/// A missing akey is no error: `size` becomes 0 and the sink is left as it is. So are the places of
/// records that were never written.
#[derive(Debug)]
pub struct Fetch<'a> {
    /// The akey.
    pub akey: &'a [u8],
    /// What is wanted of it.
    pub wanted: Wanted<'a>,
    /// In: the record size the caller expects, 0 for any. Out: the stored record size, or the size
    /// of the single value; 0 where the akey does not exist.
    pub size: u64,
    /// Where the bytes go. [`Sink::None`] asks for the size only.
    pub sink: Sink<'a>,
    /// Out: bytes of the sink from its start to the end of the last byte filled.
    pub filled_bytes: u64,
    /// Asks for [`Fetch::filled`].
    pub want_filled: bool,
    /// Out: which records were found, in the order of the request.
    pub filled: Vec<Extent>,
    /// [`Cond::AKEY_FETCH`] or none.
    pub cond: Cond,
}

impl<'a> Fetch<'a> {
    /// Asks for a single value.
    #[must_use]
    pub fn single(akey: &'a [u8], sink: Sink<'a>) -> Self {
        Self::new(akey, Wanted::Single, 0, sink)
    }

    /// Asks for records of an array of `record_size` bytes each (0: any).
    #[must_use]
    pub fn array(akey: &'a [u8], record_size: u64, extents: &'a [Extent], sink: Sink<'a>) -> Self {
        Self::new(akey, Wanted::Array(extents), record_size, sink)
    }

    fn new(akey: &'a [u8], wanted: Wanted<'a>, size: u64, sink: Sink<'a>) -> Self {
        Self {
            akey,
            wanted,
            size,
            sink,
            filled_bytes: 0,
            want_filled: false,
            filled: Vec::new(),
            cond: Cond::NONE,
        }
    }
}

/// The state a read sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum View {
    /// Everything committed so far.
    #[default]
    Latest,
    /// A snapshot.
    Snapshot(Epoch),
}

/// Proof of what a transaction has read: a place of a shard and the version it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMark {
    /// Index of the shard.
    pub shard: u32,
    /// Slot of the shard's conflict table.
    pub slot: u32,
    /// Version of the shard the read saw.
    pub version: u64,
}

/// Collects the marks of one transaction.
#[derive(Debug, Default)]
pub struct ReadMarks(Mutex<Vec<ReadMark>>);

impl ReadMarks {
    /// Adds a mark.
    pub fn add(&self, mark: ReadMark) {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(mark);
    }

    /// The marks so far.
    #[must_use]
    pub fn to_vec(&self) -> Vec<ReadMark> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }
}

/// How a read is done.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadAt<'a> {
    /// Which state it sees.
    pub view: View,
    /// Where a transaction notes what it has read.
    pub marks: Option<&'a ReadMarks>,
}

impl ReadAt<'_> {
    /// Everything committed so far, outside any transaction.
    pub const LATEST: Self = ReadAt { view: View::Latest, marks: None };
}

/// What a listing of keys goes over.
#[derive(Clone, Copy, Debug)]
pub enum KeyScope<'a> {
    /// The dkeys of the object.
    Dkeys,
    /// The akeys of a dkey.
    Akeys(&'a [u8]),
}

/// An akey with the dkey it stands under.
#[derive(Clone, Copy, Debug)]
pub struct AkeyRef<'a> {
    /// The dkey.
    pub dkey: &'a [u8],
    /// The akey.
    pub akey: &'a [u8],
}

/// Where a listing goes on. It names the last key handed out, so it survives concurrent change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// At the beginning.
    #[default]
    Start,
    /// Behind a position of a shard; the bytes are the backend's own.
    After {
        /// Index of the shard.
        shard: u32,
        /// Position in it.
        position: Vec<u8>,
    },
    /// Nothing is left.
    End,
}

impl Anchor {
    /// True where nothing is left.
    #[must_use]
    pub fn is_end(&self) -> bool {
        matches!(self, Self::End)
    }
}

/// How much a listing may return at once.
#[derive(Clone, Copy, Debug)]
pub struct ListLimit {
    /// Most entries.
    pub entries: usize,
    /// Most bytes of keys. The first key is returned even where it alone exceeds this.
    pub bytes: usize,
}

impl ListLimit {
    /// So many entries, of any size.
    #[must_use]
    pub const fn entries(entries: usize) -> Self {
        Self { entries, bytes: usize::MAX }
    }
}

/// One run of records of an array, as stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredExtent {
    /// Which records.
    pub extent: Extent,
    /// Bytes per record.
    pub record_size: u64,
    /// When they were written.
    pub epoch: Epoch,
}

/// The end of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The smallest.
    Min,
    /// The largest.
    Max,
}

/// Asks for the smallest or largest dkey, akey or extent (DAOS: `daos_obj_query_key`). What is not
/// asked for must be given: an akey query needs the dkey, an extent query the akey.
#[derive(Clone, Copy, Debug)]
pub struct KeyQuery<'a> {
    /// Which end.
    pub edge: Edge,
    /// The dkey; `None` asks for it.
    pub dkey: Option<&'a [u8]>,
    /// The akey; `None` asks for it (if `want_akey`).
    pub akey: Option<&'a [u8]>,
    /// Asks for the akey.
    pub want_akey: bool,
    /// Asks for the first or last extent of the akey.
    pub want_extent: bool,
}

/// Answer to a [`KeyQuery`]: of several dkeys, the outermost that has what else was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFound {
    /// The dkey, as found or as given.
    pub dkey: Vec<u8>,
    /// The akey, as found or as given.
    pub akey: Vec<u8>,
    /// The extent, where asked for.
    pub extent: Option<Extent>,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_and_sinks_cut_at_buffer_edges() {
        let source = Source::Many(&[b"abc", b"", b"defg"]);
        let mut seen = Vec::new();
        source.visit(2, 3, |piece| seen.push(piece.to_vec()));
        assert_eq!(seen, [b"c".to_vec(), b"de".to_vec()]);
        let (mut a, mut b) = ([0; 3], [0; 4]);
        let mut sink = Sink::Many(vec![&mut a, &mut b]);
        sink.put(2, b"xyz");
        assert_eq!(sink.len(), 7);
        assert_eq!((a, b), ([0, 0, b'x'], [b'y', b'z', 0, 0]));
    }
}
