//! Checks all entries of the tree.
use super::objects::LOST_AND_FOUND;
use super::{Check, Trouble, is_damage};
use crate::entry::{self, LINK_AKEY, MARK, XATTR_PREFIX};
use crate::inode::{Inode, Kind, object_type};
use crate::limits::LIST_BATCH;
use esker::types::ops::{Anchor, Cond, ListLimit, Sink};
use esker::types::{Error, Extent, ObjectId, Result};
use esker::{Access, ArrayAttributes, Object, Wait};

/// Bytes of a file that are read at a time.
const READ_BYTES: u64 = 4 << 20;
/// Entries between two progress reports.
const PROGRESS_EVERY: u64 = 1024;

/// Damage of an entry, by its repair.
enum Damage {
    /// A repair removes the entry.
    Remove(Trouble),
    /// A repair marks the directory.
    Mark(ObjectId),
    /// There is no repair.
    Keep(Trouble),
}

impl Check<'_> {
    /// Checks the directory `top`, which has the path `path`, and everything below it. A damaged directory is a
    /// finding, and does not end the check.
    pub(super) fn walk(&mut self, top: ObjectId, path: &[u8]) -> Result<()> {
        let mut waiting = vec![(top, path.to_vec())];
        self.check_directory(top, path)?;
        while let Some((dir, path)) = waiting.pop() {
            if let Err(error) = self.check_entries(dir, &path, &mut waiting) {
                if !is_damage(&error) {
                    return Err(error);
                }
                self.found(&path, Trouble::Listing(error.message().into()), |_| Ok(false))?;
            }
        }
        Ok(())
    }

    /// Checks the entries of a directory. Directories in it are added to `waiting`.
    fn check_entries(
        &mut self,
        oid: ObjectId,
        path: &[u8],
        waiting: &mut Vec<(ObjectId, Vec<u8>)>,
    ) -> Result<()> {
        let (dir, mut anchor) = (self.object(oid), Anchor::Start);
        while !anchor.is_end() {
            let limit = ListLimit::entries(LIST_BATCH);
            let names = dir.list_dkeys(&mut anchor, limit, Access::Latest).wait()?;
            for name in names.iter().filter(|name| *name != MARK) {
                let path = join(path, name);
                let Some(inode) = self.entry(&dir, name, &path)? else { continue };
                if inode.kind == Kind::Directory {
                    waiting.push((inode.oid, path));
                }
            }
        }
        Ok(())
    }

    /// Checks an entry and counts it. Returns its inode, unless the entry is gone or unreadable, or another entry has
    /// named its object.
    fn entry(&mut self, dir: &Object, name: &[u8], path: &[u8]) -> Result<Option<Inode>> {
        if self.report.entries().is_multiple_of(PROGRESS_EVERY) {
            (self.watch)(self.report.entries());
        }
        let mut looked = self.inspect(dir, name)?;
        // Another process may have changed the entry between two of the reads, so damage must show twice.
        if looked.1.is_some() {
            looked = self.inspect(dir, name)?;
        }
        let (inode, damage) = looked;
        if let Some(damage) = damage {
            self.report_damage(dir, name, path, damage)?;
        }
        let Some(inode) = inode else { return Ok(None) };
        if inode.kind != Kind::Symlink && !self.named.insert(inode.oid) {
            self.twice.push((inode.oid, path.to_vec()));
            return Ok(None);
        }
        self.count(&inode, path)?;
        if self.options.data {
            self.check_xattrs(dir, name, path)?;
        }
        Ok(Some(inode))
    }

    /// Checks that the extended attributes of an entry can be read. A repair removes damaged ones.
    fn check_xattrs(&mut self, dir: &Object, name: &[u8], path: &[u8]) -> Result<()> {
        for akey in entry::akeys(dir, name, Access::Latest)? {
            if !akey.starts_with(XATTR_PREFIX) {
                continue;
            }
            match entry::value(dir, name, &akey, Access::Latest) {
                Err(error) if is_damage(&error) => {
                    self.found(path, Trouble::Xattr(error.message().into()), |_| {
                        dir.punch_akeys(name, &[&akey], Cond::NONE, Access::Latest).wait()?;
                        Ok(true)
                    })?;
                }
                read => read.map(drop)?,
            }
        }
        Ok(())
    }

    /// Records a damaged entry, and repairs it as `damage` says.
    fn report_damage(
        &mut self,
        dir: &Object,
        name: &[u8],
        path: &[u8],
        damage: Damage,
    ) -> Result<()> {
        match damage {
            Damage::Remove(trouble) => {
                self.found(path, trouble, |check| check.remove_entry(dir, name))
            }
            Damage::Mark(oid) => self.report_unmarked(oid, path),
            Damage::Keep(trouble) => self.found(path, trouble, |_| Ok(false)),
        }
    }

    /// Removes a damaged entry, or records that the repair removes it later: see [`Self::mend_entries`].
    /// Returns true: that repairs the damage.
    fn remove_entry(&mut self, dir: &Object, name: &[u8]) -> Result<bool> {
        // The repair needs this name for a directory.
        if dir.oid() == self.roots.root && name == LOST_AND_FOUND {
            dir.punch_dkey(name, Cond::NONE, Access::Latest).wait()?;
        } else {
            self.removals.push((dir.oid(), name.into()));
        }
        Ok(true)
    }

    /// Removes the damaged entries and sets the missing marks that a repair has found, after it has linked the objects
    /// without names. A repair that is interrupted before leaves both, by which the next one knows that names are lost.
    pub(super) fn mend_entries(&mut self) -> Result<()> {
        for (dir, name) in std::mem::take(&mut self.removals) {
            let dir = self.object(dir);
            // The repair may have linked an object under this name.
            if matches!(self.inspect(&dir, &name)?.1, Some(Damage::Remove(_))) {
                dir.punch_dkey(&name, Cond::NONE, Access::Latest).wait()?;
            }
        }
        let unmarked = std::mem::take(&mut self.unmarked);
        unmarked.into_iter().try_for_each(|oid| entry::mark(&self.object(oid), Access::Latest))
    }

    /// Records a directory without its mark. A repair sets the mark at its end.
    fn report_unmarked(&mut self, oid: ObjectId, path: &[u8]) -> Result<()> {
        self.found(path, Trouble::Unmarked, |check| {
            check.unmarked.push(oid);
            Ok(true)
        })
    }

    /// Counts and checks the directory at which a walk begins. Those below it are checked by their entries.
    fn check_directory(&mut self, oid: ObjectId, path: &[u8]) -> Result<()> {
        self.report.directories += 1;
        match self.directory_trouble(oid)? {
            Some(Damage::Keep(trouble)) => self.found(path, trouble, |_| Ok(false)),
            Some(_) => self.report_unmarked(oid, path),
            None => Ok(()),
        }
    }

    /// Reads an entry. Returns its inode if that can be used, and its damage if there is any; neither if the entry is
    /// gone.
    fn inspect(&self, dir: &Object, name: &[u8]) -> Result<(Option<Inode>, Option<Damage>)> {
        if entry::check_name(name).is_err() {
            return Ok((None, Some(Damage::Remove(Trouble::Name))));
        }
        let inode = match entry::fetch(dir, name, Access::Latest).wait() {
            Ok(Some(inode)) => inode,
            Ok(None) => return Ok((None, self.without_inode(dir, name)?)),
            Err(error) if is_damage(&error) => return Ok((None, Some(unreadable(&error)))),
            Err(error) => return Err(error),
        };
        if inode.kind != Kind::Symlink && inode.oid.object_type() != Some(object_type(inode.kind)) {
            return Ok((None, Some(Damage::Remove(Trouble::WrongObject(inode.oid)))));
        }
        match inode.kind {
            Kind::File => Ok((Some(inode), None)),
            Kind::Directory => {
                let damage = self.directory_trouble(inode.oid)?;
                Ok((Some(inode), damage))
            }
            Kind::Symlink => match has_target(dir, name, &inode)? {
                true => Ok((Some(inode), None)),
                false => Ok((None, Some(Damage::Remove(Trouble::NoTarget)))),
            },
        }
    }

    /// Damage of a directory itself, apart from its entries: a missing or unreadable mark. `None` on pools without
    /// marks.
    fn directory_trouble(&self, oid: ObjectId) -> Result<Option<Damage>> {
        if !entry::has_marks(self.container) {
            return Ok(None);
        }
        match entry::is_marked(&self.object(oid), Access::Latest) {
            Ok(marked) => Ok((!marked).then_some(Damage::Mark(oid))),
            Err(error) if is_damage(&error) => {
                Ok(Some(Damage::Keep(Trouble::Listing(error.message().into()))))
            }
            Err(error) => Err(error),
        }
    }

    /// Damage of a name without an inode. `None` if the name has no akey at all: it was removed meanwhile.
    fn without_inode(&self, dir: &Object, name: &[u8]) -> Result<Option<Damage>> {
        let there = !entry::akeys(dir, name, Access::Latest)?.is_empty();
        Ok(there.then(|| Damage::Remove(Trouble::Entry("it has no inode".into()))))
    }

    /// Counts an entry, and the size of a file. With the option `data`, also reads the data of a file.
    fn count(&mut self, inode: &Inode, path: &[u8]) -> Result<()> {
        match inode.kind {
            Kind::Directory => self.report.directories += 1,
            Kind::Symlink => self.report.links += 1,
            Kind::File => {
                self.report.files += 1;
                let size = self.content(inode.oid, inode.chunk_size)?.size(Access::Latest).wait();
                match size {
                    Ok(size) => self.report.bytes = self.report.bytes.saturating_add(size),
                    Err(error) if is_damage(&error) => return self.bad_data(path, &error),
                    Err(error) => return Err(error),
                }
                if self.options.data {
                    return self.check_data(inode, path);
                }
            }
        }
        Ok(())
    }

    /// The array that holds a file. A chunk size of 0 stands for that of the file system.
    pub(super) fn content(&self, oid: ObjectId, chunk_size: u64) -> Result<esker::Array> {
        let chunk_size = if chunk_size == 0 { self.superblock.chunk_size } else { chunk_size };
        let attributes = ArrayAttributes { cell_size: 1, chunk_size };
        self.container.open_array_with_attributes(oid, attributes)
    }

    /// Checks that the data of a file can be read.
    pub(super) fn check_data(&mut self, inode: &Inode, path: &[u8]) -> Result<()> {
        let content = self.content(inode.oid, inode.chunk_size)?;
        match read_stored(&content) {
            Err(error) if is_damage(&error) => self.bad_data(path, &error),
            result => result,
        }
    }

    /// Records that the data of a file cannot be read. There is no repair.
    fn bad_data(&mut self, path: &[u8], error: &Error) -> Result<()> {
        self.found(path, Trouble::Data(error.message().into()), |_| Ok(false))
    }
}

/// Reads all stored bytes of a file, but not its holes.
fn read_stored(content: &esker::Array) -> Result<()> {
    let size = content.size(Access::Latest).wait()?;
    let mut buffer = vec![0; size.min(READ_BYTES) as usize];
    let mut at = 0;
    while let Some(start) = content.next_data(at, Access::Latest).wait()? {
        let count = size.saturating_sub(start).min(READ_BYTES);
        if count == 0 {
            break;
        }
        let sink = Sink::One(&mut buffer[..count as usize]);
        content.read(&[Extent::new(start, count)], sink, Access::Latest).wait()?;
        at = start + count;
    }
    Ok(())
}

/// Damage of an entry whose inode cannot be read: a repair removes the entry.
fn unreadable(error: &Error) -> Damage {
    Damage::Remove(Trouble::Entry(error.message().into()))
}

/// Whether the entry has the target of a symbolic link, with the length that the inode states.
fn has_target(dir: &Object, name: &[u8], inode: &Inode) -> Result<bool> {
    match entry::value(dir, name, LINK_AKEY, Access::Latest) {
        Ok(target) => Ok(target.is_some_and(|target| target.len() as u64 == inode.link_len)),
        Err(error) if is_damage(&error) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The path of an entry.
fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if dir.ends_with(b"/") { b"" } else { b"/" };
    [dir, slash, name].concat()
}
