//! The work of `mdtest` and `ior`: operations of many processes on files and directories of any file system.
//!
//! A [`files::FileSystem`] is a directory of the system or a file system in a container. [`mdtest`] and [`ior`] define
//! the operations; [`worker`] is one process.
mod files;
pub mod ior;
pub mod mdtest;
mod mounted;
mod plain;
mod worker;

pub use worker::{Done, Job, Session, Worker};

use self::files::FileSystem;
use crate::buffer::Buffer;
use crate::errors::ensure_intact;
use crate::job::Member;
use crate::payload::Payload;
use esker_types::Result;
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
    ensure_intact(differing.is_none(), || {
        let at = differing.unwrap_or(0);
        let (byte, written, found) = (offset + at as u64, written[at], found[at]);
        format!(
            "{path}: byte {byte} is {found:#04x} and was written as {written:#04x}: the data read is not the data written"
        )
    })
}

/// A process of either benchmark: its number, files and data.
struct Process {
    member: Member,
    files: Box<dyn FileSystem>,
    payload: Payload,
    buffer: Buffer,
}

impl Process {
    /// The process of a job whose transfers have at most `bytes`.
    fn new<O>(job: &Job<O>, bytes: u64) -> Result<Self> {
        Ok(Self {
            member: job.member,
            files: files::open(&job.location)?,
            payload: Payload::new(job.member.seed, bytes)?,
            buffer: Buffer::new(bytes)?,
        })
    }

    /// The numbers below `count`, shuffled by the seed and `rank`.
    fn shuffled(&self, count: u64, rank: u32) -> Vec<u64> {
        let mut numbers: Vec<u64> = (0..count).collect();
        fastrand::Rng::with_seed(self.member.seed ^ u64::from(rank)).shuffle(&mut numbers);
        numbers
    }
}
