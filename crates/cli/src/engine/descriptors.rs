//! Limit of open files of an engine: each client needs one file descriptor.
use esker::types::{Error, ErrorKind, Result};
use esker_engine::{CLIENTS_MAX, HANDSHAKES_MAX};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// File descriptors that are reserved for the pool and for connections that ask for metrics.
const FILES_RESERVED: u64 = 512;

/// Smallest number of clients: an engine that cannot serve this many does not start.
const CLIENTS_MIN: u64 = 64;

/// Raises the soft limit of open files, up to the hard limit, so that the engine can serve `CLIENTS_MAX` clients.
/// Returns the number of clients that the limit allows.
///
/// # Errors
/// `Overflow` if the limit allows fewer than `CLIENTS_MIN` clients; `Io` if the limit cannot be changed.
pub(super) fn raise_file_limit() -> Result<u64> {
    let others = FILES_RESERVED + HANDSHAKES_MAX as u64;
    let limit = getrlimit(Resource::Nofile);
    let wanted = CLIENTS_MAX + others;
    let most = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    if limit.current.is_some_and(|soft| soft < most) {
        let raised = Rlimit { current: Some(most), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).map_err(|error| {
            Error::io(format_args!("raising the limit of open files to {most}"), &error.into())
        })?;
    }
    clients_for_files(most).ok_or_else(|| {
        let needed = others + CLIENTS_MIN;
        let message = format!(
            "a process may have {most} open files here, and an engine needs {needed}: raise the hard limit (ulimit -Hn)"
        );
        Error::new(ErrorKind::Overflow, message)
    })
}

/// Number of clients that an engine with `files` file descriptors can serve; `None` if that is below `CLIENTS_MIN`.
fn clients_for_files(files: u64) -> Option<u64> {
    let clients = files.checked_sub(FILES_RESERVED + HANDSHAKES_MAX as u64)?;
    (clients >= CLIENTS_MIN).then_some(clients.min(CLIENTS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_the_descriptors_that_are_not_reserved() {
        assert_eq!(clients_for_files(1 << 20), Some(CLIENTS_MAX));
        assert_eq!(clients_for_files(4096), Some(4096 - 512 - 1024));
        assert_eq!((clients_for_files(1599), clients_for_files(1600)), (None, Some(64)));
        assert_eq!(clients_for_files(0), None);
    }
}
