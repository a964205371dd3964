//! Signals that end a benchmark: Ctrl-C, or a batch system.
use esker_types::{Error, ErrorKind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Set by the first signal to end; not initialized unless [`listen`] was called.
static SIGNALED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Catches the signals that would end this process, and makes [`check`] fail after the first one. The benchmark can
/// then end its processes, clean up and report the interruption. A second signal ends the process at once. Signals that
/// this process ignores, as `nohup` arranges for SIGHUP, stay ignored.
///
/// # Errors
/// If a signal handler cannot be installed.
pub fn listen() -> Result<()> {
    let signaled = SIGNALED.get_or_init(Arc::default);
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    for signal in
        [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(&status, *signal))
    {
        // Handlers run in this order: the first ends the process only if an earlier signal has set the flag.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(signaled))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(signaled)))
            .map_err(|error| Error::io("listening to signals", &error))?;
    }
    Ok(())
}

/// True if a process with this `/proc/PID/status` ignores a signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
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

    #[test]
    fn ignored_signals_are_in_the_mask_of_the_process() {
        let status = "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        let ignored = [SIGINT, SIGTERM, SIGHUP].map(|signal| is_ignored(status, signal));
        assert_eq!(ignored, [false, false, true]);
        assert!(!is_ignored("", SIGHUP));
    }
}
