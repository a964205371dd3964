//! The memory of an endpoint: one context per operation for the provider, followed by the slots that the network reads
//! and writes.
use esker_types::{Error, ErrorKind, Result};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Bytes that a provider may use for each operation in progress: `fi_context2`.
const CONTEXT_LEN: usize = 8 * size_of::<*mut c_void>();

/// Unit of registration in bytes.
const PAGE: usize = 4096;

/// Slots begin at multiples of this.
const LINE: usize = 64;

/// Memory for slots.
pub(crate) struct Memory {
    start: NonNull<u8>,
    layout: Layout,
    /// Offset and length of each slot.
    slots: Vec<(usize, usize)>,
}

// SAFETY: it is plain memory, written only through `&mut self` or by the network.
unsafe impl Send for Memory {}

impl Memory {
    /// Zeroed memory for slots of these lengths.
    ///
    /// # Errors
    /// `NoMemory`.
    pub(crate) fn new(lens: &[usize]) -> Result<Self> {
        let mut end = lens.len() * CONTEXT_LEN;
        let place = |len: &usize| {
            let at = end;
            end += len.next_multiple_of(LINE);
            (at, *len)
        };
        let slots: Vec<_> = lens.iter().map(place).collect();
        let layout = Layout::from_size_align(end.max(PAGE), PAGE).map_err(|_| out_of_memory())?;
        // SAFETY: the layout has a size that is not zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(out_of_memory)?;
        Ok(Self { start, layout, slots })
    }

    /// Start and length of the complete memory, for its registration.
    pub(crate) fn whole(&self) -> (*const c_void, usize) {
        (self.start.as_ptr().cast_const().cast(), self.layout.size())
    }

    /// Number of slots.
    pub(crate) fn count(&self) -> usize {
        self.slots.len()
    }

    /// Start and length of a slot that exists.
    pub(crate) fn slot(&self, slot: usize) -> Option<(NonNull<u8>, usize)> {
        let (at, len) = *self.slots.get(slot)?;
        // SAFETY: the slot lies within the allocation.
        Some((unsafe { self.start.add(at) }, len))
    }

    /// Context of the operation on a slot, for the provider (`fi_context2`).
    pub(crate) fn context(&self, slot: usize) -> *mut c_void {
        debug_assert!(slot < self.slots.len());
        self.start.as_ptr().wrapping_add(slot * CONTEXT_LEN).cast()
    }

    /// The slot whose operation has this context; `None` for a pointer that is not one of [`Memory::context`].
    pub(crate) fn slot_of(&self, context: *mut c_void) -> Option<usize> {
        let offset = context.addr().checked_sub(self.start.addr().get())?;
        (offset % CONTEXT_LEN == 0 && offset / CONTEXT_LEN < self.slots.len())
            .then_some(offset / CONTEXT_LEN)
    }

    /// Deallocates the memory. Dropping does not, because the network may still write to it.
    ///
    /// # Safety
    /// Neither the process nor the network may use the memory afterwards.
    pub(crate) unsafe fn free(&mut self) {
        // SAFETY: it was allocated with this layout, and the caller says that it is used no more.
        unsafe { dealloc(self.start.as_ptr(), self.layout) };
        self.slots.clear();
    }
}

#[cold]
fn out_of_memory() -> Error {
    Error::new(ErrorKind::NoMemory, "no memory for the messages of a connection")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_do_not_overlap_and_contexts_identify_them() {
        let mut memory = Memory::new(&[100, 5000, 1]).unwrap();
        let at = |slot| memory.slot(slot).unwrap().0.addr().get();
        assert!(at(0) >= memory.context(2).addr() + CONTEXT_LEN);
        assert!(at(0) + 100 <= at(1) && at(1) + 5000 <= at(2));
        assert!(at(2) < memory.start.addr().get() + memory.layout.size());
        assert_eq!((memory.slot(3), memory.count()), (None, 3));
        for slot in 0..3 {
            assert_eq!(memory.slot_of(memory.context(slot)), Some(slot));
        }
        let next = memory.context(2).wrapping_byte_add(CONTEXT_LEN);
        assert_eq!((memory.slot_of(next), memory.slot_of(std::ptr::null_mut())), (None, None));
        // SAFETY: nobody uses it.
        unsafe { memory.free() };
    }
}
