//! Results as C sees them: 0 or a negated code of `daos_errno.h`.
use esker::types::{Error, ErrorKind};
use std::ffi::c_int;
use std::io::Write;
use std::sync::OnceLock;

/// A negative error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub c_int);

/// A result that fails with a [`Code`].
pub type Result<T> = std::result::Result<T, Code>;

impl Code {
    /// The caller has no permission for this.
    pub const NO_PERM: Self = Self(-1001);
    /// The handle is not valid.
    pub const NO_HDL: Self = Self(-1002);
    /// An argument is not valid.
    pub const INVAL: Self = Self(-1003);
    /// The entity exists already.
    pub const EXIST: Self = Self(-1004);
    /// The entity does not exist.
    pub const NONEXIST: Self = Self(-1005);
    /// This was done before.
    pub const ALREADY: Self = Self(-1008);
    /// Out of memory.
    pub const NOMEM: Self = Self(-1009);
    /// This function is not implemented.
    pub const NOSYS: Self = Self(-1010);
    /// The time limit was exceeded.
    pub const TIMEDOUT: Self = Self(-1011);
    /// The entity is in use.
    pub const BUSY: Self = Self(-1012);
    /// `daos_init` was not called.
    pub const UNINIT: Self = Self(-1015);
    /// The buffer is too small.
    pub const TRUNC: Self = Self(-1016);
    /// The value does not fit.
    pub const OVERFLOW: Self = Self(-1017);
    /// The operation was cancelled.
    pub const CANCELED: Self = Self(-1018);
    /// A failure without a code of its own.
    pub const MISC: Self = Self(-1025);
    /// The two values differ.
    pub const MISMATCH: Self = Self(-1031);
    /// The key is larger than the space for it.
    pub const KEY2BIG: Self = Self(-2012);
    /// The record is larger than the space for it.
    pub const REC2BIG: Self = Self(-2013);
    /// This is not supported.
    pub const NOTSUPPORTED: Self = Self(-2037);
}

impl From<Error> for Code {
    /// Returns the code of the error, and prints its text if the user requested that (`ESKER_LOG`).
    #[cold]
    fn from(error: Error) -> Self {
        log(&error);
        Self(error.der())
    }
}

impl From<ErrorKind> for Code {
    fn from(kind: ErrorKind) -> Self {
        Self(kind.codes().der)
    }
}

/// Prints the reason for a failure if the user requested it (`ESKER_LOG`).
pub(crate) fn log(error: &Error) {
    if is_logging() {
        // A program that has closed its standard error reads the code only.
        let _ = writeln!(std::io::stderr(), "libdaos: {error}");
    }
}

/// Prints a line on standard output, unless it is closed.
pub(crate) fn print(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// Whether `ESKER_LOG` is set. Codes carry no reason, so the library prints it on request.
fn is_logging() -> bool {
    static LOGGING: OnceLock<bool> = OnceLock::new();
    *LOGGING.get_or_init(|| std::env::var_os("ESKER_LOG").is_some_and(|value| !value.is_empty()))
}

/// Converts a result to its code; 0 means success.
#[must_use]
pub fn from_result(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Code(code)) => code,
    }
}
