//! Building blocks of binary files: little-endian numbers, byte strings preceded by their length, and a CRC-32C of
//! everything at the end.
use esker_types::{Checksum, Extent, ObjectId};

/// Length of the checksum at the end.
const SUM_BYTES: usize = 4;

/// Returns the first bytes of a file: its kind `magic`, and the version of the layout.
pub fn begin(magic: &[u8; 8]) -> Vec<u8> {
    let mut out = magic.to_vec();
    put_u32(&mut out, VERSION);
    out
}

/// Version of the layout.
pub const VERSION: u32 = 1;

/// Appends a little-endian number.
pub fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends a little-endian number.
pub fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}

/// Appends an object id.
pub fn put_oid(out: &mut Vec<u8>, oid: ObjectId) {
    out.extend_from_slice(&oid.to_bytes());
}

/// Appends the start and the number of records of an extent.
pub fn put_extent(out: &mut Vec<u8>, extent: Extent) {
    put_u64(out, extent.start);
    put_u64(out, extent.count);
}

/// Appends the length of a byte string, which must be below 4 GiB, and its bytes.
pub fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}

/// Appends the checksum of all bytes before it, which completes the file.
pub fn finish(mut out: Vec<u8>) -> Vec<u8> {
    let sum = Checksum::Crc32c.sum(&out) as u32;
    put_u32(&mut out, sum);
    out
}

/// Reads a file of this form from start to end. Every method returns `None` if bytes are missing.
pub struct Parts<'a>(&'a [u8]);

impl<'a> Parts<'a> {
    /// Verifies the checksum, the kind and the version; `None` if one of them is wrong. The content after them is read
    /// next.
    pub fn open(magic: &[u8; 8], bytes: &'a [u8]) -> Option<Self> {
        let mut parts = Self::sealed(bytes)?;
        let known = parts.take(8)? == magic && parts.u32()? == VERSION;
        known.then_some(parts)
    }

    /// Decodes content without a kind; `None` if the checksum is wrong.
    pub fn sealed(bytes: &'a [u8]) -> Option<Self> {
        let (body, sum) = bytes.split_at_checked(bytes.len().checked_sub(SUM_BYTES)?)?;
        let sum = u32::from_le_bytes(sum.try_into().ok()?);
        (Checksum::Crc32c.sum(body) as u32 == sum).then_some(Self(body))
    }

    /// The next `len` bytes.
    pub fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(len)?;
        self.0 = tail;
        Some(head)
    }

    /// The next number.
    pub fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    /// The next number.
    pub fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    /// The next object id.
    pub fn oid(&mut self) -> Option<ObjectId> {
        Some(ObjectId::from_bytes(self.take(16)?.try_into().ok()?))
    }

    /// The next extent.
    pub fn extent(&mut self) -> Option<Extent> {
        Some(Extent::new(self.u64()?, self.u64()?))
    }

    /// The next byte string, preceded by its length.
    pub fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(len as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_round_trips_and_damage_is_detected() {
        let mut out = begin(b"SOMEKIND");
        put_u64(&mut out, 7);
        put_bytes(&mut out, b"bytes");
        let file = finish(out);
        let mut parts = Parts::open(b"SOMEKIND", &file).unwrap();
        assert_eq!((parts.u64(), parts.bytes(), parts.u32()), (Some(7), Some(&b"bytes"[..]), None));
        for bit in 0..file.len() * 8 {
            let mut bad = file.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Parts::open(b"SOMEKIND", &bad).is_none(), "bit {bit}");
        }
        assert!(
            Parts::open(b"OTHERONE", &file).is_none() && Parts::open(b"SOMEKIND", b"").is_none()
        );
    }
}
