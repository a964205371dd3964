//! Memory from malloc, which C callers free.
use crate::abi::{Bytes, Ptr, Str};
use crate::code::{Code, Result};

/// Zeroed memory for `count` values; a null pointer if `count` is 0.
pub(crate) fn zeroed<T>(count: usize) -> Result<Ptr<T>> {
    if count == 0 {
        return Ok(Ptr::null());
    }
    // SAFETY: calloc accepts any sizes and fails for those that overflow.
    let memory = unsafe { libc::calloc(count, size_of::<T>().max(1)) };
    match memory.is_null() {
        true => Err(Code::NOMEM),
        // SAFETY: calloc returned memory for `count` values.
        false => Ok(unsafe { Ptr::new(memory.cast()) }),
    }
}

/// Copies values.
pub(crate) fn copy<T: Copy>(values: &[T]) -> Result<Ptr<T>> {
    let room = zeroed(values.len())?;
    for (index, value) in values.iter().enumerate() {
        room.at(index).set(*value);
    }
    Ok(room)
}

/// Copies one value.
pub(crate) fn one<T: Copy>(value: T) -> Result<Ptr<T>> {
    copy(&[value])
}

/// Copies a string and appends a NUL.
pub(crate) fn string(text: &[u8]) -> Result<Str> {
    let room: Ptr<u8> = zeroed(text.len() + 1)?;
    room.cast::<std::ffi::c_void>().write(text.len() as u64)?.copy_from_slice(text);
    Ok(room.cast())
}

/// Frees memory from malloc; the pointer may be null.
pub(crate) fn free<T>(pointer: Ptr<T>) {
    let memory: Bytes = pointer.cast();
    // SAFETY: callers pass a pointer from malloc, and pass it once.
    unsafe { libc::free(memory.raw()) }
}

/// Frees memory that the library allocated.
#[unsafe(no_mangle)]
pub extern "C" fn d_free(pointer: Bytes) {
    free(pointer);
}
