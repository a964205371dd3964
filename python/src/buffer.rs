//! Memory shared between Python and the store: `bytes`, `bytearray`, `memoryview`, numpy arrays and other objects
//! with the buffer protocol, used in place; and memory of the store, offered by the same protocol.
#![allow(unsafe_code)]

use crate::call::call;
use crate::errors;
use esker::types::memory::zeros;
use esker::types::{ErrorKind, Result};
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::c_int;
use std::ptr::{NonNull, null};
use std::slice;

/// Bytes that the store reads.
pub(crate) struct Readable(PyUntypedBuffer);

/// Bytes that the store fills.
pub(crate) struct Writable(PyUntypedBuffer);

impl Readable {
    pub(crate) fn bytes(&self) -> &[u8] {
        let (start, len) = start_and_length(&self.0);
        // SAFETY: the buffer is exported, so its `len` contiguous bytes stay in place until `self` is dropped. Any
        // bytes are valid; if another thread changes them meanwhile, a mixture is stored, as with every function that
        // reads a buffer without the GIL.
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }
}

impl Writable {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let (start, len) = start_and_length(&self.0);
        // SAFETY: as in `Readable::bytes`; the exporter allows writing, and `self` is borrowed as long as the slice
        // exists.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
    }
}

/// Address and length of a buffer. That of an empty buffer may be null, which a slice must not be.
fn start_and_length(buffer: &PyUntypedBuffer) -> (NonNull<u8>, usize) {
    match NonNull::new(buffer.buf_ptr().cast()) {
        Some(start) => (start, buffer.len_bytes()),
        None => (NonNull::dangling(), 0),
    }
}

/// Whether a format, in the syntax of the module struct, contains Python objects, also as members of records. Names
/// of members are enclosed in colons.
fn has_objects(format: &str) -> bool {
    format.split(':').step_by(2).any(|codes| codes.contains(['O', 'P', '&']))
}

/// The buffer of an object. Refuses one that has gaps, or holds pointers to objects.
fn contiguous(object: Borrowed<'_, '_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(&object)?;
    if has_objects(&buffer.format().to_string_lossy()) {
        return Err(PyTypeError::new_err(
            "an array of Python objects holds pointers, not values: convert it to a numeric or \
             bytes type, e.g. with astype",
        ));
    }
    match buffer.is_c_contiguous() {
        true => Ok(buffer),
        false => Err(PyBufferError::new_err(
            "the buffer is not contiguous in C order: make a copy that is, e.g. with \
             numpy.ascontiguousarray",
        )),
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Readable {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        contiguous(object).map(Self)
    }
}

impl<'a, 'py> FromPyObject<'a, 'py> for Writable {
    type Error = PyErr;

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        let buffer = contiguous(object)?;
        match buffer.readonly() {
            true => Err(PyBufferError::new_err("the buffer is read-only")),
            false => Ok(Self(buffer)),
        }
    }
}

/// Read-only bytes of a value at the time the view was made. `Kv.view`, `Array.view` and `Field.view` return it;
/// View(buffer) copies any bytes.
///
/// It supports the buffer protocol: `numpy.frombuffer(view, dtype="f4")`, `numpy.asarray(view)` and
/// `memoryview(view)` use its bytes in place and keep it alive. The bytes never change, whatever happens to the
/// value, its container or its pool; a child made by fork has the view as well. Pickling makes a copy.
#[pyclass(frozen, module = "esker")]
pub(crate) struct View(esker::View);

impl View {
    pub(crate) fn from_view(view: esker::View) -> Self {
        Self(view)
    }
}

#[pymethods]
impl View {
    #[new]
    fn new(py: Python<'_>, buffer: Readable) -> PyResult<Self> {
        let bytes = buffer.bytes();
        call(py, || {
            let mut copy = zeros(bytes.len())?;
            copy.copy_from_slice(bytes);
            Ok(Self(esker::View::from_vec(copy)))
        })
    }

    /// False if these are the stored bytes themselves, True if they are a copy.
    #[getter]
    fn is_copy(&self) -> bool {
        self.0.is_copy()
    }

    /// Its length in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.0.len()
    }

    fn __len__(&self) -> usize {
        self.0.len()
    }

    /// # Safety
    /// `buffer` is null or writable, as the buffer protocol requires.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        buffer: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes: &[u8] = &slf.get().0;
        let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: the caller passes `buffer` to be filled. The bytes stay in place as long as `slf`, which the buffer
        // then owns; it is frozen and exported read-only, so nothing writes to them.
        let code = unsafe { ffi::PyBuffer_FillInfo(buffer, slf.as_ptr(), start, len, 1, flags) };
        match code {
            0 => Ok(()),
            _ => Err(PyErr::fetch(slf.py())),
        }
    }

    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> (Bound<'py, PyAny>, (Bound<'py, PyBytes>,)) {
        (slf.get_type().into_any(), (PyBytes::new(slf.py(), &slf.get().0),))
    }

    fn __repr__(&self) -> String {
        let kind = if self.is_copy() { "copied" } else { "in place" };
        format!("<esker.View of {} bytes, {kind}>", self.nbytes())
    }
}

/// New bytes of length `len`, all of which `fill` writes unless it fails.
///
/// They are not zeroed first, which would cost as much as reading them.
pub(crate) fn filled<'py>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<()> + Send,
) -> PyResult<Bound<'py, PyBytes>> {
    let too_long = || {
        errors::raise(
            py,
            ErrorKind::Overflow,
            "the bytes do not fit in memory: read fewer at a time",
        )
    };
    let size = ffi::Py_ssize_t::try_from(len).map_err(|_| too_long())?;
    // SAFETY: without a source the object is new and has room for `len` bytes (the one of length 0 is shared, and
    // nothing is written to it). No other code has it before it is returned, and by then all of it is written. `fill`
    // gets uninitialized bytes, which it only writes.
    let (bytes, room) = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(null(), size);
        let bytes = Bound::from_owned_ptr_or_err(py, object)?;
        let start = ffi::PyBytes_AsString(object).cast::<u8>();
        (bytes, slice::from_raw_parts_mut(start, len))
    };
    call(py, || fill(room))?;
    bytes.cast_into().map_err(PyErr::from)
}
