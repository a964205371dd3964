//! Converts codes of libdaos to errors.
use esker_types::{Error, ErrorKind, Result};
use std::ffi::c_int;
use std::fmt::Display;

/// Codes (`-DER_*`) that have no kind of their own.
const UNREACHABLE: c_int = -1006;
const NO_REPLY: c_int = -1033;
const EXCLUDED: c_int = -1032;
const QUOTA: c_int = -1046;
const NO_SERVICE: c_int = -2039;
const AGENT_INCOMPATIBLE: c_int = -2029;
const AGENT_SILENT: c_int = -2034;
const NO_CERTIFICATE: c_int = -2043;
const BAD_CERTIFICATE: c_int = -2044;
const NO_CONTAINER: c_int = -2050;
const CONTAINER_LEAVES: c_int = -2051;
const STALE: c_int = -2007;
const IO_INVALID: c_int = -2014;

/// Fails if the code is negative; `doing` names the operation.
///
/// # Errors
/// The error of the code.
pub(crate) fn check(code: c_int, doing: impl Display) -> Result<()> {
    match code < 0 {
        true => Err(error(code, doing)),
        false => Ok(()),
    }
}

/// What the caller can do about a code.
pub(crate) fn kind_of(code: c_int) -> ErrorKind {
    let known = ErrorKind::ALL.into_iter().find(|kind| kind.codes().der == code);
    known.unwrap_or(match code {
        UNREACHABLE | NO_REPLY | EXCLUDED | NO_SERVICE | AGENT_SILENT => ErrorKind::TimedOut,
        QUOTA => ErrorKind::NoSpace,
        AGENT_INCOMPATIBLE => ErrorKind::Incompatible,
        NO_CERTIFICATE | BAD_CERTIFICATE => ErrorKind::NoPermission,
        NO_CONTAINER | CONTAINER_LEAVES => ErrorKind::NotFound,
        STALE => ErrorKind::Again,
        IO_INVALID => ErrorKind::Invalid,
        _ => ErrorKind::Io,
    })
}

/// The error for a negative code.
#[cold]
pub(crate) fn error(code: c_int, doing: impl Display) -> Error {
    let kind = kind_of(code);
    let message = match remedy(code, kind) {
        Some(remedy) => format!("{doing}: {remedy} (DAOS: {code})"),
        None => format!("{doing}: DAOS answers {code} ({kind:?})"),
    };
    Error::new(kind, message)
}

/// The cause, and what the user can do.
fn remedy(code: c_int, kind: ErrorKind) -> Option<&'static str> {
    if code == AGENT_SILENT {
        return Some("no agent of DAOS answers on this machine: start daos_agent");
    }
    match kind {
        ErrorKind::TimedOut => Some(
            "the DAOS system did not answer in time: `dmg system query` shows engines that are down, and the agent of \
             this machine must know the system",
        ),
        ErrorKind::NoSpace => {
            Some("the DAOS pool is full: delete something, or extend it (`dmg pool extend`)")
        }
        ErrorKind::NoPermission => Some(
            "the access control list does not allow it, or the handle is read-only: `daos pool get-acl` and \
             `daos container get-acl` show who may do what (or one update had several akeys of a Key-Value or an Array)",
        ),
        ErrorKind::Invalid => Some(
            "DAOS refuses an argument: an object class that does not fit the pool, an akey of a Key-Value or an Array, \
             or a name that it does not know",
        ),
        ErrorKind::KeyTooBig => Some(
            "DAOS sorts keys of at most 100 bytes: use shorter ones, or an object with hashed keys",
        ),
        ErrorKind::NotFound => Some("there is no such pool, container or key"),
        ErrorKind::Exists => Some("it exists already"),
        ErrorKind::Busy => Some("somebody else has it open"),
        ErrorKind::TxRestart => {
            Some("others have changed what the transaction has read: restart it")
        }
        ErrorKind::NoHandle => {
            Some("the container was destroyed or its handle evicted: open it again")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_become_errors_with_a_remedy() {
        assert!(check(0, "asking").is_ok() && check(3, "polling").is_ok());
        let kind = |code| check(code, "writing").expect_err("an error").kind();
        assert_eq!(kind(-1001), ErrorKind::NoPermission);
        assert_eq!((kind(-1007), kind(-1046)), (ErrorKind::NoSpace, ErrorKind::NoSpace));
        assert_eq!((kind(-1005), kind(-2050)), (ErrorKind::NotFound, ErrorKind::NotFound));
        assert_eq!((kind(-1006), kind(-1011)), (ErrorKind::TimedOut, ErrorKind::TimedOut));
        assert_eq!((kind(-2025), kind(-2047)), (ErrorKind::TxRestart, ErrorKind::Io));
        assert!(error(-2034, "connecting").message().contains("daos_agent"));
        assert!(error(-1001, "opening").message().contains("get-acl"));
        assert!(error(-1003, "opening").message().contains("class"));
        assert!(error(-2012, "writing").message().contains("hashed keys"));
    }
}
