//! Attributes: named values of a pool or container.
use crate::buffer::Readable;
use crate::call::call;
use crate::errors;
use esker::Wait;
use esker::types::ErrorKind;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// The attributes of a pool or container: a mapping from names to bytes.
///
/// Names have 1 to 511 bytes, values at most 64 KiB.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Attributes(esker::Attributes);

impl Attributes {
    pub(crate) fn new(attributes: esker::Attributes) -> Self {
        Self(attributes)
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || self.0.list().wait())
    }

    fn find(&self, py: Python<'_>, name: &str) -> PyResult<Option<Vec<u8>>> {
        call(py, || self.0.get(name).wait())
    }
}

#[pymethods]
impl Attributes {
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        match self.find(py, name)? {
            Some(value) => Ok(PyBytes::new(py, &value)),
            None => Err(missing(py, name)),
        }
    }

    fn __setitem__(&self, py: Python<'_>, name: &str, value: Readable) -> PyResult<()> {
        let value = value.bytes();
        call(py, || self.0.set(name, value).wait())
    }

    fn __delitem__(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match self.find(py, name)? {
            Some(_) => call(py, || self.0.remove(name).wait()),
            None => Err(missing(py, name)),
        }
    }

    fn __contains__(&self, py: Python<'_>, name: &str) -> PyResult<bool> {
        Ok(self.find(py, name)?.is_some())
    }

    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        Ok(self.names(py)?.len())
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, pyo3::types::PyIterator>> {
        PyList::new(py, self.names(py)?)?.try_iter()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Attributes({:?})", self.names(py)?))
    }
}

fn missing(py: Python<'_>, name: &str) -> PyErr {
    errors::raise(py, ErrorKind::NotFound, format!("attribute {name:?} does not exist"))
}
