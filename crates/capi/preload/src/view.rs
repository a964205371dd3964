//! A second mapping of shared memory, which only this library knows.
//!
//! Libraries that track mappings (UCX, libfabric, Open MPI) patch `munmap` and its relatives in machine code or in the
//! tables of the linker, so memory may be unmapped without a call to this library. The second mapping keeps what the
//! program wrote, and reading it cannot fault.
use crate::answer::Answer;
use crate::raw;
use std::sync::Arc;

/// A second mapping. The last view unmaps it.
struct SecondMapping {
    start: usize,
    length: usize,
}

impl Drop for SecondMapping {
    fn drop(&mut self) {
        raw::unmap(self.start, self.length);
    }
}

/// A part of shared memory, through its second mapping.
pub(crate) struct View {
    place: Arc<SecondMapping>,
    skip: usize,
    length: usize,
}

impl View {
    /// A view of mapped shared memory.
    pub(crate) fn of(start: usize, length: usize) -> Answer<Self> {
        let place = SecondMapping { start: raw::map_again(start, length)?, length };
        Ok(Self { place: Arc::new(place), skip: 0, length })
    }

    /// A view of `length` bytes of it, cut at its end.
    pub(crate) fn part(&self, skip: usize, length: usize) -> Self {
        let skip = (self.skip + skip).min(self.place.length);
        let length = length.min(self.place.length - skip);
        Self { place: self.place.clone(), skip, length }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as this value is, and so long; a program that changes it meanwhile gets what
        // it would get from the kernel: either state of each byte.
        unsafe {
            std::slice::from_raw_parts((self.place.start + self.skip) as *const u8, self.length)
        }
    }

    /// Changes what the program sees.
    pub(crate) fn put(&self, at: usize, data: &[u8]) {
        let length = data.len().min(self.length.saturating_sub(at));
        let to = (self.place.start + self.skip + at) as *mut u8;
        // SAFETY: the second mapping is always writable, and has `length` bytes there.
        unsafe { std::ptr::copy(data.as_ptr(), to, length) };
    }
}
