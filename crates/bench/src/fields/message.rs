//! The content of a field. Each page has the md5 sum of the key and a checksum of the rest, so that a reader can verify
//! the identity and the content.
use crate::buffer::Buffer;
use crate::errors::ensure_intact;
use esker_fields::Key;
use esker_types::Result;
use md5::{Digest, Md5};

/// Bytes of a page.
const PAGE_BYTES: usize = 4096;

/// The stamp at the start of a page: the md5 sum of the key, then that of all pages without stamps.
const STAMP_BYTES: usize = 32;

/// Minimum size of a field: one stamp.
pub const BYTES_MIN: u64 = STAMP_BYTES as u64;

/// Maximum size of a field. Each process keeps two fields in memory.
pub const BYTES_MAX: u64 = 4 << 30;

type Sum = [u8; 16];

/// Content that is generated once. Only the sum of the key differs between fields.
pub struct Message {
    bytes: Buffer,
    key_bytes: Vec<u8>,
}

impl Message {
    /// A message of `bytes` bytes, generated from the seed.
    pub fn new(seed: u64, bytes: u64) -> Result<Self> {
        let mut bytes = Buffer::new(bytes)?;
        fastrand::Rng::with_seed(seed).fill(&mut bytes);
        let sum = content_sum(&bytes);
        for stamp in stamps(&mut bytes) {
            stamp[16..].copy_from_slice(&sum);
        }
        Ok(Self { bytes, key_bytes: Vec::new() })
    }

    /// The bytes of the field that belongs to `key`: a hash of the key is put into them at regular distances, so that a
    /// reader can tell whether it got the right field.
    pub fn field_for_key(&mut self, key: &Key) -> &[u8] {
        let sum = key_sum(&mut self.key_bytes, key);
        for stamp in stamps(&mut self.bytes) {
            stamp[..16].copy_from_slice(&sum);
        }
        &self.bytes
    }

    /// Verifies that `found` is the field of `key`, of any seed.
    pub fn check(&mut self, key: &Key, found: &[u8]) -> Result<()> {
        let (count, archived) = (found.len(), self.bytes.len());
        ensure_intact(count == archived, || {
            format!("{key}: {count} bytes, but {archived} were archived")
        })?;
        let mut right = [0; STAMP_BYTES];
        right[..16].copy_from_slice(&key_sum(&mut self.key_bytes, key));
        right[16..].copy_from_slice(&content_sum(found));
        let stamped = |page: &[u8]| page.get(..STAMP_BYTES).is_none_or(|stamp| stamp == right);
        let wrong = found.chunks(PAGE_BYTES).position(|page| !stamped(page));
        ensure_intact(wrong.is_none(), || {
            let at = wrong.unwrap_or(0) * PAGE_BYTES;
            format!(
                "{key}: the stamp at byte {at} is not that of its key and content: the data read is not the data archived"
            )
        })
    }
}

/// The stamps at the start of all pages. A last page that is too short for a stamp is skipped.
fn stamps(bytes: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    bytes.chunks_mut(PAGE_BYTES).filter_map(|page| page.get_mut(..STAMP_BYTES))
}

/// MD5 sum of a key's pairs. They are sorted by name first, because stores may return them in another order.
fn key_sum(buffer: &mut Vec<u8>, key: &Key) -> Sum {
    let mut pairs: Vec<_> = key.iter().collect();
    pairs.sort_unstable();
    buffer.clear();
    for (name, value) in pairs {
        buffer.extend([name, "=", value, ","].map(str::as_bytes).concat());
    }
    Md5::digest(buffer.as_slice()).into()
}

/// The sum of the bytes after the stamps. A last page that is too short for a stamp has none.
fn content_sum(bytes: &[u8]) -> Sum {
    let mut sum = Md5::new();
    for page in bytes.chunks(PAGE_BYTES) {
        sum.update(page.get(STAMP_BYTES..).unwrap_or(page));
    }
    sum.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::ErrorKind;

    fn key(step: u32) -> Key {
        Key::parse(&format!("class=rd,step={step}")).unwrap()
    }

    #[test]
    fn field_is_verified_by_its_key() {
        for bytes in [32, 33, 4095, 4096, 4097, 4096 + 31, 4096 + 32, 10_000] {
            let field = Message::new(7, bytes).unwrap().field_for_key(&key(1)).to_vec();
            assert_eq!(field.len() as u64, bytes);
            let mut other = Message::new(8, bytes).unwrap();
            other.check(&key(1), &field).unwrap();
            other.check(&Key::parse("step=1,class=rd").unwrap(), &field).unwrap();
            assert_eq!(other.check(&key(2), &field).unwrap_err().kind(), ErrorKind::Corrupt);
            assert!(other.check(&key(1), &field[1..]).is_err());
        }
    }

    #[test]
    fn bit_flips_in_field_are_detected() {
        let mut message = Message::new(1, 9000).unwrap();
        let field = message.field_for_key(&key(1)).to_vec();
        for at in (0..9000).step_by(7).chain([8191, 8192, 8999]) {
            let mut damaged = field.clone();
            damaged[at] ^= 1 << (at % 8);
            let error = message.check(&key(1), &damaged).unwrap_err();
            assert!(error.message().contains("class=rd,step=1: the stamp at byte"), "{error}");
        }
    }
}
