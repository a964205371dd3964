//! File operations of the benchmarks, on any kind of file system.
use super::FileLocation;
use super::mounted::Mounted;
use super::plain::Plain;
use esker_types::Result;

/// The use of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// Create the file if it is missing, and write it.
    Create,
    /// Read an existing file.
    Read,
}

/// A tree of files. Paths are relative to its root, with one slash between names.
pub(super) trait FileSystem {
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
pub(super) trait OpenFile {
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
pub(super) fn open(location: &FileLocation) -> Result<Box<dyn FileSystem>> {
    match location {
        FileLocation::Posix { folder } => Ok(Box::new(Plain::new(folder)?)),
        FileLocation::Dfs { pool, container, folder } => {
            Ok(Box::new(Mounted::new(pool, container, folder)?))
        }
    }
}
