//! Converts arguments of C for the client.
use crate::abi::{Iov, ObjId, Ptr, Range, Recx, Sgl};
use crate::code::{Code, Result};
use esker::types::info::OpenMode;
use esker::types::limits::EXTENTS_PER_OP_MAX;
use esker::types::ops::{Cond, Sink, Source};
use esker::types::{Extent, ObjectId};

impl From<ObjId> for ObjectId {
    fn from(oid: ObjId) -> Self {
        Self { hi: oid.hi, lo: oid.lo }
    }
}

impl From<ObjectId> for ObjId {
    fn from(oid: ObjectId) -> Self {
        Self { lo: oid.lo, hi: oid.hi }
    }
}

impl From<Range> for Extent {
    fn from(range: Range) -> Self {
        Self::new(range.idx, range.len)
    }
}

impl From<Extent> for Recx {
    fn from(extent: Extent) -> Self {
        Self { idx: extent.start, nr: extent.count }
    }
}

impl From<Recx> for Extent {
    fn from(recx: Recx) -> Self {
        Self::new(recx.idx, recx.nr)
    }
}

/// Returns the mode in which the flags open a pool or container. `INVAL` unless exactly one of the three mode flags is
/// set. Pools and containers use the same flags.
pub(crate) fn open_mode(flags: u32) -> Result<OpenMode> {
    match flags & 7 {
        4 => Ok(OpenMode::Exclusive),
        2 => Ok(OpenMode::ReadWrite),
        1 => Ok(OpenMode::ReadOnly),
        _ => Err(Code::INVAL),
    }
}

/// Returns the flag of an open mode: the inverse of [`open_mode`].
pub(crate) fn mode_bit(mode: OpenMode) -> u32 {
    match mode {
        OpenMode::ReadOnly => 1,
        OpenMode::ReadWrite => 2,
        OpenMode::Exclusive => 4,
    }
}

/// True if the mode with which a program opens an object allows reading only.
pub(crate) fn is_read_only(mode: u32) -> bool {
    const READ: u32 = 0x2;
    const WRITE_OR_EXCLUSIVE: u32 = 0xc;
    mode & READ != 0 && mode & WRITE_OR_EXCLUSIVE == 0
}

/// Returns the conditional flags of a call that its operation has (`known`); ignores all others.
pub(crate) fn cond(flags: u64, known: Cond) -> Cond {
    Cond::from_bits_truncate(flags) & known
}

/// Conditional flags that an update refuses: those of punches and fetches.
pub(crate) const NOT_OF_UPDATES: Cond = Cond::PUNCH.union(Cond::DKEY_FETCH).union(Cond::AKEY_FETCH);
/// Conditional flags that a fetch refuses: those of updates.
pub(crate) const NOT_OF_FETCHES: Cond =
    Cond::DKEY_INSERT.union(Cond::DKEY_UPDATE).union(Cond::AKEY_INSERT).union(Cond::AKEY_UPDATE);

/// Refuses conditional flags of another operation. Unknown flags are ignored, as in DAOS.
pub(crate) fn check_cond(flags: u64, refused: Cond) -> Result<()> {
    if cond(flags, refused).is_empty() { Ok(()) } else { Err(Code::INVAL) }
}

/// The key in the buffer that `key` points to.
pub(crate) fn key<'a>(key: Ptr<Iov>) -> Result<&'a [u8]> {
    key_in(&key.get()?)
}

/// Returns the key in a buffer of the caller. `INVAL` if the buffer is null or the key is empty or longer than the
/// buffer.
pub(crate) fn key_in<'a>(key: &Iov) -> Result<&'a [u8]> {
    match key.buf.is_null() || key.len == 0 || key.len > key.buf_len {
        true => Err(Code::INVAL),
        false => key.buf.read(key.len as u64),
    }
}

/// Ranges of an operation. Most have one, which needs no allocation.
pub(crate) enum Extents {
    One([Extent; 1]),
    Many(Vec<Extent>),
}

impl Extents {
    /// Reads the ranges of the caller. A single one, the usual case, takes no memory. `NOTSUPPORTED` for more ranges
    /// than an operation may have.
    pub(crate) fn new<T: Copy + Into<Extent>>(list: Ptr<T>, count: u64) -> Result<Self> {
        if count == 1 {
            return Ok(Self::One([list.get()?.into()]));
        }
        if count > EXTENTS_PER_OP_MAX as u64 {
            return Err(Code::NOTSUPPORTED);
        }
        let ranges = list.list(count as usize)?;
        Ok(Self::Many(ranges.into_iter().map(T::into).collect()))
    }

    pub(crate) fn as_slice(&self) -> &[Extent] {
        match self {
            Self::One(range) => range,
            Self::Many(ranges) => ranges,
        }
    }

    /// True if no range is empty or starts at 2^63 or later, and no two overlap.
    pub(crate) fn are_apart(&self) -> bool {
        let sound = |extent: &Extent| extent.count > 0 && extent.start >> 63 == 0;
        let apart = |pair: &[Extent]| {
            pair[0].start.checked_add(pair[0].count).is_some_and(|end| end <= pair[1].start)
        };
        let ranges = self.as_slice();
        // Ranges are usually sorted already. Then no sorted copy is needed.
        if !ranges.iter().all(sound) || ranges.windows(2).all(apart) {
            return ranges.iter().all(sound);
        }
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable_by_key(|extent| extent.start);
        sorted.windows(2).all(apart)
    }

    /// Total bytes of all records.
    pub(crate) fn bytes(&self, record_size: u64) -> Result<u64> {
        let records =
            self.as_slice().iter().try_fold(0u64, |sum, extent| sum.checked_add(extent.count));
        records.and_then(|records| records.checked_mul(record_size)).ok_or(Code::INVAL)
    }
}

/// Longest list of buffers.
const BUFFERS_MAX: u32 = EXTENTS_PER_OP_MAX as u32;

/// The buffers of a list.
fn buffers(sgl: &Sgl) -> Result<impl Iterator<Item = Result<Iov>> + use<>> {
    if sgl.nr > BUFFERS_MAX || (sgl.nr > 0 && sgl.iovs.is_null()) {
        return Err(Code::INVAL);
    }
    let iovs = sgl.iovs;
    Ok((0..sgl.nr as usize).map(move |index| iovs.at(index).get()))
}

/// The buffers of the list that `sgl` points to.
pub(crate) fn buffers_of(sgl: Ptr<Sgl>) -> Result<Vec<Iov>> {
    buffers(&sgl.get()?)?.collect()
}

/// Data to write: the contents of a list of buffers. Most have one, which needs no allocation.
pub(crate) enum Data<'a> {
    One(&'a [u8]),
    Many(Vec<&'a [u8]>),
}

impl<'a> Data<'a> {
    /// Returns the bytes in all buffers of a scatter-gather list, up to the length that each buffer is filled.
    pub(crate) fn all(sgl: Ptr<Sgl>) -> Result<Self> {
        let sgl = sgl.get()?;
        if sgl.nr == 1 {
            return filled(&sgl.iovs.get()?).map(Self::One);
        }
        let slices = buffers(&sgl)?.map(|iov| filled(&iov?));
        slices.collect::<Result<_>>().map(Self::Many)
    }

    /// The first `len` bytes of a list.
    ///
    /// # Errors
    /// [`Code::REC2BIG`] if the list is shorter.
    pub(crate) fn first(sgl: Ptr<Sgl>, len: u64) -> Result<Self> {
        if len == 0 {
            return Ok(Self::One(&[]));
        }
        match Self::all(sgl)? {
            Self::One(slice) => {
                let len = usize::try_from(len).map_err(|_| Code::INVAL)?;
                slice.get(..len).map(Self::One).ok_or(Code::REC2BIG)
            }
            Self::Many(slices) => cut(slices, len).map(Self::Many),
        }
    }

    /// The data, as a backend takes it.
    pub(crate) fn source(&self) -> Source<'_> {
        match self {
            Self::One(slice) => Source::One(slice),
            Self::Many(slices) => Source::Many(slices),
        }
    }
}

/// The bytes of a buffer that the caller has filled.
fn filled<'a>(iov: &Iov) -> Result<&'a [u8]> {
    match iov.len > iov.buf_len {
        true => Err(Code::INVAL),
        false => iov.buf.read(iov.len as u64),
    }
}

/// The first `len` bytes of buffers. `REC2BIG` if there are fewer.
fn cut(slices: Vec<&[u8]>, len: u64) -> Result<Vec<&[u8]>> {
    let mut rest = len;
    let mut part = |slice: &mut &[u8]| {
        let len = (slice.len() as u64).min(rest);
        rest -= len;
        *slice = &slice[..len as usize];
    };
    let mut slices = slices;
    slices.iter_mut().for_each(&mut part);
    match rest {
        0 => Ok(slices),
        _ => Err(Code::REC2BIG),
    }
}

/// Buffers to read into. `size` chooses how many bytes of each buffer are used: its capacity or its length.
pub(crate) fn room<'a>(sgl: Ptr<Sgl>, size: fn(&Iov) -> usize) -> Result<Sink<'a>> {
    let sgl = sgl.get()?;
    let buffer = |iov: &Iov| match size(iov) > iov.buf_len {
        true => Err(Code::INVAL),
        false => iov.buf.write(size(iov) as u64),
    };
    match sgl.nr {
        1 => buffer(&sgl.iovs.get()?).map(Sink::One),
        _ => {
            let slices = buffers(&sgl)?.map(|iov| buffer(&iov?));
            slices.collect::<Result<_>>().map(Sink::Many)
        }
    }
}

/// Total capacity of the buffers of a list, in bytes.
pub(crate) fn capacity(sgl: Ptr<Sgl>) -> Result<u64> {
    let sgl = sgl.get()?;
    if sgl.nr == 1 {
        return Ok(sgl.iovs.get()?.buf_len as u64);
    }
    buffers(&sgl)?.try_fold(0u64, |sum, iov| Ok(sum.saturating_add(iov?.buf_len as u64)))
}

/// Records in a list that its first `bytes` bytes were filled. `size` is the one by which [`room`] chose the bytes of
/// each buffer.
pub(crate) fn set_filled(list: Ptr<Sgl>, bytes: u64, size: fn(&Iov) -> usize) -> Result<()> {
    let mut sgl = list.get()?;
    let mut rest = bytes;
    sgl.nr_out = 0;
    for (index, iov) in buffers(&sgl)?.enumerate() {
        if rest == 0 {
            break;
        }
        let mut iov = iov?;
        iov.len = rest.min(size(&iov) as u64) as usize;
        rest -= iov.len as u64;
        sgl.nr_out += 1;
        sgl.iovs.at(index).set(iov);
    }
    list.set(sgl);
    Ok(())
}
