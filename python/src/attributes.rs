//! Attributes: named values of a pool or container.
use crate::buffer::Readable;
use crate::call::call;
use crate::errors;
use esker::Wait;
use esker::types::ErrorKind;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

/// The owner, and the name of its property.
type Reduced = (Py<PyAny>, &'static str);

/// The attributes of a pool or container: a mapping from names to bytes.
///
/// Names have 1 to 511 bytes, values at most 64 KiB.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Attributes {
    /// The Pool or Container.
    owner: Py<PyAny>,
    attributes: esker::Attributes,
}

impl Attributes {
    pub(crate) fn new<T>(owner: &Bound<'_, T>, attributes: esker::Attributes) -> Self {
        Self { owner: owner.clone().into_any().unbind(), attributes }
    }

    fn names(&self, py: Python<'_>) -> PyResult<Vec<String>> {
        call(py, || self.attributes.list().wait())
    }

    fn find(&self, py: Python<'_>, name: &str) -> PyResult<Option<Vec<u8>>> {
        call(py, || self.attributes.get(name).wait())
    }
}

#[pymethods]
impl Attributes {
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyBytes>> {
        match self.find(py, name)? {
            Some(value) => Ok(PyBytes::new(py, &value)),
            None => Err(missing_error(py, name)),
        }
    }

    fn __setitem__(&self, py: Python<'_>, name: &str, value: Readable) -> PyResult<()> {
        let value = value.bytes();
        call(py, || self.attributes.set(name, value).wait())
    }

    fn __delitem__(&self, py: Python<'_>, name: &str) -> PyResult<()> {
        match self.find(py, name)? {
            Some(_) => call(py, || self.attributes.remove(name).wait()),
            None => Err(missing_error(py, name)),
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

    /// Pickles as an attribute of its owner.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Reduced)> {
        let getattr = py.import("builtins")?.getattr("getattr")?;
        Ok((getattr, (self.owner.clone_ref(py), "attributes")))
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("Attributes({:?})", self.names(py)?))
    }
}

fn missing_error(py: Python<'_>, name: &str) -> PyErr {
    errors::raise(py, ErrorKind::NotFound, format!("attribute {name:?} does not exist"))
}
