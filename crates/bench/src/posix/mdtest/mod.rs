//! The work of `mdtest`: items in a tree of directories are created, examined, read and removed.
mod tree;
mod work;

pub use tree::Tree;
pub use work::Worker;

use crate::errors::ensure_valid;
use crate::plan::parse_size;
use esker_types::Result;
use serde::{Deserialize, Serialize};

/// Maximum number of directories of a tree. Their paths are kept in memory.
pub const DIRECTORIES_MAX: u64 = 1 << 20;

/// Maximum number of items of one process.
pub const ITEMS_MAX: u64 = 1 << 32;

/// Maximum size of a file.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// The options, the same for all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Options {
    /// Number of directories and files of each process in the whole tree
    #[arg(short = 'n', value_name = "N", conflicts_with = "items_per_dir")]
    pub items: Option<u64>,
    /// Number of directories and files of each process in each directory of the tree
    #[arg(short = 'I', value_name = "N")]
    pub items_per_dir: Option<u64>,
    /// Use one tree per process
    #[arg(short = 'u')]
    pub unique: bool,
    /// The directories.
    #[command(flatten)]
    pub tree: Tree,
    /// Distance to the process whose items are examined; twice that for reading, three times for
    /// removing
    #[arg(short = 'N', value_name = "N", default_value_t = 0)]
    pub stride: u32,
    /// Bytes written to each new file
    #[arg(short = 'w', value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    pub write_bytes: u64,
    /// Bytes read from each file
    #[arg(short = 'e', value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    pub read_bytes: u64,
    /// Sync each file before closing it
    #[arg(short = 'y')]
    pub sync: bool,
    /// Compare what is read with what was written
    #[arg(short = 'X', long = "verify-read")]
    pub verify: bool,
    /// Examine items in random order
    #[arg(short = 'R')]
    pub random_stat: bool,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
}

/// An operation on items or on the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Create the directory of an iteration.
    TopCreate,
    /// Create the directories of the tree.
    TreeCreate,
    /// Create items.
    Create(Kind),
    /// Examine items.
    Stat(Kind),
    /// List the directories of the tree, each by one process.
    List(Kind),
    /// Open, read and close files.
    Read,
    /// Remove items.
    Remove(Kind),
    /// Remove the directories of the tree.
    TreeRemove,
    /// Remove the directory of an iteration.
    TopRemove,
}

impl Phase {
    /// Name in tables, as in mdtest.
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

    /// The kind of its items; directories if it has none.
    pub fn kind(self) -> Kind {
        match self {
            Self::Create(kind) | Self::Stat(kind) | Self::List(kind) | Self::Remove(kind) => kind,
            Self::Read => Kind::File,
            Self::TopCreate | Self::TreeCreate | Self::TreeRemove | Self::TopRemove => {
                Kind::Directory
            }
        }
    }
}

/// A phase of one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MdtestStep {
    /// Operation of the step.
    pub phase: Phase,
    /// Number of the iteration; 0 warms up.
    pub iteration: u32,
    /// The first item.
    pub first: u64,
    /// The item after the last.
    pub end: u64,
    /// End after this time even if items are left.
    pub seconds: Option<f64>,
}

impl Options {
    /// Items of one process in each directory that has items. Those of -n are divided by the number of directories; as
    /// in mdtest, the remainder is dropped.
    pub fn per_dir(&self) -> u64 {
        let divided = self.items.and_then(|items| items.checked_div(self.item_dirs()));
        self.items_per_dir.or(divided).unwrap_or(0)
    }

    /// Items of one process.
    pub fn items(&self) -> u64 {
        self.per_dir() * self.item_dirs()
    }

    fn item_dirs(&self) -> u64 {
        let directories = self.tree.item_dirs();
        directories.end.saturating_sub(directories.start)
    }

    /// Checks the options.
    pub fn check(&self) -> Result<()> {
        let Tree { depth, branch, .. } = self.tree;
        ensure_valid(
            self.tree.directories().is_some_and(|count| count <= DIRECTORIES_MAX),
            || {
                format!(
                    "a tree of depth -z {depth} and branching factor -b {branch} has more than {DIRECTORIES_MAX} directories: choose smaller values"
                )
            },
        )?;
        ensure_valid((1..=ITEMS_MAX).contains(&self.items()), || {
            format!(
                "each process must have 1 to {ITEMS_MAX} items: give -n or -I (-n is divided by the directories of the tree)"
            )
        })?;
        ensure_valid(self.write_bytes.max(self.read_bytes) <= FILE_BYTES_MAX, || {
            format!("files of -w and -e have at most {FILE_BYTES_MAX} bytes")
        })?;
        ensure_valid(
            !self.verify || self.read_bytes <= self.write_bytes,
            || "-X compares what was written: give -w at least as many bytes as -e",
        )
    }
}
