//! The data of a benchmark: chunks of an Array, or keys of a Key-Value.
use super::Case;
use crate::errors::ensure_intact;
use crate::job::{Kind, Slot};
use esker::types::ops::{Cond, Sink, Source};
use esker::{Access, Array, ArrayAttributes, Container, Kv};
use esker_types::{Extent, ObjectClass, ObjectType, Result};

/// An object of one process and round.
pub(super) enum Object {
    Array(Array, u64),
    Kv(Kv),
}

impl Object {
    /// The object of a process in a round. It need not exist.
    pub(super) fn for_round(
        container: &Container,
        case: Case,
        rank: u32,
        round: u32,
    ) -> Result<Self> {
        let number = Slot { rank, round, op: 0 }.number();
        let oid =
            |upper, otype, class| container.generate_oid(upper, number, otype, Some(class), 0);
        Ok(match case.kind {
            Kind::Array => {
                let chunk_size = case.size_bytes.max(1);
                let attributes = ArrayAttributes { cell_size: 1, chunk_size };
                let oid = oid(1, ObjectType::ArrayByte, ObjectClass::SX)?;
                Self::Array(container.open_array_with_attributes(oid, attributes)?, chunk_size)
            }
            Kind::Kv => Self::Kv(container.kv(oid(0, ObjectType::KvHashed, ObjectClass::SX)?)?),
        })
    }

    pub(super) async fn write(&self, slot: Slot, block: &[u8]) -> Result<()> {
        match self {
            Self::Array(array, chunk) => {
                let range = [Extent::new(slot.op * chunk, block.len() as u64)];
                array.write(&range, Source::One(block), Access::Latest).await
            }
            Self::Kv(kv) => kv.put(&slot.key(), block, Cond::NONE, Access::Latest).await,
        }
    }

    pub(super) async fn read(&self, slot: Slot, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        let found = match self {
            Self::Array(array, chunk) => {
                let range = [Extent::new(slot.op * chunk, len)];
                let read = array.read(&range, Sink::One(buffer), Access::Latest).await?;
                len - read.short_bytes
            }
            Self::Kv(kv) => kv.read(&slot.key(), Sink::One(buffer), Access::Latest).await?,
        };
        ensure_intact(found == len, || {
            format!("the data stored for {slot:?} has {found} bytes of {len}")
        })
    }

    pub(super) async fn destroy(&self) -> Result<()> {
        match self {
            Self::Array(array, _) => array.destroy(Access::Latest).await,
            Self::Kv(kv) => kv.destroy(Access::Latest).await,
        }
    }
}
