//! The work of `mdtest` and `ior`: what many processes do with files and directories, on any file system.
//!
//! A [`files::FileSystem`] is where the files are: a folder of the system, or a file system in a container.
//! [`mdtest`] and [`ior`] say what is done; [`worker`] is one process of it.
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

/// Where files are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilePlace {
    /// Below this folder, by the calls of the system.
    Posix {
        /// The folder; it is made where it is missing.
        folder: PathBuf,
    },
    /// In a directory of the file system that a container holds, by the calls of [`dfs`].
    Dfs {
        /// Pool by name, UUID or URL.
        pool: String,
        /// Container in it.
        container: String,
        /// Path of the directory; it is made where it is missing.
        folder: String,
    },
}

/// Refuses bytes that are not those that were written.
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
        "{path}: byte {offset} is {found:#04x} and was written as {written:#04x}: the data is not what was written"
    );
    Error::new(ErrorKind::Corrupt, message)
}

/// A process of either benchmark: its number, its files, and the data that belongs in them.
struct Process {
    files: Box<dyn FileSystem>,
    rank: u32,
    payload: Payload,
    buffer: Buffer,
    procs: u32,
    seed: u64,
}

impl Process {
    /// That of a job which writes and reads at most `bytes` at once.
    fn new(job: &Job, bytes: u64) -> Result<Self> {
        Ok(Self {
            files: files::open(&job.place)?,
            rank: job.rank,
            payload: Payload::new(job.seed, bytes)?,
            buffer: Buffer::new(bytes)?,
            procs: job.procs.max(1),
            seed: job.seed,
        })
    }

    /// How many there are.
    fn procs(&self) -> u32 {
        self.procs
    }

    /// The process so many numbers on.
    fn neighbour(&self, on: u64) -> u32 {
        ((u64::from(self.rank) + on) % u64::from(self.procs)) as u32
    }

    /// The numbers below `count` in an order that follows from the seed and from `who`.
    fn shuffled(&self, count: u64, who: u32) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        fastrand::Rng::with_seed(self.seed ^ u64::from(who)).shuffle(&mut numbers);
        numbers
    }
}
