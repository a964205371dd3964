//! A second place of shared memory, which only this library knows.
//!
//! Libraries that follow mappings (UCX, libfabric, Open MPI) replace `munmap` and its like, in machine code or
//! in the tables of the linker, so memory may go without a word to this library. What a program wrote there stays
//! in the second place, and no look at it can fault.
use crate::answer::Answer;
use crate::raw;
use std::sync::Arc;

/// A second place of memory. It goes with the last view.
struct Place {
    start: usize,
    length: usize,
}

impl Drop for Place {
    fn drop(&mut self) {
        raw::unmap(self.start, self.length);
    }
}

/// A part of shared memory, by its second place.
pub(crate) struct View {
    place: Arc<Place>,
    skip: usize,
    length: usize,
}

impl View {
    /// Of shared memory that is mapped.
    pub(crate) fn of(start: usize, length: usize) -> Answer<Self> {
        let place = Place { start: raw::map_again(start, length)?, length };
        Ok(Self { place: Arc::new(place), skip: 0, length })
    }

    /// Of `length` bytes of it, none of which lies behind its end.
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
        // SAFETY: the second place is always writable, and has `length` bytes there.
        unsafe { std::ptr::copy(data.as_ptr(), to, length) };
    }
}
