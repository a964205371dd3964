//! Memory of Python objects, used in place: `bytes`, `bytearray`, `memoryview`, arrays of numpy, whatever
//! offers the buffer protocol.
#![allow(unsafe_code)]

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::PyBufferError;
use pyo3::prelude::*;
use std::ptr::NonNull;
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

fn contiguous(object: Borrowed<'_, '_, PyAny>) -> PyResult<PyUntypedBuffer> {
    let buffer = PyUntypedBuffer::get(&object)?;
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
