//! Detects whether data that a transaction has read was written since.
use super::tree::encode_dkey;
use esker_types::info::ContainerId;
use esker_types::ops::{ReadTokens, Write, WriteOp};
use esker_types::{Error, ErrorKind, ObjectId, Result};
use std::collections::BTreeMap;

/// The data that a read depends on. Every write to an object changes all three levels that contain it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// The set of existing objects.
    Objects,
    /// Everything in an object.
    Object(ObjectId),
    /// A dkey, encoded, with all its akeys.
    Dkey(ObjectId, Vec<u8>),
}

/// The data that a write changes.
#[derive(Clone, Debug)]
pub struct Written {
    oid: ObjectId,
    /// Encoded; `None` for all dkeys.
    dkey: Option<Vec<u8>>,
}

impl Written {
    /// The data that `write` changes.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for a dkey of another kind.
    pub fn by(write: &Write<'_>) -> Result<Self> {
        let oid = write.oid;
        let dkey = match write.op {
            WriteOp::PunchObject { .. } => None,
            WriteOp::Update { dkey, .. }
            | WriteOp::PunchDkey { dkey, .. }
            | WriteOp::PunchAkeys { dkey, .. } => Some(encode_dkey(oid, dkey)?),
        };
        Ok(Self { oid, dkey })
    }
}

/// Format of a token: a slot (4 bytes) and its version (8 bytes), little-endian.
const TOKEN_BYTES: usize = 12;

/// A version for everything that a transaction has ever read. A write increments the versions of what it changes.
#[derive(Default)]
pub struct Conflicts {
    /// Index in `versions` of each.
    slots: BTreeMap<(ContainerId, Watched), u32>,
    versions: Vec<u64>,
}

impl Conflicts {
    /// Adds a token for the current version of `watched`.
    pub fn note(&mut self, container: ContainerId, watched: Watched, tokens: &ReadTokens) {
        let fresh = self.versions.len() as u32;
        let slot = *self.slots.entry((container, watched)).or_insert(fresh);
        if slot == fresh {
            self.versions.push(0);
        }
        let mut token = [0; TOKEN_BYTES];
        token[..4].copy_from_slice(&slot.to_le_bytes());
        token[4..].copy_from_slice(&self.versions[slot as usize].to_le_bytes());
        tokens.add(&token);
    }

    /// Rejects tokens of data that was written since.
    ///
    /// # Errors
    /// [`ErrorKind::TxRestart`].
    pub fn check(&self, tokens: &ReadTokens) -> Result<()> {
        match tokens.map(|token| self.holds(token)).into_iter().all(|holds| holds) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::TxRestart,
                "data read by this transaction has changed: restart the transaction",
            )),
        }
    }

    /// True if a token shows the current version of its slot: nothing that was read has changed.
    fn holds(&self, token: &[u8]) -> bool {
        let Some((slot, version)) = token.split_first_chunk::<4>() else { return false };
        let known = self.versions.get(u32::from_le_bytes(*slot) as usize);
        known.is_some_and(|known| version == known.to_le_bytes())
    }

    /// Records what a write has changed: the objects of the container, the object, and one dkey of it or all.
    pub fn written(&mut self, container: ContainerId, written: Written) {
        let Written { oid, dkey } = written;
        self.changed(container, Watched::Objects);
        self.changed(container, Watched::Object(oid));
        match dkey {
            None => self.punched(container, oid),
            Some(dkey) => self.changed(container, Watched::Dkey(oid, dkey)),
        }
    }

    /// Increments the version of something that was written, if any transaction has read it.
    pub fn changed(&mut self, container: ContainerId, watched: Watched) {
        if let Some(slot) = self.slots.get(&(container, watched)) {
            self.versions[*slot as usize] += 1;
        }
    }

    /// Records the punch of an object: all its dkeys change, including missing ones.
    pub fn punched(&mut self, container: ContainerId, oid: ObjectId) {
        let first = (container, Watched::Dkey(oid, Vec::new()));
        let of_object = self.slots.range(first..);
        let of_object = of_object.take_while(|((id, watched), _)| {
            *id == container && matches!(watched, Watched::Dkey(other, _) if *other == oid)
        });
        for (_, slot) in of_object {
            self.versions[*slot as usize] += 1;
        }
    }
}
