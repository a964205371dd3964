//! The work of `mdtest`: a tree of directories, and in it items that are made, looked at, read and removed.
mod tree;
mod work;

pub use tree::Tree;
pub(super) use work::Session;

use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Most directories of one tree: their paths are kept in memory.
pub const DIRECTORIES_MAX: u64 = 1 << 20;

/// Most items of one process.
pub const ITEMS_MAX: u64 = 1 << 32;

/// Most bytes of one file.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// What is done; the same for all processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Options {
    /// The directories.
    pub tree: Tree,
    /// Items of each process in each directory that has items.
    pub items_per_dir: u64,
    /// A tree for each process in place of one for all.
    pub unique: bool,
    /// Who looks, reads and removes: as many processes on as this, in turn, so that nobody finds what its
    /// own caches hold.
    pub stride: u32,
    /// Bytes written to each new file.
    pub write_bytes: u64,
    /// Bytes read from each file.
    pub read_bytes: u64,
    /// Files are synced before they are closed.
    pub sync: bool,
    /// What is read is compared with what was written.
    pub verify: bool,
    /// Items are looked at in random order.
    pub random_stat: bool,
}

/// What an item is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
}

/// What is done with items, or with the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The directory of an iteration is made.
    TopCreate,
    /// The directories of the tree are made.
    TreeCreate,
    /// Items are made.
    Create(Kind),
    /// Items are looked at.
    Stat(Kind),
    /// The directories of the tree are listed, each by one process.
    List(Kind),
    /// Files are opened, read and closed.
    Read,
    /// Items are removed.
    Remove(Kind),
    /// The directories of the tree are removed.
    TreeRemove,
    /// The directory of an iteration is removed.
    TopRemove,
}

impl Phase {
    /// Its name in tables, which is that of mdtest.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Create(Kind::Directory) => "Directory creation",
            Self::Stat(Kind::Directory) => "Directory stat",
            Self::List(Kind::Directory) => "Directory listing",
            Self::Remove(Kind::Directory) => "Directory removal",
            Self::Create(Kind::File) => "File creation",
            Self::Stat(Kind::File) => "File stat",
            Self::List(Kind::File) => "File listing",
            Self::Read => "File read",
            Self::Remove(Kind::File) => "File removal",
            Self::TopCreate | Self::TreeCreate => "Tree creation",
            Self::TopRemove | Self::TreeRemove => "Tree removal",
        }
    }

    /// What its items are; directories where it has none.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            Self::Create(kind) | Self::Stat(kind) | Self::List(kind) | Self::Remove(kind) => kind,
            Self::Read => Kind::File,
            Self::TopCreate | Self::TreeCreate | Self::TreeRemove | Self::TopRemove => {
                Kind::Directory
            }
        }
    }

    /// Its name in reports: the title in small letters, with a hyphen.
    #[must_use]
    pub fn name(self) -> String {
        self.title().to_lowercase().replace(' ', "-")
    }
}

/// A phase of one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MdtestStep {
    /// What is done.
    pub phase: Phase,
    /// Number of the iteration; 0 warms up.
    pub iteration: u32,
    /// The first item.
    pub first: u64,
    /// The item before which it ends.
    pub end: u64,
    /// Ends after this time even if items are left.
    pub seconds: Option<f64>,
}

impl Options {
    /// Items of one process.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.items_per_dir * self.tree.item_dirs().end.saturating_sub(self.tree.item_dirs().start)
    }

    /// Refuses what cannot be done.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`], naming the option.
    pub fn check(&self) -> Result<()> {
        let refuse = |message: String| Err(Error::new(ErrorKind::Invalid, message));
        if self.tree.directories().is_none_or(|count| count > DIRECTORIES_MAX) {
            return refuse(format!(
                "a tree of depth -z {} and branching factor -b {} has more than {DIRECTORIES_MAX} directories: take less",
                self.tree.depth, self.tree.branch
            ));
        }
        if self.items() == 0 || self.items() > ITEMS_MAX {
            return refuse(format!(
                "each process must have 1 to {ITEMS_MAX} items: give -n or -I (-n is divided by the directories of the tree)"
            ));
        }
        if self.write_bytes.max(self.read_bytes) > FILE_BYTES_MAX {
            return refuse(format!("files of -w and -e have at most {FILE_BYTES_MAX} bytes"));
        }
        match self.verify && self.read_bytes > self.write_bytes {
            true => refuse(
                "-X compares what was written: give -w at least as many bytes as -e".to_owned(),
            ),
            false => Ok(()),
        }
    }
}
