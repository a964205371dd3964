//! What transactions have read, and whether it was written since.
use esker_types::info::ContainerId;
use esker_types::ops::{ReadMark, ReadMarks};
use esker_types::{Error, ErrorKind, ObjectId, Result};
use std::collections::BTreeMap;

/// What a read depends on. Every write to an object changes all three levels around it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Watched {
    /// Which objects there are.
    Objects,
    /// Everything of an object.
    Object(ObjectId),
    /// A dkey, encoded, with all its akeys.
    Dkey(ObjectId, Vec<u8>),
}

/// A version for everything that was ever read in a transaction.
#[derive(Default)]
pub struct Conflicts {
    slots: BTreeMap<(ContainerId, Watched), u32>,
    versions: Vec<u64>,
}

impl Conflicts {
    /// Notes in `marks` that `watched` was read as it is now.
    pub fn note(&mut self, container: ContainerId, watched: Watched, marks: &ReadMarks) {
        let fresh = self.versions.len() as u32;
        let slot = *self.slots.entry((container, watched)).or_insert(fresh);
        if slot == fresh {
            self.versions.push(0);
        }
        marks.add(ReadMark { shard: 0, slot, version: self.versions[slot as usize] });
    }

    /// Refuses marks of anything that was written since.
    pub fn check(&self, marks: &ReadMarks) -> Result<()> {
        let holds = |mark: &ReadMark| self.versions.get(mark.slot as usize) == Some(&mark.version);
        match marks.to_vec().iter().all(holds) {
            true => Ok(()),
            false => Err(Error::new(
                ErrorKind::TxRestart,
                "something this transaction has read was changed: restart it",
            )),
        }
    }

    /// Tells of a write.
    pub fn changed(&mut self, container: ContainerId, watched: Watched) {
        if let Some(slot) = self.slots.get(&(container, watched)) {
            self.versions[*slot as usize] += 1;
        }
    }

    /// Tells of the punch of an object: all its dkeys change, missing ones too.
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
