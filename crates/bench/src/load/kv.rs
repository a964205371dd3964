//! One key for each operation, in a Key-Value of the process.
use super::{KeyValues, Load, missing, wrong_length};
use crate::job::{Index, Job, Slot};
use esker::types::ops::{Cond, Sink};
use esker::{Access, Container, Kv, Wait};
use esker_types::{ObjectClass, Result};

/// Keys and values of all processes.
pub(super) struct Keys(KeyValues);

impl Keys {
    pub(super) fn new(container: Container, class: ObjectClass, job: &Job) -> Result<Self> {
        KeyValues::new(&container, class, Index::Own, job.procs).map(Self)
    }

    fn of(&self, slot: Slot) -> Result<&Kv> {
        self.0.of(slot.rank).ok_or_else(|| missing(slot))
    }
}

impl Load for Keys {
    fn write(&mut self, slot: Slot, block: &[u8]) -> Result<()> {
        self.of(slot)?.put(&slot.key(), block, Cond::NONE, Access::Latest).wait()
    }

    fn read(&mut self, slot: Slot, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        match self.of(slot)?.read(&slot.key(), Sink::One(buffer), Access::Latest).wait()? {
            found if found == len => Ok(()),
            0 => Err(missing(slot)),
            found => Err(wrong_length(slot, found)),
        }
    }

    fn remove(&mut self, slot: Slot) -> Result<()> {
        self.of(slot)?.remove(&slot.key(), Cond::NONE, Access::Latest).wait()
    }
}
