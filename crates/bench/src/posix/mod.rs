//! The work of `mdtest` and `ior`: operations of many processes on files and directories of any file system.
//!
//! A [`files::FileSystem`] is a directory of the system or a file system in a container. [`mdtest`] and [`ior`] define
//! the operations; [`worker`] is one process.
mod files;
pub mod ior;
pub mod mdtest;
mod mounted;
mod plain;
pub mod worker;

use self::files::FileSystem;
use self::worker::Job;
use crate::buffer::Buffer;
use crate::payload::Payload;
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The location of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FileLocation {
    /// A directory, by system calls.
    Posix {
        /// The directory; it is created if missing.
        folder: PathBuf,
    },
    /// A directory of the file system in a container, by [`dfs`].
    Dfs {
        /// Pool by name, UUID or URL.
        pool: String,
        /// Container in it.
        container: String,
        /// Path of the directory; it is created if missing.
        folder: String,
    },
}

/// Checks that the bytes read are those written.
fn compare(path: &str, offset: u64, found: &[u8], written: &[u8]) -> Result<()> {
    let differing = found.iter().zip(written).position(|(found, written)| found != written);
    match differing {
        None => Ok(()),
        Some(at) => Err(differs(path, offset + at as u64, written[at], found[at])),
    }
}

#[cold]
fn differs(path: &str, offset: u64, written: u8, found: u8) -> Error {
    let message = format!(
        "{path}: byte {offset} is {found:#04x} and was written as {written:#04x}: the data read is not the data written"
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// A process of either benchmark: its number, files and data.
struct Process {
    files: Box<dyn FileSystem>,
    rank: u32,
    payload: Payload,
    buffer: Buffer,
    procs: u32,
    seed: u64,
}

impl Process {
    /// The process of a job whose transfers have at most `bytes`.
    fn new(job: &Job, bytes: u64) -> Result<Self> {
        Ok(Self {
            files: files::open(&job.location)?,
            rank: job.rank,
            payload: Payload::new(job.seed, bytes)?,
            buffer: Buffer::new(bytes)?,
            procs: job.procs.max(1),
            seed: job.seed,
        })
    }

    /// Number of processes.
    fn procs(&self) -> u32 {
        self.procs
    }

    /// The process `on` ranks after this one, modulo the number of processes.
    fn neighbour(&self, on: u64) -> u32 {
        ((u64::from(self.rank) + on) % u64::from(self.procs)) as u32
    }

    /// The numbers below `count`, shuffled by the seed and `who`.
    fn shuffled(&self, count: u64, who: u32) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        fastrand::Rng::with_seed(self.seed ^ u64::from(who)).shuffle(&mut numbers);
        numbers
    }
}
