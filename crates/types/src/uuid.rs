//! UUIDs of pools and containers, in the text form of RFC 9562.
use std::fmt;

/// A 128-bit universally unique id, bytes in the order of its text form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A version 4 id made of 16 random bytes.
    #[must_use]
    pub fn from_random(mut bytes: [u8; 16]) -> Self {
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        Self(bytes)
    }

    /// Reads `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, in either case; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let text = text.as_bytes();
        if text.len() != 36 {
            return None;
        }
        let mut bytes = [0; 16];
        let mut at = 0;
        for byte in &mut bytes {
            if matches!(at, 8 | 13 | 18 | 23) {
                (text[at] == b'-').then_some(())?;
                at += 1;
            }
            *byte = hex(text[at])? << 4 | hex(text[at + 1])?;
            at += 2;
        }
        Some(Self(bytes))
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            if matches!(index, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_comes_back() {
        let uuid = Uuid::from_random([0xab; 16]);
        assert_eq!(uuid.to_string(), "abababab-abab-4bab-abab-abababababab");
        assert_eq!(Uuid::parse(&uuid.to_string().to_uppercase()), Some(uuid));
        assert_eq!(Uuid::parse("abababab-abab-4bab-abab-ababababab"), None);
        assert_eq!(Uuid::parse("abababab+abab-4bab-abab-abababababab"), None);
    }
}
