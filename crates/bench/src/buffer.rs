//! Memory for blocks, aligned to pages on both sides of a comparison.
use std::ops::{Deref, DerefMut};

/// Bytes of a page, at least as many as any processor copies at a time.
const PAGE_BYTES: usize = 4096;

/// Bytes that begin on a page boundary and have all been touched.
///
/// An allocator may place a block of any size 16 bytes behind such a boundary. The kernel then copies it up to twice as
/// slowly, so a measurement would depend on the addresses of blocks.
pub struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    /// A buffer of `len` bytes.
    pub fn new(len: u64) -> esker_types::Result<Self> {
        let len = usize::try_from(len).map_err(|_| too_large(len))?;
        let total = len.checked_add(PAGE_BYTES).ok_or_else(|| too_large(len as u64))?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(total).map_err(|_| too_large(len as u64))?;
        // Writing touches every page. The value has no meaning.
        memory.resize(total, 0xa5);
        let start = memory.as_ptr().addr().next_multiple_of(PAGE_BYTES) - memory.as_ptr().addr();
        Ok(Self { memory, start, len })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

/// Error for a block of `len` bytes that cannot be allocated.
#[cold]
fn too_large(len: u64) -> esker_types::Error {
    let message = format!("a block of {len} bytes does not fit in memory: choose a smaller size");
    esker_types::Error::new(esker_types::ErrorKind::NoMemory, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_on_a_page_boundary() {
        for len in [0, 1, 8192, 1 << 20] {
            let mut buffer = Buffer::new(len).unwrap();
            assert_eq!(buffer.len() as u64, len);
            assert!(buffer.as_ptr().addr().is_multiple_of(PAGE_BYTES));
            buffer.fill(7);
            assert!(buffer.iter().all(|byte| *byte == 7));
        }
        let error = Buffer::new(u64::MAX).err().unwrap();
        assert_eq!(error.kind(), esker_types::ErrorKind::NoMemory);
    }
}
