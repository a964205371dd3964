//! The native store of Esker: pools and their targets, with index, segments, commits, snapshots, transactions, space
//! collection, check and scrub.
//!
//! A pool is a directory. Its targets are shards; each has an LMDB index and a data file of segments. Any number of
//! processes work on them directly, without a server. `ARCHITECTURE.md` gives an overview, `docs/format.md` the
//! on-disk format.
#![deny(unsafe_code)]

mod check;
mod commit;
mod data;
mod format;
mod index;
mod io;
mod pool;
mod salvage;
mod shard;
mod shared;
mod sync;
#[cfg(test)]
mod tests;

pub use check::{CheckReport, ScrubReport};
pub use commit::TakeResult;
pub use format::superblock::{Access, FORMAT_VERSION, LOCKS, Superblock};
pub use io::huge::has_huge_pages;
pub use io::pin::Mapped;
pub use io::sys::group_id;
pub use pool::{
    ContainerSpec, HugePages, PRESENCE, Pool, PoolSpec, Progress, lock_file, record_clean_exit,
    will_record_exit,
};
pub use salvage::{Losses, Salvage, Salvaged, SalvagedContainer, SalvagedValue};
pub use shard::Target;
pub use shard::container::Container;
pub use shard::open_pool::OpenPool;
pub use shard::read_leases::READ_LEASE;
pub use shared::read_version::{ReadVersion, compact_reads};
