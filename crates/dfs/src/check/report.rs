//! What a check found.
use super::FINDINGS_MAX;
use esker::types::ObjectId;
use std::fmt;

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// Files.
    pub files: u64,
    /// Directories, the root among them.
    pub directories: u64,
    /// Symbolic links.
    pub links: u64,
    /// Bytes of files, holes too.
    pub bytes: u64,
    /// Damage, the first [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
    /// How much damage there is.
    pub damaged: u64,
    /// Of that, mended.
    pub repaired: u64,
    /// What no entry names, and is no damage.
    pub leftovers: Leftovers,
}

impl CheckReport {
    pub(super) fn add(&mut self, finding: Finding) {
        self.damaged += 1;
        self.repaired += u64::from(finding.repaired);
        if self.findings.len() < FINDINGS_MAX {
            self.findings.push(finding);
        }
    }

    /// True where nothing is damaged, or no longer.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.damaged == self.repaired
    }

    /// Entries seen.
    #[must_use]
    pub fn entries(&self) -> u64 {
        self.files + self.directories + self.links
    }
}

/// Objects that no entry names. Programs that were killed left them, or programs have them open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Contents of files.
    pub files: u64,
    /// Empty directories.
    pub directories: u64,
    /// Of other kinds: not made by the file system.
    pub others: u64,
    /// Bytes of those files, holes too.
    pub bytes: u64,
    /// Objects that were removed.
    pub removed: u64,
}

impl Leftovers {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.files + self.directories + self.others
    }
}

/// A piece of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: a path from the root.
    pub path: Vec<u8>,
    /// What.
    pub trouble: Trouble,
    /// It was mended.
    pub repaired: bool,
}

/// A kind of damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The root directory has no entry.
    NoRoot,
    /// A name that nothing could have been made under.
    Name,
    /// An entry that cannot be read; why.
    Entry(Box<str>),
    /// A directory whose object does not exist, or lost its mark.
    Unmarked,
    /// A directory that cannot be listed; why.
    Listing(Box<str>),
    /// An object that is not of the kind that the entry says.
    WrongObject(ObjectId),
    /// A symbolic link that leads nowhere for its target is not there, or is another.
    NoTarget,
    /// An object that another entry names as well.
    NamedTwice(ObjectId),
    /// A file that cannot be read; why.
    Data(Box<str>),
    /// An extended attribute that cannot be read; why.
    Xattr(Box<str>),
    /// A directory with entries that no entry names.
    Lost(ObjectId),
    /// Content of a file that may have lost its entry by damage.
    LostFile(ObjectId),
}

impl Trouble {
    /// True where an entry may be gone that named something.
    pub(super) fn may_lose_names(&self) -> bool {
        use Trouble::{Entry, Listing, Lost, Name, NoRoot, WrongObject};
        matches!(self, Entry(_) | Listing(_) | Lost(_) | Name | NoRoot | WrongObject(_))
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
