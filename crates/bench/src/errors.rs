//! Errors of benchmarks.
use esker_types::{Error, ErrorKind, Result};
use std::fmt::Display;

/// Fails with [`ErrorKind::Invalid`] unless an option is valid.
pub(crate) fn ensure_valid<S: Into<String>>(valid: bool, why: impl FnOnce() -> S) -> Result<()> {
    ensure(valid, ErrorKind::Invalid, why)
}

/// Fails with [`ErrorKind::Corrupt`] unless data is as it was written.
pub(crate) fn ensure_intact<S: Into<String>>(intact: bool, why: impl FnOnce() -> S) -> Result<()> {
    ensure(intact, ErrorKind::Corrupt, why)
}

/// Fails with an error of kind `kind` and the text of `why` unless `holds`.
pub(crate) fn ensure<S: Into<String>>(
    holds: bool,
    kind: ErrorKind,
    why: impl FnOnce() -> S,
) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::new(kind, why())) }
}

/// Adds the action that failed to an error.
pub(crate) trait Doing<T> {
    /// The result; its error begins with the action and its object.
    fn doing<D: Display>(self, action: impl FnOnce() -> D) -> Result<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing<D: Display>(self, action: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|error| Error::io(action(), &error))
    }
}

impl<T> Doing<T> for rustix::io::Result<T> {
    fn doing<D: Display>(self, action: impl FnOnce() -> D) -> Result<T> {
        self.map_err(std::io::Error::from).doing(action)
    }
}

impl<T> Doing<T> for Result<T> {
    fn doing<D: Display>(self, action: impl FnOnce() -> D) -> Result<T> {
        self.map_err(|error| Error::new(error.kind(), format!("{}: {error}", action())))
    }
}
