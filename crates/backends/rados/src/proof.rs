//! What a transaction has read: a thing in Ceph, and what was there. Compared at the commit.
use esker_types::ops::ReadTokens;

/// Proof of one read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// Name of the RADOS object that was read.
    pub(super) thing: String,
    /// Key in its map; empty for all of it.
    pub(super) part: Vec<u8>,
    /// What was there.
    pub(super) seen: Vec<u8>,
}

impl Proof {
    /// As a token: the lengths of the name and of the key (4 bytes each, little-endian), then all three.
    pub(super) fn add_to(&self, tokens: &ReadTokens) {
        let lengths = [self.thing.len(), self.part.len()].map(|len| (len as u32).to_le_bytes());
        let parts = [self.thing.as_bytes(), &self.part, &self.seen];
        tokens.add(&[lengths.as_flattened(), &parts.concat()].concat());
    }

    fn of(token: &[u8]) -> Option<Self> {
        let (thing, rest) = token.split_first_chunk::<4>()?;
        let (part, rest) = rest.split_first_chunk::<4>()?;
        let (thing, rest) = rest.split_at_checked(u32::from_le_bytes(*thing) as usize)?;
        let (part, seen) = rest.split_at_checked(u32::from_le_bytes(*part) as usize)?;
        let thing = String::from_utf8(thing.to_vec()).ok()?;
        Some(Self { thing, part: part.to_vec(), seen: seen.to_vec() })
    }

    /// All proofs of a transaction; `None` where a token is none of this backend.
    pub(super) fn all(tokens: &ReadTokens) -> Option<Vec<Self>> {
        tokens.map(Self::of).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proofs_come_back_from_tokens() {
        let proof = |thing: &str, part: &[u8], seen: &[u8]| Proof {
            thing: thing.to_owned(),
            part: part.to_vec(),
            seen: seen.to_vec(),
        };
        let proofs = [proof("a thing", b"key", b"seen"), proof("b", b"", b"")];
        let tokens = ReadTokens::default();
        proofs.iter().for_each(|proof| proof.add_to(&tokens));
        assert_eq!(Proof::all(&tokens).unwrap(), proofs);
        tokens.add(b"cut");
        assert_eq!(Proof::all(&tokens), None);
    }
}
