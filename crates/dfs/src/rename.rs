//! Renaming entries.
use crate::entry::{self, EntryLocation, FullEntry};
use crate::existing::{Check, Existing};
use crate::inode::{Inode, Kind};
use crate::node::Node;
use crate::orphans;
use crate::xattr::{self, Xattrs};
use esker::types::ops::Cond;
use esker::types::{Error, ErrorKind, Result};
use esker::{Access, Wait};
use std::collections::HashSet;

/// Treatment of an existing entry of the new name (Linux: the flags of `renameat2`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RenameMode {
    /// It is replaced.
    #[default]
    Replace,
    /// The call fails with [`ErrorKind::Exists`].
    NoReplace,
    /// It gets the old name; it must exist.
    Exchange,
}

/// A rename: from a name of a directory to a name of another.
#[derive(Clone, Copy)]
pub struct Rename<'a> {
    /// The directory.
    pub from: &'a Node,
    /// The name in it.
    pub name: &'a [u8],
    /// The directory of the new name.
    pub to: &'a Node,
    /// The new name.
    pub new_name: &'a [u8],
    /// Treatment of an existing entry of the new name.
    pub mode: RenameMode,
}

/// Condition of a rename, and the extended attributes that the file gets.
#[derive(Clone, Copy)]
pub(crate) struct Conditions<'a> {
    pub(crate) xattrs: &'a dyn Fn(&Inode) -> Xattrs,
    pub(crate) check: Check<'a>,
}

/// The result of a rename: the entry that moved, and the one that was replaced or exchanged.
struct Moved {
    inode: Inode,
    other: Option<Inode>,
    /// False for a file that no process had open: the new location of `inode`, or of an exchanged `other`, is not
    /// stored.
    is_located: (bool, bool),
    /// The replaced entry is stored as an orphan, because a process has it open.
    is_orphan: bool,
}

impl Node {
    /// Renames an entry of this directory, within it or to another directory. Atomic: exactly one of the names exists
    /// at any time (POSIX: `rename`; DAOS: `dfs_move`, `dfs_exchange`).
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`]; [`ErrorKind::Exists`] with [`RenameMode::NoReplace`];
    /// [`ErrorKind::NotDirectory`] for a directory over something else, [`ErrorKind::IsDirectory`] the
    /// other way; [`ErrorKind::NotEmpty`] over a directory with entries; [`ErrorKind::Invalid`] for a
    /// directory into itself; [`ErrorKind::Busy`] for `.`, `..` and the root; [`ErrorKind::ReadOnly`].
    pub fn rename(&self, name: &[u8], to: &Self, new_name: &[u8], mode: RenameMode) -> Result<()> {
        let rename = Rename { from: self, name, to, new_name, mode };
        let moved = rename.run()?;
        let Some(moved) = moved else { return Ok(()) };
        rename.note_late_opens(&moved);
        rename.note_done(&moved)
    }

    /// In a transaction that adds an entry to this directory: fails if the directory was removed.
    pub(crate) fn check_not_removed(&self, access: Access<'_>) -> Result<()> {
        if !entry::has_marks(self.fs().container()) {
            return self.check_exists(access);
        }
        if entry::is_marked(&self.directory()?, access)? {
            return Ok(());
        }
        // Other software made the directory without a mark: it exists if its entry does.
        self.stored(access).map(drop)
    }
}

/// Renames files of one file system in one transaction: all of them or none. Each name occurs once.
///
/// # Errors
/// The errors of [`Node::rename`]; [`ErrorKind::Invalid`] if a name occurs twice; [`ErrorKind::IsDirectory`].
pub fn rename_all(renames: &[Rename<'_>]) -> Result<()> {
    let Some(first) = renames.first() else { return Ok(()) };
    check_distinct(renames)?;
    renames.iter().try_for_each(Rename::check)?;
    let moved: Vec<_> = first.from.fs().transact(|access| {
        renames.iter().map(|one| one.attempt_file(access)).collect::<Result<_>>()
    })?;
    let done = renames.iter().zip(moved).map(|(rename, moved)| match moved {
        Some(moved) => {
            rename.note_late_opens(&moved);
            rename.note_done(&moved)
        }
        None => Ok(()),
    });
    // An error does not leave the others undone: their files would keep the replaced content.
    done.fold(Ok(()), Result::and)
}

/// A transaction does not read its own writes, so no rename may depend on another.
fn check_distinct(renames: &[Rename<'_>]) -> Result<()> {
    let mut names = HashSet::new();
    for rename in renames {
        for (dir, name) in [(rename.from, rename.name), (rename.to, rename.new_name)] {
            if !names.insert((dir.oid(), name)) {
                return Err(dir.refusal(name, ErrorKind::Invalid, "is in two renames"));
            }
        }
    }
    Ok(())
}

impl Rename<'_> {
    /// Renames in a transaction. `None` if both names refer to the same object, so that nothing changes.
    fn run(&self) -> Result<Option<Moved>> {
        self.check()?;
        self.from.fs().transact(|access| self.attempt(access, None))
    }

    /// Renames like [`Node::rename`], but only if a condition holds, and stores extended attributes with the entry in
    /// the same transaction. No other process opens the file by its former, temporary name meanwhile.
    pub(crate) fn run_if(&self, with: Conditions<'_>) -> Result<()> {
        self.check()?;
        let moved = self.from.fs().transact(|access| self.attempt(access, Some(with)))?;
        moved.map_or(Ok(()), |moved| self.note_done(&moved))
    }

    /// Refuses a rename that cannot succeed, before the transaction.
    fn check(&self) -> Result<()> {
        self.from.directory()?;
        self.to.directory()?;
        for (dir, name) in [(self.from, self.name), (self.to, self.new_name)] {
            if entry::is_special(name) {
                return Err(dir.refusal(name, ErrorKind::Busy, "cannot be renamed"));
            }
        }
        let source = self.from.find(self.name, self.from.fs().view())?;
        source.ok_or_else(|| self.from.no_entry_error(self.name))?;
        entry::check_name(self.name)?;
        entry::check_name(self.new_name)?;
        self.to.child_depth()?;
        self.from.fs().check_writable()
    }

    /// Moves the entry within a transaction. `None` if both names refer to the same object.
    fn attempt(&self, access: Access<'_>, with: Option<Conditions<'_>>) -> Result<Option<Moved>> {
        let (from, to) = (self.from.directory()?, self.to.directory()?);
        let source = FullEntry::read(&from, self.name, access)?;
        let mut source = source.ok_or_else(|| self.from.no_entry_error(self.name))?;
        let target = FullEntry::read(&to, self.new_name, access)?;
        self.to.check_not_removed(access)?;
        with.map_or(Ok(()), |with| (with.check)(target.as_ref().map(Existing::new)))?;
        match (self.mode, &target) {
            (RenameMode::NoReplace, Some(_)) => {
                return Err(self.to.refusal(self.new_name, ErrorKind::Exists, "exists already"));
            }
            (RenameMode::Exchange, None) => return Err(self.to.no_entry_error(self.new_name)),
            _ => {}
        }
        self.check_descent(&source.inode, self.to, access)?;
        let other = target.as_ref().map(|other| other.inode);
        let is_located = (true, true);
        let mut moved = Moved { inode: source.inode, other, is_located, is_orphan: false };
        if other.is_some_and(|other| other.oid == source.inode.oid) {
            return Ok(None);
        }
        let fs = self.from.fs();
        fs.mounted().stamp(&mut source.inode);
        if let Some(with) = with {
            let xattrs = (with.xattrs)(&source.inode);
            xattr::set_all(&mut source, xattrs)?;
        }
        match (self.mode, target) {
            (RenameMode::Exchange, Some(mut target)) => {
                self.check_descent(&target.inode, self.from, access)?;
                fs.mounted().stamp(&mut target.inode);
                from.punch_dkey(self.name, Cond::NONE, access).wait()?;
                to.punch_dkey(self.new_name, Cond::NONE, access).wait()?;
                target.write(&from, self.name, access)?;
                let place = (self.from, self.name);
                moved.is_located.1 = orphans::store_new_location(fs, &target.inode, place, access)?;
            }
            (_, target) => {
                if let Some(target) = target {
                    self.replace(&source.inode, &target.inode, access)?;
                    moved.is_orphan =
                        orphans::store_if_open(fs, &to, self.new_name, &target.inode, access)?;
                    to.punch_dkey(self.new_name, Cond::NONE, access).wait()?;
                }
                from.punch_dkey(self.name, Cond::NONE, access).wait()?;
            }
        }
        source.write(&to, self.new_name, access)?;
        let place = (self.to, self.new_name);
        moved.is_located.0 = orphans::store_new_location(fs, &source.inode, place, access)?;
        Ok(Some(moved))
    }

    /// One of several renames in a transaction. Refuses directories, since `check_descent` does not see the other
    /// renames.
    fn attempt_file(&self, access: Access<'_>) -> Result<Option<Moved>> {
        let moved = self.attempt(access, None)?;
        if moved.as_ref().is_some_and(|moved| moved.inode.kind == Kind::Directory) {
            return Err(self.from.refusal(self.name, ErrorKind::IsDirectory, "is a directory"));
        }
        Ok(moved)
    }

    /// Refuses to move a directory below itself. The transaction reads the ancestors, so that it conflicts with changes
    /// to them.
    fn check_descent(&self, moving: &Inode, to: &Node, access: Access<'_>) -> Result<()> {
        if moving.kind != Kind::Directory || self.from.oid() == self.to.oid() {
            return Ok(());
        }
        let mut node = to;
        loop {
            if node.oid() == moving.oid {
                return Err(Error::new(
                    ErrorKind::Invalid,
                    format!("{:?} cannot move below itself", String::from_utf8_lossy(self.name)),
                ));
            }
            let Some(parent) = node.parent() else { return Ok(()) };
            // These are the ancestors as of the lookup: if the directory moved since, this fails.
            node.inode_at(&node.location(), access)?.ok_or_else(|| node.gone_error())?;
            node = parent;
        }
    }

    /// Removes the entry that the move replaces.
    fn replace(&self, source: &Inode, target: &Inode, access: Access<'_>) -> Result<()> {
        let refuse = |kind, why| Err(self.to.refusal(self.new_name, kind, why));
        match (source.kind, target.kind) {
            (Kind::Directory, Kind::Directory) => {
                self.to.remove_directory_object(self.new_name, target, access)
            }
            (Kind::Directory, _) => refuse(ErrorKind::NotDirectory, "is not a directory"),
            // Linux refuses this case in the same way.
            (_, Kind::Directory) if self.is_below(target) => {
                refuse(ErrorKind::NotEmpty, "is not empty")
            }
            (_, Kind::Directory) => refuse(ErrorKind::IsDirectory, "is a directory"),
            _ => Ok(()),
        }
    }

    /// True if the moved entry is somewhere inside `dir`.
    fn is_below(&self, dir: &Inode) -> bool {
        std::iter::successors(Some(self.from), |node| node.parent())
            .any(|node| node.oid() == dir.oid)
    }

    /// After the commit: stores the new locations of files that other processes have opened during the rename. After an
    /// error, such a process cannot set attributes of the file, but the rename is done all the same.
    fn note_late_opens(&self, moved: &Moved) {
        let note = |oid, place| {
            let _ = orphans::store_location_if_opened(self.from.fs(), oid, place);
        };
        if !moved.is_located.0 {
            note(moved.inode.oid, (self.to, self.new_name));
        }
        if let (false, Some(other)) = (moved.is_located.1, &moved.other) {
            note(other.oid, (self.from, self.name));
        }
    }

    /// After the commit: updates the caches of this process, and frees the content of a replaced file.
    fn note_done(&self, moved: &Moved) -> Result<()> {
        let mounted = self.from.fs().mounted();
        let location =
            |dir: &Node, name: &[u8]| EntryLocation { dir: dir.oid(), name: name.into() };
        mounted.note_move(&moved.inode, &location(self.to, self.new_name));
        self.from.note_entries_changed();
        if self.from.oid() != self.to.oid() {
            self.to.note_entries_changed();
        }
        match (self.mode, &moved.other) {
            (RenameMode::Exchange, Some(other)) => {
                mounted.note_move(other, &location(self.from, self.name));
                Ok(())
            }
            (_, Some(other)) => self.to.free_content(other, moved.is_orphan),
            (_, None) => Ok(()),
        }
    }
}
