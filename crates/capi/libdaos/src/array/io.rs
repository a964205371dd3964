//! Reading, writing and punching ranges of an array.
use crate::abi::{ArrayIod, Event, Handle, Ptr, Range, Sgl};
use crate::code::{Code, Result};
use crate::convert::{self, Data, Room};
use crate::{edge, handles};
use esker::types::limits::EXTENTS_PER_OP_MAX;
use esker::types::ops::{Sink, Source};
use esker::types::{Extent, ObjectType};
use esker::{Access, Array, Wait};
use std::ffi::c_int;

/// Ranges of an operation: nearly always one, which needs no list.
enum Ranges {
    One([Extent; 1]),
    Many(Vec<Extent>),
}

impl Ranges {
    fn new(iod: &ArrayIod) -> Result<Self> {
        if iod.nr == 1 {
            return Ok(Self::One([iod.rgs.get()?.into()]));
        }
        if iod.nr > EXTENTS_PER_OP_MAX as u64 {
            return Err(Code::NOTSUPPORTED);
        }
        let ranges = iod.rgs.list(iod.nr as usize)?;
        Ok(Self::Many(ranges.into_iter().map(Range::into).collect()))
    }

    fn as_slice(&self) -> &[Extent] {
        match self {
            Self::One(range) => range,
            Self::Many(ranges) => ranges,
        }
    }
}

/// Writes buffers into ranges.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_write(
    oh: Handle,
    th: Handle,
    iod: Ptr<ArrayIod>,
    sgl: Ptr<Sgl>,
    ev: Ptr<Event>,
) -> c_int {
    edge::run(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(move || write(&array, iod, sgl, via.access()))
    })
}

fn write(array: &Array, iod: Ptr<ArrayIod>, sgl: Ptr<Sgl>, access: Access<'_>) -> Result<()> {
    let ranges = Ranges::new(&iod.get()?)?;
    match convert::only_buffer(sgl)? {
        Some(iov) => Ok(array.write(ranges.as_slice(), convert::source(&iov)?, access).wait()?),
        None => {
            let data = Data::new(sgl, None)?;
            Ok(array.write(ranges.as_slice(), Source::Many(&data.slices()?), access).wait()?)
        }
    }
}

/// Reads ranges into buffers.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_read(
    oh: Handle,
    th: Handle,
    iod: Ptr<ArrayIod>,
    sgl: Ptr<Sgl>,
    ev: Ptr<Event>,
) -> c_int {
    edge::run(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(move || read(&array, iod, sgl, via.access()))
    })
}

fn read(array: &Array, at: Ptr<ArrayIod>, sgl: Ptr<Sgl>, access: Access<'_>) -> Result<()> {
    let mut iod = at.get()?;
    let ranges = Ranges::new(&iod)?;
    let read = match convert::only_buffer(sgl)? {
        Some(iov) if iov.len > iov.buf_len => return Err(Code::INVAL),
        Some(mut iov) => {
            let sink = Sink::One(iov.buf.write(iov.len as u64)?);
            array.read(ranges.as_slice(), sink, access).wait()?
        }
        None => {
            let mut room = Room::new(sgl, |iov| iov.len)?;
            array.read(ranges.as_slice(), room.sink()?, access).wait()?
        }
    };
    if array.oid().object_type() == Some(ObjectType::ArrayByte) {
        iod.nr_read = read.bytes;
        iod.nr_short_read = read.short_bytes;
        at.set(iod);
    }
    Ok(())
}

/// Removes ranges.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_punch(
    oh: Handle,
    th: Handle,
    iod: Ptr<ArrayIod>,
    ev: Ptr<Event>,
) -> c_int {
    edge::run(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(move || {
            let ranges = Ranges::new(&iod.get()?)?;
            Ok(array.punch(ranges.as_slice(), via.access()).wait()?)
        })
    })
}
