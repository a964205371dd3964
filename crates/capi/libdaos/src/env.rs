//! Variables of the environment (`gurt/common.h`), which MPI's driver for DAOS reads. Like the C library's functions,
//! they must not run while another thread changes the environment.
use crate::abi::{Ptr, Str};
use crate::boundary;
use crate::code::{Code, Result};
use crate::memory;
use std::ffi::{c_char, c_int, c_uint};

/// Returns the value of an environment variable. `NONEXIST` if it is not set.
fn variable<'a>(name: Str) -> Result<&'a [u8]> {
    // SAFETY: the caller guarantees a string that ends in NUL, and that nothing changes the environment meanwhile.
    let value: Str = unsafe { Ptr::new(libc::getenv(name.needed()?.raw())) };
    if value.is_null() { Err(Code::NONEXIST) } else { value.bytes() }
}

/// A decimal number of at most `max`. A negative number is counted down from the end: -1 is `max`.
fn number(text: &[u8], max: u64) -> Result<u64> {
    let text = text.trim_ascii_start();
    let (is_negative, digits) = match text.split_first() {
        Some((b'-', digits)) => (true, digits),
        Some((b'+', digits)) => (false, digits),
        _ => (false, text),
    };
    if !digits.iter().all(u8::is_ascii_digit) {
        return Err(Code::INVAL);
    }
    let text = std::str::from_utf8(digits).map_err(|_| Code::INVAL)?;
    let amount = text.parse().ok().filter(|amount| *amount <= max).ok_or(Code::INVAL)?;
    Ok(if is_negative && amount > 0 { max - (amount - 1) } else { amount })
}

/// False for text that is the number 0, true for any other.
fn truth(text: &[u8]) -> bool {
    number(text, u64::MAX) != Ok(0)
}

/// Reads a flag: false for 0, true for all else. `value` stays as it is if the variable is missing.
#[unsafe(no_mangle)]
pub extern "C" fn d_getenv_bool(name: Str, value: Ptr<bool>) -> c_int {
    boundary::always(|| {
        value.needed()?.set(truth(variable(name)?));
        Ok(())
    })
}

/// Reads a single character.
#[unsafe(no_mangle)]
pub extern "C" fn d_getenv_char(name: Str, value: Str) -> c_int {
    boundary::always(|| match variable(name)? {
        [only] => {
            value.needed()?.set(only.cast_signed() as c_char);
            Ok(())
        }
        _ => Err(Code::INVAL),
    })
}

/// Reads a number of 32 bits.
#[unsafe(no_mangle)]
pub extern "C" fn d_getenv_uint(name: Str, value: Ptr<c_uint>) -> c_int {
    boundary::always(|| {
        let read = number(variable(name)?, u64::from(c_uint::MAX))?;
        value.needed()?.set(read as c_uint);
        Ok(())
    })
}

/// Older name of [`d_getenv_uint`].
#[unsafe(no_mangle)]
pub extern "C" fn d_getenv_int(name: Str, value: Ptr<c_uint>) -> c_int {
    d_getenv_uint(name, value)
}

/// Reads a number of 32 bits.
#[unsafe(no_mangle)]
pub extern "C" fn d_getenv_uint32_t(name: Str, value: Ptr<u32>) -> c_int {
    d_getenv_uint(name, value)
}

/// Reads a number of 64 bits.
#[unsafe(no_mangle)]
pub extern "C" fn d_getenv_uint64_t(name: Str, value: Ptr<u64>) -> c_int {
    boundary::always(|| {
        value.needed()?.set(number(variable(name)?, u64::MAX)?);
        Ok(())
    })
}

/// Copies a variable and a NUL into a buffer, or as much as fits.
#[unsafe(no_mangle)]
pub extern "C" fn d_getenv_str(value: Str, size: usize, name: Str) -> c_int {
    boundary::always(|| {
        let text = variable(name)?;
        let room = value.needed()?.cast::<std::ffi::c_void>().write(size as u64)?;
        let (end, room) = room.split_last_mut().ok_or(Code::INVAL)?;
        *end = 0;
        let fits = text.len().min(room.len());
        room[..fits].copy_from_slice(&text[..fits]);
        room[fits..].fill(0);
        if fits == text.len() { Ok(()) } else { Err(Code::TRUNC) }
    })
}

/// Copies a variable into memory that [`d_freeenv_str`] frees.
#[unsafe(no_mangle)]
pub extern "C" fn d_agetenv_str(value: Ptr<Str>, name: Str) -> c_int {
    boundary::always(|| {
        value.needed()?.set(Ptr::null());
        value.set(memory::string(variable(name)?)?);
        Ok(())
    })
}

/// Frees what [`d_agetenv_str`] returned.
#[unsafe(no_mangle)]
pub extern "C" fn d_freeenv_str(value: Ptr<Str>) {
    if let Ok(text) = value.get() {
        memory::free(text);
        value.set(Ptr::null());
    }
}

/// `setenv(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn d_setenv(name: Str, value: Str, overwrite: c_int) -> c_int {
    // SAFETY: the caller guarantees two strings, and that nothing else uses the environment meanwhile.
    unsafe { libc::setenv(name.raw(), value.raw(), overwrite) }
}

/// `unsetenv(3)`.
#[unsafe(no_mangle)]
pub extern "C" fn d_unsetenv(name: Str) -> c_int {
    // SAFETY: the caller guarantees a string, and that nothing else uses the environment meanwhile.
    unsafe { libc::unsetenv(name.raw()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_and_fit() {
        let max = u64::from(u32::MAX);
        for (text, value) in [("0", 0), (" +7", 7), ("4294967295", max), ("-1", max), ("-0", 0)] {
            assert_eq!(number(text.as_bytes(), max), Ok(value), "{text:?}");
        }
        assert_eq!(number(b"-2", u64::MAX), Ok(u64::MAX - 1));
        for text in ["", "-", "1 ", "0x1", "1e3", "4294967296", "--1", "99999999999999999999"] {
            assert_eq!(number(text.as_bytes(), max), Err(Code::INVAL), "{text:?}");
        }
    }

    #[test]
    fn all_but_zero_is_true() {
        assert!([&b"1"[..], b"-1", b"no", b"", b"0x0"].iter().all(|text| truth(text)));
        assert!([&b"0"[..], b"00", b" -0"].iter().all(|text| !truth(text)));
    }

    #[test]
    fn variables_are_read_into_what_the_caller_has() {
        let (name, value) = (c"ESKER_ENV_TEST", c"word");
        // SAFETY: the strings live to the end of the test.
        let text = |text: &std::ffi::CStr| unsafe { Ptr::new(text.as_ptr().cast_mut()) };
        let (mut copy, mut room) = (Ptr::null(), [1u8; 4]);
        // SAFETY: both live to the end of the test.
        let (copy, room_at) = unsafe { (Ptr::new(&raw mut copy), Ptr::new(room.as_mut_ptr())) };
        assert_eq!(d_agetenv_str(copy, text(name)), Code::NONEXIST.0);
        assert_eq!(d_setenv(text(name), text(value), 1), 0);
        assert_eq!(d_getenv_str(room_at.cast(), 4, text(name)), Code::TRUNC.0);
        assert_eq!(&room, b"wor\0");
        assert_eq!(d_agetenv_str(copy, text(name)), 0);
        assert_eq!(copy.get().unwrap().bytes(), Ok(&b"word"[..]));
        d_freeenv_str(copy);
        assert!(copy.get().unwrap().is_null());
        assert_eq!(d_unsetenv(text(name)), 0);
        assert_eq!(d_getenv_bool(text(name), Ptr::null()), Code::INVAL.0);
    }
}
