//! Callbacks of tasks.
use super::memory::Task;
use crate::abi::{Bytes, Ptr};
use crate::code::{Code, Result};
use std::ffi::c_int;

/// `tse_task_cb_t`.
pub type Function = unsafe extern "C" fn(task: Ptr<Task>, arg: Bytes) -> c_int;

/// Largest argument that is copied, in bytes.
const ARG_MAX: usize = 1 << 20;

/// A callback and its argument: a pointer, or bytes that were copied.
pub(super) struct Callback {
    function: Function,
    arg: Bytes,
    /// The copied bytes in words, so that they are aligned; empty for a pointer.
    copy: Vec<u64>,
}

impl Callback {
    /// A callback. Its argument is a copy of the `size` bytes at `arg`, or the pointer itself if `size` is 0.
    pub(super) fn new(function: Function, arg: Bytes, size: usize) -> Result<Self> {
        if size > ARG_MAX {
            return Err(Code::INVAL);
        }
        let bytes = if arg.is_null() { &[][..] } else { arg.read(size as u64)? };
        let word = |chunk: &[u8]| {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            u64::from_ne_bytes(word)
        };
        Ok(Self { function, arg, copy: bytes.chunks(8).map(word).collect() })
    }

    /// Calls the function with the task, and with its argument: the pointer that was registered, or the copy that was
    /// made then.
    pub(super) fn call(mut self, task: Ptr<Task>) -> c_int {
        let arg = match self.copy.is_empty() {
            true => self.arg,
            // SAFETY: the copy outlives the call.
            false => unsafe { Ptr::new(self.copy.as_mut_ptr().cast()) },
        };
        // SAFETY: the caller registered the function to be called so.
        unsafe { (self.function)(task, arg) }
    }
}
