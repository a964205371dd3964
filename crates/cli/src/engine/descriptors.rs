//! Open files of an engine: each client takes one.
use esker::types::{Error, ErrorKind, Result};
use esker_engine::{CLIENTS_MAX, HANDSHAKES_MAX};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Open files for all but clients: those of the pool, and of programs that ask for metrics.
const FILES_KEPT: u64 = 512;

/// Fewest clients of an engine: with less, it does not start.
const CLIENTS_MIN: u64 = 64;

/// Makes room for as many clients as an engine may have, as far as the hard limit of open files allows. Returns how many
/// there may be.
///
/// # Errors
/// `Overflow` if that is too few; `Io` if the limit cannot be changed.
pub(super) fn make_room() -> Result<u64> {
    let others = FILES_KEPT + HANDSHAKES_MAX as u64;
    let limit = getrlimit(Resource::Nofile);
    let wanted = CLIENTS_MAX + others;
    let most = limit.maximum.map_or(wanted, |hard| hard.min(wanted));
    if limit.current.is_some_and(|soft| soft < most) {
        let raised = Rlimit { current: Some(most), maximum: limit.maximum };
        setrlimit(Resource::Nofile, raised).map_err(|error| {
            Error::io(format_args!("raising the limit of open files to {most}"), &error.into())
        })?;
    }
    clients(most).ok_or_else(|| {
        let needed = others + CLIENTS_MIN;
        let message = format!(
            "a process may have {most} open files here, and an engine needs {needed}: raise the hard limit (ulimit -Hn)"
        );
        Error::new(ErrorKind::Overflow, message)
    })
}

/// Clients of an engine that may have so many open files; `None` if that is too few.
fn clients(files: u64) -> Option<u64> {
    let clients = files.checked_sub(FILES_KEPT + HANDSHAKES_MAX as u64)?;
    (clients >= CLIENTS_MIN).then_some(clients.min(CLIENTS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_what_others_leave() {
        assert_eq!(clients(1 << 20), Some(CLIENTS_MAX));
        assert_eq!(clients(4096), Some(4096 - 512 - 1024));
        assert_eq!((clients(1599), clients(1600)), (None, Some(64)));
        assert_eq!(clients(0), None);
    }
}
