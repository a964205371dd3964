//! Conversion of keys of Key-Values from and to Python.
use crate::buffer::Readable;
use crate::errors;
use esker::types::{ErrorKind, KeyKind, ObjectId};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A key: text is encoded as UTF-8, a number is a key of a Key-Value with integer keys.
pub(crate) enum Key {
    Bytes(Vec<u8>),
    Number(u64),
}

impl<'a, 'py> FromPyObject<'a, 'py> for Key {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(text) = object.cast::<PyString>() {
            return Ok(Self::Bytes(text.to_str()?.as_bytes().to_vec()));
        }
        // Integers of numpy are buffers too. Its arrays have the method of integers, which refuses them.
        if !object.is_instance_of::<PyBytes>() && object.hasattr("__index__")? {
            match object.extract::<u64>() {
                Ok(number) => return Ok(Self::Number(number)),
                Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {}
                Err(_) => return Err(type_error()),
            }
        }
        let bytes = object.extract::<Readable>().map_err(|_| type_error())?;
        Ok(Self::Bytes(bytes.bytes().to_vec()))
    }
}

#[cold]
fn type_error() -> PyErr {
    PyTypeError::new_err(
        "a key must be bytes, text, or (with integer keys) a number from 0 to 2^64-1",
    )
}

impl Key {
    /// The bytes of the key in the Key-Value `oid`.
    pub(crate) fn within(self, oid: ObjectId) -> PyResult<Vec<u8>> {
        match (self, oid.dkey_kind()) {
            (Self::Bytes(bytes), KeyKind::Bytes) => Ok(bytes),
            (Self::Number(number), KeyKind::Integer) => Ok(number.to_ne_bytes().to_vec()),
            (Self::Bytes(_), _) => {
                Err(PyTypeError::new_err("this Key-Value has integer keys: use a number"))
            }
            (Self::Number(_), _) => Err(PyTypeError::new_err(
                "the keys of this Key-Value are bytes: create it with keys=\"integer\" to use numbers",
            )),
        }
    }
}

/// The key in Python: bytes, or a number if the Key-Value has integer keys.
pub(crate) fn shown<'py>(
    py: Python<'py>,
    oid: ObjectId,
    key: &[u8],
) -> PyResult<Bound<'py, PyAny>> {
    match (oid.dkey_kind(), key.try_into()) {
        (KeyKind::Integer, Ok(bytes)) => u64::from_ne_bytes(bytes).into_bound_py_any(py),
        _ => PyBytes::new(py, key).into_bound_py_any(py),
    }
}

/// The error for a missing key.
pub(crate) fn missing_key_error(py: Python<'_>, oid: ObjectId, key: &[u8]) -> PyErr {
    let shown = shown(py, oid, key).and_then(|key| Ok(key.repr()?.to_string()));
    let message = format!("key {} does not exist in the Key-Value", shown.unwrap_or_default());
    errors::raise(py, ErrorKind::NotFound, message)
}
