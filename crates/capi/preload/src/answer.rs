//! Results of served calls, and how they become return values and errno.
use crate::report;
use crate::thread::set_errno;
use esker::types::{Error, ErrorKind};
use std::ffi::c_int;

/// The value of a served call, or why it has none.
pub(crate) type Answer<T> = Result<T, Fail>;

/// Why a call was not served.
#[derive(Debug)]
pub(crate) enum Fail {
    /// It fails with this errno.
    Errno(c_int),
    /// The path leads out of the mount point, to this one: the C library continues from there.
    Outside(Vec<u8>),
}

impl Fail {
    /// True if something does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Errno(libc::ENOENT))
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        use ErrorKind::{Checksum, Corrupt, Incompatible, Io, TimedOut};
        if matches!(error.kind(), Checksum | Corrupt | Incompatible | Io | TimedOut) {
            report::trouble(&error);
        }
        Self::Errno(error.errno())
    }
}

/// Fails a call with an errno.
pub(crate) fn no<T>(errno: c_int) -> Answer<T> {
    Err(Fail::Errno(errno))
}

/// Types that C functions return, with the value that says "see errno".
pub(crate) trait Returned {
    /// The value of a call that failed.
    const FAILED: Self;
}

impl Returned for i32 {
    const FAILED: Self = -1;
}

impl Returned for i64 {
    const FAILED: Self = -1;
}

impl Returned for isize {
    const FAILED: Self = -1;
}

impl<T> Returned for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

impl<T> Returned for *const T {
    const FAILED: Self = std::ptr::null();
}

/// The return value for C; sets errno. Paths that lead outside were handled before.
pub(crate) fn tell<T: Returned>(answer: Answer<T>) -> T {
    match answer {
        Ok(value) => value,
        Err(Fail::Errno(errno)) => fail(errno),
        Err(Fail::Outside(_)) => fail(libc::ENOENT),
    }
}

/// Sets errno and returns the value of a failed call.
#[cold]
pub(crate) fn fail<T: Returned>(errno: c_int) -> T {
    set_errno(errno);
    T::FAILED
}
