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
pub use control::StableHash;
pub use huge::HugePages;
pub use inherited::{PRESENCE, lock_file};
pub use io::folder::open_plain;
pub use io::fork::{ForkGuard, ForkLock, generation};
pub use io::huge::has_huge_pages;
pub use io::pin::Mapped;
pub use io::sys::group_id;
pub use pool::{
    Pool, PoolSpec, State, finish_others, is_unfinished, remove_directory, vouch_for_all,
};
pub use salvage::{Losses, Salvage, Salvaged, SalvagedContainer, SalvagedValue};
pub use superblock::{Access, FORMAT_VERSION, LOCKS, Superblock};
pub use target::Target;

/// Free and total bytes of the file system a directory is on, as its user may fill it.
///
/// # Errors
/// What the file system says.
pub fn space_of(directory: &std::path::Path) -> esker_types::Result<(u64, u64)> {
    let space = std::fs::File::open(directory).and_then(|file| io::sys::space(&file));
    space.map_err(|error| esker_types::Error::io(directory.display(), &error))
}

/// True where the file system a directory is on is mounted for reading only, as this process sees it.
///
/// # Errors
/// What the file system says.
pub fn is_read_only(directory: &std::path::Path) -> esker_types::Result<bool> {
    let read_only = std::fs::File::open(directory).and_then(|file| io::sys::is_read_only(&file));
    read_only.map_err(|error| esker_types::Error::io(directory.display(), &error))
}

/// 16 random bytes from the kernel.
///
/// # Errors
/// Where the kernel gives none.
pub fn random_bytes() -> esker_types::Result<[u8; 16]> {
    io::sys::random_bytes().map_err(|error| esker_types::Error::io("reading random bytes", &error))
}
