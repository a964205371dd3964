//! Errors as exceptions: each kind has a class with the same name in `esker.errors`.
use esker::types::{Error, ErrorKind};
use pyo3::prelude::*;

/// Module of the classes.
const MODULE: &str = "esker.errors";

/// The exception for an error.
pub(crate) fn exception(py: Python<'_>, error: &Error) -> PyErr {
    build(py, error).map_or_else(|trouble| trouble, PyErr::from_value)
}

/// An exception of `kind`.
pub(crate) fn raise(py: Python<'_>, kind: ErrorKind, message: impl Into<String>) -> PyErr {
    exception(py, &Error::new(kind, message))
}

/// The exception for an error, of the class of its kind. Its arguments are those of `OSError`, from which some of the
/// classes derive.
fn build<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyAny>> {
    let class = py.import(MODULE)?.getattr(name(error.kind()))?;
    let exception = class.call1((error.errno(), error.message()))?;
    exception.setattr("needed", error.needed())?;
    Ok(exception)
}

/// Class name of a kind.
fn name(kind: ErrorKind) -> String {
    format!("{kind:?}")
}

/// True for an exception that reports a conflict of a transaction.
pub(crate) fn is_conflict(py: Python<'_>, error: &PyErr) -> bool {
    let class = py.import(MODULE).and_then(|module| module.getattr(name(ErrorKind::TxRestart)));
    class.is_ok_and(|class| error.is_instance(py, &class))
}

/// The Python class of each kind of error: its name, its errno, its DAOS code, and the builtin exceptions it derives
/// from.
#[pyfunction]
pub(crate) fn error_table() -> Vec<(String, i32, i32, Vec<&'static str>)> {
    let row = |kind: ErrorKind| {
        let codes = kind.codes();
        (name(kind), codes.errno, codes.der, codes.python.to_vec())
    };
    ErrorKind::ALL.into_iter().map(row).collect()
}
