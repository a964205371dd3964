//! Key-Values.
use crate::buffer::{self, Readable, Writable};
use crate::call::call;
use crate::container::Container;
use crate::key::{self, Key};
use crate::listing::{Listing, What};
use crate::view::{At, View};
use esker::Wait;
use esker::types::ops::{Anchor, Cond, ListLimit};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Number of keys listed at a time when counting.
const COUNT_BATCH: usize = 4096;

/// A Key-Value: one value of up to 4 MiB per key. `Container.kv` returns it.
///
/// It is a mutable mapping. Keys are bytes (text is encoded as UTF-8), or numbers if it has integer keys; values are
/// bytes, set from any object with the buffer protocol. Keys are listed target by target, sorted within each.
#[pyclass(frozen, module = "esker")]
pub(crate) struct Kv {
    container: Py<Container>,
    /// The name or object id it was opened by.
    name: String,
    kv: esker::Kv,
    view: View,
}

impl Kv {
    pub(crate) fn new(
        container: &Bound<'_, Container>,
        name: &str,
        kv: esker::Kv,
        view: View,
    ) -> Self {
        Self { container: container.clone().unbind(), name: name.to_owned(), kv, view }
    }

    fn find(&self, py: Python<'_>, key: &[u8]) -> PyResult<Option<Vec<u8>>> {
        call(py, || self.kv.get(key, self.view.access()).wait())
    }

    fn key(&self, key: Key) -> PyResult<Vec<u8>> {
        key.within(self.kv.oid())
    }

    fn list(&self, what: What) -> Listing {
        Listing::new(self.kv.clone(), self.view.clone(), what)
    }
}

#[pymethods]
impl Kv {
    /// Its container.
    #[getter]
    fn container(&self, py: Python<'_>) -> Py<Container> {
        self.container.clone_ref(py)
    }

    /// Its object id, "HI.LO".
    #[getter]
    fn oid(&self) -> String {
        self.kv.oid().to_string()
    }

    /// The same Key-Value at a snapshot, read-only, or in a transaction. None selects the latest state.
    #[pyo3(signature = (at))]
    fn at(&self, py: Python<'_>, at: Option<At<'_>>) -> PyResult<Self> {
        let view = View::open(py, self.container.get().client(), at)?;
        let (container, name) = (self.container.clone_ref(py), self.name.clone());
        Ok(Self { container, name, kv: self.kv.clone(), view })
    }

    /// The value of a key, `default` if the key does not exist.
    #[pyo3(signature = (key, default = None))]
    fn get<'py>(
        &self,
        py: Python<'py>,
        key: Key,
        default: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let found = self.find(py, &self.key(key)?)?;
        Ok(found.map(|value| PyBytes::new(py, &value).into_any()).or(default))
    }

    /// Reads the value of a key into a buffer and returns its length in bytes; None if the key does not exist. Raises
    /// RecordTooBig if the buffer is too short.
    fn get_into(&self, py: Python<'_>, key: Key, mut buffer: Writable) -> PyResult<Option<u64>> {
        let (key, place) = (self.key(key)?, buffer.bytes());
        call(py, || self.kv.get_into(&key, place, self.view.access()).wait())
    }

    /// A read-only view of the value of a key, in place if possible: `numpy.frombuffer(kv.view(key), dtype="f8")`
    /// copies nothing. Raises NotFound, a KeyError, if the key does not exist.
    ///
    /// The view is in place for values of more than 1024 bytes in a pool in memory. Otherwise it is a copy, or with
    /// `copy=False` NotSupported is raised. A view prevents its segment of the pool from being reused; a process has
    /// at most 4096 views.
    #[pyo3(signature = (key, *, copy = None))]
    fn view(&self, py: Python<'_>, key: Key, copy: Option<bool>) -> PyResult<buffer::View> {
        let key = self.key(key)?;
        let view = call(py, || self.kv.view(&key, copy != Some(false), self.view.access()).wait())?;
        match view {
            Some(view) => Ok(buffer::View::from_view(view)),
            None => Err(key::missing_key_error(py, self.kv.oid(), &key)),
        }
    }

    /// Length of the value of a key in bytes; None if the key does not exist.
    fn size(&self, py: Python<'_>, key: Key) -> PyResult<Option<u64>> {
        let key = self.key(key)?;
        call(py, || self.kv.size(&key, self.view.access()).wait())
    }

    /// Sets the value of a key. `condition` "insert" raises Exists if the key exists, "update" raises NotFound if it
    /// does not (in a transaction, at its commit).
    #[pyo3(signature = (key, value, condition = None))]
    fn put(
        &self,
        py: Python<'_>,
        key: Key,
        value: Readable,
        condition: Option<&str>,
    ) -> PyResult<()> {
        let cond = match condition {
            None => Cond::NONE,
            Some("insert") => esker::Kv::INSERT,
            Some("update") => esker::Kv::UPDATE,
            Some(other) => return Err(unknown(other)),
        };
        let (key, value) = (self.key(key)?, value.bytes());
        call(py, || self.kv.put(&key, value, cond, self.view.access()).wait())
    }

    /// Removes a key. Removing a missing key is not an error.
    fn discard(&self, py: Python<'_>, key: Key) -> PyResult<()> {
        let key = self.key(key)?;
        call(py, || self.kv.remove(&key, Cond::NONE, self.view.access()).wait())
    }

    /// Removes all keys.
    fn clear(&self, py: Python<'_>) -> PyResult<()> {
        call(py, || self.kv.destroy(self.view.access()).wait())
    }

    fn __getitem__<'py>(&self, py: Python<'py>, key: Key) -> PyResult<Bound<'py, PyBytes>> {
        let key = self.key(key)?;
        match self.find(py, &key)? {
            Some(value) => Ok(PyBytes::new(py, &value)),
            None => Err(key::missing_key_error(py, self.kv.oid(), &key)),
        }
    }

    fn __setitem__(&self, py: Python<'_>, key: Key, value: Readable) -> PyResult<()> {
        self.put(py, key, value, None)
    }

    fn __delitem__(&self, py: Python<'_>, key: Key) -> PyResult<()> {
        let key = self.key(key)?;
        call(py, || self.kv.remove(&key, esker::Kv::REMOVE, self.view.access()).wait())
    }

    fn __contains__(&self, py: Python<'_>, key: Key) -> PyResult<bool> {
        Ok(self.size(py, key)?.is_some())
    }

    /// Counts the keys by listing all of them.
    fn __len__(&self, py: Python<'_>) -> PyResult<usize> {
        call(py, || {
            let (mut anchor, mut count) = (Anchor::Start, 0);
            while !anchor.is_end() {
                let limit = ListLimit::entries(COUNT_BATCH);
                count += self.kv.list(&mut anchor, limit, self.view.access()).wait()?.len();
            }
            Ok(count)
        })
    }

    fn __iter__(&self) -> Listing {
        self.list(What::Keys)
    }

    /// Values, read in batches, for `values()`.
    fn _values(&self) -> Listing {
        self.list(What::Values)
    }

    /// Pairs of key and value, read in batches, for `items()`.
    fn _items(&self) -> Listing {
        self.list(What::Items)
    }

    /// Pickles as URL, UUID and object id, so that other processes can open it.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (String,))> {
        let container = Container::viewing(py, &self.container, self.view.clone());
        Ok((Bound::new(py, container)?.getattr("kv")?, (self.oid(),)))
    }

    fn __repr__(&self) -> String {
        format!("<esker.Kv {:?} in {:?}>", self.name, self.container.get().shown())
    }
}

fn unknown(condition: &str) -> PyErr {
    let message = format!("condition {condition:?} is unknown: use \"insert\" or \"update\"");
    PyValueError::new_err(message)
}
