//! What a transaction has read of a target.
use super::control::CONFLICT_SLOTS;
use esker_types::ops::ReadTokens;
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Version of a target: the id of its last commit (48 bits), and the number of words of puts in its write buffer on top of
/// that (16 bits). Each change has a later version than everything before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u64);

/// Bits of a version that count words of the write buffer.
const BUFFER_BITS: u32 = 16;

impl Version {
    /// Version of a state of the index with `buffered` words of puts on top of it.
    pub(crate) fn new(transaction: u64, buffered: usize) -> Self {
        Self(transaction << BUFFER_BITS | buffered as u64)
    }

    /// Version of a commit.
    pub(crate) fn committed(transaction: u64) -> Self {
        Self::new(transaction, 0)
    }
}

/// A slot of a target's conflict table, and the version of the index that a read saw. The commit of a transaction is
/// refused where the slot has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadVersion {
    /// Number of the target.
    pub target: u32,
    /// Slot of its conflict table.
    pub(crate) slot: u32,
    /// Version of its index.
    pub(crate) version: u64,
}

impl ReadVersion {
    /// As a token: target and slot (4 bytes each), version (8 bytes), all little-endian.
    pub(crate) fn to_token(self) -> [u8; 16] {
        let mut token = [0; 16];
        token[..4].copy_from_slice(&self.target.to_le_bytes());
        token[4..8].copy_from_slice(&self.slot.to_le_bytes());
        token[8..].copy_from_slice(&self.version.to_le_bytes());
        token
    }

    /// What the tokens of a pool of `targets` targets say.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a token of another pool or backend.
    pub fn of(tokens: &ReadTokens, targets: u32) -> Result<Vec<Self>> {
        let mut all = Vec::new();
        let read = |token: &[u8]| match token.len() {
            TOKEN_BYTES if all.len() > READS_MAX => Err(Error::new(
                ErrorKind::Overflow,
                format!("the transaction depends on more than {READS_MAX} reads (READS_MAX)"),
            )),
            TOKEN_BYTES => {
                let mut reads = Reads::default();
                reads.add(token, targets)?;
                all.extend(reads.versions());
                Ok(())
            }
            _ => Self::from_token(token, targets).map(|read| all.push(read)),
        };
        tokens.map(read).into_iter().collect::<Result<()>>()?;
        Ok(all)
    }

    fn from_token(token: &[u8], targets: u32) -> Result<Self> {
        let read = || {
            let (target, rest) = token.split_first_chunk()?;
            let (slot, rest) = rest.split_first_chunk()?;
            let version = u64::from_le_bytes(rest.try_into().ok()?);
            let (target, slot) = (u32::from_le_bytes(*target), u32::from_le_bytes(*slot));
            let is_ours = target < targets && (slot as usize) < CONFLICT_SLOTS;
            is_ours.then_some(Self { target, slot, version })
        };
        read().ok_or_else(foreign)
    }
}

/// Reads that short tokens of a transaction may stand for: a few bytes of a peer must not take all memory.
const READS_MAX: usize = 1 << 22;

/// The error for a token of another pool or backend.
#[cold]
fn foreign() -> Error {
    Error::new(ErrorKind::Invalid, "the transaction has read another pool: restart it")
}

/// Some slots of a conflict table, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots([u64; CONFLICT_SLOTS / 64]);

impl Slots {
    fn add(&mut self, slot: u32) {
        self.0[slot as usize / 64] |= 1 << (slot % 64);
    }

    fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        let bits = |(number, word): (usize, &u64)| {
            let word = *word;
            (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| number * 64 + bit)
        };
        self.0.iter().enumerate().flat_map(bits)
    }
}

impl Default for Slots {
    fn default() -> Self {
        Self([0; CONFLICT_SLOTS / 64])
    }
}

/// What was read of each target: at which versions of its index, and on which slots it depends.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads(pub(crate) BTreeMap<(u32, u64), Slots>);

/// From so many slots on, one token for all of them is shorter.
const FEW_SLOTS: usize = TOKEN_BYTES / 16;

/// Bytes of a token for many reads of one target.
const TOKEN_BYTES: usize = 4 + 8 + CONFLICT_SLOTS / 8;

impl Reads {
    /// What tokens of a pool of `targets` targets say: those of reads, and those of leases.
    pub(crate) fn of(tokens: &ReadTokens, targets: u32) -> Result<Self> {
        let mut reads = Self::default();
        tokens.map(|token| reads.add(token, targets)).into_iter().collect::<Result<()>>()?;
        Ok(reads)
    }

    fn add(&mut self, token: &[u8], targets: u32) -> Result<()> {
        if token.len() != TOKEN_BYTES {
            let ReadVersion { target, slot, version } = ReadVersion::from_token(token, targets)?;
            self.0.entry((target, version)).or_default().add(slot);
            return Ok(());
        }
        let (target, rest) = token.split_first_chunk().ok_or_else(foreign)?;
        let (version, slots) = rest.split_first_chunk().ok_or_else(foreign)?;
        let target = u32::from_le_bytes(*target);
        if target >= targets {
            return Err(foreign());
        }
        let known = self.0.entry((target, u64::from_le_bytes(*version))).or_default();
        for (word, bytes) in known.0.iter_mut().zip(slots.as_chunks().0) {
            *word |= u64::from_le_bytes(*bytes);
        }
        Ok(())
    }

    fn versions(&self) -> impl Iterator<Item = ReadVersion> {
        let version = |((target, version), slot): ((u32, u64), usize)| ReadVersion {
            target,
            slot: slot as u32,
            version,
        };
        let all = self.0.iter().flat_map(|(read, slots)| slots.iter().map(|slot| (*read, slot)));
        all.map(version)
    }

    /// The same slots in other versions, which `version` finds by the number of a target.
    pub(crate) fn in_versions(&self, version: impl Fn(u32) -> Result<u64>) -> Result<Self> {
        let mut versions = BTreeMap::new();
        let mut moved = Self::default();
        for ((target, _), slots) in &self.0 {
            let version = match versions.get(target) {
                Some(known) => *known,
                None => *versions.entry(*target).or_insert(version(*target)?),
            };
            moved.0.entry((*target, version)).or_default().add_all(slots);
        }
        Ok(moved)
    }

    /// As a token for each target: its number (4 bytes), version (8 bytes), and a bit for each slot, all little-endian. Where
    /// there are few slots, a token for each of them is shorter.
    pub(crate) fn to_tokens(&self) -> ReadTokens {
        let tokens = ReadTokens::default();
        for ((target, version), slots) in &self.0 {
            if slots.iter().count() < FEW_SLOTS {
                let read =
                    |slot| ReadVersion { target: *target, slot: slot as u32, version: *version };
                slots.iter().for_each(|slot| tokens.add(&read(slot).to_token()));
                continue;
            }
            let mut token = Vec::with_capacity(TOKEN_BYTES);
            token.extend_from_slice(&target.to_le_bytes());
            token.extend_from_slice(&version.to_le_bytes());
            slots.0.iter().for_each(|word| token.extend_from_slice(&word.to_le_bytes()));
            tokens.add(&token);
        }
        tokens
    }
}

/// Shorter tokens that stand for the same reads of a pool of `targets` targets.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a token of another pool or backend.
pub fn compact_reads(tokens: &ReadTokens, targets: u32) -> Result<ReadTokens> {
    Ok(Reads::of(tokens, targets)?.to_tokens())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(of: &[&[u8]]) -> ReadTokens {
        let tokens = ReadTokens::default();
        of.iter().for_each(|token| tokens.add(token));
        tokens
    }

    #[test]
    fn tokens_come_back_and_those_of_others_are_refused() {
        let read = ReadVersion { target: 1, slot: 4095, version: 1 << 40 };
        let parse = |token: &[u8], targets| ReadVersion::of(&tokens(&[token]), targets);
        assert_eq!(parse(&read.to_token(), 2).unwrap(), [read]);
        assert!(parse(&read.to_token(), 1).is_err());
        let wide = ReadVersion { slot: 4096, ..read };
        assert!(parse(&wide.to_token(), 2).is_err());
        assert!(parse(b"short", 2).is_err());
    }

    #[test]
    fn tokens_of_many_reads_are_one_for_each_target_and_version() {
        let read = |target, slot, version| ReadVersion { target, slot, version };
        let mut reads = vec![read(0, 0, 7), read(0, 63, 7), read(0, 64, 7), read(0, 1, 9)];
        reads.extend((0..4096).map(|slot| read(1, slot, 7)));
        let long: Vec<[u8; 16]> = reads.iter().map(|read| read.to_token()).collect();
        let long = tokens(&long.iter().map(|token| &token[..]).collect::<Vec<_>>());
        let short = compact_reads(&long, 2).unwrap();
        assert_eq!(short.map(<[u8]>::len), [16, 16, 16, 16, TOKEN_BYTES]);
        let sorted = |tokens: &ReadTokens| {
            let mut all = ReadVersion::of(tokens, 2).unwrap();
            all.sort_by_key(|read| (read.target, read.version, read.slot));
            all
        };
        assert_eq!(sorted(&short), sorted(&long));
        assert!(ReadVersion::of(&short, 1).is_err());
        let again = compact_reads(&short, 2).unwrap();
        assert_eq!(again.map(<[u8]>::to_vec), short.map(<[u8]>::to_vec));
    }
}
