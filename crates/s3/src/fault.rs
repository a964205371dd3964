//! Errors of S3 operations.
use esker::types::{Error, ErrorKind};
use hyper::StatusCode;
use s3s::{S3Error, S3ErrorCode};

/// An error of the store, or one of S3.
#[derive(Debug)]
pub(crate) enum Fault {
    Store(Error),
    S3(S3Error),
}

/// A result of an operation of S3.
pub(crate) type Outcome<T> = Result<T, Fault>;

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Store(error)
    }
}

impl From<S3Error> for Fault {
    fn from(error: S3Error) -> Self {
        Self::S3(error)
    }
}

impl From<S3ErrorCode> for Fault {
    fn from(code: S3ErrorCode) -> Self {
        Self::S3(code.into())
    }
}

impl From<Fault> for S3Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Store(error) => to_s3_error(&error),
            Fault::S3(error) => error,
        }
    }
}

impl Fault {
    /// An error of S3 with this code, and the reason in its message.
    pub(crate) fn new(code: S3ErrorCode, why: impl Into<String>) -> Self {
        Self::S3(S3Error::with_message(code, why.into()))
    }

    /// True for an S3 error with this code, such as `NoSuchUpload`.
    pub(crate) fn is_code(&self, code: &str) -> bool {
        matches!(self, Self::S3(error) if error.code().as_str() == code)
    }

    /// True if the open container was closed or destroyed.
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self, Self::Store(error) if error.kind() == ErrorKind::NoHandle)
    }

    /// True if the store reports that the bucket, object or directory does not exist.
    pub(crate) fn is_missing(&self) -> bool {
        matches!(self, Self::Store(error) if error.kind() == ErrorKind::NotFound)
    }
}

/// Converts an error of the store. The message stays: it names the thing, the cause and the remedy.
fn to_s3_error(error: &Error) -> S3Error {
    let (code, status) = code_of(error.kind());
    let mut said = S3Error::with_message(code, error.message().to_owned());
    if let Some(status) = status {
        said.set_status_code(status);
    }
    said
}

/// The code of S3 for a kind of error, and its status if the code has none of its own.
fn code_of(kind: ErrorKind) -> (S3ErrorCode, Option<StatusCode>) {
    use ErrorKind as Kind;
    let code = match kind {
        Kind::NotFound | Kind::NotDirectory | Kind::Loop => S3ErrorCode::NoSuchKey,
        Kind::Invalid | Kind::IsDirectory => S3ErrorCode::InvalidRequest,
        Kind::Exists | Kind::NotEmpty => S3ErrorCode::OperationAborted,
        Kind::NoPermission | Kind::ReadOnly | Kind::AccessDenied => S3ErrorCode::AccessDenied,
        Kind::NameTooLong | Kind::KeyTooBig => S3ErrorCode::KeyTooLongError,
        Kind::RecordTooBig => S3ErrorCode::MetadataTooLarge,
        Kind::FileTooBig => S3ErrorCode::EntityTooLarge,
        Kind::NotSupported | Kind::NotImplemented => S3ErrorCode::NotImplemented,
        Kind::Busy | Kind::Again | Kind::TxRestart | Kind::InDoubt => S3ErrorCode::SlowDown,
        Kind::TimedOut => S3ErrorCode::ServiceUnavailable,
        Kind::NoSpace => {
            let code = S3ErrorCode::Custom("InsufficientStorage".into());
            return (code, Some(StatusCode::INSUFFICIENT_STORAGE));
        }
        _ => S3ErrorCode::InternalError,
    };
    (code, None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_a_status_and_the_message_of_the_store() {
        for kind in ErrorKind::ALL {
            let said = S3Error::from(Fault::from(Error::new(kind, "why")));
            assert!(said.status_code().is_some_and(|status| status.as_u16() >= 400), "{kind:?}");
            assert_eq!(said.message(), Some("why"));
        }
    }

    #[test]
    fn full_pool_has_an_error_of_its_own() {
        let said = S3Error::from(Fault::from(Error::new(ErrorKind::NoSpace, "full")));
        assert_eq!(said.status_code(), Some(StatusCode::INSUFFICIENT_STORAGE));
        assert_eq!(said.code().as_str(), "InsufficientStorage");
    }
}
