//! The workers: copy files and symbolic links.
use super::file::Part;
use super::progress::{Progress, add};
use super::queue::Queue;
use super::tree::{Child, Meta, Tree};
use super::walk::OpenDir;
use super::{BUFFER_BYTES, Options};
use crate::Kind;
use crate::inode::process_owner;
use esker::types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Prefix of extended attributes of users. Others (security labels, access lists) belong to the system, and not every
/// file system supports them.
const USERS: &[u8] = b"user.";

/// A running copy.
pub(super) struct Copier<'a, S: Tree, D: Tree> {
    pub(super) from: &'a S,
    pub(super) to: &'a D,
    pub(super) options: &'a Options,
    pub(super) progress: &'a Progress,
    pub(super) queue: &'a Queue<Job<S, D>>,
}

/// A job for a worker.
pub(super) enum Job<S: Tree, D: Tree> {
    /// Copy this file or symbolic link.
    Entry { into: Arc<OpenDir<D>>, child: Child<S::Node> },
    /// Copy a part of a large file.
    Part(Part<S, D>),
}

/// The buffers of a worker; the second one is for verification.
pub(super) struct Buffers {
    pub(super) data: Vec<u8>,
    pub(super) other: Vec<u8>,
}

impl<S: Tree, D: Tree> Copier<'_, S, D> {
    /// Runs jobs until none are left.
    pub(super) fn work(&self) {
        let other = if self.options.verify { vec![0; BUFFER_BYTES] } else { Vec::new() };
        let mut buffers = Buffers { data: vec![0; BUFFER_BYTES], other };
        self.queue.drain(|job| match job {
            Job::Entry { into, child } => self.copy_entry(into, &child, &mut buffers),
            Job::Part(part) => self.copy_part(part, &mut buffers),
        });
    }

    /// Copies an entry that is not a directory, and reports a failure.
    fn copy_entry(&self, into: Arc<OpenDir<D>>, child: &Child<S::Node>, buffers: &mut Buffers) {
        let copied = match child.kind {
            _ if self.progress.is_stopped() => Ok(()),
            Some(Kind::File) => self.copy_file(&into, child, buffers),
            Some(Kind::Symlink) => self.copy_link(&into, child),
            Some(Kind::Directory) | None => Err(unsupported_kind_error()),
        };
        if let Err(error) = copied {
            self.progress.fail(self.from.path(&child.node), error);
        }
        self.leave(into);
    }

    /// Copies a symbolic link. What is in its place is removed, unless it is the same link and the copy is resumed.
    fn copy_link(&self, into: &OpenDir<D>, child: &Child<S::Node>) -> Result<()> {
        let meta = self.from.meta(&child.node)?;
        let target = self.from.target(&child.node)?;
        if let Some((there, found)) = self.present(into, &child.name)? {
            let is_link = found.kind == Some(Kind::Symlink);
            if is_link && self.options.resume && self.to.target(&there)? == target {
                add(&self.progress.skipped, 1);
                return self.keep(&there, &meta);
            }
            self.make_way(into, &child.name, &found)?;
        }
        let made = self.to.symlink(&into.node, &child.name, &target, &self.as_kept(meta))?;
        add(&self.progress.links, 1);
        self.copy_xattrs(&child.node, |name, value| self.to.set_xattr(&made, name, value))?;
        self.keep(&made, &meta)
    }

    /// The entry of this name in the destination directory. Skips the lookup if the copy has just created the
    /// directory.
    pub(super) fn present(
        &self,
        into: &OpenDir<D>,
        name: &[u8],
    ) -> Result<Option<(D::Node, Meta)>> {
        if into.is_new { Ok(None) } else { self.to.find(&into.node, name) }
    }

    /// Removes the file or symbolic link that has the name of a copy. Fails for anything else, which a user must
    /// remove. `found` is its metadata.
    pub(super) fn make_way(&self, into: &OpenDir<D>, name: &[u8], found: &Meta) -> Result<()> {
        match found.kind {
            Some(Kind::File | Kind::Symlink) => self.to.remove(&into.node, name),
            Some(Kind::Directory) => Err(in_the_way(ErrorKind::IsDirectory, "a directory")),
            None => Err(in_the_way(ErrorKind::Exists, "a device, pipe or socket")),
        }
    }

    /// Sets owner, mode and time of a copy to those of the original, if the copy keeps them.
    fn keep(&self, made: &D::Node, meta: &Meta) -> Result<()> {
        if self.options.keep { self.to.set_meta(made, meta) } else { Ok(()) }
    }

    /// The metadata that the copy should have: that of the original or, if it is not kept, the caller as owner and a
    /// masked mode.
    pub(super) fn as_kept(&self, meta: Meta) -> Meta {
        match self.options.keep {
            true => meta,
            false => {
                let (uid, gid) = process_owner();
                Meta { mode: meta.mode & 0o777 & !self.options.mask, uid, gid, ..meta }
            }
        }
    }

    /// Copies the extended attributes of `from`, each by a call of `set`, if the copy keeps attributes. Counts those of
    /// the system that the destination refuses.
    pub(super) fn copy_xattrs(
        &self,
        from: &S::Node,
        set: impl Fn(&[u8], &[u8]) -> Result<()>,
    ) -> Result<()> {
        if !self.options.keep {
            return Ok(());
        }
        for (name, value) in self.from.xattrs(from)? {
            match set(&name, &value) {
                Err(error) if may_be_lost(&name, &error) => add(&self.progress.lost_xattrs, 1),
                result => result?,
            }
        }
        Ok(())
    }
}

/// True if the destination refuses an attribute because it does not support it, or because the caller may not set it,
/// and the attribute is one of the system.
fn may_be_lost(name: &[u8], error: &Error) -> bool {
    use ErrorKind::{AccessDenied, NoPermission, NotSupported};
    !name.starts_with(USERS) && matches!(error.kind(), NotSupported | NoPermission | AccessDenied)
}

#[cold]
fn in_the_way(kind: ErrorKind, what: &str) -> Error {
    let message = format!("{what} exists there already; remove it, or choose another target");
    Error::new(kind, message)
}

#[cold]
fn unsupported_kind_error() -> Error {
    Error::new(
        ErrorKind::NotSupported,
        "is a device, pipe or socket; only files, directories and symbolic links can be copied",
    )
}
