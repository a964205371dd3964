//! Signals that end a benchmark: Ctrl-C, or a batch system.
use esker_types::{Error, ErrorKind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Set by the first signal to end; not initialized unless [`listen`] was called.
static SIGNALED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Catches the signals that would end this process, and makes [`check`] fail after the first one. The benchmark can
/// then end its processes, clean up and report the interruption. See [`esker_cli::signals::listen`].
///
/// # Errors
/// If a signal handler cannot be installed.
pub fn listen() -> Result<()> {
    esker_cli::signals::listen(SIGNALED.get_or_init(Arc::default))
}

/// Fails if this process received a signal to end.
///
/// # Errors
/// [`ErrorKind::Canceled`].
pub fn check() -> Result<()> {
    match SIGNALED.get().is_some_and(|signaled| signaled.load(Ordering::Relaxed)) {
        true => Err(Error::new(
            ErrorKind::Canceled,
            "interrupted: the benchmark ended without writing results",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_succeeds_without_signal() {
        assert!(check().is_ok());
    }
}
