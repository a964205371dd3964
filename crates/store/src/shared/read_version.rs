//! Versions of a target that a transaction has read.
use super::control::CONFLICT_SLOTS;
use esker_types::ops::ReadTokens;
use esker_types::{Error, ErrorKind, Result};
use std::collections::BTreeMap;

/// Version of a target: the id of its last commit (48 bits), and the number of words of puts in its write buffer on top
/// of that commit (16 bits). Each change has a later version than all changes before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) u64);

/// Number of bits of a version that count words of the write buffer.
const BUFFER_BITS: u32 = 16;

impl Version {
    /// Version of the state after commit `transaction`, with `buffered` words of puts in the write buffer on top of it.
    pub(crate) fn new(transaction: u64, buffered: usize) -> Self {
        Self(transaction << BUFFER_BITS | buffered as u64)
    }

    /// Version of the state right after commit `transaction`, without puts in the write buffer.
    pub(crate) fn committed(transaction: u64) -> Self {
        Self::new(transaction, 0)
    }
}

/// A slot of a target's conflict table, and the version of the index that a read saw. A transaction cannot commit if
/// the slot has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadVersion {
    /// Number of the target.
    pub target: u32,
    /// Slot of the conflict table.
    pub(crate) slot: u32,
    /// Version of the index.
    pub(crate) version: u64,
}

impl ReadVersion {
    /// Encodes a token: target and slot (4 bytes each), version (8 bytes), all little-endian.
    pub(crate) fn to_token(self) -> [u8; 16] {
        let mut token = [0; 16];
        token[..4].copy_from_slice(&self.target.to_le_bytes());
        token[4..8].copy_from_slice(&self.slot.to_le_bytes());
        token[8..].copy_from_slice(&self.version.to_le_bytes());
        token
    }

    /// Parses the read tokens of a pool with `targets` targets. A token of [`TOKEN_BYTES`] bytes stands for many reads.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a token of another pool or backend. [`ErrorKind::Overflow`] for too many reads.
    pub fn parse_tokens(tokens: &ReadTokens, targets: u32) -> Result<Vec<Self>> {
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

    /// Parses a token of one read. Fails if the pool does not have its target or slot.
    fn from_token(token: &[u8], targets: u32) -> Result<Self> {
        let read = || {
            let (target, rest) = token.split_first_chunk()?;
            let (slot, rest) = rest.split_first_chunk()?;
            let version = u64::from_le_bytes(rest.try_into().ok()?);
            let (target, slot) = (u32::from_le_bytes(*target), u32::from_le_bytes(*slot));
            let is_ours = target < targets && (slot as usize) < CONFLICT_SLOTS;
            is_ours.then_some(Self { target, slot, version })
        };
        read().ok_or_else(foreign_token_error)
    }
}

/// Maximum number of reads that the tokens of a transaction may expand to. A few bytes from a peer must not fill the
/// memory.
const READS_MAX: usize = 1 << 22;

/// Error for a token of another pool or backend.
#[cold]
fn foreign_token_error() -> Error {
    Error::new(ErrorKind::Invalid, "the transaction has read another pool: restart it")
}

/// A set of slots of a conflict table, one bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Slots([u64; CONFLICT_SLOTS / 64]);

impl Slots {
    fn add(&mut self, slot: u32) {
        self.0[slot as usize / 64] |= 1 << (slot % 64);
    }

    fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }

    /// Slots of the set, in ascending order.
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

/// Reads of a transaction: the slots on which it depends, by target and version of the index.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Reads(pub(crate) BTreeMap<(u32, u64), Slots>);

/// Number of slots from which on a single token for all of them is shorter.
const FEW_SLOTS: usize = TOKEN_BYTES / 16;

/// Bytes of a token for many reads of one target.
const TOKEN_BYTES: usize = 4 + 8 + CONFLICT_SLOTS / 8;

impl Reads {
    /// Parses the tokens of a pool with `targets` targets. Tokens of reads and of read leases have the same format.
    pub(crate) fn parse_tokens(tokens: &ReadTokens, targets: u32) -> Result<Self> {
        let mut reads = Self::default();
        tokens.map(|token| reads.add(token, targets)).into_iter().collect::<Result<()>>()?;
        Ok(reads)
    }

    /// Adds a token of one slot, or of many slots ([`Reads::to_tokens`]), which is longer.
    fn add(&mut self, token: &[u8], targets: u32) -> Result<()> {
        if token.len() != TOKEN_BYTES {
            let ReadVersion { target, slot, version } = ReadVersion::from_token(token, targets)?;
            self.0.entry((target, version)).or_default().add(slot);
            return Ok(());
        }
        let (target, rest) = token.split_first_chunk().ok_or_else(foreign_token_error)?;
        let (version, slots) = rest.split_first_chunk().ok_or_else(foreign_token_error)?;
        let target = u32::from_le_bytes(*target);
        if target >= targets {
            return Err(foreign_token_error());
        }
        let known = self.0.entry((target, u64::from_le_bytes(*version))).or_default();
        for (word, bytes) in known.0.iter_mut().zip(slots.as_chunks().0) {
            *word |= u64::from_le_bytes(*bytes);
        }
        Ok(())
    }

    /// The single reads of the set.
    fn versions(&self) -> impl Iterator<Item = ReadVersion> {
        let version = |((target, version), slot): ((u32, u64), usize)| ReadVersion {
            target,
            slot: slot as u32,
            version,
        };
        let all = self.0.iter().flat_map(|(read, slots)| slots.iter().map(|slot| (*read, slot)));
        all.map(version)
    }

    /// The newest version in which a target was read; zero if it was not read.
    pub(crate) fn newest(&self, target: u32) -> u64 {
        let of_target = self.0.range((target, 0)..=(target, u64::MAX));
        of_target.last().map_or(0, |((_, version), _)| *version)
    }

    /// A copy with the same slots, in which the version of each slot is the one that `version` returns for its target.
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

    /// Encodes one token for each target and version: target (4 bytes), version (8 bytes), and a bit for each slot, all
    /// little-endian. If there are few slots, one token for each is shorter.
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

/// Returns shorter tokens for the same reads of a pool with `targets` targets.
///
/// # Errors
/// [`ErrorKind::Invalid`] for a token of another pool or backend.
pub fn compact_reads(tokens: &ReadTokens, targets: u32) -> Result<ReadTokens> {
    Ok(Reads::parse_tokens(tokens, targets)?.to_tokens())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(list: &[&[u8]]) -> ReadTokens {
        let tokens = ReadTokens::default();
        list.iter().for_each(|token| tokens.add(token));
        tokens
    }

    #[test]
    fn tokens_round_trip_and_foreign_tokens_are_refused() {
        let read = ReadVersion { target: 1, slot: 4095, version: 1 << 40 };
        let parse = |token: &[u8], targets| ReadVersion::parse_tokens(&tokens(&[token]), targets);
        assert_eq!(parse(&read.to_token(), 2).unwrap(), [read]);
        assert!(parse(&read.to_token(), 1).is_err());
        let wide = ReadVersion { slot: 4096, ..read };
        assert!(parse(&wide.to_token(), 2).is_err());
        assert!(parse(b"short", 2).is_err());
    }

    /// Target 1 has reads of all slots in one version. A few reads remain single tokens.
    #[test]
    fn many_reads_compact_to_one_token_per_target_and_version() {
        let read = |target, slot, version| ReadVersion { target, slot, version };
        let mut reads = vec![read(0, 0, 7), read(0, 63, 7), read(0, 64, 7), read(0, 1, 9)];
        reads.extend((0..4096).map(|slot| read(1, slot, 7)));
        let long: Vec<[u8; 16]> = reads.iter().map(|read| read.to_token()).collect();
        let long = tokens(&long.iter().map(|token| &token[..]).collect::<Vec<_>>());
        let short = compact_reads(&long, 2).unwrap();
        assert_eq!(short.map(<[u8]>::len), [16, 16, 16, 16, TOKEN_BYTES]);
        let sorted = |tokens: &ReadTokens| {
            let mut all = ReadVersion::parse_tokens(tokens, 2).unwrap();
            all.sort_by_key(|read| (read.target, read.version, read.slot));
            all
        };
        assert_eq!(sorted(&short), sorted(&long));
        assert!(ReadVersion::parse_tokens(&short, 1).is_err());
        let again = compact_reads(&short, 2).unwrap();
        assert_eq!(again.map(<[u8]>::to_vec), short.map(<[u8]>::to_vec));
    }
}
