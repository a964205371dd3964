//! Answers to the kernel, and the conversion of errors to them.
use esker::types::{Error, ErrorKind};
use fuser::Errno;
use std::io::Write;

/// The result of a request from the kernel.
pub(crate) type Answer<T> = std::result::Result<T, Refusal>;

/// A refused request: the errno that the program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Errno);

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self(errno)
    }
}

impl From<Error> for Refusal {
    /// The program gets only a number, so errors that point to damage also go to the server's standard error.
    fn from(error: Error) -> Self {
        use ErrorKind::{Checksum, Corrupt, Incompatible, Io};
        if matches!(error.kind(), Checksum | Corrupt | Incompatible | Io) {
            let _ = writeln!(std::io::stderr(), "esker: {error}");
        }
        Self(Errno::from_i32(error.errno()))
    }
}

/// Converts the result of a request that names a file by inode number. If the entry is gone by now, `ESTALE` makes the
/// kernel look the path up again.
pub(crate) fn of_number<T>(result: esker::types::Result<T>) -> Answer<T> {
    result.map_err(|error| match error.kind() {
        ErrorKind::NotFound => Errno::ESTALE.into(),
        _ => error.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_their_errno() {
        let refusal = |kind: ErrorKind| Refusal::from(Error::from(kind));
        assert_eq!(refusal(ErrorKind::NotEmpty), Errno::ENOTEMPTY.into());
        assert_eq!(refusal(ErrorKind::NotFound), Errno::ENOENT.into());
        let gone: Answer<()> = of_number(Err(ErrorKind::NotFound.into()));
        assert_eq!(gone, Err(Errno::ESTALE.into()));
    }
}
