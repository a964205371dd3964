//! The targets of an Esker pool: index, segments, snapshots, transactions, collection, scrub.
//!
//! A pool is a directory; its targets are shards, each an LMDB index and a file of segments. Any number
//! of processes work on them directly. `ARCHITECTURE.md` gives the tour, `docs/format.md` the bytes.
#![deny(unsafe_code)]

mod catalog;
mod check;
mod commit;
mod control;
mod data;
mod doomed;
mod io;
mod keys;
#[cfg(test)]
mod noise;
mod pages;
mod parking;
mod pool;
mod record;
mod segment;
mod snapshots;
mod superblock;
mod target;
mod walk;

pub use catalog::{Container, ContainerSpec, check_label};
pub use check::{CheckReport, Progress, ScrubReport};
pub use control::StableHash;
pub use pool::{Pool, PoolSpec, State};
pub use superblock::{Access, FORMAT_VERSION, Superblock};
pub use target::Target;

/// 16 random bytes from the kernel.
pub(crate) fn random_bytes() -> esker_types::Result<[u8; 16]> {
    io::sys::random_bytes().map_err(|error| esker_types::Error::io("reading random bytes", &error))
}
