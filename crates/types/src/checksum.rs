//! Checksums over data: one per [`CHECKSUM_CHUNK`] bytes, so that a small read of a large extent verifies few bytes.
use crate::limits::CHECKSUM_CHUNK;
use crc_fast::{CrcAlgorithm, Digest};
use std::sync::LazyLock;

/// The checksum of a container's data (DAOS: container property `csum`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[repr(u8)]
pub enum Checksum {
    /// No checksum: corruption is not detected. Never the default.
    Off = 0,
    /// CRC-32C (Castagnoli), the default.
    #[default]
    Crc32c = 1,
    /// CRC-64/NVME, stored in 8 bytes.
    Crc64 = 2,
}

impl Checksum {
    /// The checksum with this number in the on-disk format; `None` for any other number.
    #[must_use]
    pub fn from_code(code: u8) -> Option<Self> {
        [Self::Off, Self::Crc32c, Self::Crc64].get(usize::from(code)).copied()
    }

    /// Bytes of one stored checksum.
    #[must_use]
    pub const fn width(self) -> usize {
        match self {
            Self::Off => 0,
            Self::Crc32c => 4,
            Self::Crc64 => 8,
        }
    }

    /// The checksum of `data`; zero for [`Checksum::Off`].
    #[must_use]
    pub fn sum(self, data: &[u8]) -> u64 {
        match self {
            Self::Off => 0,
            Self::Crc32c => crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, data),
            Self::Crc64 => crc_fast::checksum(CrcAlgorithm::Crc64Nvme, data),
        }
    }

    /// Number of chunks, and so of checksums, for `bytes` bytes of data.
    #[must_use]
    pub const fn chunks(bytes: usize) -> usize {
        bytes.div_ceil(CHECKSUM_CHUNK)
    }

    /// Appends the checksum of one chunk to a table.
    pub fn push(self, data: &[u8], table: &mut impl Extend<u8>) {
        let sum = self.sum(data).to_le_bytes();
        table.extend(sum.into_iter().take(self.width()));
    }

    /// Appends the checksums of all chunks of `data` to a table.
    pub fn push_all(self, data: &[u8], table: &mut impl Extend<u8>) {
        if self != Self::Off {
            data.chunks(CHECKSUM_CHUNK).for_each(|chunk| self.push(chunk, table));
        }
    }

    /// Computes the checksums of data that arrives in pieces, and appends them to a table.
    pub fn summing<T: Extend<u8>>(self, table: &mut T) -> Summing<'_, T> {
        Summing { checksum: self, digest: self.digest(), filled: 0, table }
    }

    /// The state for computing this checksum; `None` for [`Checksum::Off`].
    fn digest(self) -> Option<Digest> {
        match self {
            Self::Off => None,
            Self::Crc32c => Some(Digest::new(CrcAlgorithm::Crc32Iscsi)),
            Self::Crc64 => Some(Digest::new(CrcAlgorithm::Crc64Nvme)),
        }
    }

    /// True if `data`, which is one chunk, matches the checksum at `index` of the table.
    #[must_use]
    pub fn matches(self, data: &[u8], table: &[u8], index: usize) -> bool {
        let width = self.width();
        let sum = self.sum(data).to_le_bytes();
        width == 0 || table.get(index * width..(index + 1) * width) == Some(&sum[..width])
    }
}

/// A CRC-32C of bytes that are added in pieces.
#[derive(Debug)]
pub struct Crc32c(Digest);

impl Default for Crc32c {
    fn default() -> Self {
        Self(Digest::new(CrcAlgorithm::Crc32Iscsi))
    }
}

impl Crc32c {
    /// Adds the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// Checksum of the bytes added so far.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.finalize() as u32
    }
}

/// The CRC-32C of `len` bytes, from those of their chunks in a table of [`Checksum::Crc32c`]. Takes some nanoseconds a
/// chunk. `None` if the table has another length.
///
/// Bytes behind a CRC change it by a linear map of its bits, whatever it is. So the CRC of two chunks is the first one
/// after as many zeros as the second chunk has bytes, plus the second one.
#[must_use]
pub fn crc32c_of_chunks(table: &[u8], len: usize) -> Option<u32> {
    let (sums, rest) = table.as_chunks::<4>();
    if !rest.is_empty() || sums.len() != Checksum::chunks(len) {
        return None;
    }
    let mut sums = sums.iter().map(|sum| u32::from_le_bytes(*sum));
    let mut left = len.saturating_sub(CHECKSUM_CHUNK);
    let Some(mut all) = sums.next() else { return Some(0) };
    for sum in sums {
        all = match left {
            CHECKSUM_CHUNK.. => after_zeros(all) ^ sum,
            _ => crc_fast::checksum_combine(ISCSI, all.into(), sum.into(), left as u64) as u32,
        };
        left = left.saturating_sub(CHECKSUM_CHUNK);
    }
    Some(all)
}

/// Creates what checksums otherwise create at their first use: the choice of instructions, and a table. Waits while
/// another thread does.
pub fn prepare_checksums() {
    let _ = Checksum::Crc32c.sum(&[0]);
    after_zeros(0);
}

/// CRC-32C is that of iSCSI.
const ISCSI: CrcAlgorithm = CrcAlgorithm::Crc32Iscsi;

/// The CRC-32C of a chunk of zeros behind bytes with the CRC `sum`, without the CRC of the chunk itself.
fn after_zeros(sum: u32) -> u32 {
    /// The result for each bit of `sum`.
    static BITS: LazyLock<[u32; 32]> = LazyLock::new(|| {
        let after = |bit: usize| {
            crc_fast::checksum_combine(ISCSI, 1 << bit, 0, CHECKSUM_CHUNK as u64) as u32
        };
        std::array::from_fn(after)
    });
    BITS.iter()
        .enumerate()
        .fold(0, |all, (bit, after)| all ^ (after & (sum >> bit & 1).wrapping_neg()))
}

/// Computes the checksums of data that arrives in pieces.
pub struct Summing<'t, T> {
    checksum: Checksum,
    /// Checksum state of the current chunk.
    digest: Option<Digest>,
    /// Number of bytes in the current chunk.
    filled: usize,
    table: &'t mut T,
}

impl<T: Extend<u8>> Summing<'_, T> {
    /// Adds the next piece. At the end of each chunk, appends its checksum to the table.
    pub fn add(&mut self, mut data: &[u8]) {
        while !data.is_empty() {
            let (part, rest) = data.split_at(data.len().min(CHECKSUM_CHUNK - self.filled));
            self.digest.iter_mut().for_each(|digest| digest.update(part));
            self.filled += part.len();
            if self.filled == CHECKSUM_CHUNK {
                self.push();
            }
            data = rest;
        }
    }

    /// Appends the checksum of the last chunk, which may be incomplete.
    pub fn finish(mut self) {
        if self.filled > 0 {
            self.push();
        }
    }

    /// Ends a chunk: adds its checksum to the table.
    fn push(&mut self) {
        if let Some(digest) = &mut self.digest {
            let sum = digest.finalize_reset().to_le_bytes();
            self.table.extend(sum.into_iter().take(self.checksum.width()));
        }
        self.filled = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        assert_eq!(Checksum::Crc32c.sum(b"123456789"), 0xe306_9283);
        assert_eq!(Checksum::Crc64.sum(b"123456789"), 0xae8b_1486_0a79_9888);
    }

    #[test]
    fn checksum_of_all_chunks_follows_from_those_of_each() {
        let data: Vec<u8> = (0..5 * CHECKSUM_CHUNK).map(|at| (at * 7 % 251) as u8).collect();
        let around = [0, 1, 100, CHECKSUM_CHUNK - 1, CHECKSUM_CHUNK, CHECKSUM_CHUNK + 1];
        for len in
            around.iter().flat_map(|len| [*len, len + CHECKSUM_CHUNK, len + 3 * CHECKSUM_CHUNK])
        {
            let mut table = Vec::new();
            Checksum::Crc32c.push_all(&data[..len], &mut table);
            let all = Checksum::Crc32c.sum(&data[..len]) as u32;
            assert_eq!(crc32c_of_chunks(&table, len), Some(all), "{len} bytes");
            table.push(0);
            assert_eq!(crc32c_of_chunks(&table, len), None);
            table.extend([0; 3]);
            assert_eq!(crc32c_of_chunks(&table, len), None);
        }
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let data = vec![7u8; CHECKSUM_CHUNK + 100];
        for checksum in [Checksum::Crc32c, Checksum::Crc64] {
            let mut table = Vec::new();
            checksum.push_all(&data, &mut table);
            assert_eq!(table.len(), 2 * checksum.width());
            assert!(checksum.matches(&data[CHECKSUM_CHUNK..], &table, 1));
            for bit in 0..8 {
                let mut bad = data[CHECKSUM_CHUNK..].to_vec();
                bad[17] ^= 1 << bit;
                assert!(!checksum.matches(&bad, &table, 1));
            }
            assert!(!checksum.matches(&data[..CHECKSUM_CHUNK], &table, 2));
        }
    }
}
