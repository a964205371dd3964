//! One error type for all of Esker. Its kind tells the caller what to do; one table
//! (`error_kinds!`) maps each kind to its DAOS code, errno and Python exception.
use std::fmt;
use std::sync::Arc;

/// Result with Esker's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Representation of a kind in each API: DAOS error code (negative), errno (positive), Python exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    /// DAOS code as its API returns it (`-DER_*`).
    pub der: i32,
    /// errno of the POSIX interfaces.
    pub errno: i32,
    /// The built-in Python exceptions that also catch it, in addition to the exception of its own name.
    pub python: &'static [&'static str],
}

/// Defines the kinds of errors from one table: a kind, its DAOS code, its errno and its Python exceptions in each row.
macro_rules! error_kinds {
    ($($(#[$doc:meta])+ $kind:ident: $der:literal, $errno:literal, [$($python:literal),*];)*) => {
        /// Kind of an error: it says what the caller can do about it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        #[non_exhaustive]
        pub enum ErrorKind {
            $($(#[$doc])+ $kind,)*
        }

        impl ErrorKind {
            /// Every kind.
            pub const ALL: [Self; [$(Self::$kind),*].len()] = [$(Self::$kind),*];

            /// Maps a kind to the codes of each API (DAOS: `daos_errno.h`).
            #[must_use]
            pub const fn codes(self) -> Codes {
                match self {
                    $(Self::$kind => Codes { der: $der, errno: $errno, python: &[$($python),*] },)*
                }
            }
        }
    };
}

// DAOS has no codes for errors that only file systems have: such kinds share one.
error_kinds! {
    /// The user or the handle has no permission; ask for access.
    NoPermission: -1001, 1, ["PermissionError"];
    /// The handle is unknown, closed, or of another sort; fix the program.
    NoHandle: -1002, 9, ["ValueError"];
    /// An argument is wrong; fix the input.
    Invalid: -1003, 22, ["ValueError"];
    /// The thing exists already.
    Exists: -1004, 17, ["FileExistsError"];
    /// The thing does not exist.
    NotFound: -1005, 2, ["KeyError", "FileNotFoundError"];
    /// The pool is full; delete something or make a larger pool.
    NoSpace: -1007, 28, ["OSError"];
    /// The operation was done already; nothing is left to do.
    Already: -1008, 114, ["RuntimeError"];
    /// Out of memory, or beyond a memory limit.
    NoMemory: -1009, 12, ["MemoryError"];
    /// This release does not implement the function.
    NotImplemented: -1010, 38, ["NotImplementedError"];
    /// This backend does not support it; see its capabilities.
    NotSupported: -2037, 95, ["NotImplementedError"];
    /// The operation took longer than allowed; retry later.
    TimedOut: -1011, 110, ["TimeoutError"];
    /// Another handle or process uses it; retry when it is free.
    Busy: -1012, 16, ["BlockingIOError"];
    /// A temporary shortage; retry now.
    Again: -1013, 11, ["BlockingIOError"];
    /// The library is not initialised.
    Uninitialised: -1015, 22, ["RuntimeError"];
    /// The caller's buffer is too short.
    Truncated: -1016, 34, ["BufferError"];
    /// A number does not fit, or a table is full.
    Overflow: -1017, 75, ["OverflowError"];
    /// The operation was cancelled.
    Canceled: -1018, 125, ["InterruptedError"];
    /// A key exceeds a limit or the caller's buffer.
    KeyTooBig: -2012, 7, ["ValueError"];
    /// A record exceeds a limit or the caller's buffer.
    RecordTooBig: -2013, 7, ["ValueError"];
    /// The record size differs from the stored one.
    RecordSize: -2024, 22, ["ValueError"];
    /// The medium failed; check the device.
    Io: -2001, 5, ["OSError"];
    /// Stored bytes do not match their checksum; restore them.
    Checksum: -2021, 84, ["OSError"];
    /// Structures on the medium are damaged; run `esker pool check`.
    Corrupt: -2022, 117, ["OSError"];
    /// The format is of a version this release cannot read.
    Incompatible: -2023, 22, ["OSError"];
    /// A transaction met a conflict; restart it.
    TxRestart: -2025, 85, ["BlockingIOError"];
    /// A commit over several nodes is not decided yet; ask its coordinator, or retry.
    InDoubt: -2028, 16, ["BlockingIOError"];
    /// A path or URL does not lead to a pool.
    BadPath: -1026, 2, ["FileNotFoundError"];
    /// The mode bits of a file forbid it; ask its owner.
    AccessDenied: -1001, 13, ["PermissionError"];
    /// A component of a path is not a directory.
    NotDirectory: -1003, 20, ["NotADirectoryError"];
    /// The operation does not apply to directories.
    IsDirectory: -1003, 21, ["IsADirectoryError"];
    /// The directory has entries; remove them first.
    NotEmpty: -1012, 39, ["OSError"];
    /// A path leads through too many symbolic links.
    Loop: -1003, 40, ["OSError"];
    /// A name or path of a file is too long.
    NameTooLong: -1003, 36, ["OSError"];
    /// The file has no such attribute.
    NoAttribute: -1005, 61, ["OSError"];
    /// The file system is mounted read-only.
    ReadOnly: -1001, 30, ["OSError"];
    /// The position is past the end of the file.
    PastEnd: -1005, 6, ["OSError"];
    /// A file would exceed the largest size.
    FileTooBig: -1017, 27, ["OSError"];
    /// Data was lost with the node that stored it; restore it, or remove what remains of it.
    DataLoss: -2026, 5, ["OSError"];
    /// A commit may or may not have taken effect; read the data before the change is repeated.
    TxUncertain: -2033, 5, ["OSError"];
}

/// An error of Esker: a kind for the program, a message for the user.
///
/// The message names the thing, the cause and the remedy. Some errors carry the size that would have been enough (DAOS
/// reports it together with `-DER_TRUNC`, `-DER_REC2BIG` and `-DER_KEY2BIG`).
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    needed: Option<u64>,
    source: Option<Arc<std::io::Error>>,
}

impl Error {
    /// An error of `kind` with a message for the user.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into_boxed_str(), needed: None, source: None }
    }

    /// Adds the size, in bytes or entries, that would have been enough.
    #[must_use]
    pub fn with_needed(mut self, needed: u64) -> Self {
        self.needed = Some(needed);
        self
    }

    /// The kind: it says what the caller can do about the error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// The size that would have been enough, if the error is about a size.
    #[must_use]
    pub fn needed(&self) -> Option<u64> {
        self.needed
    }

    /// The message alone, without the kind.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Code of the DAOS API (`-DER_*`).
    #[must_use]
    pub fn der(&self) -> i32 {
        self.kind.codes().der
    }

    /// errno of the POSIX interfaces.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.kind.codes().errno
    }

    /// Converts an I/O error; `doing` names the action and its object.
    #[cold]
    pub fn io(doing: impl fmt::Display, cause: &std::io::Error) -> Self {
        let source = cause.raw_os_error().map(std::io::Error::from_raw_os_error).map(Arc::new);
        Self {
            source,
            ..Self::new(kind_of_io(cause), format!("{doing}: {}", without_number(cause)))
        }
    }
}

/// The system's message of an error, without the number at its end, such as `(os error 2)`: that is in the source.
fn without_number(cause: &std::io::Error) -> String {
    let mut text = cause.to_string();
    if let Some(end) = text.find(" (os error ") {
        text.truncate(end);
    }
    text
}

/// The kind for an I/O error of the system; [`ErrorKind::Io`] if no other fits.
fn kind_of_io(cause: &std::io::Error) -> ErrorKind {
    use std::io::ErrorKind as K;
    match cause.kind() {
        K::NotFound => ErrorKind::NotFound,
        K::PermissionDenied => ErrorKind::NoPermission,
        K::AlreadyExists => ErrorKind::Exists,
        K::StorageFull | K::QuotaExceeded => ErrorKind::NoSpace,
        K::OutOfMemory => ErrorKind::NoMemory,
        K::TimedOut => ErrorKind::TimedOut,
        _ => ErrorKind::Io,
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {
    /// The error of the operating system, if there is one.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

impl PartialEq for Error {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind, format!("{kind:?}"))
    }
}
