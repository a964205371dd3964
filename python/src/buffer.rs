//! Memory that Python and the store share: of `bytes`, `bytearray`, `memoryview`, arrays of numpy, whatever
//! offers the buffer protocol, used in place; and of the store, offered by the same protocol.
#![allow(unsafe_code)]

use crate::call::call;
use crate::errors;
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
        let (start, len) = place(&self.0);
        // SAFETY: the buffer is exported, so its `len` contiguous bytes stay where they are until `self`
        // is dropped. Any bytes are valid; who changes them meanwhile has a mixture stored, as with every
        // function that reads a buffer without the interpreter's lock.
        unsafe { slice::from_raw_parts(start.as_ptr(), len) }
    }
}

impl Writable {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let (start, len) = place(&self.0);
        // SAFETY: as in `Readable::bytes`; the exporter allows writing, and `self` is borrowed as long
        // as the slice lives.
        unsafe { slice::from_raw_parts_mut(start.as_ptr(), len) }
    }
}

/// An empty buffer may have no address at all.
fn place(buffer: &PyUntypedBuffer) -> (NonNull<u8>, usize) {
    match NonNull::new(buffer.buf_ptr().cast()) {
        Some(start) => (start, buffer.len_bytes()),
        None => (NonNull::dangling(), 0),
    }
}

/// Whether a format, as the module struct has it, is of objects or of records with some. Names of a record stand
/// between colons.
fn has_objects(format: &str) -> bool {
    format.split(':').step_by(2).any(|codes| codes.contains(['O', 'P', '&']))
}

fn contiguous(object: Borrowed<'_, '_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(&object)?;
    if has_objects(&buffer.format().to_string_lossy()) {
        return Err(PyTypeError::new_err(
            "an array of Python objects holds pointers, not values: give it a type of numbers or \
             bytes, e.g. with astype",
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

/// Bytes of a value as it was when this was made, for reading only; `Kv.view`, `Array.view` and `Field.view`
/// make it, and View(buffer) from a copy of any bytes.
///
/// It offers the buffer protocol: `numpy.frombuffer(view, dtype="f4")`, `numpy.asarray(view)` and
/// `memoryview(view)` use its bytes where they are and keep it alive. The bytes never change, whatever happens
/// to the value, its container or its pool, and a child made by fork has them as well. Pickled, it becomes
/// a copy.
#[pyclass(frozen, module = "esker")]
pub(crate) struct View(esker::View);

impl View {
    pub(crate) fn of(view: esker::View) -> Self {
        Self(view)
    }
}

#[pymethods]
impl View {
    #[new]
    fn new(py: Python<'_>, buffer: Readable) -> PyResult<Self> {
        let bytes = buffer.bytes();
        call(py, || Ok(Self(esker::View::of(bytes.to_vec()))))
    }

    /// False where these are the stored bytes themselves, True where they are a copy.
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
    /// As the buffer protocol has it: `buffer` is null or can be written to.
    unsafe fn __getbuffer__(
        slf: &Bound<'_, Self>,
        buffer: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        let bytes: &[u8] = &slf.get().0;
        let (start, len) = (bytes.as_ptr().cast_mut().cast(), bytes.len() as ffi::Py_ssize_t);
        // SAFETY: `buffer` is the caller's to be filled. The bytes stay where they are as long as `slf`,
        // which the buffer then owns; it is frozen, and asked for as read-only, so nobody writes to them.
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

/// Bytes from which on new memory comes from the system, page by page.
const LARGE_MIN: usize = 4 << 20;
const PAGE: usize = 4096;

/// Asks for large pages in new memory: to have it page by page costs several times as much as what is
/// read into it. Best effort.
///
/// # Safety
/// The `len` bytes at `start` are allocated.
unsafe fn want_large_pages(start: *mut u8, len: usize) {
    let skip = start.align_offset(PAGE);
    if len >= LARGE_MIN && skip < len {
        // SAFETY: the range is inside what the caller promises; the call changes no content.
        unsafe { libc::madvise(start.add(skip).cast(), len - skip, libc::MADV_HUGEPAGE) };
    }
}

/// New bytes of length `len`, which `fill` fills: all of them, or it fails.
///
/// They are not zeroed first, which would cost as much as reading them.
pub(crate) fn filled<'py>(
    py: Python<'py>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<()> + Send,
) -> PyResult<Bound<'py, PyBytes>> {
    let too_long = || errors::raise(py, ErrorKind::Overflow, "more bytes than fit in memory");
    let size = ffi::Py_ssize_t::try_from(len).map_err(|_| too_long())?;
    // SAFETY: without a source the object is new, with room for `len` bytes (one of length 0 is shared, and
    // nothing is written to it). Nobody else has it before it is returned, and then all of it is written.
    // `fill` gets bytes of any value, which it only writes over.
    let (bytes, place) = unsafe {
        let object = ffi::PyBytes_FromStringAndSize(null(), size);
        let bytes = Bound::from_owned_ptr_or_err(py, object)?;
        let start = ffi::PyBytes_AsString(object).cast::<u8>();
        want_large_pages(start, len);
        (bytes, slice::from_raw_parts_mut(start, len))
    };
    call(py, || fill(place))?;
    bytes.cast_into().map_err(PyErr::from)
}
