//! Arguments of C as the client takes them.
use crate::abi::{Bytes, Iov, ObjId, Ptr, Range, Recx, Sgl};
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

/// Modes of pools and containers: the bits are the same. The strongest one counts.
pub(crate) fn open_mode(flags: u32) -> Result<OpenMode> {
    match flags {
        _ if flags & 4 != 0 => Ok(OpenMode::Exclusive),
        _ if flags & 2 != 0 => Ok(OpenMode::ReadWrite),
        _ if flags & 1 != 0 => Ok(OpenMode::ReadOnly),
        _ => Err(Code::INVAL),
    }
}

/// True where an object is opened for reading only.
pub(crate) fn is_read_only(mode: u32) -> bool {
    const READ: u32 = 0x2;
    const WRITE_OR_EXCLUSIVE: u32 = 0xc;
    mode & READ != 0 && mode & WRITE_OR_EXCLUSIVE == 0
}

/// Conditions, of those that mean something to the operation.
pub(crate) fn cond(flags: u64, known: Cond) -> Cond {
    Cond(flags & known.0)
}

/// A key given as a buffer.
pub(crate) fn key(key: &Iov) -> Result<&[u8]> {
    match key.buf.is_null() || key.len == 0 || key.len > key.buf_len {
        true => Err(Code::INVAL),
        false => key.buf.read(key.len as u64),
    }
}

/// Most buffers in one list.
const BUFFERS_MAX: u32 = EXTENTS_PER_OP_MAX as u32;

/// The buffers of a list.
pub(crate) fn buffers(sgl: &Sgl) -> Result<impl Iterator<Item = Result<Iov>> + use<>> {
    if sgl.nr > BUFFERS_MAX || (sgl.nr > 0 && sgl.iovs.is_null()) {
        return Err(Code::INVAL);
    }
    let iovs = sgl.iovs;
    Ok((0..sgl.nr as usize).map(move |index| iovs.at(index).get()))
}

/// Data to be written: what is in the buffers of a list.
pub(crate) struct Data(Vec<Iov>);

impl Data {
    /// The first `len` bytes in a list, or all of them.
    pub(crate) fn new(sgl: Ptr<Sgl>, len: Option<u64>) -> Result<Self> {
        let mut rest = len.unwrap_or(u64::MAX);
        let mut iovs = Vec::new();
        for iov in buffers(&sgl.get()?)? {
            let mut iov = iov?;
            if iov.len > iov.buf_len {
                return Err(Code::INVAL);
            }
            iov.len = rest.min(iov.len as u64) as usize;
            iov.buf.read(iov.len as u64)?;
            rest -= iov.len as u64;
            iovs.push(iov);
        }
        match len.is_some() && rest > 0 {
            true => Err(Code::INVAL),
            false => Ok(Self(iovs)),
        }
    }

    pub(crate) fn slices(&self) -> Result<Vec<&[u8]>> {
        self.0.iter().map(|iov| iov.buf.read(iov.len as u64)).collect()
    }
}

/// The one buffer of a list of one, which is what nearly all callers pass.
pub(crate) fn only_buffer(sgl: Ptr<Sgl>) -> Result<Option<Iov>> {
    let sgl = sgl.get()?;
    match sgl.nr {
        1 => sgl.iovs.get().map(Some),
        _ => Ok(None),
    }
}

/// A source of one buffer.
pub(crate) fn source(iov: &Iov) -> Result<Source<'_>> {
    match iov.len > iov.buf_len {
        true => Err(Code::INVAL),
        false => Ok(Source::One(iov.buf.read(iov.len as u64)?)),
    }
}

/// Room to read into: the buffers of a list.
pub(crate) struct Room(Vec<(Bytes, u64)>);

impl Room {
    /// The room `size` finds in each buffer.
    pub(crate) fn new(sgl: Ptr<Sgl>, size: impl Fn(&Iov) -> usize) -> Result<Self> {
        let room = buffers(&sgl.get()?)?.map(|iov| iov.map(|iov| (iov.buf, size(&iov) as u64)));
        room.collect::<Result<_>>().map(Self)
    }

    pub(crate) fn sink(&mut self) -> Result<Sink<'_>> {
        let slices = self.0.iter_mut().map(|(buffer, len)| buffer.write(*len));
        slices.collect::<Result<_>>().map(Sink::Many)
    }
}

impl Room {
    /// Bytes of all buffers.
    pub(crate) fn len(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len))
    }
}

/// Tells a list that its first `bytes` bytes were filled.
pub(crate) fn set_filled(list: Ptr<Sgl>, bytes: u64) -> Result<()> {
    let mut sgl = list.get()?;
    let mut rest = bytes;
    sgl.nr_out = 0;
    for (index, iov) in buffers(&sgl)?.enumerate() {
        let mut iov = iov?;
        let filled = rest.min(iov.buf_len as u64);
        rest -= filled;
        sgl.nr_out += u32::from(filled > 0);
        iov.len = filled as usize;
        sgl.iovs.at(index).set(iov);
    }
    list.set(sgl);
    Ok(())
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
