//! Arrays (`daos_array.h`).
use crate::abi::{ArrayIod, ArrayStbuf, Event, Handle, ObjId, Ptr, Sgl};
use crate::code::{Code, Result};
use crate::convert::{Data, Extents};
use crate::handles::{Entry, OpenArray, kind};
use crate::{boundary, conditions, convert, handles, object};
use esker::types::ops::Cond;
use esker::types::{ObjectId, ObjectType};
use esker::{ATTRIBUTES_DKEY, Access, Array, ArrayAttributes, Container};
use std::ffi::c_int;

/// `DAOS_OO_RW`.
const READ_WRITE: u32 = 0x4;

/// Creates an array and opens it.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_create(
    coh: Handle,
    oid: ObjId,
    th: Handle,
    cell_size: u64,
    chunk_size: u64,
    oh: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (container, via) = (handles::container(coh)?, handles::via(th)?);
        Ok(async move {
            oh.needed()?;
            let attributes = ArrayAttributes { cell_size, chunk_size };
            let array = create(&container.container, oid.into(), attributes, via.access()).await?;
            open_handle(array, READ_WRITE, oh)
        })
    })
}

/// Creates an array. In a transaction, this call checks that the array does not exist, and not the commit.
async fn create(
    container: &Container,
    oid: ObjectId,
    attributes: ArrayAttributes,
    access: Access<'_>,
) -> Result<Array> {
    let Access::Tx(_) = access else {
        return Ok(container.create_array(oid, attributes, access).await?);
    };
    let (object, cond) = (container.object(oid), Cond::DKEY_INSERT);
    conditions::check_update(&object, &ATTRIBUTES_DKEY, cond, &mut [], access).await?;
    Ok(container.create_array_unchecked(oid, attributes, access).await?)
}

/// Restricts an array to `mode` (`DAOS_OO_*`), and stores a new handle of it in `oh`.
pub(crate) fn open_handle(array: Array, mode: u32, oh: Ptr<Handle>) -> Result<()> {
    oh.set(handles::open(Entry::Array(OpenArray::new(with_mode(array, mode), mode)))?);
    Ok(())
}

/// Restricts an array to the accesses that `mode` allows.
pub(crate) fn with_mode(array: Array, mode: u32) -> Array {
    if convert::is_read_only(mode) { array.read_only() } else { array }
}

/// Opens an array that stores its cell and chunk size.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_open(
    coh: Handle,
    oid: ObjId,
    th: Handle,
    mode: u32,
    cell_size: Ptr<u64>,
    chunk_size: Ptr<u64>,
    oh: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (container, via) = (handles::container(coh)?, handles::via(th)?);
        Ok(async move {
            oh.needed()?;
            let array = container.container.open_array(oid.into(), via.access()).await?;
            let attributes = array.attributes();
            open_handle(array, mode, oh)?;
            cell_size.set(attributes.cell_size);
            chunk_size.set(attributes.chunk_size);
            Ok(())
        })
    })
}

/// Opens an array with the given cell size in bytes and chunk size in cells. Nothing is read, so no transaction is
/// needed.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_open_with_attr(
    coh: Handle,
    oid: ObjId,
    _th: Handle,
    mode: u32,
    cell_size: u64,
    chunk_size: u64,
    oh: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::complete_now(ev, || {
        let container = handles::container(coh)?;
        oh.needed()?;
        let attributes = ArrayAttributes { cell_size, chunk_size };
        let array = container.container.open_array_with_attributes(oid.into(), attributes)?;
        open_handle(array, mode, oh)
    })
}

/// Closes an array.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_close(oh: Handle, ev: Ptr<Event>) -> c_int {
    object::close(oh, &[kind::ARRAY], ev)
}

/// Returns the size in cells.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_get_size(
    oh: Handle,
    th: Handle,
    size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move {
            size.needed()?.set(array.size(via.access()).await?);
            Ok(())
        })
    })
}

/// Returns the size in cells and the epoch of the latest change.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_stat(
    oh: Handle,
    th: Handle,
    stbuf: Ptr<ArrayStbuf>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move {
            stbuf.needed()?;
            let stat = array.stat(via.access()).await?;
            stbuf.set(ArrayStbuf { size: stat.size, max_epoch: stat.epoch.0 });
            Ok(())
        })
    })
}

/// Changes the size in cells.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_set_size(oh: Handle, th: Handle, size: u64, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move {
            array.set_size(size, via.access()).await?;
            // `set_size` moves the epoch of arrays of this type. Arrays of other types may store attributes, too:
            // rewriting those moves it.
            let is_touched = array.oid().object_type() == Some(ObjectType::Array);
            if size == 0 && !is_touched {
                array.touch_stored(via.access()).await?;
            }
            Ok(())
        })
    })
}

/// Removes an array and its stored attributes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_destroy(oh: Handle, th: Handle, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move { Ok(array.destroy(via.access()).await?) })
    })
}

/// Returns the cell and chunk size that the handle uses.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_get_attr(
    oh: Handle,
    chunk_size: Ptr<u64>,
    cell_size: Ptr<u64>,
) -> c_int {
    boundary::now(|| {
        let attributes = handles::array(oh)?.attributes();
        chunk_size.needed()?.set(attributes.chunk_size);
        cell_size.needed()?.set(attributes.cell_size);
        Ok(())
    })
}

/// Changes the chunk size, in cells, that the handle uses. Arrays that store their attributes refuse this.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_update_chunk_size(oh: Handle, chunk_size: u64) -> c_int {
    boundary::now(|| {
        let open = handles::open_array(oh)?;
        let array = open.array();
        if chunk_size == 0 {
            return Err(Code::INVAL);
        }
        if array.oid().object_type() == Some(ObjectType::Array) {
            return Err(Code::NOTSUPPORTED);
        }
        let attributes = ArrayAttributes { chunk_size, ..array.attributes() };
        let container = array.object().container();
        let array = container.open_array_with_attributes(array.oid(), attributes)?;
        open.change(with_mode(array, open.mode));
        Ok(())
    })
}

/// The ranges of cells that an operation names.
fn ranges(iod: &ArrayIod) -> Result<Extents> {
    Extents::new(iod.rgs, iod.nr)
}

/// Writes the contents of the buffers to ranges of cells, one after another.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_write(
    oh: Handle,
    th: Handle,
    iod: Ptr<ArrayIod>,
    sgl: Ptr<Sgl>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move {
            let ranges = ranges(&iod.get()?)?;
            let data = Data::all(sgl)?;
            Ok(array.write(ranges.as_slice(), data.source(), via.access()).await?)
        })
    })
}

/// Reads ranges of cells into the buffers, one after another.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_read(
    oh: Handle,
    th: Handle,
    iod: Ptr<ArrayIod>,
    sgl: Ptr<Sgl>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move { read(&array, iod, sgl, via.access()).await })
    })
}

/// Reads ranges of an array into the caller's buffers. For an array of bytes, also reports how many bytes were read,
/// and how many were past the end.
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

/// Punches ranges of cells.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_punch(
    oh: Handle,
    th: Handle,
    iod: Ptr<ArrayIod>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move { punch(&array, iod, via.access()).await })
    })
}

/// Punches ranges, which may be arbitrarily long. They are not cut to the size of the array: that does not count what
/// the transaction is about to write.
async fn punch(array: &Array, iod: Ptr<ArrayIod>, access: Access<'_>) -> Result<()> {
    let ranges = ranges(&iod.get()?)?;
    Ok(array.punch(ranges.as_slice(), access).await?)
}
