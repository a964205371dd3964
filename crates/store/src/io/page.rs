//! LMDB's header of a page, which stands in front of a value that has pages of its own.
use crate::pages::{OVERFLOW, PAGE, PAGE_HEADER};
use std::ffi::c_void;

/// As it lies on the page.
#[repr(C)]
pub(super) struct PageHeader {
    pub(super) number: u64,
    _unused: u16,
    flags: u16,
    pages: u32,
}

const _: () = assert!(size_of::<PageHeader>() == PAGE_HEADER);

impl PageHeader {
    /// The header in front of a value.
    ///
    /// # Safety
    /// So many bytes in front of the value must be there to be read.
    pub(super) unsafe fn before(value: *const c_void) -> Self {
        // SAFETY: as the caller promises; any bytes are a header.
        unsafe { value.byte_sub(PAGE_HEADER).cast::<Self>().read_unaligned() }
    }

    /// True where a value of `len` bytes fits the pages that the header speaks of, and they are in a file of so many.
    pub(super) fn holds(&self, len: usize, file: usize) -> bool {
        let bytes = (self.pages as usize).saturating_mul(PAGE);
        let begin = usize::try_from(self.number).unwrap_or(usize::MAX).saturating_mul(PAGE);
        self.flags & OVERFLOW != 0
            && begin.saturating_add(bytes) <= file
            && len.saturating_add(PAGE_HEADER) <= bytes
    }
}
