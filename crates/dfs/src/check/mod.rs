//! Checks a file system: all entries from the root, then all objects of the container.
//!
//! If a program dies at any point, the tree stays consistent, and at most leaves objects that no entry names: content
//! of files that were removed while open, and directories that were being created. Such leftovers are invisible and
//! take up space. Any other inconsistency is damage.
//!
//! Others may use the container meanwhile: a finding is checked again before it counts. A repair needs the container
//! open exclusively. Memory is bounded by [`BYTES_PER_ENTRY`] for each entry and each object, the paths of
//! directories that are still to be listed, and the names of damaged entries.
mod entries;
mod objects;
mod report;
mod unnamed;

pub use report::{CheckReport, Finding, Leftovers, Trouble};
pub use unnamed::{Unnamed, treat_unnamed};

use crate::entry;
use crate::inode::{Inode, Kind};
use crate::node::Node;
use crate::orphans;
use crate::superblock::{ROOT_NAME, Roots, Superblock};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, ObjectId, Result};
use esker::{Access, Container, Object, Wait};
use std::collections::HashSet;

/// Approximate bytes of memory that a check needs for each entry and each object.
pub const BYTES_PER_ENTRY: usize = 48;

/// Findings that a report lists; any more are only counted.
pub const FINDINGS_MAX: usize = 1000;

/// Options of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckOptions {
    /// Read the data of all files and verify its checksums.
    pub data: bool,
    /// Repair what can be repaired. The container must be open exclusively.
    pub repair: bool,
    /// A repair removes contents that no entry names, in place of linking them in `/lost+found`. The check cannot tell
    /// the content of a removed file from one whose name is lost without a trace, for example after a salvage.
    pub remove_leftovers: bool,
}

/// Checks the file system of a container. Calls `watch` with the number of entries so far, from time to time.
///
/// With [`CheckOptions::repair`], removes entries that cannot be read and empty leftovers, and sets missing marks. Files
/// with content and directories with entries that have no name go to `/lost+found`, under the id of their object. The
/// content of a file is removed only if the file is known to be removed, or with [`CheckOptions::remove_leftovers`].
///
/// # Errors
/// [`ErrorKind::Invalid`] if the container holds no file system or is to be repaired and not open exclusively; errors
/// of the backend. Data with a wrong checksum is reported among the findings, and the check continues.
pub fn check(
    container: &Container,
    options: CheckOptions,
    watch: &mut dyn FnMut(u64),
) -> Result<CheckReport> {
    if options.repair && container.mode() != OpenMode::Exclusive {
        return Err(not_exclusive());
    }
    let superblock = Superblock::read(container, Access::Latest)?;
    let roots = Roots::from_superblock(container, &superblock)?;
    // Listed before the tree is read, so that objects that are created meanwhile do not seem to lack a name.
    let objects = objects::list(container)?;
    let mut check = Check::new(container, superblock, roots, options, watch);
    check.named.reserve(objects.len());
    check.tree()?;
    check.objects(objects)?;
    check.mend_entries()?;
    Ok(check.report)
}

#[cold]
fn not_exclusive() -> Error {
    Error::new(ErrorKind::Invalid, "a repair needs the container open exclusively")
}

#[cold]
fn not_a_directory_error() -> Error {
    let why = "/lost+found is not a directory, so a repair cannot link objects there: rename it";
    Error::new(ErrorKind::NotDirectory, why)
}

/// A running check.
struct Check<'a> {
    container: &'a Container,
    superblock: Superblock,
    roots: Roots,
    options: CheckOptions,
    /// Objects that an entry names.
    named: HashSet<ObjectId>,
    /// Objects that a second entry names, and its path.
    twice: Vec<(ObjectId, Vec<u8>)>,
    /// The damage found may have removed names.
    names_lost: bool,
    /// Damaged entries that a repair removes at its end: the directory and the name.
    removals: Vec<(ObjectId, Box<[u8]>)>,
    /// Directories whose mark a repair sets at its end.
    unmarked: Vec<ObjectId>,
    /// The directory in which a repair links objects, once it has linked one.
    lost_and_found: Option<Node>,
    report: CheckReport,
    watch: &'a mut dyn FnMut(u64),
}

impl<'a> Check<'a> {
    /// A check that has found nothing yet. It calls `watch` with the number of entries checked so far.
    fn new(
        container: &'a Container,
        superblock: Superblock,
        roots: Roots,
        options: CheckOptions,
        watch: &'a mut dyn FnMut(u64),
    ) -> Self {
        Self {
            container,
            superblock,
            roots,
            options,
            named: HashSet::new(),
            twice: Vec::new(),
            names_lost: false,
            removals: Vec::new(),
            unmarked: Vec::new(),
            lost_and_found: None,
            report: CheckReport::default(),
            watch,
        }
    }
}

impl Check<'_> {
    fn object(&self, oid: ObjectId) -> Object {
        self.container.object(oid)
    }

    /// Checks the tree from the root. If the entry of the root is missing or damaged, a repair restores it first.
    fn tree(&mut self) -> Result<()> {
        let above = self.object(self.roots.superblock);
        let root = match entry::fetch(&above, ROOT_NAME, Access::Latest).wait() {
            Ok(root) => {
                let root = root.filter(|root| root.kind == Kind::Directory);
                // A copy from another pool may have a root with another id: see `with_root`.
                self.roots =
                    root.as_ref().map_or(self.roots, |root| self.roots.with_root(root.oid));
                // Any other id is damage.
                root.filter(|root| root.oid == self.roots.root)
            }
            Err(error) if is_damage(&error) => None,
            Err(error) => return Err(error),
        };
        if self.options.repair {
            self.refuse_other_lost_and_found()?;
        }
        self.named.insert(self.roots.root);
        if root.is_none() {
            self.found(ROOT_NAME, Trouble::NoRoot, Self::mend_root)?;
        }
        self.walk(self.roots.root, b"/")
    }

    /// Refuses a repair if the name of the directory in which it links objects is that of something else.
    fn refuse_other_lost_and_found(&self) -> Result<()> {
        let root = self.object(self.roots.root);
        match entry::fetch(&root, objects::LOST_AND_FOUND, Access::Latest).wait() {
            Ok(Some(found)) if found.kind != Kind::Directory => Err(not_a_directory_error()),
            Err(error) if !is_damage(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Stores a new entry of the root directory. Returns true: that repairs the damage.
    fn mend_root(&mut self) -> Result<bool> {
        let above = self.object(self.roots.superblock);
        let now = crate::Time::now();
        let root = Inode { mode: 0o755, ..Inode::new(Kind::Directory, self.roots.root, now) };
        entry::put(&above, ROOT_NAME, &root, Access::Latest).map(|()| true)
    }

    /// Adds a finding to the report. If the check repairs, calls `mend` first, which returns true if it has repaired
    /// the damage.
    fn found(
        &mut self,
        path: &[u8],
        trouble: Trouble,
        mend: impl FnOnce(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        self.names_lost |= trouble.may_lose_names();
        let repaired = self.options.repair && mend(self)?;
        self.report.add(Finding { path: path.to_vec(), trouble, repaired });
        Ok(())
    }

    /// True for the objects that belong to the file system itself: superblock, root directory, and list of orphans.
    fn is_own(&self, oid: ObjectId) -> Result<bool> {
        let orphans = orphans::object(self.container)?.oid();
        Ok([self.roots.superblock, self.roots.root, orphans].contains(&oid))
    }
}

/// True for errors of data that is corrupted or lost.
fn is_damage(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Corrupt
            | ErrorKind::Checksum
            | ErrorKind::RecordSize
            | ErrorKind::Incompatible
            | ErrorKind::DataLoss
    )
}
