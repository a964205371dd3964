//! The native store of Esker: pools and their targets, with index, segments, commits, snapshots, transactions, space
//! collection, check and scrub.
//!
//! A pool is a directory. Its targets are shards; each has an LMDB index and a data file of segments. Any number of
//! processes work on them directly, without a server. `ARCHITECTURE.md` gives an overview, `docs/format.md` the
//! on-disk format.
#![deny(unsafe_code)]

mod catalog;
mod check;
mod commit;
mod control;
mod data;
mod destroyed;
mod double_open;
mod held_pages;
mod huge;
mod inherited;
mod io;
mod keys;
mod leases;
mod lending;
mod long_keys;
mod pages;
mod pool;
mod read_leases;
mod read_version;
mod record;
mod reserved_pages;
mod salvage;
mod segment;
mod snapshots;
mod superblock;
mod sync;
mod target;
#[cfg(test)]
mod tests;
mod walk;
mod write_buffer;

pub use catalog::{Container, ContainerSpec};
pub use check::{CheckReport, Progress, ScrubReport};
pub use huge::HugePages;
pub use inherited::{PRESENCE, lock_file};
pub use io::huge::has_huge_pages;
pub use io::pin::Mapped;
pub use io::sys::group_id;
pub use pool::{OpenPool, Pool, PoolSpec, record_clean_exit, will_record_exit};
pub use read_leases::READ_LEASE;
pub use read_version::{ReadVersion, compact_reads};
pub use salvage::{Losses, Salvage, Salvaged, SalvagedContainer, SalvagedValue};
pub use superblock::{Access, FORMAT_VERSION, LOCKS, Superblock};
pub use target::Target;
