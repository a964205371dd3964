//! Converts codes of libfabric to errors.
use crate::fabric::libfabric::library::Functions;
use esker_types::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_int};

/// Codes from here on are libfabric's own; those below are those of the system.
const OWN: c_int = 256;

/// Fails if the code is negative; `doing` names the operation.
///
/// # Errors
/// The error of the code.
pub(crate) fn check(functions: &Functions, code: c_int, doing: &str) -> Result<()> {
    match code < 0 {
        true => Err(error(functions, -code, doing)),
        false => Ok(()),
    }
}

/// The error for a positive code of the operation `doing`.
#[cold]
pub(crate) fn error(functions: &Functions, code: c_int, doing: &str) -> Error {
    // SAFETY: the call returns a constant text for every code.
    let text = unsafe { CStr::from_ptr((functions.fi_strerror)(code)) }.to_string_lossy();
    let kind = match code {
        ..OWN => Error::io("", &std::io::Error::from_raw_os_error(code)).kind(),
        _ => ErrorKind::Io,
    };
    Error::new(kind, format!("libfabric, {doing}: {text}"))
}
