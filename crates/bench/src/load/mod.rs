//! Workloads: the data of an operation, with functions to store and read it.
mod array;
pub mod files;
mod worker;

pub use worker::Worker;
pub(crate) use worker::missing_store;

use crate::job::{Index, Job, Slot, StoreJob, Workload};
use array::Arrays;
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Sink};
use esker::{Access, Container, Kv, Pool, Wait};
use esker_cli::class_of;
use esker_types::{Error, ErrorKind, ObjectClass, Result};

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

/// The same in an open pool.
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
