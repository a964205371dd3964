//! One error type for all of Esker. Its kind tells the caller what to do; the table in
//! [`ErrorKind::codes`] maps each kind to its DAOS code, errno and Python exception.
use std::fmt;
use std::sync::Arc;

/// Result with Esker's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Kind of an error: it says what the caller can do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum ErrorKind {
    /// The user or the handle has no permission; ask for access.
    NoPermission,
    /// The handle is unknown, closed, or of another sort; fix the program.
    NoHandle,
    /// An argument is wrong; fix the input.
    Invalid,
    /// The thing exists already.
    Exists,
    /// The thing does not exist.
    NotFound,
    /// The pool is full; delete something or make a larger pool.
    NoSpace,
    /// The operation was done already; nothing is left to do.
    Already,
    /// Out of memory, or beyond a memory limit.
    NoMemory,
    /// This release does not implement the function.
    NotImplemented,
    /// This backend does not support it; see its capabilities.
    NotSupported,
    /// It took longer than allowed; retry later.
    TimedOut,
    /// Another handle or process uses it; retry when it is free.
    Busy,
    /// A temporary shortage; retry now.
    Again,
    /// The library is not initialised.
    Uninitialised,
    /// The caller's buffer is too short.
    Truncated,
    /// A number does not fit, or a table is full.
    Overflow,
    /// The operation was cancelled.
    Canceled,
    /// A key exceeds a limit or the caller's buffer.
    KeyTooBig,
    /// A record exceeds a limit or the caller's buffer.
    RecordTooBig,
    /// The record size differs from the stored one.
    RecordSize,
    /// The medium failed; check the device.
    Io,
    /// Stored bytes do not match their checksum; restore them.
    Checksum,
    /// Structures on the medium are damaged; run `esker pool check`.
    Corrupt,
    /// The format is of a version this release cannot read.
    Incompatible,
    /// A transaction met a conflict; restart it.
    TxRestart,
    /// A commit over several nodes is not decided yet; ask its coordinator, or retry.
    InDoubt,
    /// A path or URL does not lead to a pool.
    BadPath,
    /// The mode bits of a file forbid it; ask its owner.
    AccessDenied,
    /// A component of a path is not a directory.
    NotDirectory,
    /// The operation does not apply to directories.
    IsDirectory,
    /// The directory has entries; remove them first.
    NotEmpty,
    /// A path leads through too many symbolic links.
    Loop,
    /// A name or path of a file is too long.
    NameTooLong,
    /// The file has no such attribute.
    NoAttribute,
    /// The file system is mounted read-only.
    ReadOnly,
    /// The position lies past the end of the file.
    PastEnd,
    /// A file would exceed the largest size.
    FileTooBig,
    /// Data was lost with the node that stored it; restore it, or remove what remains of it.
    DataLoss,
    /// A commit may or may not have taken effect; read the data before the change is repeated.
    TxUncertain,
}

/// Representation of a kind in each API: DAOS error code (negative), errno (positive), Python exceptions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Codes {
    /// DAOS code as its API returns it (`-DER_*`).
    pub der: i32,
    /// errno of the POSIX interfaces.
    pub errno: i32,
    /// The built-in Python exceptions that also catch it, beside the one of its own name.
    pub python: &'static [&'static str],
}

const fn codes(der: i32, errno: i32, python: &'static [&'static str]) -> Codes {
    Codes { der, errno, python }
}

impl ErrorKind {
    /// Every kind.
    pub const ALL: [Self; 39] = {
        use ErrorKind::*;
        [
            NoPermission,
            NoHandle,
            Invalid,
            Exists,
            NotFound,
            NoSpace,
            Already,
            NoMemory,
            NotImplemented,
            NotSupported,
            TimedOut,
            Busy,
            Again,
            Uninitialised,
            Truncated,
            Overflow,
            Canceled,
            KeyTooBig,
            RecordTooBig,
            RecordSize,
            Io,
            Checksum,
            Corrupt,
            Incompatible,
            TxRestart,
            InDoubt,
            BadPath,
            AccessDenied,
            NotDirectory,
            IsDirectory,
            NotEmpty,
            Loop,
            NameTooLong,
            NoAttribute,
            ReadOnly,
            PastEnd,
            FileTooBig,
            DataLoss,
            TxUncertain,
        ]
    };

    /// Maps a kind to the codes of each API (DAOS: `daos_errno.h`).
    #[must_use]
    pub const fn codes(self) -> Codes {
        use ErrorKind::*;
        match self {
            NoPermission => codes(-1001, 1, &["PermissionError"]),
            NoHandle => codes(-1002, 9, &["ValueError"]),
            Invalid => codes(-1003, 22, &["ValueError"]),
            Exists => codes(-1004, 17, &["FileExistsError"]),
            NotFound => codes(-1005, 2, &["KeyError", "FileNotFoundError"]),
            NoSpace => codes(-1007, 28, &["OSError"]),
            Already => codes(-1008, 114, &["RuntimeError"]),
            NoMemory => codes(-1009, 12, &["MemoryError"]),
            NotImplemented => codes(-1010, 38, &["NotImplementedError"]),
            TimedOut => codes(-1011, 110, &["TimeoutError"]),
            Busy => codes(-1012, 16, &["BlockingIOError"]),
            Again => codes(-1013, 11, &["BlockingIOError"]),
            Uninitialised => codes(-1015, 22, &["RuntimeError"]),
            Truncated => codes(-1016, 34, &["BufferError"]),
            Overflow => codes(-1017, 75, &["OverflowError"]),
            Canceled => codes(-1018, 125, &["InterruptedError"]),
            BadPath => codes(-1026, 2, &["FileNotFoundError"]),
            Io => codes(-2001, 5, &["OSError"]),
            KeyTooBig => codes(-2012, 7, &["ValueError"]),
            RecordTooBig => codes(-2013, 7, &["ValueError"]),
            Checksum => codes(-2021, 84, &["OSError"]),
            Corrupt => codes(-2022, 117, &["OSError"]),
            Incompatible => codes(-2023, 22, &["OSError"]),
            RecordSize => codes(-2024, 22, &["ValueError"]),
            TxRestart => codes(-2025, 85, &["BlockingIOError"]),
            InDoubt => codes(-2028, 16, &["BlockingIOError"]),
            TxUncertain => codes(-2033, 5, &["OSError"]),
            NotSupported => codes(-2037, 95, &["NotImplementedError"]),
            // DAOS has no codes for errors that only file systems have.
            AccessDenied => codes(-1001, 13, &["PermissionError"]),
            NotDirectory => codes(-1003, 20, &["NotADirectoryError"]),
            IsDirectory => codes(-1003, 21, &["IsADirectoryError"]),
            NotEmpty => codes(-1012, 39, &["OSError"]),
            Loop => codes(-1003, 40, &["OSError"]),
            NameTooLong => codes(-1003, 36, &["OSError"]),
            NoAttribute => codes(-1005, 61, &["OSError"]),
            ReadOnly => codes(-1001, 30, &["OSError"]),
            PastEnd => codes(-1005, 6, &["OSError"]),
            FileTooBig => codes(-1017, 27, &["OSError"]),
            DataLoss => codes(-2026, 5, &["OSError"]),
        }
    }
}

/// An error of Esker: a kind for the program, a message for the user.
///
/// The message names the thing, the cause and the remedy. Some errors carry the size that would
/// have been enough (DAOS reports it beside `-DER_TRUNC`, `-DER_REC2BIG` and `-DER_KEY2BIG`).
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

/// The system's message of an error, without `(os error 2)`: the number is in the source.
fn without_number(cause: &std::io::Error) -> String {
    let mut text = cause.to_string();
    if let Some(end) = text.find(" (os error ") {
        text.truncate(end);
    }
    text
}

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
