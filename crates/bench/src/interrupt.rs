//! Being told to end: Ctrl-C, or a batch system.
use esker_types::{Error, ErrorKind, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

static TOLD: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// From here on, signals that end a process make [`check`] fail in its place, so that a benchmark can
/// end its processes, remove what it made, and say so. A second signal ends the process at once.
///
/// # Errors
/// Where the system refuses.
pub fn listen() -> Result<()> {
    let told = TOLD.get_or_init(Arc::default);
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_conditional_default(signal, Arc::clone(told))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(told)))
            .map_err(|error| Error::io("listening to signals", &error))?;
    }
    Ok(())
}

/// Fails where this process was told to end.
///
/// # Errors
/// [`ErrorKind::Canceled`].
pub fn check() -> Result<()> {
    match TOLD.get().is_some_and(|told| told.load(Ordering::Relaxed)) {
        true => Err(Error::new(
            ErrorKind::Canceled,
            "interrupted: the benchmark was ended and no results were written",
        )),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_not_told_goes_on() {
        assert!(check().is_ok());
    }
}
