//! The loaded library.
use crate::VARIABLE;
use crate::api::Functions;
use esker_types::{Error, ErrorKind, Result};
use std::ffi::{CString, OsString};
use std::sync::OnceLock;

/// Its usual file name.
const FILE: &str = "librados.so.2";

/// The functions of librados, which is loaded by the first call and stays.
///
/// # Errors
/// `NotSupported` if it cannot be loaded; the message says what to install.
pub(crate) fn functions() -> Result<&'static Functions> {
    static LOADED: OnceLock<Result<Functions>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(Error::clone)
}

fn load() -> Result<Functions> {
    let file = std::env::var_os(VARIABLE).unwrap_or_else(|| OsString::from(FILE));
    // SAFETY: loading runs code of the library, which the user or the system named as librados.
    let library = unsafe { libloading::Library::new(&file) }.map_err(missing)?;
    let functions = Functions::of(&library).map_err(missing)?;
    // Never unloaded: the pointers live as long as the process.
    std::mem::forget(library);
    Ok(functions)
}

fn missing(error: libloading::Error) -> Error {
    let message = format!(
        "librados, the client library of Ceph, cannot be loaded: {error}; install it (Debian: apt-get install \
         librados2) or name its file in {VARIABLE}"
    );
    Error::new(ErrorKind::NotSupported, message)
}

/// A text as a C string.
///
/// # Errors
/// `Invalid` for one with a zero byte.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    let invalid =
        |_| Error::new(ErrorKind::Invalid, format!("{text:?} has a zero byte; leave it out"));
    CString::new(text).map_err(invalid)
}
