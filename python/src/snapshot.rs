//! Snapshots.
use esker::types::info::SnapshotInfo;
use pyo3::prelude::*;

/// A snapshot of a container: its state at a point in time.
#[pyclass(frozen, module = "esker", eq, hash)]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Snapshot {
    pub(crate) epoch: u64,
    name: String,
}

impl Snapshot {
    pub(crate) fn from_info(info: SnapshotInfo) -> Self {
        Self { epoch: info.epoch.0, name: info.name }
    }
}

#[pymethods]
impl Snapshot {
    #[new]
    fn new(epoch: u64, name: String) -> Self {
        Self { epoch, name }
    }

    /// Its epoch, comparable across all containers of a pool.
    #[getter]
    fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Its name; may be empty.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    fn __reduce__(slf: &Bound<'_, Self>) -> (Py<PyAny>, (u64, String)) {
        let this = slf.get();
        (slf.get_type().into_any().unbind(), (this.epoch, this.name.clone()))
    }

    fn __repr__(&self) -> String {
        format!("Snapshot(epoch={}, name={:?})", self.epoch, self.name)
    }
}
