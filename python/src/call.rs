//! The edge every operation goes through: the interpreter runs on meanwhile, and nothing unwinds into it.
use crate::errors;
use esker::types::Result;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does work that may wait. Other threads of Python run until it is done.
pub(crate) fn call<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(result) => result.map_err(|error| errors::exception(py, &error)),
        Err(_) => Err(PyRuntimeError::new_err(
            "a fault inside Esker, see standard error: what was called may or may not have happened",
        )),
    }
}
