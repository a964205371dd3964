//! Converts error codes of libdaos to errors. For each code and kind of request, [`TABLE`] has the kind of the error,
//! its cause and the remedy.
use crate::binding::causes::{Cause, Row, TABLE};
use esker_types::{Error, ErrorKind, Result};
use std::ffi::c_int;

/// Kind of a call of libdaos. The cause of an error code depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// Initialises the library, which sends a request to the agent.
    Start,
    /// Connects to a pool.
    Connect,
    /// Reads or changes properties or attributes of a pool.
    Pool,
    /// Creates a container.
    Create,
    /// Opens a container.
    Open,
    /// Destroys a container.
    Destroy,
    /// Reads properties, attributes or snapshots of a container.
    Query,
    /// Changes properties, attributes, snapshots or object numbers of a container.
    Set,
    /// Opens an object.
    Object,
    /// Reads an object.
    Read,
    /// Lists keys, extents or objects.
    List,
    /// Writes to an object.
    Write,
    /// Removes an object or keys of it.
    Punch,
    /// Opens or commits a transaction.
    Commit,
}

impl Request {
    /// A call of this kind that messages describe as `text`.
    pub(crate) const fn doing(self, text: &str) -> Doing<'_> {
        Doing { request: self, text }
    }
}

/// A call of libdaos, for messages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Doing<'a> {
    pub(crate) request: Request,
    pub(crate) text: &'a str,
}

/// Fails if the code is negative.
///
/// # Errors
/// The error of the code.
pub(crate) fn check(code: c_int, doing: Doing<'_>) -> Result<()> {
    match code < 0 {
        true => Err(error(code, doing)),
        false => Ok(()),
    }
}

/// The kind of error of a code; `Io` for a code that the table does not have.
pub(crate) fn kind_of(code: c_int, request: Request) -> ErrorKind {
    find(code, request).map_or(ErrorKind::Io, |(row, _)| row.kind)
}

/// The error for a negative code of DAOS. Its text says what was tried, what to do about it, and the name of the code
/// in DAOS.
#[cold]
pub(crate) fn error(code: c_int, doing: Doing<'_>) -> Error {
    let Doing { request, text } = doing;
    match find(code, request) {
        Some((Row { name, kind, .. }, (_, advice))) => {
            Error::new(*kind, format!("{text}: {advice} (DAOS: {name}, {code})"))
        }
        None => Error::new(
            ErrorKind::Io,
            format!("{text}: DAOS answers {code}: its log, which D_LOG_FILE names, has the cause"),
        ),
    }
}

/// Finds the row and the cause for a DAOS error code that a request returned. `None` if the table does not have it.
fn find(code: c_int, request: Request) -> Option<(&'static Row, &'static Cause)> {
    let rows = TABLE.iter().filter(|row| row.code == code);
    let mut causes = rows.flat_map(|row| row.causes.iter().map(move |cause| (row, cause)));
    causes.find(|(_, (requests, _))| requests.is_empty() || requests.contains(&request))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All requests.
    const REQUESTS: [Request; 14] = {
        use Request::*;
        [
            Start, Connect, Pool, Create, Open, Destroy, Query, Set, Object, Read, List, Write,
            Punch, Commit,
        ]
    };

    /// Message of the error that a request with this code reports.
    fn message(code: c_int, request: Request) -> String {
        error(code, request.doing("doing it")).message().to_owned()
    }

    #[test]
    fn codes_become_errors_with_a_remedy() {
        let doing = Request::Write.doing("writing");
        assert!(check(0, doing).is_ok() && check(3, doing).is_ok());
        let kind = |code| check(code, doing).expect_err("an error").kind();
        assert_eq!(kind(-1001), ErrorKind::NoPermission);
        assert_eq!((kind(-1007), kind(-1046)), (ErrorKind::NoSpace, ErrorKind::Again));
        assert_eq!((kind(-1005), kind(-2050)), (ErrorKind::NotFound, ErrorKind::NoHandle));
        assert_eq!((kind(-1006), kind(-1011)), (ErrorKind::TimedOut, ErrorKind::TimedOut));
        assert_eq!((kind(-2025), kind(-2047)), (ErrorKind::TxRestart, ErrorKind::Io));
        assert!(message(-2012, Request::Write).contains("hashed keys"));
        assert!(message(-9999, Request::Read).contains("D_LOG_FILE"), "an unknown code");
    }

    /// A row after one with the same code for all requests would never be used.
    #[test]
    fn each_row_of_the_table_is_used() {
        let all = TABLE.iter().flat_map(|row| row.causes.iter().map(move |cause| (row, cause)));
        for (row, cause) in all {
            let is_found =
                |request| find(row.code, request).is_some_and(|(_, it)| std::ptr::eq(it, cause));
            assert!(REQUESTS.into_iter().any(is_found), "{}: {}", row.name, cause.1);
        }
    }

    /// Codes that Esker shares with DAOS have the same kind in both.
    #[test]
    fn codes_of_kinds_keep_their_kind() {
        for kind in ErrorKind::ALL {
            let code = kind.codes().der;
            let first = ErrorKind::ALL.into_iter().find(|other| other.codes().der == code);
            assert_eq!(Some(kind_of(code, Request::Read)), first, "{kind:?}");
        }
    }

    /// A listing would end as if a container that is being destroyed were empty.
    #[test]
    fn destroyed_container_is_not_a_missing_key() {
        for code in [-2050, -2051] {
            assert_eq!(kind_of(code, Request::List), ErrorKind::NoHandle);
            assert_eq!(kind_of(code, Request::Open), ErrorKind::NotFound);
        }
    }

    /// The message of an error names the likely cause or the remedy, which depend on the request.
    #[test]
    fn the_same_code_has_the_cause_of_its_request() {
        use Request::*;
        let words = [
            (-1001, Start, "socket of the agent"),
            (-1001, Connect, "daos pool get-acl"),
            (-1001, Create, "create containers"),
            (-1001, Open, "daos container get-acl"),
            (-1001, Destroy, "delete"),
            (-1001, Write, "several akeys of a Key-Value"),
            (-1003, Start, "D_INTERFACE"),
            (-1003, Connect, "sys="),
            (-1003, Object, "class"),
            (-1003, List, "128 extents"),
            (-1003, Punch, "akey"),
            (-1005, Start, "daos_agent"),
            (-1005, Connect, "daos pool list"),
            (-1005, Open, "esker cont list"),
            (-1007, Write, "dmg pool extend"),
            (-1012, Destroy, "--force"),
            (-1025, Start, "daos_agent"),
            (-2034, Start, "daos_agent"),
        ];
        for (code, request, word) in words {
            assert!(message(code, request).contains(word), "{code} {request:?}");
        }
        assert!(!message(-1001, Write).contains("get-acl"), "not the access control list");
    }

    #[test]
    fn unreachable_systems_and_agents_have_different_errors() {
        for code in [-1006, -1011, -1019, -1020, -1033, -2017] {
            assert_eq!(kind_of(code, Request::Read), ErrorKind::TimedOut);
            assert!(message(code, Request::Read).contains("dmg system query"), "{code}");
        }
        assert_eq!(kind_of(-2034, Request::Start), ErrorKind::TimedOut);
        assert!(!message(-2034, Request::Start).contains("engine"));
    }
}
