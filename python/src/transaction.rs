//! Transactions.
use crate::call::call;
use esker::Wait;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use std::sync::Arc;

/// Changes that take effect together or not at all.
///
/// Bind handles to it with `kv.at(tx)` and `array.at(tx)`. Their writes are buffered in memory until the commit;
/// their reads see the committed state, never the transaction's own writes. The commit raises `TxRestart` if anything
/// read has changed since; then repeat everything in a new transaction, which `Container.transact` does.
///
/// Used as a context manager, it commits at a normal end, and aborts if an exception is raised.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Transaction(Arc<esker::Transaction>);

impl Transaction {
    pub(crate) fn new(transaction: esker::Transaction) -> Self {
        Self(Arc::new(transaction))
    }

    pub(crate) fn shared(&self) -> Arc<esker::Transaction> {
        Arc::clone(&self.0)
    }
}

#[pymethods]
impl Transaction {
    /// The epoch of its writes; None before the commit, and if it wrote nothing.
    #[getter]
    fn epoch(&self) -> Option<u64> {
        self.0.epoch().map(|epoch| epoch.0)
    }

    /// Applies all its writes, after verifying that all its reads still hold.
    ///
    /// Raises TxRestart on a conflict, and the errors of its writes, including their conditions. If it fails, nothing
    /// has changed.
    pub(crate) fn commit(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.commit().wait())
    }

    /// Ends it without effect.
    pub(crate) fn abort(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.abort())
    }

    fn __reduce__(&self) -> PyResult<Py<PyAny>> {
        let message = "a transaction cannot be pickled: it belongs to its process; pickle handles that are not bound \
                       to it, and begin a transaction where they are used";
        Err(PyTypeError::new_err(message))
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// Commits or aborts, unless the user has aborted it.
    #[pyo3(signature = (kind, *_details))]
    fn __exit__(
        &self,
        py: Python<'_>,
        kind: Option<Bound<'_, PyAny>>,
        _details: Bound<'_, pyo3::types::PyTuple>,
    ) -> PyResult<()> {
        match (kind, self.0.is_open()) {
            (None, true) => self.commit(py),
            (Some(_), true) => self.abort(py),
            (_, false) => Ok(()),
        }
    }
}
