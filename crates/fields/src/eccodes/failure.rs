//! Converts return codes and log messages of ecCodes to errors.
use crate::eccodes::api::{Context, Functions};
use crate::eccodes::limits::EXPLANATION_BYTES_MAX;
use esker_types::{Error, ErrorKind, Result};
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int};
use std::fmt::Display;

/// Severity of errors in the log of ecCodes (`GRIB_LOG_ERROR`); fatal errors are 3, debugging output is 4.
const LOG_ERROR: c_int = 2;
const LOG_FATAL: c_int = 3;

/// Codes of `grib_api_errors.h` that callers can act on.
const NOT_FOUND: c_int = -10;
const OUT_OF_MEMORY: c_int = -17;

thread_local! {
    /// The first error message of ecCodes during a call of this thread: later ones are its consequences.
    static FIRST_ERROR: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Discards the message of an earlier call of this thread.
pub(crate) fn clear() {
    FIRST_ERROR.with_borrow_mut(String::clear);
}

/// Receives log messages of ecCodes, instead of standard error.
///
/// # Safety
/// `text` must be null or a C string.
pub(crate) unsafe extern "C" fn log(_: *const Context, severity: c_int, text: *const c_char) {
    if text.is_null() || !(LOG_ERROR..=LOG_FATAL).contains(&severity) {
        return;
    }
    // SAFETY: it is not null, so the caller guarantees a C string.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    // A character has up to four bytes.
    let first: String = text.trim().chars().take(EXPLANATION_BYTES_MAX / 4).collect();
    // In a thread that is ending, the message is lost.
    let _ = FIRST_ERROR.try_with(|first_error| {
        if let Ok(mut first_error) = first_error.try_borrow_mut()
            && first_error.is_empty()
        {
            *first_error = first;
        }
    });
}

/// Fails if `code` is an error; `doing` names the operation.
pub(crate) fn check(functions: &Functions, code: c_int, doing: impl Display) -> Result<()> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: ecCodes returns for any number a C string that is never freed.
    let meaning = unsafe { (functions.codes_get_error_message)(code) };
    let meaning = match meaning.is_null() {
        true => format!("error {code}").into(),
        // SAFETY: it is not null, so it is a C string.
        false => unsafe { CStr::from_ptr(meaning) }.to_string_lossy(),
    };
    let kind = match code {
        NOT_FOUND => ErrorKind::NotFound,
        OUT_OF_MEMORY => ErrorKind::NoMemory,
        _ => ErrorKind::Invalid,
    };
    Err(explained(kind, format!("ecCodes cannot {doing}: {meaning}")))
}

/// An error with the first message of ecCodes during the last call of this thread, if there was one.
pub(crate) fn explained(kind: ErrorKind, message: String) -> Error {
    match FIRST_ERROR.with_borrow_mut(std::mem::take) {
        first_error if first_error.is_empty() => Error::new(kind, message),
        first_error => Error::new(kind, format!("{message} ({first_error})")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log_text(severity: c_int, text: &CStr) {
        // SAFETY: a C string.
        unsafe { log(std::ptr::null(), severity, text.as_ptr()) };
    }

    #[test]
    fn the_first_logged_error_is_part_of_the_message() {
        clear();
        log_text(1, c"a warning");
        log_text(LOG_ERROR, c"the cause");
        log_text(LOG_ERROR, c"a consequence");
        let error = explained(ErrorKind::Invalid, "it failed".to_owned());
        assert_eq!(error.message(), "it failed (the cause)");
        assert_eq!(explained(ErrorKind::Invalid, "again".to_owned()).message(), "again");
    }
}
