//! One Array per operation, optionally with an index in a Key-Value.
use super::{KeyValues, Load, missing_data_error, wrong_length};
use crate::job::{Index, Job, Slot};
use esker::types::ops::{Cond, Sink, Source};
use esker::{Access, Array, ArrayAttributes, Container, Kv, Wait};
use esker_types::{Extent, ObjectClass, ObjectId, ObjectType, Result};

/// An index entry: the id of an Array and its length.
const ENTRY_BYTES: usize = 24;

/// Arrays of bytes in one chunk.
pub(super) struct Arrays {
    container: Container,
    class: ObjectClass,
    indexes: KeyValues,
    attributes: ArrayAttributes,
}

impl Arrays {
    pub(super) fn new(
        container: Container,
        class: ObjectClass,
        index: Index,
        job: &Job,
    ) -> Result<Self> {
        let indexes = KeyValues::new(&container, class, index, job.member.procs)?;
        let attributes = ArrayAttributes { cell_size: 1, chunk_size: job.size_bytes.max(1) };
        Ok(Self { container, class, indexes, attributes })
    }

    /// Arrays have 1 in their upper user bits, Key-Values 0.
    fn oid(&self, slot: Slot) -> Result<ObjectId> {
        let otype = ObjectType::ArrayByte;
        self.container.generate_oid(1, slot.number(), otype, Some(self.class), 0)
    }

    fn array(&self, oid: ObjectId) -> Result<Array> {
        self.container.open_array_with_attributes(oid, self.attributes)
    }
}

impl Load for Arrays {
    fn write(&mut self, slot: Slot, block: &[u8]) -> Result<()> {
        let oid = self.oid(slot)?;
        let len = block.len() as u64;
        let array = self.array(oid)?;
        array.write(&[Extent::new(0, len)], Source::One(block), Access::Latest).wait()?;
        match self.indexes.kv_for_rank(slot.rank) {
            Some(index) => {
                index.put(&slot.key(), &entry(oid, len), Cond::NONE, Access::Latest).wait()
            }
            None => Ok(()),
        }
    }

    fn read(&mut self, slot: Slot, buffer: &mut [u8]) -> Result<()> {
        let (oid, len) = match self.indexes.kv_for_rank(slot.rank) {
            Some(index) => look_up(index, slot)?,
            None => (self.oid(slot)?, buffer.len() as u64),
        };
        if len != buffer.len() as u64 {
            return Err(wrong_length(slot, len));
        }
        let ranges = [Extent::new(0, len)];
        let read = self.array(oid)?.read(&ranges, Sink::One(buffer), Access::Latest).wait()?;
        match read.short_bytes {
            0 => Ok(()),
            _ => Err(missing_data_error(slot)),
        }
    }

    fn remove(&mut self, slot: Slot) -> Result<()> {
        self.array(self.oid(slot)?)?.destroy(Access::Latest).wait()?;
        match self.indexes.kv_for_rank(slot.rank) {
            Some(index) => index.remove(&slot.key(), Cond::NONE, Access::Latest).wait(),
            None => Ok(()),
        }
    }
}

fn entry(oid: ObjectId, len: u64) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..16].copy_from_slice(&oid.to_bytes());
    entry[16..].copy_from_slice(&len.to_le_bytes());
    entry
}

fn look_up(index: &Kv, slot: Slot) -> Result<(ObjectId, u64)> {
    let mut entry = [0; ENTRY_BYTES];
    match index.read(&slot.key(), Sink::One(&mut entry), Access::Latest).wait()? {
        0 => return Err(missing_data_error(slot)),
        len if len != ENTRY_BYTES as u64 => return Err(wrong_length(slot, len)),
        _ => {}
    }
    let (oid, len) = entry.split_at(16);
    let oid = ObjectId::from_bytes(oid.try_into().unwrap_or_default());
    Ok((oid, u64::from_le_bytes(len.try_into().unwrap_or_default())))
}
