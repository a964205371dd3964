//! UUIDs of pools and containers, in the text form of RFC 9562.
use std::fmt;
use uuid::{Builder, fmt::Hyphenated};

/// A 128-bit universally unique id. Its bytes are in the order of its text form, as `uuid_t` of DAOS has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// A version 4 id of 16 random bytes.
    #[must_use]
    pub fn from_random(bytes: [u8; 16]) -> Self {
        Self(Builder::from_random_bytes(bytes).into_uuid().into_bytes())
    }

    /// Reads `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx`, in upper or lower case. Any other form of a UUID gives `None`,
    /// because it may be a label.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        text.parse::<Hyphenated>().ok().map(|id| Self(id.into_uuid().into_bytes()))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(uuid::Uuid::from_bytes_ref(&self.0), f)
    }
}

/// Serialized as text in readable formats, as bytes in others.
#[cfg(feature = "serde")]
mod serialized {
    use super::Uuid;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    impl Serialize for Uuid {
        fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
            if to.is_human_readable() { to.collect_str(self) } else { self.0.serialize(to) }
        }
    }

    impl<'de> Deserialize<'de> for Uuid {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            if !from.is_human_readable() {
                return <[u8; 16]>::deserialize(from).map(Self);
            }
            let text = String::deserialize(from)?;
            Self::parse(&text).ok_or_else(|| D::Error::custom("not a UUID"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_a_uuid_is_parsed_in_any_case() {
        let uuid = Uuid::from_random([0xab; 16]);
        assert_eq!(uuid.to_string(), "abababab-abab-4bab-abab-abababababab");
        assert_eq!(Uuid::parse(&uuid.to_string().to_uppercase()), Some(uuid));
    }

    #[test]
    fn other_forms_are_not_uuids() {
        for text in [
            "abababab-abab-4bab-abab-ababababab",
            "abababab+abab-4bab-abab-abababababab",
            "abababababab4bababababababababab",
            "{abababab-abab-4bab-abab-abababababab}",
            "urn:uuid:abababab-abab-4bab-abab-abababababab",
            "",
        ] {
            assert_eq!(Uuid::parse(text), None, "{text}");
        }
    }
}
