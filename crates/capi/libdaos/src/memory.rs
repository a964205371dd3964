//! Memory that C frees: it comes from malloc.
use crate::abi::{Bytes, Ptr, Str};
use crate::code::{Code, Result};

/// Zeroed room for `count` values; no pointer for none.
pub(crate) fn zeroed<T>(count: usize) -> Result<Ptr<T>> {
    if count == 0 {
        return Ok(Ptr::null());
    }
    // SAFETY: calloc takes any sizes and refuses those that overflow.
    let memory = unsafe { libc::calloc(count, size_of::<T>().max(1)) };
    match memory.is_null() {
        true => Err(Code::NOMEM),
        // SAFETY: it is room for so many values.
        false => Ok(unsafe { Ptr::new(memory.cast()) }),
    }
}

/// A copy of values.
pub(crate) fn copy<T: Copy>(values: &[T]) -> Result<Ptr<T>> {
    let room = zeroed(values.len())?;
    for (index, value) in values.iter().enumerate() {
        room.at(index).set(*value);
    }
    Ok(room)
}

/// A value in memory of its own.
pub(crate) fn one<T: Copy>(value: T) -> Result<Ptr<T>> {
    copy(&[value])
}

/// A copy of a string, with its NUL.
pub(crate) fn string(text: &[u8]) -> Result<Str> {
    let room: Ptr<u8> = zeroed(text.len() + 1)?;
    room.cast::<std::ffi::c_void>().write(text.len() as u64)?.copy_from_slice(text);
    Ok(room.cast())
}

/// Frees what malloc gave; no pointer is allowed.
pub(crate) fn free<T>(pointer: Ptr<T>) {
    let memory: Bytes = pointer.cast();
    // SAFETY: callers hand over what malloc gave, once.
    unsafe { libc::free(memory.raw()) }
}

/// Frees memory of the library's making.
#[unsafe(no_mangle)]
pub extern "C" fn d_free(pointer: Bytes) {
    free(pointer);
}
