//! Finds objects of the container that no entry names.
use super::{Check, Leftovers, Trouble, is_damage};
use crate::create::Create;
use crate::entry::{self, MARK};
use crate::inode::{Inode, Kind, Time, process_owner};
use crate::limits::LIST_BATCH;
use crate::mount::{Dfs, MountOptions};
use crate::node::Node;
use crate::orphans;
use esker::types::ops::{Anchor, ListLimit};
use esker::types::{ErrorKind, ObjectId, ObjectType, Result};
use esker::{Access, Container, Wait};
use std::collections::HashSet;

/// Directory in the root for files and directories whose names are lost.
pub(super) const LOST_AND_FOUND: &[u8] = b"lost+found";

/// Kind of an object without an entry, judged by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stray {
    /// It is gone by now.
    Gone,
    /// Content of a file, with its size in bytes.
    File(u64),
    EmptyDirectory,
    Directory,
    /// Not part of the file system, or unreadable.
    Other,
}

/// All objects of a container.
pub(super) fn list(container: &Container) -> Result<Vec<ObjectId>> {
    let (mut anchor, mut objects) = (Anchor::Start, Vec::new());
    while !anchor.is_end() {
        objects.extend(container.list_objects(&mut anchor, LIST_BATCH, Access::Latest).wait()?);
    }
    Ok(objects)
}

impl Check<'_> {
    /// Checks all objects that no entry names, and reports those that two entries name. `objects` was listed before the
    /// tree was read.
    pub(super) fn objects(&mut self, objects: Vec<ObjectId>) -> Result<()> {
        let mut strays = self.strays(objects)?;
        self.confirm(&mut strays)?;
        for (oid, path) in std::mem::take(&mut self.twice) {
            self.found(&path, Trouble::NamedTwice(oid), |_| Ok(false))?;
        }
        self.lost_directories(&strays)?;
        // The content of these directories has a name now.
        strays.retain(|oid| !self.named.contains(oid));
        strays.into_iter().try_for_each(|oid| self.stray(oid))
    }

    /// Returns the objects that neither an entry names nor the file system needs.
    pub(super) fn strays(&self, mut objects: Vec<ObjectId>) -> Result<Vec<ObjectId>> {
        objects.retain(|oid| !self.named.contains(oid));
        let mut strays = Vec::new();
        for oid in objects {
            if !self.is_own(oid)? {
                strays.push(oid);
            }
        }
        Ok(strays)
    }

    /// Reads the tree again without a repair, because another process may have moved entries during the first pass.
    /// Keeps only objects that again have no name, or two.
    fn confirm(&mut self, strays: &mut Vec<ObjectId>) -> Result<()> {
        // A repair has opened the container exclusively.
        let exclusive = self.options.repair;
        if exclusive || strays.is_empty() && self.twice.is_empty() {
            return Ok(());
        }
        let doubted: HashSet<_> =
            strays.iter().copied().chain(self.twice.iter().map(|(oid, _)| *oid)).collect();
        // Objects with a name in this pass, and those of them with two.
        let (mut once, mut again) = (HashSet::new(), HashSet::new());
        let mut waiting = vec![self.roots.root];
        let mut seen = HashSet::from([self.roots.root]);
        while let Some(dir) = waiting.pop() {
            for inode in self.inodes(dir)? {
                if doubted.contains(&inode.oid) && !once.insert(inode.oid) {
                    again.insert(inode.oid);
                }
                if inode.kind == Kind::Directory && seen.insert(inode.oid) {
                    waiting.push(inode.oid);
                }
            }
        }
        strays.retain(|oid| !once.contains(oid));
        self.twice.retain(|(oid, _)| again.contains(oid));
        Ok(())
    }

    /// The readable inodes of a directory.
    fn inodes(&self, oid: ObjectId) -> Result<Vec<Inode>> {
        let (dir, mut anchor, mut inodes) = (self.object(oid), Anchor::Start, Vec::new());
        while !anchor.is_end() {
            let limit = ListLimit::entries(LIST_BATCH);
            let names = match dir.list_dkeys(&mut anchor, limit, Access::Latest).wait() {
                Err(error) if is_damage(&error) => break,
                names => names?,
            };
            for name in names.iter().filter(|name| *name != MARK) {
                match entry::fetch(&dir, name, Access::Latest).wait() {
                    Err(error) if is_damage(&error) => {}
                    inode => inodes.extend(inode?),
                }
            }
        }
        Ok(inodes)
    }

    /// Reports each directory that has entries but no name, and checks everything below it. A repair links it in
    /// `/lost+found`. Skips a directory below another one of `strays`: the repair of that one gives it a name.
    fn lost_directories(&mut self, strays: &[ObjectId]) -> Result<()> {
        for oid in self.lost_in_order(strays)? {
            if !self.named.insert(oid) {
                continue;
            }
            let path = lost_path(oid);
            self.found(&path, Trouble::Lost(oid), |check| check.link(oid, Kind::Directory))?;
            self.walk(oid, &path)?;
        }
        Ok(())
    }

    /// Returns the directories among `strays` that have entries. Those inside another one of them come last.
    pub(super) fn lost_in_order(&self, strays: &[ObjectId]) -> Result<Vec<ObjectId>> {
        let (mut lost, mut below) = (Vec::new(), HashSet::new());
        for oid in strays {
            if self.kind_of(*oid)? == Stray::Directory {
                below.extend(self.inodes(*oid)?.iter().map(|inode| inode.oid));
                lost.push(*oid);
            }
        }
        // If they form a cycle, any of them may come first.
        lost.sort_by_key(|oid| below.contains(oid));
        Ok(lost)
    }

    /// Counts an object without a name as a leftover, which a repair links or removes. A file with content is reported as
    /// lost if damage may have removed its name; a repair then links it in `/lost+found`.
    fn stray(&mut self, oid: ObjectId) -> Result<()> {
        let kind = self.kind_of(oid)?;
        let may_be_lost = matches!(kind, Stray::File(1..)) && !self.is_removed(oid)?;
        match kind {
            Stray::Gone => return Ok(()),
            _ if may_be_lost && self.names_lost => {
                let path = lost_path(oid);
                let trouble = Trouble::LostFile(oid);
                return self.found(&path, trouble, |check| check.link(oid, Kind::File));
            }
            _ => self.report.leftovers.count_one(kind),
        }
        // These may hold data that a repair must not remove.
        if !self.options.repair || matches!(kind, Stray::Other | Stray::Directory) {
            return Ok(());
        }
        self.clear(oid, may_be_lost)
    }

    /// True if a file without a name was removed. False if that cannot be read: then its name may be lost.
    fn is_removed(&self, oid: ObjectId) -> Result<bool> {
        match orphans::is_removed(self.container, oid) {
            Err(error) if is_damage(&error) => Ok(false),
            removed => removed,
        }
    }

    /// Links a leftover in `/lost+found` if it is a file that may have lost its name without a trace, and removes it
    /// otherwise. An object that may be open stays as it is.
    fn clear(&mut self, oid: ObjectId, may_be_lost: bool) -> Result<()> {
        // A program that inherited the file may have it open without having opened the pool. Some pools do not show
        // which programs use the container.
        if orphans::is_kept(self.container, oid)? {
            return Ok(());
        }
        if may_be_lost && !self.options.remove_leftovers {
            self.link(oid, Kind::File)?;
            self.report.leftovers.linked += 1;
            return Ok(());
        }
        self.remove(oid)
    }

    /// Kind of an object that no entry refers to.
    pub(super) fn kind_of(&self, oid: ObjectId) -> Result<Stray> {
        match oid.object_type() {
            Some(ObjectType::ArrayByte) => {
                match self.content(oid, 0)?.size(Access::Latest).wait() {
                    // Its data may be readable later, for example when a node is back.
                    Err(error) if is_damage(&error) => Ok(Stray::Other),
                    // An object without keys does not exist. An emptied file may still have its stripe mark.
                    Ok(0) if self.has_no_keys(oid)? => Ok(Stray::Gone),
                    size => size.map(Stray::File),
                }
            }
            Some(ObjectType::MultiHashed) => match self.kind_of_keys(oid) {
                Err(error) if is_damage(&error) => Ok(Stray::Other),
                kind => kind,
            },
            _ => Ok(Stray::Other),
        }
    }

    /// Whether the object has no dkeys, which means that it was never written to or is lost.
    fn has_no_keys(&self, oid: ObjectId) -> Result<bool> {
        let (object, limit) = (self.object(oid), ListLimit::entries(1));
        let keys = object.list_dkeys(&mut Anchor::Start, limit, Access::Latest).wait()?;
        Ok(keys.is_empty())
    }

    /// Kind of a `MultiHashed` object that no entry refers to: a directory, an empty one, or another object.
    fn kind_of_keys(&self, oid: ObjectId) -> Result<Stray> {
        let object = self.object(oid);
        let names =
            object.list_dkeys(&mut Anchor::Start, ListLimit::entries(2), Access::Latest).wait()?;
        if names.iter().next().is_none() {
            return Ok(Stray::Gone);
        }
        let is_marked = entry::is_marked(&object, Access::Latest)?;
        let is_empty = entry::is_empty(&object, Access::Latest)?;
        match (is_marked, is_empty) {
            (true, true) => Ok(Stray::EmptyDirectory),
            // A directory that has lost its mark still has inodes.
            (_, false) if !self.inodes(oid)?.is_empty() => Ok(Stray::Directory),
            (true, false) => Ok(Stray::Directory),
            _ => Ok(Stray::Other),
        }
    }

    /// Enters an object in `/lost+found`, under its id as the name. Always returns true, since the damage is then
    /// repaired.
    fn link(&mut self, oid: ObjectId, kind: Kind) -> Result<bool> {
        let dir = self.lost_and_found()?;
        let chunk_size = if kind == Kind::File { self.likely_chunk_size(oid)? } else { 0 };
        self.link_in(&dir, oid, kind, chunk_size)?;
        self.named.extend([oid, dir.oid()]);
        Ok(true)
    }

    /// The directory `/lost+found`, which is created if it is missing.
    fn lost_and_found(&mut self) -> Result<Node> {
        if let Some(dir) = &self.lost_and_found {
            return Ok(dir.clone());
        }
        let fs = Dfs::mount(self.container.clone(), MountOptions::default())?;
        let root = fs.root();
        let dir = match root.mkdir(LOST_AND_FOUND, &Create::with_mode(0o700)) {
            Err(error) if error.kind() == ErrorKind::Exists => root.lookup(LOST_AND_FOUND)?,
            made => made?,
        };
        Ok(self.lost_and_found.insert(dir).clone())
    }

    /// Enters an object in a directory, under its id as the name. The new inode belongs to the user of this process.
    pub(super) fn link_in(
        &self,
        dir: &Node,
        oid: ObjectId,
        kind: Kind,
        chunk_size: u64,
    ) -> Result<()> {
        if kind == Kind::Directory {
            entry::mark(&self.object(oid), Access::Latest)?;
        }
        let mode = if kind == Kind::Directory { 0o700 } else { 0o600 };
        let (uid, gid) = process_owner();
        let inode = Inode { mode, uid, gid, chunk_size, ..Inode::new(kind, oid, Time::now()) };
        entry::put(&dir.directory()?, oid.to_string().as_bytes(), &inode, Access::Latest)
    }
}

impl Leftovers {
    /// Adds one object without a name to the totals of its kind.
    pub(super) fn count_one(&mut self, kind: Stray) {
        match kind {
            Stray::Gone => {}
            Stray::File(bytes) => {
                self.files += 1;
                self.bytes = self.bytes.saturating_add(bytes);
            }
            Stray::EmptyDirectory => self.directories += 1,
            Stray::Other | Stray::Directory => self.others += 1,
        }
    }
}

/// Path in `/lost+found` under which a repair links an object without a name.
pub(super) fn lost_path(oid: ObjectId) -> Vec<u8> {
    [b"/", LOST_AND_FOUND, b"/", oid.to_string().as_bytes()].concat()
}
