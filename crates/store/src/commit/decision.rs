//! Decisions of a node about commits over several nodes that it coordinates.
use crate::format::keys::{Key, Table};
use crate::format::record::{CHECKSUM_LEN, checksum_of};
use crate::index::txn::Txn;
use esker_types::ops::CommitId;
use esker_types::{Epoch, Error, ErrorKind, Result};

/// A commit decision. It is stored until all nodes have followed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    Committed(Epoch),
    /// Aborted on behalf of another node. The client may not know it and may still try to commit.
    Aborted,
}

/// Bytes of a value: epoch and checksum.
const VALUE_LEN: usize = 8 + CHECKSUM_LEN;

/// Key of the decision about a commit.
pub(super) fn decision_key(id: CommitId) -> Key {
    Key::table(Table::Decision).push(&id.0.0)
}

impl Decision {
    /// Encodes the value that is stored under `key`.
    pub(super) fn encode(self, key: &[u8]) -> [u8; VALUE_LEN] {
        let epoch = match self {
            Self::Committed(epoch) => epoch.0.to_le_bytes(),
            Self::Aborted => [0; 8],
        };
        let mut value = [0; VALUE_LEN];
        value[..8].copy_from_slice(&epoch);
        value[8..].copy_from_slice(&checksum_of(key, &epoch));
        value
    }

    /// Decodes the value under `key`. Fails with `Corrupt` if it does not match its checksum.
    pub(super) fn decode(key: &[u8], value: &[u8]) -> Result<Self> {
        let sound = value
            .split_first_chunk::<8>()
            .filter(|(epoch, checksum)| **checksum == checksum_of(key, *epoch));
        match sound.map(|(epoch, _)| u64::from_le_bytes(*epoch)) {
            Some(0) => Ok(Self::Aborted),
            Some(epoch) => Ok(Self::Committed(Epoch(epoch))),
            None => Err(Error::new(
                ErrorKind::Corrupt,
                "a decision about a commit over several nodes is damaged: run `esker pool check --repair`",
            )),
        }
    }

    /// The decision about a commit, if the index contains one.
    pub(super) fn find(txn: &Txn, id: CommitId) -> Result<Option<Self>> {
        let key = decision_key(id);
        txn.get(&key)?.map(|value| Self::decode(&key, value)).transpose()
    }
}

/// True if an entry of table [`Table::Decision`] is undamaged.
pub(crate) fn is_sound_decision(key: &[u8], value: &[u8]) -> bool {
    Decision::decode(key, value).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::Uuid;

    #[test]
    fn decisions_round_trip_and_damage_is_detected() {
        let key = decision_key(CommitId(Uuid([5; 16])));
        for decision in [Decision::Committed(Epoch(1 << 50)), Decision::Aborted] {
            let value = decision.encode(&key);
            assert_eq!(Decision::decode(&key, &value).unwrap(), decision);
            for byte in 0..VALUE_LEN {
                let mut changed = value;
                changed[byte] ^= 1;
                assert!(!is_sound_decision(&key, &changed), "byte {byte}");
            }
            assert!(!is_sound_decision(&decision_key(CommitId(Uuid([6; 16]))), &value));
        }
    }
}
