//! The report of a check.
use super::FINDINGS_MAX;
use esker::types::ObjectId;
use std::fmt;

/// The report of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Files.
    pub files: u64,
    /// Directories, the root among them.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of files, holes too; at most [`u64::MAX`].
    pub bytes: u64,
    /// The damage found: the first [`FINDINGS_MAX`] findings.
    pub findings: Vec<Finding>,
    /// Number of all findings.
    pub damaged: u64,
    /// Number of repaired findings.
    pub repaired: u64,
    /// Objects that no entry names; not damage.
    pub leftovers: Leftovers,
}

impl CheckReport {
    /// Counts a finding, and keeps the first [`FINDINGS_MAX`].
    pub(super) fn add(&mut self, finding: Finding) {
        self.damaged += 1;
        self.repaired += u64::from(finding.repaired);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// True if nothing is damaged, or everything is repaired.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damaged == self.repaired
    }

    /// Entries checked.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.links
    }
}

/// Objects that no entry names, left by killed programs or still open in running ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Contents of files.
    pub files: u64,
    /// Empty directories.
    pub directories: u64,
    /// Other objects: not made by the file system.
    pub others: u64,
    /// Bytes of those files, holes too; at most [`u64::MAX`].
    pub bytes: u64,
    /// Objects that were removed.
    pub removed: u64,
    /// Contents of files that were linked in `/lost+found`.
    pub linked: u64,
}

impl Leftovers {
    /// Number of leftovers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.files + self.directories + self.others
    }
}

/// A finding: damage at one path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The path from the root.
    pub path: Vec<u8>,
    /// The kind of damage.
    pub trouble: Trouble,
    /// True if it is repaired.
    pub repaired: bool,
}

/// A kind of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The root directory has no entry.
    NoRoot,
    /// An invalid name.
    Name,
    /// An entry that cannot be read, and why.
    Entry(Box<str>),
    /// A directory whose object does not exist, or lost its mark.
    Unmarked,
    /// A directory that cannot be listed, and why.
    Listing(Box<str>),
    /// An object of another kind than its entry says.
    WrongObject(ObjectId),
    /// A symbolic link whose target is missing or damaged.
    NoTarget,
    /// An object that a second entry names.
    NamedTwice(ObjectId),
    /// A file that cannot be read, and why.
    Data(Box<str>),
    /// An extended attribute that cannot be read, and why.
    Xattr(Box<str>),
    /// A directory with entries that no entry names.
    Lost(ObjectId),
    /// Content of a file that may have lost its entry by damage.
    LostFile(ObjectId),
}

impl Trouble {
    /// True if this damage may have removed an entry.
    pub(super) fn may_lose_names(&self) -> bool {
        use Trouble::{Entry, Listing, Lost, Name, NoRoot, Unmarked, WrongObject};
        matches!(self, Entry(_) | Listing(_) | Lost(_) | Name | NoRoot | Unmarked | WrongObject(_))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoRoot => f.write_str("the root directory has no entry"),
            Self::Name => f.write_str("this cannot be the name of an entry"),
            Self::Entry(why) => write!(f, "the entry cannot be read: {why}"),
            Self::Unmarked => f.write_str("the directory does not exist, or has lost its mark"),
            Self::Listing(why) => write!(f, "the directory cannot be listed: {why}"),
            Self::WrongObject(oid) => write!(f, "object {oid} is not of the kind of the entry"),
            Self::NoTarget => f.write_str("the target of the symbolic link is missing or cut"),
            Self::NamedTwice(oid) => write!(f, "another entry names its object {oid} as well"),
            Self::Data(why) => write!(f, "the file cannot be read: {why}"),
            Self::Xattr(why) => write!(f, "an extended attribute cannot be read: {why}"),
            Self::Lost(oid) => write!(f, "no entry names this directory, object {oid}"),
            Self::LostFile(oid) => write!(f, "no entry names this file, object {oid}"),
        }
    }
}
