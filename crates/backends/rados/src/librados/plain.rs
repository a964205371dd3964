//! Synchronous calls of librados, as hand-written programs use them: the baseline of benchmarks.
use crate::librados::failure::check;
use crate::librados::io_context::Context;
use crate::librados::library::c_string;
use crate::librados::write::start;
use crate::librados::{IoContext, ReadOp, WriteOp};
use esker_types::{ErrorKind, Result};
use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

/// A namespace for blocking calls, one at a time.
pub struct Plain(Arc<Context>);

impl Plain {
    /// Blocking calls on the namespace of `context`.
    #[must_use]
    pub fn from_context(context: &IoContext) -> Self {
        Self(context.opened())
    }

    /// Replaces the data of an object (`rados_write_full`).
    ///
    /// # Errors
    /// Errors of librados.
    pub fn write_full(&self, object: &str, data: &[u8]) -> Result<()> {
        let name = c_string(object)?;
        let write = self.0.functions().rados_write_full;
        // SAFETY: name and data live during the call.
        let code = unsafe { write(self.0.raw(), name.as_ptr(), start(data), data.len()) };
        check(code, format_args!("writing {object}"))
    }

    /// Reads the start of an object's data into `buffer` (`rados_read`); returns the number of bytes.
    ///
    /// # Errors
    /// Errors of librados.
    pub fn read(&self, object: &str, buffer: &mut [u8]) -> Result<usize> {
        let name = c_string(object)?;
        let (output, len) = (buffer.as_mut_ptr().cast::<c_char>(), buffer.len());
        // SAFETY: name and buffer live during the call, which writes at most `len` bytes.
        let code =
            unsafe { (self.0.functions().rados_read)(self.0.raw(), name.as_ptr(), output, len, 0) };
        check(code, format_args!("reading {object}")).map(|()| code as usize)
    }

    /// Removes an object if it exists (`rados_remove`).
    ///
    /// # Errors
    /// Errors of librados.
    pub fn remove(&self, object: &str) -> Result<()> {
        let name = c_string(object)?;
        // SAFETY: the name lives during the call.
        let code = unsafe { (self.0.functions().rados_remove)(self.0.raw(), name.as_ptr()) };
        match check(code, format_args!("removing {object}")) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            done => done,
        }
    }

    /// Sets an entry of an object's map (`rados_write_op_operate`).
    ///
    /// # Errors
    /// Errors of librados.
    pub fn set(&self, object: &str, key: &[u8], value: &[u8]) -> Result<()> {
        let name = c_string(object)?;
        let mut op = WriteOp::new()?;
        op.set([(key, value)]);
        let operate = self.0.functions().rados_write_op_operate;
        // SAFETY: operation and name live during the call.
        let code = unsafe { operate(op.raw(), self.0.raw(), name.as_ptr(), ptr::null_mut(), 0) };
        check(code, format_args!("writing {object}"))
    }

    /// Reads the value of an entry of an object's map (`rados_read_op_operate`).
    ///
    /// # Errors
    /// Errors of librados.
    pub fn get(&self, object: &str, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let name = c_string(object)?;
        let mut op = ReadOp::new()?;
        op.keys(&[key]);
        let operate = self.0.functions().rados_read_op_operate;
        // SAFETY: operation and name live during the call.
        let code = unsafe { operate(op.raw(), self.0.raw(), name.as_ptr(), 0) };
        check(code, format_args!("reading {object}"))?;
        Ok(op.finish(0).entries.into_iter().next().map(|entry| entry.value))
    }
}
