//! The work of `mdtest` and `ior`: operations of many processes on files and directories of any file system.
//!
//! A `FileSystem` is a directory of the system or a file system in a container. [`mdtest`] and [`ior`] define
//! the operations of one process.
pub mod ior;
pub mod mdtest;
mod mounted;
mod plain;

use self::mounted::Mounted;
use self::plain::Plain;
use crate::buffer::Buffer;
use crate::errors::ensure_intact;
use crate::host::memory_in;
use crate::job::Member;
use crate::measure::Measured;
use crate::payload::Payload;
use esker_types::Result;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The location of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The use of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Create the file if it is missing, and write it.
    Create,
    /// Read an existing file.
    Read,
}

/// A tree of files. Paths are relative to its root, with one slash between names.
trait FileSystem {
    /// Creates a directory.
    fn make_dir(&self, path: &str) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> Result<()>;

    /// Opens a regular file.
    fn open(&self, path: &str, used: Use) -> Result<Box<dyn OpenFile>>;

    /// Reads the attributes of a file or directory. Returns its length in bytes.
    fn stat(&self, path: &str) -> Result<u64>;

    /// Removes a regular file.
    fn remove(&self, path: &str) -> Result<()>;

    /// Reads the names in a directory. Returns their number.
    fn list(&self, path: &str) -> Result<u64>;
}

/// An open file.
trait OpenFile {
    /// Writes all of `data`.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;

    /// Fills `buffer`. A short read is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Syncs the file, as `fsync` does.
    fn sync(&self) -> Result<()>;

    /// Closes it.
    fn close(self: Box<Self>) -> Result<()>;
}

/// Opens the file system at a location.
fn open(location: &FileLocation) -> Result<Box<dyn FileSystem>> {
    match location {
        FileLocation::Posix { folder } => Ok(Box::new(Plain::new(folder)?)),
        FileLocation::Dfs { pool, container, folder } => {
            Ok(Box::new(Mounted::new(pool, container, folder)?))
        }
    }
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
    /// The process of a job whose transfers have at most `bytes`, pinned to its processor.
    fn new<O>(job: &Job<O>, bytes: u64) -> Result<Self> {
        job.member.pin()?;
        Ok(Self {
            member: job.member,
            files: open(&job.location)?,
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

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job<O> {
    /// The process.
    pub member: Member,
    /// Location of its files.
    pub location: FileLocation,
    /// The options of the benchmark.
    pub options: O,
}

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The parts of the phase: one of mdtest; opening, transfers and closing of ior.
    pub parts: Vec<Measured>,
    /// Peak resident memory of the process in bytes, with shared memory.
    pub peak_bytes: u64,
    /// Private memory at the end of the phase in bytes.
    pub own_bytes: u64,
}

impl Done {
    /// The reply of a process: the times of a step's parts, and the memory in bytes that the process uses now and has
    /// used at most.
    pub(super) fn new(parts: Vec<Measured>) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let [peak_bytes, own_bytes] = ["VmHWM", "RssAnon"].map(|name| memory_in(&status, name));
        Self { parts, peak_bytes, own_bytes }
    }
}

#[cfg(test)]
mod tests;
