//! What a transaction has read of a target.
use crate::control::CONFLICT_SLOTS;
use esker_types::{Error, ErrorKind, Result};

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

    /// What a token of a pool of `targets` targets says.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a token of another pool or backend.
    pub fn from_token(token: &[u8], targets: u32) -> Result<Self> {
        let read = || {
            let (target, rest) = token.split_first_chunk()?;
            let (slot, rest) = rest.split_first_chunk()?;
            let version = u64::from_le_bytes(rest.try_into().ok()?);
            let (target, slot) = (u32::from_le_bytes(*target), u32::from_le_bytes(*slot));
            let is_ours = target < targets && (slot as usize) < CONFLICT_SLOTS;
            is_ours.then_some(Self { target, slot, version })
        };
        read().ok_or_else(|| {
            Error::new(ErrorKind::Invalid, "the transaction has read another pool: restart it")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_and_those_of_others_are_refused() {
        let read = ReadVersion { target: 1, slot: 4095, version: 1 << 40 };
        assert_eq!(ReadVersion::from_token(&read.to_token(), 2).unwrap(), read);
        assert!(ReadVersion::from_token(&read.to_token(), 1).is_err());
        let wide = ReadVersion { slot: 4096, ..read };
        assert!(ReadVersion::from_token(&wide.to_token(), 2).is_err());
        assert!(ReadVersion::from_token(b"short", 2).is_err());
    }
}
