//! Workloads: the data of an operation, with functions to store and read it.
pub mod files;
mod worker;

pub use worker::Worker;
pub(crate) use worker::missing_store;

use crate::job::{Index, Job, Slot, StoreJob, Workload};
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Sink, Source};
use esker::{Access, Array, ArrayAttributes, Container, Kv, Pool, Wait};
use esker_cli::class_of;
use esker_types::{Error, ErrorKind, Extent, ObjectClass, ObjectId, ObjectType, Result};

/// One kind of data, stored and read slot by slot.
pub trait Load {
    /// Stores the block of a slot.
    ///
    /// # Errors
    /// Errors of the store.
    fn write(&mut self, slot: Slot, block: &[u8]) -> Result<()>;

    /// Reads the block of a slot into `buffer`, which has its length.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if it does not exist, [`ErrorKind::Corrupt`] if it has another length; errors of the
    /// store.
    fn read(&mut self, slot: Slot, buffer: &mut [u8]) -> Result<()>;

    /// Removes the block of a slot.
    ///
    /// # Errors
    /// Errors of the store.
    fn remove(&mut self, slot: Slot) -> Result<()>;
}

/// Opens the store of a job.
pub fn open(job: &Job, store: &StoreJob) -> Result<Box<dyn Load>> {
    if let Some(url) = files::FilesUrl::parse(&store.pool) {
        return Ok(Box::new(files::Files::new(&url, &store.container, job.member.procs)?));
    }
    let pool = Pool::connect(&store.pool, OpenMode::ReadWrite)?;
    load_in(&pool, job, store)
}

/// Opens the store of a job in an open pool.
pub fn load_in(pool: &Pool, job: &Job, store: &StoreJob) -> Result<Box<dyn Load>> {
    let container = pool.open_container(&store.container, OpenMode::ReadWrite).wait()?;
    let class = class_of(&store.class)?;
    Ok(match store.workload {
        Workload::Array(index) => Box::new(Arrays::new(container, class, index, job)?),
        Workload::Kv => Box::new(KeyValues::new(&container, class, Index::Own, job.member.procs)?),
    })
}

/// Key-Values: one per process, or one for all.
struct KeyValues(Vec<Kv>);

impl KeyValues {
    fn new(container: &Container, class: ObjectClass, index: Index, procs: u32) -> Result<Self> {
        let count = match index {
            Index::None => 0,
            Index::Own => procs,
            Index::Shared => 1,
        };
        let kv = |rank| {
            let otype = esker_types::ObjectType::KvHashed;
            let oid = container.generate_oid(0, u64::from(rank), otype, Some(class), 0)?;
            container.kv(oid)
        };
        (0..count).map(kv).collect::<Result<_>>().map(Self)
    }

    /// The Key-Value of process `rank`: its own or the shared one. `None` if there is no index.
    fn kv_for_rank(&self, rank: u32) -> Option<&Kv> {
        self.0.get(rank as usize).or(self.0.last())
    }

    fn kv_of(&self, slot: Slot) -> Result<&Kv> {
        self.kv_for_rank(slot.rank).ok_or_else(|| missing_data_error(slot))
    }
}

#[cold]
fn missing_data_error(slot: Slot) -> Error {
    Error::new(ErrorKind::NotFound, format!("the data stored for {slot:?} is missing"))
}

/// Error for a block of which `found` bytes exist, fewer or more than were written.
#[cold]
fn wrong_length(slot: Slot, found: u64) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the data stored for {slot:?} has {found} bytes"))
}

/// One key per operation, in a Key-Value of the process.
impl Load for KeyValues {
    fn write(&mut self, slot: Slot, block: &[u8]) -> Result<()> {
        self.kv_of(slot)?.put(&slot.key(), block, Cond::NONE, Access::Latest).wait()
    }

    fn read(&mut self, slot: Slot, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        match self.kv_of(slot)?.read(&slot.key(), Sink::One(buffer), Access::Latest).wait()? {
            found if found == len => Ok(()),
            0 => Err(missing_data_error(slot)),
            found => Err(wrong_length(slot, found)),
        }
    }

    fn remove(&mut self, slot: Slot) -> Result<()> {
        self.kv_of(slot)?.remove(&slot.key(), Cond::NONE, Access::Latest).wait()
    }
}

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

    /// Object id of the Array of a slot. Arrays have 1 in their upper user bits, Key-Values 0.
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

/// Value of an index entry: the object and its length.
fn entry(oid: ObjectId, len: u64) -> [u8; ENTRY_BYTES] {
    let mut entry = [0; ENTRY_BYTES];
    entry[..16].copy_from_slice(&oid.to_bytes());
    entry[16..].copy_from_slice(&len.to_le_bytes());
    entry
}

/// Finds the Array of a block in the index. Returns its object id and its length in bytes.
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
