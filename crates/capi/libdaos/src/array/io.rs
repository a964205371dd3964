//! Reading, writing and punching ranges of an array.
use crate::abi::{ArrayIod, Event, Handle, Ptr, Sgl};
use crate::code::{Code, Result};
use crate::convert::{self, Data, Extents};
use crate::{edge, handles};
use esker::types::{Extent, ObjectType};
use esker::{Access, Array};
use std::ffi::c_int;

fn ranges(iod: &ArrayIod) -> Result<Extents> {
    Extents::new(iod.rgs, iod.nr)
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
    edge::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move {
            let ranges = ranges(&iod.get()?)?;
            let data = Data::all(sgl)?;
            Ok(array.write(ranges.as_slice(), data.source(), via.access()).await?)
        })
    })
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
    edge::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move { read(&array, iod, sgl, via.access()).await })
    })
}

async fn read(array: &Array, at: Ptr<ArrayIod>, sgl: Ptr<Sgl>, access: Access<'_>) -> Result<()> {
    let mut iod = at.get()?;
    let ranges = ranges(&iod)?;
    let room = convert::room(sgl, |iov| iov.len)?;
    let read = array.read(ranges.as_slice(), room, access).await?;
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
    edge::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move { punch(&array, iod, via.access()).await })
    })
}

/// Most chunks that one punch may fall on.
const CHUNKS_MAX: u64 = 1 << 20;

/// Beyond the end there is nothing to remove, so ranges may be as long as they like.
async fn punch(array: &Array, iod: Ptr<ArrayIod>, access: Access<'_>) -> Result<()> {
    let ranges = ranges(&iod.get()?)?;
    ranges.as_slice().iter().try_for_each(|range| range.check())?;
    let all = Extent::new(0, array.size(access).await?);
    let within: Vec<_> =
        ranges.as_slice().iter().filter_map(|range| range.intersect(all)).collect();
    let chunks = within.iter().map(|range| range.count / array.attributes().chunk_size);
    if chunks.fold(0, u64::saturating_add) > CHUNKS_MAX {
        return Err(Code::NOTSUPPORTED);
    }
    Ok(array.punch(&within, access).await?)
}
