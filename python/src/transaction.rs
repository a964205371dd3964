//! Transactions.
use crate::call::call;
use esker::Wait;
use pyo3::prelude::*;
use std::sync::Arc;

/// Changes that take effect together, or not at all.
///
/// Bind handles to it with `kv.at(tx)` and `array.at(tx)`. What they write is kept in memory until the
/// commit; what they read is what is committed, never the transaction's own writes. The commit raises
/// `TxRestart` where anything read has changed since; then all must be done once more, in a new
/// transaction: `Container.transact` does that.
///
/// As a context manager it commits at the end, and aborts where an exception passes.
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
    /// When its writes took effect; None before the commit, and where it wrote nothing.
    #[getter]
    fn epoch(&self) -> Option<u64> {
        self.0.epoch().map(|epoch| epoch.0)
    }

    /// Makes all its writes take effect, after proving that all its reads still hold.
    ///
    /// Raises TxRestart on a conflict, and what a write meets, its conditions included. After a failure
    /// nothing was changed.
    pub(crate) fn commit(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.commit().wait())
    }

    /// Ends it without any effect.
    pub(crate) fn abort(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.0.abort())
    }

    fn __enter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    /// Where its user aborted it, there is nothing left to do.
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
