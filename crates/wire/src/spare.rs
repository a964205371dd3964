//! Stock of memory for long parts of frames. Receiving into memory that was used before is faster than the first use of
//! fresh memory.
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Most bytes in the stock.
pub const SPARE_MAX: usize = 32 << 20;

/// Shorter buffers are not kept in the stock.
const LEAST: usize = 32 << 10;

/// A stock of memory. Its clones share it.
#[derive(Clone, Debug, Default)]
pub struct Spare(Arc<Mutex<Stock>>);

#[derive(Debug, Default)]
struct Stock {
    buffers: Vec<Vec<u8>>,
    /// Capacity of all buffers together.
    bytes: usize,
}

/// Memory that returns to its stock when it is dropped.
struct Kept(Vec<u8>, Spare);

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.1.give_back(std::mem::take(&mut self.0));
    }
}

impl Spare {
    fn stock(&self) -> MutexGuard<'_, Stock> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer without bytes that has room for `len`.
    #[must_use]
    pub fn empty(&self, len: usize) -> Vec<u8> {
        let mut buffer = self.take(len);
        buffer.clear();
        buffer.reserve_exact(len);
        buffer
    }

    /// A buffer of `len` bytes of any value.
    #[must_use]
    pub fn filled(&self, len: usize) -> Vec<u8> {
        let mut buffer = self.take(len);
        buffer.resize(len, 0);
        buffer
    }

    /// Converts a buffer to bytes. Its memory returns to the stock once they are dropped.
    #[must_use]
    pub fn keep(&self, buffer: Vec<u8>) -> Bytes {
        match buffer.capacity() {
            ..LEAST => buffer.into(),
            _ => Bytes::from_owner(Kept(buffer, self.clone())),
        }
    }

    /// A buffer from the stock that has room for `len` bytes, or a new one, which may be empty. Its content is
    /// undefined.
    fn take(&self, len: usize) -> Vec<u8> {
        if len < LEAST {
            return Vec::with_capacity(len);
        }
        let mut stock = self.stock();
        let fits = stock.buffers.iter().rposition(|buffer| buffer.capacity() >= len);
        let buffer = fits.map(|at| stock.buffers.swap_remove(at)).unwrap_or_default();
        stock.bytes -= buffer.capacity();
        buffer
    }

    /// Keeps the buffer for later use, unless enough are kept.
    fn give_back(&self, buffer: Vec<u8>) {
        let mut stock = self.stock();
        if stock.bytes + buffer.capacity() <= SPARE_MAX {
            stock.bytes += buffer.capacity();
            stock.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A buffer that is not needed any more is used for the next one. Buffers are kept up to [`SPARE_MAX`] bytes in
    /// all.
    #[test]
    fn memory_is_used_again_up_to_a_limit() {
        let spare = Spare::default();
        let mut first = spare.empty(LEAST + 100);
        first.extend_from_slice(&[7; LEAST]);
        let at = first.as_ptr();
        let (bytes, again) = (spare.keep(first), spare.clone());
        assert_eq!(&bytes[..], [7; LEAST]);
        drop(bytes);
        let second = again.filled(LEAST + 1);
        assert_eq!((second.as_ptr(), second.len()), (at, LEAST + 1));
        drop(again.keep(second));
        drop(spare.keep(spare.filled(SPARE_MAX)));
        assert!(spare.stock().bytes <= SPARE_MAX);
        assert_eq!(spare.stock().buffers.len(), 1);
    }
}
