//! A hash that is part of storage formats: it places dkeys on targets, and entries in shared tables.
use std::hash::{BuildHasher, Hasher};

/// A hash that is the same in all processes and releases (FNV-1a over words, finished by mixing).
#[derive(Clone, Copy, Debug, Default)]
pub struct StableHash;

impl BuildHasher for StableHash {
    type Hasher = StableHasher;

    fn build_hasher(&self) -> StableHasher {
        StableHasher(0xcbf2_9ce4_8422_2325)
    }
}

/// State of [`StableHash`].
pub struct StableHasher(u64);

impl StableHasher {
    /// Adds 8 bytes to the state.
    fn mix(&mut self, word: [u8; 8]) {
        let mixed = (self.0 ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

impl Hasher for StableHasher {
    fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks();
        words.iter().for_each(|word| self.mix(*word));
        if !rest.is_empty() {
            let mut word = [0; 8];
            word[..rest.len()].copy_from_slice(rest);
            self.mix(word);
        }
    }

    fn finish(&self) -> u64 {
        let mixed = self.0.wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ mixed >> 33
    }
}
