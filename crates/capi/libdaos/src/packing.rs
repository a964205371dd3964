//! Keys and values in the caller's buffers. As in DAOS, none spans two buffers.
use crate::abi::{Iov, Ptr, Sgl};
use crate::code::Result;
use crate::convert;
use esker::types::KeyBatch;

/// The caller's buffers, and how far they are filled.
pub(crate) struct Buffers {
    sgl: Ptr<Sgl>,
    iovs: Vec<Iov>,
    /// The buffer that is being filled.
    current: usize,
}

impl Buffers {
    /// The buffers of a list. Without a list there is no room.
    pub(crate) fn new(sgl: Ptr<Sgl>) -> Result<Self> {
        let iovs = if sgl.is_null() { Vec::new() } else { convert::buffers_of(sgl)? };
        Ok(Self { sgl, iovs, current: 0 })
    }

    /// Bytes of all buffers together.
    pub(crate) fn bytes(&self) -> usize {
        self.iovs.iter().fold(0, |sum: usize, iov| sum.saturating_add(iov.buf_len))
    }

    /// Empties the buffers.
    pub(crate) fn clear(&mut self) {
        self.current = 0;
        self.iovs.iter_mut().for_each(|iov| iov.len = 0);
    }

    /// Empties the buffers and copies as many keys to them as fit; returns their number.
    pub(crate) fn fill(&mut self, keys: &KeyBatch) -> Result<usize> {
        self.clear();
        for (index, key) in keys.iter().enumerate() {
            if !self.push(key)? {
                return Ok(index);
            }
        }
        Ok(keys.len())
    }

    /// Copies a key or value to the first buffer from the current one on that has room for it; false if none has.
    pub(crate) fn push(&mut self, key: &[u8]) -> Result<bool> {
        let fits = |iov: &Iov| iov.buf_len - iov.len.min(iov.buf_len) >= key.len();
        let Some(skipped) = self.iovs.iter().skip(self.current).position(fits) else {
            return Ok(false);
        };
        self.current += skipped;
        let iov = &mut self.iovs[self.current];
        let end = iov.len + key.len();
        iov.buf.write(end as u64)?[iov.len..].copy_from_slice(key);
        iov.len = end;
        Ok(true)
    }

    /// Records in the caller's list how far its buffers are filled.
    pub(crate) fn record(&self) -> Result<()> {
        if self.sgl.is_null() {
            return Ok(());
        }
        let mut sgl = self.sgl.get()?;
        sgl.nr_out =
            self.iovs.iter().rposition(|iov| iov.len > 0).map_or(0, |last| last as u32 + 1);
        for (index, iov) in self.iovs.iter().enumerate() {
            sgl.iovs.at(index).set(*iov);
        }
        self.sgl.set(sgl);
        Ok(())
    }
}
