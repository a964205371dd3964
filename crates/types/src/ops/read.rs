//! Reading values, and the state a read sees.
use super::{Cond, Sink};
use crate::{Epoch, Extent};
use std::sync::{Mutex, MutexGuard, PoisonError};

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

/// Proof for backends that compare what was read itself: a place of theirs, and what was there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadProof {
    /// Name of the thing that was read.
    pub thing: String,
    /// Which part of it.
    pub part: Vec<u8>,
    /// What was there.
    pub seen: Vec<u8>,
}

/// Collects the marks and proofs of one transaction.
#[derive(Debug, Default)]
pub struct ReadMarks {
    marks: Mutex<Vec<ReadMark>>,
    proofs: Mutex<Vec<ReadProof>>,
}

impl ReadMarks {
    /// Adds a mark.
    pub fn add(&self, mark: ReadMark) {
        locked(&self.marks).push(mark);
    }

    /// Adds a proof.
    pub fn prove(&self, proof: ReadProof) {
        locked(&self.proofs).push(proof);
    }

    /// The marks so far.
    #[must_use]
    pub fn to_vec(&self) -> Vec<ReadMark> {
        locked(&self.marks).clone()
    }

    /// The proofs so far.
    #[must_use]
    pub fn proofs(&self) -> Vec<ReadProof> {
        locked(&self.proofs).clone()
    }

    /// True where nothing was read.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        locked(&self.marks).is_empty() && locked(&self.proofs).is_empty()
    }
}

fn locked<T>(list: &Mutex<Vec<T>>) -> MutexGuard<'_, Vec<T>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
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
