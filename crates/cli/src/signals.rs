//! Signals that ask a process to end: Ctrl-C, a batch system, or the end of a terminal.
use esker::types::{Error, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Sets `flag` at the first of SIGINT, SIGTERM and SIGHUP. A second signal ends the process at once. Signals that this
/// process ignores, as `nohup` arranges for SIGHUP, stay ignored.
///
/// # Errors
/// If a signal handler cannot be installed.
pub fn listen(flag: &Arc<AtomicBool>) -> Result<()> {
    for signal in heeded(&[SIGINT, SIGTERM, SIGHUP]) {
        // Handlers run in this order: the first ends the process only if an earlier signal has set the flag.
        signal_hook::flag::register_conditional_default(signal, Arc::clone(flag))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(flag)))
            .map_err(|error| Error::io("listening to signals", &error))?;
    }
    Ok(())
}

/// The signals that this process does not ignore.
pub(crate) fn heeded(signals: &[i32]) -> Vec<i32> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    signals.iter().copied().filter(|signal| !is_ignored(&status, *signal)).collect()
}

/// True if a process with this `/proc/PID/status` ignores a signal.
fn is_ignored(status: &str, signal: i32) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & (1 << (signal - 1)) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignored_signals_are_in_the_mask_of_the_process() {
        let status = "SigBlk:\t0000000000000002\nSigIgn:\t0000000000001001\n";
        let ignored = [SIGINT, SIGTERM, SIGHUP].map(|signal| is_ignored(status, signal));
        assert_eq!(ignored, [false, false, true]);
        assert!(!is_ignored("", SIGHUP));
    }
}
