//! Keys of Key-Values as Python gives and gets them.
use crate::buffer::Readable;
use crate::errors;
use esker::types::{ErrorKind, KeyKind, ObjectId};
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

/// A key: text stands for its UTF-8 bytes, a number for a key of a Key-Value with integer keys.
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
        if let Ok(bytes) = object.extract::<Readable>() {
            return Ok(Self::Bytes(bytes.bytes().to_vec()));
        }
        object.extract().map(Self::Number).map_err(|_| {
            PyTypeError::new_err(
                "a key is bytes, text, or (with integer keys) a number from 0 to 2^64-1",
            )
        })
    }
}

impl Key {
    /// The bytes of the key in the Key-Value `oid`.
    pub(crate) fn within(self, oid: ObjectId) -> PyResult<Vec<u8>> {
        match (self, oid.dkey_kind()) {
            (Self::Bytes(bytes), KeyKind::Bytes) => Ok(bytes),
            (Self::Number(number), KeyKind::Integer) => Ok(number.to_ne_bytes().to_vec()),
            (Self::Bytes(_), _) => Err(PyTypeError::new_err("this Key-Value has integer keys")),
            (Self::Number(_), _) => Err(PyTypeError::new_err(
                "this Key-Value has bytes for keys: make it with keys=\"integer\" for numbers",
            )),
        }
    }
}

/// The key as Python sees it: bytes, or a number where it has integer keys.
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

/// What `KeyError` says.
pub(crate) fn missing(py: Python<'_>, oid: ObjectId, key: &[u8]) -> PyErr {
    let shown = shown(py, oid, key).and_then(|key| Ok(key.repr()?.to_string()));
    let message = format!("there is no key {} in the Key-Value", shown.unwrap_or_default());
    errors::raise(py, ErrorKind::NotFound, message)
}
