//! Views: bytes of fields, in place if possible.
use super::Selected;
use crate::abi::{Event, Handle, Ptr};
use crate::stores::arguments;
use crate::stores::call::{self, opened};
use esker::View;
use std::ffi::{c_int, c_uint, c_void};

/// `ESKER_IN_PLACE`: fail instead of making a copy.
const IN_PLACE: c_uint = 32;

/// Views the bytes of a selected field.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_view(
    sel: Handle,
    index: u64,
    flags: c_uint,
    view: Ptr<Handle>,
    data: Ptr<*const c_void>,
    size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        arguments::flags(flags, IN_PLACE)?;
        let selected = opened::<Selected>(sel)?;
        selected.entry(index)?;
        arguments::needed(view, "view")?;
        arguments::needed(data, "data")?;
        Ok(move || {
            let bytes = selected.entry(index)?.view(flags & IN_PLACE == 0)?;
            // The bytes stay where they are while the handle is open.
            let (address, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
            call::open(bytes, view)?;
            data.set(address);
            size.set(length);
            Ok(())
        })
    })
}

/// Releases a view.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_view_close(view: Handle, ev: Ptr<Event>) -> c_int {
    call::close::<View>(view, ev)
}
