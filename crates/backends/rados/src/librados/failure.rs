//! Converts codes of librados to errors.
use esker_types::{Error, ErrorKind, Result};
use std::ffi::c_int;

/// Codes for a request longer than `osd_max_write_size` (`-EMSGSIZE`) and an object larger than `osd_max_object_size`
/// (`-EFBIG`).
const TOO_LONG: c_int = -90;
const TOO_BIG: c_int = -27;

/// Fails if the code is negative; `doing` names the operation.
///
/// # Errors
/// The error of the code.
pub(crate) fn check(code: c_int, doing: impl std::fmt::Display) -> Result<()> {
    match code < 0 {
        true => Err(error(code, doing)),
        false => Ok(()),
    }
}

/// The error for a negative code, which is an errno.
#[cold]
pub(crate) fn error(code: c_int, doing: impl std::fmt::Display) -> Error {
    let cause = std::io::Error::from_raw_os_error(-code);
    let error = Error::io(&doing, &cause);
    let kind = match code {
        TOO_LONG => ErrorKind::RecordTooBig,
        TOO_BIG => ErrorKind::FileTooBig,
        _ => error.kind(),
    };
    match remedy(kind) {
        Some(remedy) => Error::new(kind, format!("{}: {remedy}", error.message())),
        None => error,
    }
}

/// The remedy that the user can apply.
fn remedy(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::TimedOut => Some(
            "the cluster did not answer in time: see `ceph -s` for monitors and OSDs that are down",
        ),
        ErrorKind::NoSpace => {
            Some("the Ceph pool or cluster is full: delete something, or add OSDs")
        }
        ErrorKind::NoPermission => Some(
            "the key or capabilities of the Ceph user do not allow it: choose another user with id= and keyring=",
        ),
        ErrorKind::RecordTooBig => Some(
            "an OSD accepts no longer request: write less at a time, or increase osd_max_write_size",
        ),
        ErrorKind::FileTooBig => {
            Some("an OSD accepts no larger object: write less, or increase osd_max_object_size")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_errors_with_a_remedy() {
        assert!(check(1, "comparing").is_ok());
        let kind = |code| check(code, "writing").expect_err("an error").kind();
        assert_eq!(kind(-2), ErrorKind::NotFound);
        assert_eq!(kind(-17), ErrorKind::Exists);
        assert_eq!((kind(-28), kind(-122)), (ErrorKind::NoSpace, ErrorKind::NoSpace));
        assert_eq!((kind(-1), kind(-13)), (ErrorKind::NoPermission, ErrorKind::NoPermission));
        assert_eq!((kind(-90), kind(-27)), (ErrorKind::RecordTooBig, ErrorKind::FileTooBig));
        assert!(error(-90, "writing").message().contains("osd_max_write_size"));
        assert!(error(-110, "writing").message().contains("ceph -s"));
    }
}
