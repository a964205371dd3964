//! Results of the file system calls as C sees them: 0 or a positive errno. Also the entry points through which these
//! calls go.
use crate::abi::{Event, Ptr};
use crate::code::{self, Code};
use crate::{boundary, init};
use esker::block_on;
use esker::types::{Error, ErrorKind};
use std::ffi::c_int;

/// A positive errno.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Errno(pub(crate) c_int);

/// A result that fails with an [`Errno`].
pub(crate) type Result<T> = std::result::Result<T, Errno>;

impl Errno {
    /// An argument is not valid.
    pub(crate) const INVAL: Self = Self(libc::EINVAL);
    /// The mount or the object was not opened for this operation.
    pub(crate) const PERM: Self = Self(libc::EPERM);
    /// The permission bits forbid it.
    pub(crate) const ACCES: Self = Self(libc::EACCES);
    /// Data is damaged.
    pub(crate) const IO: Self = Self(libc::EIO);
    /// The entity does not exist.
    pub(crate) const NOENT: Self = Self(libc::ENOENT);
    /// The entity exists already.
    pub(crate) const EXIST: Self = Self(libc::EEXIST);
    /// It is not a directory.
    pub(crate) const NOTDIR: Self = Self(libc::ENOTDIR);
    /// It is a directory.
    pub(crate) const ISDIR: Self = Self(libc::EISDIR);
    /// The entity is in use.
    pub(crate) const BUSY: Self = Self(libc::EBUSY);
    /// This is not implemented.
    pub(crate) const NOTSUP: Self = Self(libc::ENOTSUP);
    /// The value is larger than the space for it.
    pub(crate) const TOOBIG: Self = Self(libc::E2BIG);
    /// The value is larger than the space for it, in calls by path.
    pub(crate) const RANGE: Self = Self(libc::ERANGE);
    /// The attribute does not exist.
    pub(crate) const NODATA: Self = Self(libc::ENODATA);

    /// True for [`Errno::NOENT`].
    pub(crate) fn is_missing(&self) -> bool {
        *self == Self::NOENT
    }
}

impl From<Error> for Errno {
    /// A read-only mount refuses changes with `EPERM` instead of `EROFS`, as in DAOS.
    #[cold]
    fn from(error: Error) -> Self {
        code::log(&error);
        match error.kind() {
            ErrorKind::ReadOnly => Self::PERM,
            kind => Self(kind.codes().errno),
        }
    }
}

impl From<Code> for Errno {
    #[cold]
    fn from(code: Code) -> Self {
        Self(match code {
            Code::NO_PERM => libc::EPERM,
            Code::INVAL | Code::NO_HDL | Code::UNINIT => libc::EINVAL,
            Code::EXIST => libc::EEXIST,
            Code::NONEXIST => libc::ENOENT,
            Code::NOMEM => libc::ENOMEM,
            Code::BUSY => libc::EBUSY,
            Code::TRUNC => libc::ERANGE,
            Code::OVERFLOW => libc::EOVERFLOW,
            Code::KEY2BIG | Code::REC2BIG => libc::E2BIG,
            Code::NOSYS | Code::NOTSUPPORTED => libc::ENOTSUP,
            _ => libc::EIO,
        })
    }
}

/// Converts a result to 0 or its errno.
fn from_result(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Errno(errno)) => errno,
    }
}

/// Does work that does not require `daos_init`, and returns 0 or its errno.
pub(crate) fn always(work: impl FnOnce() -> Result<()>) -> c_int {
    boundary::guard(libc::EIO, || from_result(work()))
}

/// Does work in this call, without an event, and returns 0 or its errno. `EINVAL` before `daos_init`.
pub(crate) fn now(work: impl FnOnce() -> Result<()>) -> c_int {
    match init::is_ready() {
        true => always(work),
        false => libc::EINVAL,
    }
}

/// Does an operation, with an event or without; see [`boundary::drive`].
pub(crate) fn drive<F>(ev: Ptr<Event>, prepare: impl FnOnce() -> Result<F>) -> c_int
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    if ev.is_null() {
        return now(|| block_on(prepare()?));
    }
    // An event stores the positive errno.
    let in_event = |Errno(errno)| Code(errno);
    let launched = boundary::drive(ev, || {
        let operation = prepare().map_err(in_event)?;
        Ok(async move { operation.await.map_err(in_event) })
    });
    from_result(code(launched))
}

/// Converts the result of a DAOS function, 0 or a negative code.
pub(crate) fn code(code: c_int) -> Result<()> {
    match code {
        0 => Ok(()),
        _ => Err(Code(code).into()),
    }
}
