//! Removing entries.
use crate::attr;
use crate::entry::{self, EntryLocation, FullEntry};
use crate::existing::{Check, Existing};
use crate::inode::{Inode, Kind};
use crate::mount::Mounted;
use crate::node::Node;
use crate::orphans;
use esker::types::ops::Cond;
use esker::types::{Error, ErrorKind, Result};
use esker::{Access, Object, Proof, Wait};

impl Node {
    /// Removes a file or symbolic link from this directory (POSIX: `unlink`). A file that a process of this machine has
    /// open keeps its content until the last close.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::IsDirectory`], [`ErrorKind::ReadOnly`].
    pub fn unlink(&self, name: &[u8]) -> Result<()> {
        if entry::is_special(name) {
            return Err(self.refusal(name, ErrorKind::IsDirectory, "is a directory"));
        }
        if self.take_away(name, None)? {
            return Ok(());
        }
        self.remove(name, |inode, _| self.check_kind(name, inode, false))
    }

    /// Removes a file or symbolic link over nodes without a transaction, if this process knows which object the name
    /// leads to: in one request if one node has entry and content, else in two. Returns false if it changed nothing.
    /// With a proof, only a file that this process has seen is removed, on condition that the proof is valid.
    ///
    /// # Errors
    /// `TxRestart` if the proof is not valid.
    pub(crate) fn take_away(&self, name: &[u8], proof: Option<&Proof>) -> Result<bool> {
        let (dir, mounted) = (self.directory()?, self.fs().mounted());
        if !mounted.rules.has_stripe_marks || self.fs().is_read_only() {
            return Ok(false);
        }
        let known = match proof {
            Some(_) => mounted.entry_hints.inode(&self.location_of(name)),
            None => self.known_entry(name)?,
        };
        let Some(known) = known else { return Ok(false) };
        // The transaction of a removal keeps the entry of a file that is open.
        if known.kind == Kind::Directory
            || proof.is_some() && known.kind != Kind::File
            || mounted.open_files.is_open(known.oid)
        {
            return Ok(false);
        }
        let taken = take(mounted, &dir, name, &known, proof);
        if !matches!(&taken, Err(error) if error.kind() == ErrorKind::TxRestart) {
            mounted.entry_hints.forget(&self.location_of(name));
        }
        let taken = match taken {
            // The name does not lead there any more. Perhaps others moved the file: its content stays.
            Err(error) if error.kind() == ErrorKind::TxUncertain => None,
            Ok(None) => return Ok(false),
            taken => taken?,
        };
        self.note_entries_changed();
        match taken {
            Some((entry, is_freed)) if entry.inode.kind == Kind::File => {
                mounted.note_removal(entry.inode.oid);
                self.free_taken(entry, is_freed)?;
            }
            _ => {}
        }
        Ok(true)
    }

    /// Frees the content of a file whose entry was taken away. `is_freed` is the result of its removal together with
    /// the entry: false if a process has it open, `None` if another node stores it, so that it is removed now.
    fn free_taken(&self, entry: FullEntry, is_freed: Option<Result<bool>>) -> Result<()> {
        let mounted = self.fs().mounted();
        let is_freed = match is_freed {
            Some(is_freed) => is_freed?,
            None if mounted.rules.is_relaxed => {
                self.fs().free_later(entry);
                return Ok(());
            }
            None => attr::content(mounted, &entry.inode)?.remove_unused().wait()?,
        };
        if is_freed { Ok(()) } else { orphans::store_taken(mounted, &entry) }
    }

    /// The inode under a name: as this process last saw it, or read now if it has not seen it.
    fn known_entry(&self, name: &[u8]) -> Result<Option<Inode>> {
        match self.fs().mounted().entry_hints.inode(&self.location_of(name)) {
            None => self.find(name, self.fs().view()),
            known => Ok(known),
        }
    }

    /// Location of an entry of this directory.
    fn location_of(&self, name: &[u8]) -> EntryLocation {
        EntryLocation { dir: self.oid(), name: name.into() }
    }

    /// Removes as [`Node::unlink`], if `check` allows it: the transaction of the removal calls it with the entry.
    ///
    /// # Errors
    /// The errors of [`Node::unlink`], and the error that `check` returns.
    pub fn unlink_if(&self, name: &[u8], check: Check<'_>) -> Result<()> {
        if entry::is_special(name) {
            return self.unlink(name);
        }
        self.remove(name, |inode, access| {
            self.check_removal(name, inode, (false, Some(check)), access)
        })
    }

    /// Fails with `IsDirectory` or `NotDirectory` unless the entry is a directory exactly if `is_directory`.
    pub(crate) fn check_kind(&self, name: &[u8], inode: &Inode, is_directory: bool) -> Result<()> {
        match (inode.kind == Kind::Directory, is_directory) {
            (true, false) => Err(self.refusal(name, ErrorKind::IsDirectory, "is a directory")),
            (false, true) => Err(self.refusal(name, ErrorKind::NotDirectory, "is not a directory")),
            _ => Ok(()),
        }
    }

    /// Removes an empty directory from this one.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], [`ErrorKind::NotDirectory`], [`ErrorKind::NotEmpty`],
    /// [`ErrorKind::ReadOnly`]; [`ErrorKind::Invalid`] for `.`, [`ErrorKind::NotEmpty`] for `..`,
    /// [`ErrorKind::Busy`] for the root (an empty name).
    pub fn rmdir(&self, name: &[u8]) -> Result<()> {
        self.rmdir_if(name, None)
    }

    /// Removes an empty directory as [`Node::rmdir`] does, if the condition on its entry holds.
    pub(crate) fn rmdir_if(&self, name: &[u8], check: Option<Check<'_>>) -> Result<()> {
        let special = match name {
            b"." => Some(ErrorKind::Invalid),
            b".." => Some(ErrorKind::NotEmpty),
            b"" => Some(ErrorKind::Busy),
            _ => None,
        };
        if let Some(kind) = special {
            return Err(self.refusal(name, kind, "cannot be removed"));
        }
        self.remove(name, |inode, access| self.check_removal(name, inode, (true, check), access))
    }

    /// In a transaction: fails unless the entry is a directory exactly if `is_directory`, or if the condition does not
    /// hold.
    pub(crate) fn check_removal(
        &self,
        name: &[u8],
        inode: &Inode,
        (is_directory, check): (bool, Option<Check<'_>>),
        access: Access<'_>,
    ) -> Result<()> {
        self.check_kind(name, inode, is_directory)?;
        let Some(check) = check else { return Ok(()) };
        check(FullEntry::read(&self.directory()?, name, access)?.as_ref().map(Existing::new))
    }

    /// Removes an entry that passes `check`, and its object unless the file is open somewhere.
    fn remove(&self, name: &[u8], check: impl Fn(&Inode, Access<'_>) -> Result<()>) -> Result<()> {
        self.directory()?;
        // In a read-only file system, errors of the entry are reported first, as Linux does.
        if self.fs().is_read_only() {
            let inode =
                self.find(name, self.fs().view())?.ok_or_else(|| self.no_entry_error(name))?;
            check(&inode, self.fs().view())?;
        }
        self.fs().check_writable()?;
        let (inode, is_orphan) = self.fs().transact(|access| {
            let inode = self.find(name, access)?.ok_or_else(|| self.no_entry_error(name))?;
            check(&inode, access)?;
            self.check_empty(name, &inode, access)?;
            Ok((inode, self.remove_checked(name, &inode, access)?))
        })?;
        self.note_entries_changed();
        self.free_content(&inode, is_orphan)
    }

    /// Fails with `NotEmpty` if the entry is a directory with entries.
    pub(crate) fn check_empty(&self, name: &[u8], inode: &Inode, access: Access<'_>) -> Result<()> {
        let is_directory = inode.kind == Kind::Directory;
        if is_directory && !entry::is_empty(&self.fs().container().object(inode.oid), access)? {
            return Err(self.refusal(name, ErrorKind::NotEmpty, "is not empty"));
        }
        Ok(())
    }

    /// In a transaction that has checked the entry: removes it, with the mark of a directory, so that nothing can be
    /// created in the directory any more. Returns true if a process has the file open: then it is stored as an orphan.
    pub(crate) fn remove_checked(
        &self,
        name: &[u8],
        inode: &Inode,
        access: Access<'_>,
    ) -> Result<bool> {
        let dir = self.directory()?;
        if inode.kind == Kind::Directory {
            self.fs().container().object(inode.oid).punch(Cond::NONE, access).wait()?;
        }
        let is_orphan = orphans::store_if_open(self.fs(), &dir, name, inode, access)?;
        dir.punch_dkey(name, Cond::NONE, access).wait()?;
        Ok(is_orphan)
    }

    /// In a transaction: removes the object of a directory that a rename replaces.
    pub(crate) fn remove_directory_object(
        &self,
        name: &[u8],
        inode: &Inode,
        access: Access<'_>,
    ) -> Result<()> {
        self.check_empty(name, inode, access)?;
        self.fs().container().object(inode.oid).punch(Cond::NONE, access).wait()
    }

    /// Frees the content of an entry that lost its name, now or on last close: see [`orphans::abandon`].
    pub(crate) fn free_content(&self, inode: &Inode, is_orphan: bool) -> Result<()> {
        match inode.kind {
            Kind::File => {
                self.fs().mounted().note_removal(inode.oid);
                orphans::abandon(self.fs().mounted(), inode, is_orphan)
            }
            // The object of a directory was removed with its name; a symbolic link has none.
            Kind::Directory | Kind::Symlink => Ok(()),
        }
    }

    /// An error of this kind about an entry of this directory; `why` follows its path in the message.
    #[cold]
    pub(crate) fn refusal(&self, name: &[u8], kind: ErrorKind, why: &str) -> Error {
        Error::new(kind, format!("{} {why}", String::from_utf8_lossy(&self.path_of(name))))
    }
}

/// Removes the entry of a file or symbolic link. For a file, also removes the content in the same request, if one node
/// stores both. The result is that of [`FullEntry::take_with_content`]; a symbolic link has no content.
fn take(
    mounted: &Mounted,
    dir: &Object,
    name: &[u8],
    known: &Inode,
    proof: Option<&Proof>,
) -> Result<Option<(FullEntry, Option<Result<bool>>)>> {
    if known.kind != Kind::File {
        let taken = FullEntry::take(dir, name, known.oid)?;
        return Ok(taken.map(|entry| (entry, None)));
    }
    // Deferred leases of this process do not count.
    mounted.release_if_closed(known.oid)?;
    FullEntry::take_with_content(dir, name, &attr::content(mounted, known)?, proof)
}
