//! The reads of a transaction: what was read in Ceph, and its value. The commit compares it with the current value.
use esker_types::ops::ReadTokens;

/// Proof of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// Name of the RADOS object that was read.
    pub(super) object: String,
    /// Key in its omap; empty for the whole object.
    pub(super) key: Vec<u8>,
    /// The value that was read.
    pub(super) value: Vec<u8>,
}

impl Proof {
    /// Adds it as a token: the lengths of the name and of the key (4 bytes each, little-endian), then all three.
    pub(super) fn add_to(&self, tokens: &ReadTokens) {
        let lengths = [self.object.len(), self.key.len()].map(|len| (len as u32).to_le_bytes());
        let parts = [self.object.as_bytes(), &self.key, &self.value];
        tokens.add(&[lengths.as_flattened(), &parts.concat()].concat());
    }

    /// Decodes a token: the lengths of the object's name and of the key, then both, then the value.
    fn from_token(token: &[u8]) -> Option<Self> {
        let (object, rest) = token.split_first_chunk::<4>()?;
        let (key, rest) = rest.split_first_chunk::<4>()?;
        let (object, rest) = rest.split_at_checked(u32::from_le_bytes(*object) as usize)?;
        let (key, value) = rest.split_at_checked(u32::from_le_bytes(*key) as usize)?;
        let object = String::from_utf8(object.to_vec()).ok()?;
        Some(Self { object, key: key.to_vec(), value: value.to_vec() })
    }

    /// All proofs of a transaction; `None` if a token is not from this backend.
    pub(super) fn all(tokens: &ReadTokens) -> Option<Vec<Self>> {
        tokens.map(Self::from_token).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_round_trip_as_tokens() {
        let proof = |object: &str, key: &[u8], value: &[u8]| Proof {
            object: object.to_owned(),
            key: key.to_vec(),
            value: value.to_vec(),
        };
        let proofs = [proof("a object", b"key", b"value"), proof("b", b"", b"")];
        let tokens = ReadTokens::default();
        proofs.iter().for_each(|proof| proof.add_to(&tokens));
        assert_eq!(Proof::all(&tokens).unwrap(), proofs);
        tokens.add(b"cut");
        assert_eq!(Proof::all(&tokens), None);
    }
}
