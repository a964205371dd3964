//! The walker: lists the directories and creates them on the other side.
use super::Target;
use super::progress::add;
use super::tree::{Child, Meta, Tree};
use super::worker::{Copier, Job};
use crate::Kind;
use crate::entry::check_name;
use esker::types::{Error, ErrorKind, Result};
use std::sync::Arc;

/// Mode bits that the owner of a directory needs to create entries in it.
const OWN: u32 = 0o700;

/// An unfinished directory of the copy; its unfinished entries have references to it.
pub(super) struct OpenDir<D: Tree> {
    pub(super) node: D::Node,
    /// The metadata to set at the end; `None` for the target directory itself, which stays as it is.
    finish: Option<Meta>,
    parent: Option<Arc<Self>>,
    /// It is new, so it has no entries yet.
    pub(super) is_new: bool,
}

/// A directory of the original that is still to be listed.
struct Waiting<S: Tree, D: Tree> {
    into: Arc<OpenDir<D>>,
    name: Vec<u8>,
    node: S::Node,
}

impl<S: Tree, D: Tree> Copier<'_, S, D> {
    /// Copies `source` and all below it to `target`.
    pub(super) fn walk(&self, source: &S::Node, target: Target<'_, D::Node>) -> Result<()> {
        let meta = self.from.meta(source)?;
        let top = match target {
            Target::Into(dir) => {
                self.refuse_itself(source, dir)?;
                let finish = self.options.keep.then_some(meta);
                self.copy_xattrs(source, |name, value| self.to.set_xattr(dir, name, value))?;
                Arc::new(OpenDir { node: dir.clone(), finish, parent: None, is_new: false })
            }
            Target::Name(dir, name) => {
                let node = dir.clone();
                let into = Arc::new(OpenDir { node, finish: None, parent: None, is_new: false });
                let (name, node) = (name.to_vec(), source.clone());
                if meta.kind != Some(Kind::Directory) {
                    let child = Child { name, node, kind: meta.kind };
                    self.queue.push(Job::Entry { into, child });
                    return Ok(());
                }
                self.enter(&Waiting { into, name, node })?
            }
        };
        self.copy_directories(source, &top);
        self.leave(top);
        Ok(())
    }

    /// Lists a directory and all directories below it, and adds their entries to the queue.
    fn copy_directories(&self, source: &S::Node, top: &Arc<OpenDir<D>>) {
        let mut waiting = Vec::new();
        self.list(source, Arc::clone(top), &mut waiting);
        while let Some(next) = waiting.pop() {
            // The source may contain a mount of the destination: the copy would never end.
            let entered =
                self.refuse_itself(&next.node, &top.node).and_then(|()| self.enter(&next));
            match entered {
                _ if self.progress.is_stopped() => {}
                Ok(dir) => self.list(&next.node, dir, &mut waiting),
                Err(error) => self.progress.fail(self.from.path(&next.node), error),
            }
            self.leave(next.into);
        }
    }

    /// Refuses to copy a file or directory to itself.
    pub(super) fn refuse_itself(&self, source: &S::Node, target: &D::Node) -> Result<()> {
        let from = self.from.identity(source);
        match from.is_some() && from == self.to.identity(target) {
            true => Err(is_itself()),
            false => Ok(()),
        }
    }

    /// Creates the copy of a directory in the destination, or uses an existing one. Fails if the destination has a file
    /// with that name that is not a directory.
    fn enter(&self, waiting: &Waiting<S, D>) -> Result<Arc<OpenDir<D>>> {
        let meta = self.as_kept(self.from.meta(&waiting.node)?);
        let (dir, name) = (&waiting.into.node, &waiting.name);
        let found = if waiting.into.is_new { None } else { self.to.find(dir, name)? };
        let is_new = found.is_none();
        // The directory, and the metadata to set at the end unless that of the original is kept.
        let (node, own) = match found {
            Some((node, there)) if there.kind == Some(Kind::Directory) => {
                let is_widened = there.mode & OWN != OWN;
                if is_widened {
                    self.to.set_meta(&node, &Meta { mode: there.mode | OWN, ..there })?;
                }
                (node, is_widened.then_some(there))
            }
            Some((node, _)) => return Err(not_a_directory_error(&self.to.path(&node))),
            None => (self.to.mkdir(dir, name, &meta)?, Some(meta)),
        };
        let finish = if self.options.keep { Some(meta) } else { own };
        self.copy_xattrs(&waiting.node, |name, value| self.to.set_xattr(&node, name, value))?;
        add(&self.progress.directories, 1);
        let parent = Some(Arc::clone(&waiting.into));
        Ok(Arc::new(OpenDir { node, finish, parent, is_new }))
    }

    /// Lists the directory `dir`. Queues its files as jobs that copy them to `into`, and adds its subdirectories to
    /// `waiting`. Records an error of the listing in the progress, and names that no file can have.
    fn list(&self, dir: &S::Node, into: Arc<OpenDir<D>>, waiting: &mut Vec<Waiting<S, D>>) {
        let listed = self.from.entries(dir, &mut |child| {
            // Other programs can store a name such as `../x` in a container: it would lead out of the target.
            if let Err(error) = check_name(&child.name) {
                self.progress.fail(self.from.path(&child.node), error);
                return !self.progress.is_stopped();
            }
            let into = Arc::clone(&into);
            match child.kind {
                Some(Kind::Directory) => {
                    waiting.push(Waiting { into, name: child.name, node: child.node });
                }
                _ => self.queue.push(Job::Entry { into, child }),
            }
            // False ends the listing.
            !self.progress.is_stopped()
        });
        if let Err(error) = listed {
            self.progress.fail(self.from.path(dir), error);
        }
        // Without jobs and subdirectories left, this was the last reference to `into`: its metadata is set now.
        self.leave(into);
    }

    /// Releases a reference to a directory of the copy. The last one sets its metadata, because its content is complete
    /// then, and releases the directory above.
    pub(super) fn leave(&self, dir: Arc<OpenDir<D>>) {
        let mut held = Some(dir);
        while let Some(dir) = held.and_then(Arc::into_inner) {
            let finished = match &dir.finish {
                Some(meta) => self.finish_dir(&dir.node, meta),
                None => Ok(()),
            };
            if let Err(error) = finished {
                self.progress.fail(self.to.path(&dir.node), error);
            }
            held = dir.parent;
        }
    }

    /// Sets the mode of a copied directory, and its owner and times if they are kept.
    fn finish_dir(&self, node: &D::Node, meta: &Meta) -> Result<()> {
        match self.options.keep {
            true => self.to.set_meta(node, meta),
            // Last, because copying changes the times, and the mode may forbid creating entries.
            false => {
                let now = self.to.meta(node)?;
                self.to.set_meta(node, &Meta { mode: meta.mode, ..now })
            }
        }
    }
}

#[cold]
fn is_itself() -> Error {
    let message = "this is where the copy goes, seen through a mount of the same container; choose another target";
    Error::new(ErrorKind::Invalid, message)
}

#[cold]
fn not_a_directory_error(path: &[u8]) -> Error {
    Error::new(
        ErrorKind::NotDirectory,
        format!(
            "{} exists and is not a directory; remove it, or choose another target",
            String::from_utf8_lossy(path)
        ),
    )
}
