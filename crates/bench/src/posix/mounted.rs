//! Files in a container, by [`dfs`], without the kernel.
use super::{FileSystem, OpenFile, Use};
use crate::errors::ensure_intact;
use dfs::{Create, Dfs, File, Follow, MountOptions, Node, Open};
use esker::types::ops::Anchor;
use esker_types::{ErrorKind, Result};
use std::cell::RefCell;
use std::collections::HashMap;

/// Directories that are kept open.
const DIRECTORIES_MAX: usize = 1024;

/// Names in one batch of a listing.
const LIST_BATCH: usize = 1024;

/// A directory of a file system in a container. Directories stay open, as they do in ior and mdtest.
pub(super) struct Mounted {
    fs: Dfs,
    folder: String,
    open: RefCell<HashMap<String, Node>>,
}

impl Mounted {
    pub(super) fn new(pool: &str, container: &str, folder: &str) -> Result<Self> {
        let fs = Dfs::open(pool, container, MountOptions::default())?;
        let mounted = Self { fs, folder: folder.to_owned(), open: RefCell::default() };
        mounted.make_folder()?;
        Ok(mounted)
    }

    /// Creates the directory and its parents.
    fn make_folder(&self) -> Result<()> {
        let mut node = self.fs.root();
        for name in self.folder.split('/').filter(|name| !name.is_empty()) {
            node = match node.mkdir(name.as_bytes(), &Create::with_mode(0o755)) {
                Err(error) if error.kind() == ErrorKind::Exists => node.lookup(name.as_bytes())?,
                made => made?,
            };
        }
        Ok(())
    }

    /// Splits a path into its directory, which stays open, and the last name.
    fn parent<'p>(&self, path: &'p str) -> Result<(Node, &'p [u8])> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.directory(folder)?, name.as_bytes()))
    }

    /// The open directory at a path. Directories stay open for the next calls.
    fn directory(&self, path: &str) -> Result<Node> {
        if let Some(node) = self.open.borrow().get(path) {
            return Ok(node.clone());
        }
        let full = format!("/{}/{path}", self.folder);
        let node = self.fs.resolve(&self.fs.root(), full.as_bytes(), Follow::All)?;
        let mut open = self.open.borrow_mut();
        if open.len() >= DIRECTORIES_MAX {
            open.clear();
        }
        open.insert(path.to_owned(), node.clone());
        Ok(node)
    }
}

impl FileSystem for Mounted {
    fn make_dir(&self, path: &str) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        parent.mkdir(name, &Create::with_mode(0o755)).map(|_| ())
    }

    fn remove_dir(&self, path: &str) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        self.open.borrow_mut().remove(path);
        parent.rmdir(name)
    }

    fn open(&self, path: &str, used: Use) -> Result<Box<dyn OpenFile>> {
        let (parent, name) = self.parent(path)?;
        let file = match used {
            Use::Create => parent
                .create(name, &Create { open: true, ..Create::with_mode(0o644) })?
                .open(Open::BOTH)?,
            Use::Read => parent.lookup(name)?.open(Open::READ)?,
        };
        Ok(Box::new(file))
    }

    fn stat(&self, path: &str) -> Result<u64> {
        let (parent, name) = self.parent(path)?;
        parent.lookup_with_attr(name).map(|(_, attr)| attr.size)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let (parent, name) = self.parent(path)?;
        parent.unlink(name)
    }

    fn list(&self, path: &str) -> Result<u64> {
        let directory = self.directory(path)?;
        let (mut anchor, mut names) = (Anchor::Start, 0);
        while !anchor.is_end() {
            names += directory.read_names(&mut anchor, LIST_BATCH)?.iter().count() as u64;
        }
        Ok(names)
    }
}

impl OpenFile for File {
    fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        complete(self, "written", File::write_at(self, offset, data)?, data.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        complete(self, "read", File::read_at(self, offset, buffer)?, buffer.len())
    }

    fn sync(&self) -> Result<()> {
        File::sync(self)
    }

    fn close(self: Box<Self>) -> Result<()> {
        File::close(*self)
    }
}

/// Fails with `Corrupt` unless all bytes were transferred: `some` of `all`. `done` is the verb in the message.
fn complete(file: &File, done: &str, some: usize, all: usize) -> Result<()> {
    ensure_intact(some == all, || {
        let path = file.node().path();
        format!("{}: {some} of {all} bytes were {done}", String::from_utf8_lossy(&path))
    })
}
