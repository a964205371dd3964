//! Header of every extent in a segment. It contains the key of the extent, so that compaction finds the live data of a
//! segment without a search of the complete index.
use crate::io::crc32c;

/// The header of an extent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// Key under which the extent was written to the data table, without the table byte.
    pub(crate) key: Vec<u8>,
    /// Number of records.
    pub(crate) count: u64,
    /// Bytes of data that follow the header.
    pub(crate) data_len: u32,
}

const MAGIC: u32 = u32::from_le_bytes(*b"Xtnt");
/// Bytes of magic, checksum, key length, data length and count.
const FIXED: usize = 24;
/// Alignment of headers and data: a cache line.
pub(crate) const ALIGN: u64 = 64;

/// Bytes from the start of the header to the start of the data.
pub(crate) fn data_offset(key_len: usize) -> u64 {
    (FIXED + key_len).next_multiple_of(ALIGN as usize) as u64
}

/// Bytes of the segment that header and data occupy.
pub(crate) fn footprint(key_len: usize, data_len: u64) -> u64 {
    data_offset(key_len) + data_len.next_multiple_of(ALIGN)
}

/// Maximum length of a header.
pub(crate) const HEADER_MAX: usize = 4096;

impl Header {
    /// Encodes the header, padded to the start of the data.
    pub(crate) fn encode(key: &[u8], count: u64, data_len: u32, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&MAGIC.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(key.len() as u32).to_le_bytes());
        out.extend_from_slice(&data_len.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
        out.extend_from_slice(key);
        let sum = crc32c(&out[8..]);
        out[4..8].copy_from_slice(&sum.to_le_bytes());
        out.resize(data_offset(key.len()) as usize, 0);
    }

    /// Decodes a header from the start of `bytes`; returns `None` if the bytes are not a header.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let end = FIXED.checked_add(word(8)? as usize)?;
        let covered = bytes.get(8..end)?;
        if word(0)? != MAGIC || crc32c(covered) != word(4)? {
            return None;
        }
        let count = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
        Some(Self { key: bytes[FIXED..end].to_vec(), count, data_len: word(12)? })
    }

    /// Bytes that the header and its data occupy.
    pub(crate) fn footprint(&self) -> u64 {
        footprint(self.key.len(), u64::from(self.data_len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_round_trip() {
        let mut bytes = Vec::new();
        Header::encode(b"some key", 9, 9000, &mut bytes);
        assert_eq!(bytes.len(), 64);
        let header = Header { key: b"some key".to_vec(), count: 9, data_len: 9000 };
        assert_eq!(Header::decode(&bytes), Some(header.clone()));
        assert_eq!(header.footprint(), 64 + 9024);
        for at in 0..FIXED + 8 {
            let mut bad = bytes.clone();
            bad[at] ^= 1;
            assert_eq!(Header::decode(&bad), None, "flip at {at} unnoticed");
        }
    }

    #[test]
    fn random_headers_are_read_or_refused() {
        let mut random = crate::tests::Random::new(4);
        for _ in 0..esker_testing::rounds(20_000) {
            let mut bytes = random.bytes(200);
            let _ = Header::decode(&bytes);
            if bytes.len() < FIXED {
                continue;
            }
            // A header with the right magic and checksum, and a key length that may not fit.
            bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
            let key_len = bytes[8] as usize;
            bytes[9..12].fill(0);
            if let Some(covered) = bytes.get(8..FIXED + key_len) {
                let sum = crc32c(covered);
                bytes[4..8].copy_from_slice(&sum.to_le_bytes());
                let header = Header::decode(&bytes).unwrap();
                assert!(header.footprint() >= u64::from(header.data_len));
            }
        }
    }
}
