//! The targets of an Esker pool: index, segments, snapshots, transactions, collection, scrub.
//!
//! A pool is a directory; its targets are shards, each an LMDB index and a file of segments. Any number
//! of processes work on them directly. `ARCHITECTURE.md` gives the tour, `docs/format.md` the bytes.
#![deny(unsafe_code)]

mod catalog;
mod check;
mod commit;
mod control;
mod copies;
mod cut;
mod data;
mod doomed;
mod holds;
mod huge;
mod inherited;
mod io;
mod keys;
mod lending;
#[cfg(test)]
mod noise;
mod pages;
mod parking;
mod pool;
mod record;
mod salvage;
mod segment;
mod snapshots;
mod superblock;
mod sync;
mod target;
#[cfg(test)]
mod tests;
mod wait;
mod walk;

pub use catalog::{Container, ContainerSpec};
pub use check::{CheckReport, Progress, ScrubReport};
pub use huge::HugePages;
pub use inherited::{PRESENCE, lock_file};
pub use io::huge::has_huge_pages;
pub use io::pin::Mapped;
pub use io::sys::group_id;
pub use pool::{Pool, PoolSpec, State, vouch_for_all};
pub use salvage::{Losses, Salvage, Salvaged, SalvagedContainer, SalvagedValue};
pub use superblock::{Access, FORMAT_VERSION, LOCKS, Superblock};
pub use target::Target;
