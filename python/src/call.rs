//! The boundary of every operation: it releases the GIL and stops panics.
use crate::errors;
use esker::types::Result;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs work that may block, without the GIL, so that other Python threads continue.
pub(crate) fn call<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T> + Send,
) -> PyResult<T> {
    match py.detach(|| catch_unwind(AssertUnwindSafe(work))) {
        Ok(result) => result.map_err(|error| errors::exception(py, &error)),
        Err(_) => Err(PyRuntimeError::new_err(
            "internal error of Esker, see standard error: the operation may or may not have taken effect",
        )),
    }
}
