//! What the benchmarks do with files, whatever keeps them.
use super::FilePlace;
use super::mounted::Mounted;
use super::plain::Plain;
use esker_types::Result;

/// What an open file is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// It is made where it is missing, then written.
    Create,
    /// It is there, and read.
    Read,
}

/// A tree of files. Paths are relative to the place, with one slash between names.
pub(super) trait FileSystem {
    /// Makes a directory.
    fn make_dir(&self, path: &str) -> Result<()>;

    /// Removes an empty directory.
    fn remove_dir(&self, path: &str) -> Result<()>;

    /// Opens a regular file.
    fn open(&self, path: &str, used: Use) -> Result<Box<dyn OpenFile>>;

    /// Asks for everything known of a file or directory; its length in bytes.
    fn stat(&self, path: &str) -> Result<u64>;

    /// Removes a regular file.
    fn remove(&self, path: &str) -> Result<()>;

    /// Reads the names in a directory; how many there are.
    fn list(&self, path: &str) -> Result<u64>;
}

/// An open file.
pub(super) trait OpenFile {
    /// Writes all of `data`.
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()>;

    /// Fills `buffer`; an end of the file before that is an error.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Brings what was written to the medium, as `fsync` does.
    fn sync(&self) -> Result<()>;

    /// Closes it.
    fn close(self: Box<Self>) -> Result<()>;
}

/// The file system of a place.
///
/// # Errors
/// Where it cannot be opened.
pub(super) fn open(place: &FilePlace) -> Result<Box<dyn FileSystem>> {
    match place {
        FilePlace::Posix { folder } => Ok(Box::new(Plain::new(folder)?)),
        FilePlace::Dfs { pool, container, folder } => {
            Ok(Box::new(Mounted::new(pool, container, folder)?))
        }
    }
}
