//! Requests on names: lookup, create, remove and rename.
use crate::answer::{Answer, of_number};
use crate::attributes::{SET_GROUP, shown};
use crate::data::has;
use crate::served::{Caller, Opened, Served};
use dfs::{Create, Kind, Node, RenameMode};
use esker::types::ErrorKind;
use fuser::{Errno, FileAttr, RenameFlags};
use rustix::fs::OFlags;

/// Mode and owner of a new entry.
pub(crate) struct New {
    pub(crate) mode: u32,
    pub(crate) owner: Caller,
}

impl New {
    /// Owned by the calling user; the kernel has applied the umask.
    pub(crate) const fn by(owner: Caller, mode: u32) -> Self {
        Self { mode, owner }
    }

    /// A symbolic link, which has all permissions.
    pub(crate) const fn link_by(owner: Caller) -> Self {
        Self::by(owner, 0o777)
    }

    /// Options for creating the entry in `dir`. It inherits the group of a directory with the set-group-ID bit, as on
    /// Linux.
    fn within(self, dir: &Node, kind: Kind) -> Create {
        let inode = dir.inode();
        let inherits = inode.mode & SET_GROUP != 0;
        let passed_on = if inherits && kind == Kind::Directory { SET_GROUP } else { 0 };
        let gid = if inherits { inode.gid } else { self.owner.gid };
        Create {
            mode: self.mode & dfs::MODE_MASK | passed_on,
            owner: Some((self.owner.uid, gid)),
            ..Create::default()
        }
    }
}

impl Served {
    /// Serves `lookup`, and counts it for the inode.
    pub(crate) fn look_up(&self, parent: u64, name: &[u8]) -> Answer<FileAttr> {
        let (node, attr) = self.inode(parent)?.node().lookup_with_attr(name)?;
        Ok(shown(self.inodes.tell(node).number(), &attr))
    }

    /// Creates a file, or uses the existing one if `flags` allow it, and opens it.
    pub(crate) fn create(
        &self,
        parent: u64,
        name: &[u8],
        new: New,
        flags: i32,
    ) -> Answer<(FileAttr, Opened)> {
        let (dir, by_user) = (self.inode(parent)?.node(), new.owner.is_user());
        let exclusive = Create { exclusive: true, open: true, ..new.within(&dir, Kind::File) };
        let (node, flags) = match dir.create(name, &exclusive) {
            Err(error) if error.kind() == ErrorKind::Exists && !has(flags, OFlags::EXCL) => {
                let found = dir.create(name, &Create { exclusive: false, ..exclusive })?;
                // Another client has just made a symbolic link: the kernel looks the name up again, and follows it.
                if found.kind() != Kind::File {
                    return Err(Errno::ESTALE.into());
                }
                (found, flags)
            }
            // Truncating a file clears set-id bits, but a new file has those that the program gives it.
            made => (made?, flags & !libc::O_TRUNC),
        };
        let inode = self.inodes.tell(node.clone());
        let opened = self.open_inode(&inode, flags, by_user).and_then(|file| {
            let attr = node.attr_as_found().inspect_err(|_| inode.unopen())?;
            Ok((shown(inode.number(), &attr), self.handle(&inode, &file, flags)))
        });
        opened.inspect_err(|_| self.inodes.forget(inode.number(), 1))
    }

    /// Creates a file without opening it.
    pub(crate) fn make_file(&self, parent: u64, name: &[u8], new: New) -> Answer<FileAttr> {
        // No devices, sockets or pipes.
        if new.mode & dfs::KIND_MASK != Kind::File.bits() {
            return self.refuse_name(parent, name);
        }
        let dir = self.inode(parent)?.node();
        let create = Create { exclusive: true, ..new.within(&dir, Kind::File) };
        self.told(dir.create(name, &create)?)
    }

    /// Refuses to create an entry of a kind that the file system lacks (`EPERM`). An existing entry is reported first
    /// (`EEXIST`), because the kernel may have cached its absence.
    pub(crate) fn refuse_name<T>(&self, parent: u64, name: &[u8]) -> Answer<T> {
        match self.inode(parent)?.node().lookup(name) {
            Ok(_) => Err(Errno::EEXIST.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Errno::EPERM.into()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn make_directory(&self, parent: u64, name: &[u8], new: New) -> Answer<FileAttr> {
        let dir = self.inode(parent)?.node();
        self.told(dir.mkdir(name, &new.within(&dir, Kind::Directory))?)
    }

    /// Makes a symbolic link to `target`, and returns its attributes.
    pub(crate) fn make_link(
        &self,
        parent: u64,
        name: &[u8],
        target: &[u8],
        new: New,
    ) -> Answer<FileAttr> {
        let dir = self.inode(parent)?.node();
        self.told(dir.symlink(name, target, &new.within(&dir, Kind::Symlink))?)
    }

    pub(crate) fn read_link(&self, number: u64) -> Answer<Vec<u8>> {
        of_number(self.inode(number)?.node().read_link())
    }

    pub(crate) fn unlink(&self, parent: u64, name: &[u8]) -> Answer<()> {
        Ok(self.inode(parent)?.node().unlink(name)?)
    }

    pub(crate) fn remove_directory(&self, parent: u64, name: &[u8]) -> Answer<()> {
        Ok(self.inode(parent)?.node().rmdir(name)?)
    }

    /// Serves `rename`.
    pub(crate) fn rename(
        &self,
        (parent, name): (u64, &[u8]),
        (new_parent, new_name): (u64, &[u8]),
        flags: RenameFlags,
    ) -> Answer<()> {
        let mode = match flags {
            RenameFlags::RENAME_NOREPLACE => RenameMode::NoReplace,
            RenameFlags::RENAME_EXCHANGE => RenameMode::Exchange,
            none if none.is_empty() => RenameMode::Replace,
            _ => return Err(Errno::EINVAL.into()),
        };
        let mut from = self.inode(parent)?.node();
        let mut to = self.inode(new_parent)?.node();
        // Only a move to another directory can put a directory below itself.
        if parent != new_parent {
            (from, to) = (self.as_it_stands(from)?, self.as_it_stands(to)?);
        }
        from.rename(name, &to, new_name, mode)?;
        self.note_move(&to, new_name);
        if mode == RenameMode::Exchange {
            self.note_move(&from, name);
        }
        Ok(())
    }

    /// Gives the inode of the entry `name`, which has moved to `dir`, its new node.
    fn note_move(&self, dir: &Node, name: &[u8]) {
        // After an error, the rename is done all the same. The next lookup gives the inode its node.
        if let Ok(node) = dir.lookup(name) {
            self.inodes.moved(node);
        }
    }

    /// The directory with its current ancestors, which may have been renamed since the lookup: a rename has to check
    /// that no directory moves below itself.
    fn as_it_stands(&self, dir: Node) -> Answer<Node> {
        let Some(parent) = dir.parent() else { return Ok(dir) };
        let known = self.inodes.get(parent.inode().number());
        let parent = known.map_or_else(|_| parent.clone(), |parent| parent.node());
        let found = of_number(self.as_it_stands(parent)?.lookup(dir.name()))?;
        // Another client may have given the name to another directory: then the kernel looks the path up again.
        if found.oid() == dir.oid() { Ok(found) } else { Err(Errno::ESTALE.into()) }
    }

    /// The attributes of a node for a reply. Counts a lookup of its inode, because the reply tells the kernel about it.
    pub(crate) fn told(&self, node: Node) -> Answer<FileAttr> {
        let attr = node.attr_as_found()?;
        Ok(shown(self.inodes.tell(node).number(), &attr))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::attributes::Wanted;
    use crate::data::Copy;
    use crate::inodes::ROOT;
    use crate::limits::REQUEST_BYTES_MAX;
    use crate::options::Cache;
    use crate::passing::Dropper;
    use dfs::{Dfs, MountOptions, NewDfs, SetAttr};
    use esker::backend::NewContainer;
    use esker::backend::memory::Memory;
    use esker::types::info::OpenMode;
    use esker::{Pool, Wait};
    use std::sync::Arc;

    /// An empty file system in memory.
    pub(crate) fn served(cache: Cache) -> Served {
        let pool = Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite);
        Dfs::create_container(&pool, &NewContainer::named("c"), &NewDfs::default()).unwrap();
        let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
        let dfs = Dfs::mount(container, MountOptions::default()).unwrap();
        Served::new(dfs, cache, false, Dropper::new().0)
    }

    const USER: Caller = Caller { uid: 1000, gid: 1000 };

    #[test]
    fn new_file_keeps_set_id_bits_and_an_existing_one_loses_them_when_truncated() {
        let served = served(Cache::Auto);
        let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_RDWR;
        let mode_after = || {
            let new = New::by(USER, libc::S_IFREG | 0o4755);
            let (attr, _) = served.create(ROOT, b"f", new, flags).unwrap();
            (attr.perm, served.attributes(attr.ino.0).unwrap().perm)
        };
        assert_eq!(mode_after(), (0o4755, 0o4755));
        assert_eq!(mode_after().1, 0o755);
        let again = served.create(ROOT, b"f", New::by(USER, 0o644), flags | libc::O_EXCL);
        assert_eq!(again.err(), Some(Errno::EEXIST.into()));
    }

    /// Another mount of the same file system: its changes are those of another client.
    fn mounted_again(served: &Served) -> Dfs {
        Dfs::mount(served.dfs.container().clone(), MountOptions::default()).unwrap()
    }

    #[test]
    fn rename_does_not_act_on_another_directory_that_has_the_name() {
        let served = served(Cache::Auto);
        let new = || New::by(USER, 0o755);
        let dir = served.make_directory(ROOT, b"dir", new()).unwrap().ino.0;
        let file = served.create(ROOT, b"f", New::by(USER, libc::S_IFREG | 0o644), libc::O_RDWR);
        file.unwrap();
        let root = mounted_again(&served).root();
        root.rename(b"dir", &root, b"moved", RenameMode::Replace).unwrap();
        let other = root.mkdir(b"dir", &Create::with_mode(0o755)).unwrap();
        let renamed = served.rename((ROOT, b"f"), (dir, b"f"), RenameFlags::empty());
        assert_eq!(renamed, Err(Errno::ESTALE.into()));
        assert_eq!(other.lookup(b"f").err().unwrap().kind(), ErrorKind::NotFound);
        // After this answer, the kernel looks the names up again.
        assert_eq!(served.look_up(ROOT, b"moved").unwrap().ino.0, dir);
        served.rename((ROOT, b"f"), (dir, b"f"), RenameFlags::empty()).unwrap();
        root.lookup(b"moved").unwrap().lookup(b"f").unwrap();
    }

    #[test]
    fn creation_does_not_open_a_symbolic_link_that_another_client_has_made() {
        let served = served(Cache::Auto);
        let root = mounted_again(&served).root();
        root.symlink(b"f", b"target", &Create::with_mode(0o777)).unwrap();
        let new = New::by(USER, libc::S_IFREG | 0o644);
        let created = served.create(ROOT, b"f", new, libc::O_CREAT | libc::O_RDWR);
        assert_eq!(created.err(), Some(Errno::ESTALE.into()));
    }

    /// Only the inode keeps attributes that are set on a removed directory, which a program may have open.
    #[test]
    fn attributes_of_a_directory_that_another_client_renamed_are_not_lost() {
        let served = served(Cache::Auto);
        let dir = served.make_directory(ROOT, b"dir", New::by(USER, 0o755)).unwrap().ino.0;
        let root = mounted_again(&served).root();
        root.rename(b"dir", &root, b"moved", RenameMode::Replace).unwrap();
        let set = || Wanted {
            set: SetAttr { mode: Some(0o700), ..SetAttr::default() },
            by_user: true,
            sets_atime: false,
        };
        assert_eq!(served.set_attributes(dir, set()).err(), Some(Errno::ESTALE.into()));
        assert_eq!(served.attributes(dir).unwrap().nlink, 1);
        served.look_up(ROOT, b"moved").unwrap();
        served.set_attributes(dir, set()).unwrap();
        assert_eq!(root.lookup(b"moved").unwrap().inode().mode, 0o700);
        root.rmdir(b"moved").unwrap();
        assert_eq!(served.attributes(dir).unwrap().nlink, 0);
        served.set_attributes(dir, set()).unwrap();
    }

    /// The copy reaches the end of what a file can hold, as it may reach that of the pool.
    #[test]
    fn copy_that_fails_after_a_part_returns_the_length_of_that_part() {
        let served = served(Cache::Auto);
        let make = |name| {
            let new = New::by(USER, libc::S_IFREG | 0o4755);
            served.create(ROOT, name, new, libc::O_CREAT | libc::O_RDWR).unwrap().0.ino.0
        };
        let (from, to) = (make(b"from"), make(b"to"));
        let part = u64::from(REQUEST_BYTES_MAX);
        served.inode(from).unwrap().file().unwrap().set_len(2 * part).unwrap();
        let end = dfs::limits::FILE_SIZE_MAX;
        let copy = |at| served.copy(&Copy { from: (from, 0), to: (to, at), len: 2 * part }, USER);
        assert_eq!(copy(end).err(), Some(Errno::EFBIG.into()));
        // The copy clears the bit before it writes.
        assert_eq!(served.attributes(to).unwrap().perm, 0o755);
        assert_eq!(copy(end - part), Ok(REQUEST_BYTES_MAX));
    }

    #[test]
    fn failed_allocation_by_a_user_has_cleared_set_id_bits() {
        let served = served(Cache::Auto);
        let new = New::by(USER, libc::S_IFREG | 0o4755);
        let made = served.create(ROOT, b"f", new, libc::O_CREAT | libc::O_RDWR).unwrap();
        let number = made.0.ino.0;
        let at = (dfs::limits::FILE_SIZE_MAX, 1);
        assert!(served.allocate(number, at, libc::FALLOC_FL_COLLAPSE_RANGE, USER).is_err());
        assert_eq!(served.attributes(number).unwrap().perm, 0o4755);
        assert!(served.allocate(number, at, 0, USER).is_err());
        assert_eq!(served.attributes(number).unwrap().perm, 0o755);
    }

    /// The kernel has data that the server does not know. After this error it takes everything for data.
    #[test]
    fn holes_are_not_sought_while_the_kernel_delays_writes() {
        for (cache, is_refused) in [(Cache::Auto, false), (Cache::Writeback, true)] {
            let served = served(cache);
            let new = New::by(USER, libc::S_IFREG | 0o644);
            let (attr, _) = served.create(ROOT, b"f", new, libc::O_RDWR).unwrap();
            let hole = served.seek(attr.ino.0, 0, libc::SEEK_HOLE);
            assert_eq!(hole == Err(Errno::ENOSYS.into()), is_refused);
        }
    }
}
