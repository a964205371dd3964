//! Results of served calls, and their conversion to return values and errno.
use crate::report;
use crate::threads::set_errno;
use esker::types::{Error, ErrorKind};
use std::ffi::c_int;

/// The result of a served call.
pub(crate) type Answer<T> = Result<T, Fail>;

/// Failure of a call.
#[derive(Debug)]
pub(crate) enum Fail {
    /// It fails with this errno.
    Errno(c_int),
    /// The path leads out of the mount point, to this host path. The C library continues with it.
    Outside(Vec<u8>),
}

impl Fail {
    /// The errno for C. A path that leads out gives `ENOENT`, for calls that do not continue with a host path.
    pub(crate) fn errno(&self) -> c_int {
        match self {
            Self::Errno(errno) => *errno,
            Self::Outside(_) => libc::ENOENT,
        }
    }

    /// True for `ENOENT`: a file or a part of a path does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Errno(libc::ENOENT))
    }
}

/// Also reports errors that the errno alone does not explain, for `esker run --report`.
impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        use ErrorKind::{Checksum, Corrupt, Incompatible, Io, TimedOut};
        if matches!(error.kind(), Checksum | Corrupt | Incompatible | Io | TimedOut) {
            report::report_error(&error);
        }
        Self::Errno(error.errno())
    }
}

/// Returns the failure of a call with this errno.
pub(crate) fn refuse<T>(errno: c_int) -> Answer<T> {
    Err(Fail::Errno(errno))
}

/// Types that C functions return, with the value that indicates an error.
pub(crate) trait Returned {
    /// The value that a failed call returns.
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

impl Returned for u32 {
    const FAILED: Self = Self::MAX;
}

/// Functions that cannot report failure.
impl Returned for () {
    const FAILED: Self = ();
}

impl<T> Returned for *mut T {
    const FAILED: Self = std::ptr::null_mut();
}

impl<T> Returned for *const T {
    const FAILED: Self = std::ptr::null();
}

/// Converts the result for C and sets errno after a failure. Callers have handled [`Fail::Outside`] before.
pub(crate) fn to_c<T: Returned>(answer: Answer<T>) -> T {
    match answer {
        Ok(value) => value,
        Err(error) => fail(error.errno()),
    }
}

/// Sets errno and returns the value of a failed call.
#[cold]
pub(crate) fn fail<T: Returned>(errno: c_int) -> T {
    set_errno(errno);
    T::FAILED
}
