//! What the kernel is answered where something cannot be done.
use esker::types::{Error, ErrorKind};
use fuser::Errno;

/// The outcome of a request of the kernel.
pub(crate) type Answer<T> = std::result::Result<T, Refusal>;

/// A request that is refused, by the errno that the program gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) Errno);

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        Self(errno)
    }
}

impl From<Error> for Refusal {
    /// Programs get a number only, so what points to damage is also told where the server was started.
    fn from(error: Error) -> Self {
        use ErrorKind::{Checksum, Corrupt, Incompatible, Io};
        if matches!(error.kind(), Checksum | Corrupt | Incompatible | Io) {
            eprintln!("esker: {error}");
        }
        Self(Errno::from_i32(error.errno()))
    }
}

/// For requests that name a file by its number: the kernel learned it from a name that has since gone or
/// stands for something else. Told so, it looks the path up anew.
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
