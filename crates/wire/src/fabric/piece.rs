//! Pieces: the messages of the fabric.
use crate::fabric::window::Size;
use esker_types::{Checksum, Error, ErrorKind, Result};

/// Bytes in front of the data of each piece.
pub(crate) const HEADER_LEN: usize = 24;

/// Kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Bytes of the stream.
    Data = 1,
    /// Credits only.
    Credit = 2,
    /// No more data will follow.
    End = 3,
}

/// The header of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The key that its receiver has chosen.
    pub(crate) key: u64,
    /// Position among the pieces that are data or the end; zero for credits.
    pub(crate) number: u32,
    pub(crate) kind: Kind,
    /// Pieces of each size that may be sent in addition.
    pub(crate) credits: [u16; 2],
}

impl Header {
    /// Encodes the header; its last four bytes are its checksum.
    pub(crate) fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..8].copy_from_slice(&self.key.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.number.to_le_bytes());
        bytes[12] = self.kind as u8;
        bytes[14..16].copy_from_slice(&self.credits[Size::Short as usize].to_le_bytes());
        bytes[16..18].copy_from_slice(&self.credits[Size::Long as usize].to_le_bytes());
        let own = sum(&bytes[..20]);
        bytes[20..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Decodes the header of a piece that arrived. `key` is the key of the receiver.
    ///
    /// # Errors
    /// `Corrupt` if the key or the checksum differs, the kind is not known, or a field is not zero that must be: the peer
    /// did not send it.
    pub(crate) fn decode(piece: &[u8], key: u64) -> Result<Self> {
        let bytes: &[u8; HEADER_LEN] =
            piece.first_chunk().ok_or_else(|| invalid_piece_error("too short"))?;
        let u16_at = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) | u32::from(u16_at(at + 2)) << 16;
        let found = u64::from(u32_at(0)) | u64::from(u32_at(4)) << 32;
        if found != key || sum(&bytes[..20]) != u32_at(20) {
            return Err(invalid_piece_error("it has another key or checksum"));
        }
        let mut kinds = [Kind::Data, Kind::Credit, Kind::End].into_iter();
        let kind = kinds.find(|kind| *kind as u8 == bytes[12]);
        let kind = kind.ok_or_else(|| invalid_piece_error("it is of an unknown kind"))?;
        let number = u32_at(8);
        if bytes[13] != 0 || u16_at(18) != 0 || kind == Kind::Credit && number != 0 {
            return Err(invalid_piece_error("a field that must be zero is not"));
        }
        Ok(Self { key, number, kind, credits: [u16_at(14), u16_at(16)] })
    }
}

fn sum(bytes: &[u8]) -> u32 {
    u32::try_from(Checksum::Crc32c.sum(bytes)).unwrap_or(u32::MAX)
}

/// The error of a piece that cannot be accepted.
#[cold]
pub(crate) fn invalid_piece_error(what: &str) -> Error {
    let message =
        format!("a message of the fabric is not understood: {what}; the connection is closed");
    Error::new(ErrorKind::Corrupt, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAMPLE: Header =
        Header { key: 0x0102_0304_0506_0708, number: 9, kind: Kind::End, credits: [3, 4] };

    /// A header that is encoded and decoded is the same.
    #[test]
    fn headers_come_back() {
        let bytes = SAMPLE.encode();
        assert_eq!(Header::decode(&bytes, SAMPLE.key).unwrap(), SAMPLE);
        assert_eq!(bytes[..20], [8, 7, 6, 5, 4, 3, 2, 1, 9, 0, 0, 0, 3, 0, 3, 0, 4, 0, 0, 0]);
    }

    #[test]
    fn a_header_that_was_changed_or_cut_is_refused() {
        let bytes = SAMPLE.encode();
        assert!(Header::decode(&bytes, SAMPLE.key + 1).is_err());
        for at in 0..HEADER_LEN {
            assert!(Header::decode(&bytes[..at], SAMPLE.key).is_err());
            for bit in 0..8 {
                let mut changed = bytes;
                changed[at] ^= 1 << bit;
                assert!(Header::decode(&changed, SAMPLE.key).is_err(), "byte {at}, bit {bit}");
            }
        }
    }

    /// The checksum of the changed header is right.
    #[test]
    fn fields_that_must_be_zero_are_checked() {
        let is_accepted = |header: Header, changed: Option<usize>| {
            let mut bytes = header.encode();
            changed.iter().for_each(|at| bytes[*at] = 1);
            let own = sum(&bytes[..20]);
            bytes[20..].copy_from_slice(&own.to_le_bytes());
            Header::decode(&bytes, header.key).is_ok()
        };
        assert!(is_accepted(SAMPLE, None));
        assert!([13, 18, 19].into_iter().all(|at| !is_accepted(SAMPLE, Some(at))));
        let credit = Header { kind: Kind::Credit, number: 0, ..SAMPLE };
        assert!(is_accepted(credit, None) && !is_accepted(credit, Some(8)));
    }

    #[test]
    fn fuzz_headers() {
        esker_testing::fuzz("fabric", &[SAMPLE.encode().to_vec()], |bytes| {
            let _ = Header::decode(bytes, SAMPLE.key);
        });
    }
}
