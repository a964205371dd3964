//! File names of keys: readable if possible, and never outside their directory.
//!
//! Letters, digits, `_-+=:,@`, and dots that are not the first byte stand for themselves; every other byte is encoded
//! as `%` and two upper-case hex digits. Integer keys are 16 lower-case hex digits. A name that would be longer than
//! [`NAME_MAX`] is replaced by `%h` and the 128-bit FNV-1a hash of the key in hex; such a file holds its key. `%`
//! followed by a lower-case letter is not an escape, so names of that form are reserved for this layout.
use esker_types::{KeyKind, Result, key_to_u64};

/// Longest file name of a key. With a suffix (`%lock`) it still fits in 255 bytes.
const NAME_MAX: usize = 200;
/// Prefix of the name of a key that is stored inside its file.
const HASHED: &str = "%h";

/// A key as a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name {
    pub(super) text: String,
    /// The file starts with the key: its length (u32, little-endian) and its bytes.
    pub(super) hashed: bool,
}

/// Information of a file name about its key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// The key that the name contains.
    Key(Vec<u8>),
    /// The key is stored in the file.
    Inside,
}

/// The file name of a key, which must have passed `check_keys`.
pub(super) fn encode(kind: KeyKind, key: &[u8]) -> Result<Name> {
    if kind == KeyKind::Integer {
        return Ok(Name { text: format!("{:016x}", key_to_u64(key)?), hashed: false });
    }
    let text = escape(key);
    Ok(match text.len() {
        0..=NAME_MAX => Name { text, hashed: false },
        _ => Name { text: format!("{HASHED}{:032x}", fnv1a(key)), hashed: true },
    })
}

/// Decodes a name made by [`encode`]; `None` for files that are not keys (locks).
pub(super) fn decode(kind: KeyKind, name: &str) -> Option<Decoded> {
    match kind {
        KeyKind::Integer => {
            let number = u64::from_str_radix(name, 16).ok()?;
            let own = format!("{number:016x}") == name;
            own.then(|| Decoded::Key(number.to_ne_bytes().to_vec()))
        }
        KeyKind::Bytes if is_hashed(name) => Some(Decoded::Inside),
        KeyKind::Bytes => unescape(name).filter(|key| escape(key) == name).map(Decoded::Key),
    }
}

/// True for the name of a file that holds its key.
fn is_hashed(name: &str) -> bool {
    let digits = name.strip_prefix(HASHED);
    digits.is_some_and(|sum| sum.len() == 32 && sum.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Name of the file of a key: letters, digits and some signs as they are, other bytes as `%XX`.
fn escape(key: &[u8]) -> String {
    let mut text = String::with_capacity(key.len());
    for (at, &byte) in key.iter().enumerate() {
        match byte {
            b'.' if at == 0 => text.push_str("%2E"),
            b'.' | b'_' | b'-' | b'+' | b'=' | b':' | b',' | b'@' => text.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => text.push(char::from(byte)),
            _ => text.push_str(&format!("%{byte:02X}")),
        }
    }
    text
}

/// The key in a name that [`escape`] made; `None` for other names.
fn unescape(name: &str) -> Option<Vec<u8>> {
    let mut key = Vec::with_capacity(name.len());
    let mut bytes = name.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => key.push(digit(bytes.next()?)? << 4 | digit(bytes.next()?)?),
            _ => key.push(byte),
        }
    }
    (!key.is_empty()).then_some(key)
}

/// Returns the value of a hexadecimal digit. Only upper-case letters are accepted, so that each name has one form.
fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// The 128-bit FNV-1a hash (RFC 9923).
fn fnv1a(bytes: &[u8]) -> u128 {
    const BASIS: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(BASIS, |sum, byte| (sum ^ u128::from(*byte)).wrapping_mul(PRIME))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(key: &[u8]) -> Name {
        encode(KeyKind::Bytes, key).unwrap()
    }

    #[test]
    fn names_stay_in_their_directory_and_round_trip() {
        let keys: [&[u8]; 10] = [
            b".",
            b"..",
            b"../../etc",
            b"/",
            b"\0",
            b"a\0b",
            b"%2E",
            b"%h00000000000000000000000000000000",
            b"a%lock",
            b"class=od,step=0",
        ];
        for key in keys {
            let name = name(key);
            assert!(!name.hashed && !name.text.contains('/') && !name.text.starts_with('.'));
            assert_eq!(decode(KeyKind::Bytes, &name.text), Some(Decoded::Key(key.to_vec())));
        }
        assert_eq!(name(b"..").text, "%2E.");
        assert_eq!(name(b"class=od,step=0").text, "class=od,step=0");
    }

    #[test]
    fn all_bytes_have_different_names() {
        let names: std::collections::BTreeSet<_> = (0..=255u8).map(|b| name(&[b]).text).collect();
        assert_eq!(names.len(), 256);
        assert!(names.iter().all(|name| name.is_ascii() && name != "." && name != ".."));
    }

    #[test]
    fn long_keys_are_hashed() {
        let long = name(&[b'/'; 1024]);
        assert!(long.hashed && long.text.len() == 34);
        assert_eq!(decode(KeyKind::Bytes, &long.text), Some(Decoded::Inside));
        assert!(!name(&[b'k'; NAME_MAX]).hashed && name(&[b'k'; NAME_MAX + 1]).hashed);
        assert_eq!(fnv1a(b""), 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d);
        assert_eq!(fnv1a(b"a"), 0xd228_cb69_6f1a_8caf_7891_2b70_4e4a_8964);
    }

    #[test]
    fn files_that_are_not_keys_are_recognized() {
        for strange in ["", "a%lock", "%", "%2", "%2e", "%41", ".hidden", "a/b", "%hzz"] {
            assert_eq!(decode(KeyKind::Bytes, strange), None, "{strange}");
        }
        assert_eq!(
            decode(KeyKind::Integer, "00000000000000ff"),
            Some(Decoded::Key(255u64.to_ne_bytes().to_vec()))
        );
        assert_eq!(decode(KeyKind::Integer, "ff"), None);
        assert_eq!(decode(KeyKind::Integer, "00000000000000FF"), None);
    }
}
