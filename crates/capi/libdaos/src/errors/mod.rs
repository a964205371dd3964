//! Names and descriptions of error codes.
use std::ffi::{CStr, c_char, c_int};

mod table;

use table::{GENERAL, STORE};

/// Codes begin behind these.
const GENERAL_BASE: c_int = 1000;
const STORE_BASE: c_int = 2000;

/// Text of codes that are none; their numbers are told in memory of the thread.
fn known(code: c_int) -> Option<(&'static CStr, &'static CStr)> {
    let code = code.checked_neg()?;
    let at = |table: &[(&'static CStr, &'static CStr)], base: c_int| {
        let index = usize::try_from(code.checked_sub(base + 1)?).ok()?;
        table.get(index).copied()
    };
    match code {
        0 => Some((c"DER_SUCCESS", c"Success")),
        _ => at(&GENERAL, GENERAL_BASE).or_else(|| at(&STORE, STORE_BASE)),
    }
}

/// The name of an error.
#[unsafe(no_mangle)]
pub extern "C" fn d_errstr(code: c_int) -> *const c_char {
    known(code).map_or(c"DER_UNKNOWN", |(name, _)| name).as_ptr()
}

/// One sentence on an error.
#[unsafe(no_mangle)]
pub extern "C" fn d_errdesc(code: c_int) -> *const c_char {
    match known(code) {
        Some((_, description)) => description.as_ptr(),
        None => unknown(code),
    }
}

/// A sentence with the number; it stands until the thread asks for the next such one.
fn unknown(code: c_int) -> *const c_char {
    const BYTES: usize = 48;
    thread_local! {
        static TEXT: std::cell::UnsafeCell<[u8; BYTES]> =
            const { std::cell::UnsafeCell::new([0; BYTES]) };
    }
    let text = format!("Unknown error code {code}\0");
    TEXT.with(|place| {
        // SAFETY: only this thread gets at the place, and no reference to it outlives this block.
        let room = unsafe { &mut *place.get() };
        room[..text.len()].copy_from_slice(text.as_bytes());
        place.get().cast_const().cast()
    })
}
