//! dkeys and akeys: their kinds and the order-preserving encoding of the index.
use crate::{Error, ErrorKind, Result, limits::KEY_MAX};

/// Order of the keys of an object's level (DAOS: from the object's type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Byte strings. DAOS leaves the order of hashed keys open; Esker sorts hashed and lexical keys alike.
    Bytes,
    /// Native 64-bit integers, in numeric order.
    Integer,
}

/// Output of [`encode_key`].
pub trait KeyBuffer {
    /// Appends bytes.
    fn put(&mut self, bytes: &[u8]);
}

impl KeyBuffer for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// End mark of an encoded byte string. It sorts before every other byte that may follow.
const END: [u8; 2] = [0, 0];
/// A zero byte inside an encoded byte string.
const ZERO: [u8; 2] = [0, 0xff];

/// Appends `key` to `out` so that encoded keys compare as the keys do, and no key is a prefix of another.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an empty key or an integer that is not 8 bytes, [`ErrorKind::KeyTooBig`]
/// for more than [`KEY_MAX`] bytes.
pub fn encode_key(kind: KeyKind, key: &[u8], out: &mut impl KeyBuffer) -> Result<()> {
    match kind {
        KeyKind::Integer => out.put(&key_to_u64(key)?.to_be_bytes()),
        KeyKind::Bytes => encode_bytes(key, out)?,
    }
    Ok(())
}

/// Writes a key of bytes so that encoded keys sort as the keys do: each zero byte is escaped, and an end mark follows.
fn encode_bytes(key: &[u8], out: &mut impl KeyBuffer) -> Result<()> {
    check_key_length(key)?;
    if key.contains(&0) {
        for &byte in key {
            match byte {
                0 => out.put(&ZERO),
                _ => out.put(&[byte]),
            }
        }
    } else {
        out.put(key);
    }
    out.put(&END);
    Ok(())
}

/// Checks the length of a key.
///
/// # Errors
/// [`ErrorKind::Invalid`] for an empty one, [`ErrorKind::KeyTooBig`] for more than [`KEY_MAX`] bytes.
pub fn check_key_length(key: &[u8]) -> Result<()> {
    match key.len() {
        0 => Err(Error::new(ErrorKind::Invalid, "a key must have at least one byte")),
        n if n > KEY_MAX => Err(Error::new(
            ErrorKind::KeyTooBig,
            format!("key of {n} bytes: the limit is {KEY_MAX} (KEY_MAX)"),
        )
        .with_needed(KEY_MAX as u64)),
        _ => Ok(()),
    }
}

/// Length of the encoded key at the start of `encoded`, which may continue behind it. `None` if the key is damaged.
#[must_use]
pub fn encoded_len(kind: KeyKind, encoded: &[u8]) -> Option<usize> {
    match kind {
        KeyKind::Integer => (encoded.len() >= 8).then_some(8),
        KeyKind::Bytes => bytes_len(encoded),
    }
}

/// Length of the encoded byte string at the start of `encoded`. It ends with two zeros; a zero in it is followed by
/// another byte.
fn bytes_len(encoded: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let zero = at + encoded.get(at..)?.iter().position(|&byte| byte == 0)?;
        match encoded.get(zero + 1)? {
            0 => return Some(zero + 2),
            _ => at = zero + 2,
        }
    }
}

/// Decodes a key of [`encode_key`]; `None` if it is damaged.
#[must_use]
pub fn decode_key(kind: KeyKind, encoded: &[u8]) -> Option<Vec<u8>> {
    match kind {
        KeyKind::Integer => {
            let number = u64::from_be_bytes(encoded.try_into().ok()?);
            Some(number.to_ne_bytes().to_vec())
        }
        KeyKind::Bytes => decode_bytes(encoded),
    }
}

/// Decodes a key of [`encode_bytes`]; `None` if it is damaged.
fn decode_bytes(encoded: &[u8]) -> Option<Vec<u8>> {
    let body = encoded.strip_suffix(&END)?;
    let mut key = Vec::with_capacity(body.len());
    let mut bytes = body.iter();
    while let Some(&byte) = bytes.next() {
        // A zero byte is escaped by a byte of ones.
        if byte == 0 && bytes.next() != Some(&0xff) {
            return None;
        }
        key.push(byte);
    }
    Some(key)
}

/// The value of an integer key, which DAOS passes as 8 bytes in native byte order.
pub fn key_to_u64(key: &[u8]) -> Result<u64> {
    let bytes = key.try_into().map_err(|_| {
        Error::new(
            ErrorKind::Invalid,
            format!("integer key of {} bytes: it must have 8", key.len()),
        )
    })?;
    Ok(u64::from_ne_bytes(bytes))
}

/// A list of keys in one allocation, as listings return it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(
    feature = "serde",
    derive(serde::Serialize, serde::Deserialize),
    serde(try_from = "encoded::Unchecked")
)]
pub struct KeyBatch {
    /// All keys, one after the other.
    bytes: Vec<u8>,
    /// Offset in `bytes` of the end of each key.
    ends: Vec<usize>,
}

/// Keys as another node has sent them.
#[cfg(feature = "serde")]
mod encoded {
    use super::KeyBatch;

    /// Keys that were received, before their ends are checked.
    #[derive(serde::Deserialize)]
    pub(super) struct Unchecked {
        bytes: Vec<u8>,
        ends: Vec<usize>,
    }

    impl TryFrom<Unchecked> for KeyBatch {
        type Error = &'static str;

        fn try_from(sent: Unchecked) -> Result<Self, Self::Error> {
            let Unchecked { bytes, ends } = sent;
            match ends.is_sorted() && ends.last().copied().unwrap_or(0) == bytes.len() {
                true => Ok(Self { bytes, ends }),
                false => Err("keys that are not where they should be"),
            }
        }
    }
}

impl KeyBatch {
    /// Appends a key.
    pub fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    /// Number of keys.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True if there are no keys.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Bytes of all keys together.
    #[must_use]
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
    }

    /// The keys in order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.bytes[start..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key as [`encode_key`] encodes it.
    fn encoded(kind: KeyKind, key: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encode_key(kind, key, &mut out).unwrap();
        out
    }

    #[test]
    fn encoding_keeps_the_order_and_comes_back() {
        let keys: [&[u8]; 7] = [b"\0", b"\0\0", b"\0\x01", b"a", b"a\0", b"a\0b", b"ab"];
        let all: Vec<_> = keys.iter().map(|key| encoded(KeyKind::Bytes, key)).collect();
        assert!(all.is_sorted());
        for (key, enc) in keys.iter().zip(&all) {
            assert_eq!(decode_key(KeyKind::Bytes, enc).as_deref(), Some(*key));
            let mut longer = enc.clone();
            longer.extend_from_slice(b"rest\0\0");
            assert_eq!(encoded_len(KeyKind::Bytes, &longer), Some(enc.len()));
        }
    }

    #[test]
    fn integers_sort_as_numbers() {
        let numbers = [0u64, 1, 255, 256, 1 << 40, u64::MAX];
        let all: Vec<_> =
            numbers.iter().map(|n| encoded(KeyKind::Integer, &n.to_ne_bytes())).collect();
        assert!(all.is_sorted());
        assert_eq!(decode_key(KeyKind::Integer, &all[3]), Some(256u64.to_ne_bytes().to_vec()));
    }

    #[test]
    fn bad_keys_are_refused() {
        let mut out = Vec::new();
        assert_eq!(
            encode_key(KeyKind::Bytes, b"", &mut out).unwrap_err().kind(),
            ErrorKind::Invalid
        );
        let long = vec![b'k'; KEY_MAX + 1];
        let error = encode_key(KeyKind::Bytes, &long, &mut out).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::KeyTooBig);
        assert!(encode_key(KeyKind::Integer, b"abc", &mut out).is_err());
        assert_eq!(decode_key(KeyKind::Bytes, b"a\0"), None);
        assert_eq!(decode_key(KeyKind::Bytes, b"a\0\x01\0\0"), None);
        assert_eq!(encoded_len(KeyKind::Bytes, b"abc"), None);
    }
}
