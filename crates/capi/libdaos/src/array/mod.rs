//! Arrays (`daos_array.h`).
mod io;

pub use io::{daos_array_punch, daos_array_read, daos_array_write};

use crate::abi::{ArrayStbuf, Event, Handle, ObjId, Ptr};
use crate::code::{Code, Result};
use crate::handles::{self, Entry, OpenArray, kind};
use crate::{convert, edge, object};
use esker::types::ObjectType;
use esker::{Array, ArrayAttributes};
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
    edge::drive(ev, || {
        let (container, via) = (handles::container(coh)?, handles::via(th)?);
        Ok(async move {
            oh.needed()?;
            let attributes = ArrayAttributes { cell_size, chunk_size };
            let container = &container.container;
            let array = container.create_array(oid.into(), attributes, via.access()).await?;
            give(array, READ_WRITE, oh)
        })
    })
}

/// Opens a handle on an array, as `mode` asks for it.
pub(crate) fn give(array: Array, mode: u32, oh: Ptr<Handle>) -> Result<()> {
    oh.set(handles::open(Entry::Array(OpenArray::new(as_asked(array, mode), mode)))?);
    Ok(())
}

/// An array for what `mode` allows.
pub(crate) fn as_asked(array: Array, mode: u32) -> Array {
    if convert::is_read_only(mode) { array.read_only() } else { array }
}

/// Opens an array that stores its sizes.
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
    edge::drive(ev, || {
        let (container, via) = (handles::container(coh)?, handles::via(th)?);
        Ok(async move {
            oh.needed()?;
            let array = container.container.open_array(oid.into(), via.access()).await?;
            let attributes = array.attributes();
            give(array, mode, oh)?;
            cell_size.set(attributes.cell_size);
            chunk_size.set(attributes.chunk_size);
            Ok(())
        })
    })
}

/// Opens an array whose sizes the caller knows.
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
    edge::done(ev, || {
        let container = handles::container(coh)?;
        oh.needed()?;
        let attributes = ArrayAttributes { cell_size, chunk_size };
        let array = container.container.open_array_with_attributes(oid.into(), attributes)?;
        give(array, mode, oh)
    })
}

/// Closes an array.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_close(oh: Handle, ev: Ptr<Event>) -> c_int {
    object::close(oh, &[kind::ARRAY], ev)
}

/// The size in cells.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_get_size(
    oh: Handle,
    th: Handle,
    size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move {
            size.needed()?.set(array.size(via.access()).await?);
            Ok(())
        })
    })
}

/// The size in cells and the latest change.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_stat(
    oh: Handle,
    th: Handle,
    stbuf: Ptr<ArrayStbuf>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
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
    edge::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move { Ok(array.set_size(size, via.access()).await?) })
    })
}

/// Removes an array with its stored sizes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_destroy(oh: Handle, th: Handle, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let (array, via) = (handles::array(oh)?, handles::via(th)?);
        Ok(async move { Ok(array.destroy(via.access()).await?) })
    })
}

/// The sizes the handle reckons with.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_get_attr(
    oh: Handle,
    chunk_size: Ptr<u64>,
    cell_size: Ptr<u64>,
) -> c_int {
    edge::now(|| {
        let attributes = handles::array(oh)?.attributes();
        chunk_size.needed()?.set(attributes.chunk_size);
        cell_size.needed()?.set(attributes.cell_size);
        Ok(())
    })
}

/// Changes the cells of a chunk that the handle reckons with. An array that stores its sizes keeps
/// them.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_update_chunk_size(oh: Handle, chunk_size: u64) -> c_int {
    edge::now(|| {
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
        open.change(as_asked(array, open.mode));
        Ok(())
    })
}
