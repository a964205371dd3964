//! Lookups, opening, and creating what is missing.
use super::{Name, file, parent_of};
use crate::abi::{Dfs, DfsObj, Ptr, Str};
use crate::dfs::attr;
use crate::errno::{self, Errno, Result};
use crate::handles;
use ::dfs::{Create, Follow, KIND_MASK, Kind, MODE_MASK, Node, find_and};
use esker::types::{Error, ErrorKind, ObjectClass};
use std::ffi::c_int;

/// Output pointers of a lookup; all but `obj` may be null.
#[derive(Clone, Copy)]
struct LookupOutputs {
    obj: Ptr<Ptr<DfsObj>>,
    mode: Ptr<libc::mode_t>,
    stat: Ptr<libc::stat>,
}

impl LookupOutputs {
    /// Finds a node, and reports it to the caller. If it was moved or removed between the two steps, it is looked up
    /// again.
    fn report(self, find: impl Fn() -> Result<Node>, flags: c_int) -> Result<()> {
        find_and(find, |node| self.report_node(node, flags), Errno::is_missing)
    }

    /// Stores the attributes and the mode of the node where the caller asked for them, and returns a handle of the node
    /// in `obj`.
    fn report_node(self, node: Node, flags: c_int) -> Result<()> {
        if !self.stat.is_null() {
            self.stat.set(attr::stat_of(&node.attr_as_found()?));
        }
        self.mode.set(node.inode().full_mode());
        file::give(node, flags, self.obj)
    }
}

/// The symlinks that a lookup with these flags follows: all, or with `O_NOFOLLOW` all but the last component.
pub(crate) fn follow(flags: c_int) -> Follow {
    if flags & libc::O_NOFOLLOW == 0 { Follow::All } else { Follow::AllButLast }
}

/// Looks up a path and opens it.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_lookup(
    dfs: Ptr<Dfs>,
    path: Str,
    flags: c_int,
    obj: Ptr<Ptr<DfsObj>>,
    mode: Ptr<libc::mode_t>,
    stat: Ptr<libc::stat>,
) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        let path = path.bytes()?;
        if path.is_empty() {
            return Err(Errno::INVAL);
        }
        let path = mount.strip(path);
        obj.needed()?;
        if flags & (libc::O_APPEND | libc::O_CREAT | libc::O_EXCL) != 0 {
            return Err(Errno::NOTSUP);
        }
        if !path.starts_with(b"/") {
            return Err(Errno::INVAL);
        }
        let find = || Ok(mount.fs.resolve(&mount.fs.root(), &path, follow(flags))?);
        LookupOutputs { obj, mode, stat }.report(find, flags)
    })
}

/// Opens an entry of a directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_lookup_rel(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: Str,
    flags: c_int,
    obj: Ptr<Ptr<DfsObj>>,
    mode: Ptr<libc::mode_t>,
    stat: Ptr<libc::stat>,
) -> c_int {
    errno::now(|| {
        let (mount, parent) = (handles::mount(dfs)?, parent_of(parent)?);
        obj.needed()?;
        if flags & libc::O_APPEND != 0 {
            return Err(Errno::NOTSUP);
        }
        let dir = parent.node(&mount.fs);
        let name = Name::read(name)?.0;
        let find = || Ok(mount.fs.resolve(&dir, name, follow(flags))?);
        LookupOutputs { obj, mode, stat }.report(find, flags)
    })
}

/// Arguments of `dfs_open` and similar functions: how to open an entry, or to create it if it is missing.
#[derive(Clone, Copy)]
pub(crate) struct Wanted<'a> {
    /// Type and permissions.
    pub(crate) mode: libc::mode_t,
    /// `O_*`.
    pub(crate) flags: c_int,
    /// Object class of a new entry; 0 for the default.
    pub(crate) class: u32,
    /// Bytes of a chunk of a new file; 0 for the default.
    pub(crate) chunk_size: u64,
    /// Target of a symlink.
    pub(crate) target: Option<&'a [u8]>,
}

impl Wanted<'_> {
    /// The options for a new entry, taken from the arguments of the call.
    fn create(&self) -> Create {
        Create {
            mode: self.mode & MODE_MASK,
            exclusive: self.flags & libc::O_EXCL != 0,
            chunk_size: (self.chunk_size != 0).then_some(self.chunk_size),
            class: class_of(self.class),
            open: true,
            ..Create::default()
        }
    }

    /// Returns the node `name` of a directory. Creates it with `O_CREAT`. Fails if it has another kind than the caller
    /// requested.
    pub(crate) fn node(&self, dir: &Node, name: &[u8]) -> Result<Node> {
        let kind = Kind::from_mode(self.mode & KIND_MASK).ok_or(Errno::INVAL)?;
        if self.flags & libc::O_APPEND != 0 {
            return Err(Errno::NOTSUP);
        }
        let node = match self.flags & libc::O_CREAT {
            0 => dir.lookup(name)?,
            _ => self.made(dir, name, kind)?,
        };
        of_kind(node, kind)
    }

    /// Creates an entry of this kind. Without `O_EXCL`, an entry that exists already is opened.
    fn made(&self, dir: &Node, name: &[u8], kind: Kind) -> Result<Node> {
        let new = self.create();
        let made = match kind {
            Kind::File => dir.create(name, &new),
            Kind::Directory => self.or_found(dir, name, dir.mkdir(name, &new)),
            Kind::Symlink => {
                let target = self.target.ok_or(Errno::INVAL)?;
                self.or_found(dir, name, dir.symlink(name, target, &new))
            }
        };
        Ok(made?)
    }

    /// Returns `made`, the result of creating the entry `name`. If the entry exists already and `O_EXCL` is not set,
    /// returns that entry.
    fn or_found(
        &self,
        dir: &Node,
        name: &[u8],
        made: std::result::Result<Node, Error>,
    ) -> std::result::Result<Node, Error> {
        match made {
            Err(error) if error.kind() == ErrorKind::Exists && self.flags & libc::O_EXCL == 0 => {
                dir.lookup(name)
            }
            made => made,
        }
    }
}

/// Returns the node if it has this kind. Otherwise `NOTDIR` if a directory was expected, `INVAL` if not.
pub(crate) fn of_kind(node: Node, kind: Kind) -> Result<Node> {
    match kind {
        _ if node.kind() == kind => Ok(node),
        Kind::Directory => Err(Errno::NOTDIR),
        Kind::File | Kind::Symlink => Err(Errno::INVAL),
    }
}

/// Returns the object class with this code. None for 0, by which a caller leaves the choice to the file system.
pub(crate) fn class_of(code: u32) -> Option<ObjectClass> {
    (code != 0).then(|| ObjectClass::from_code(code))
}

/// Opens or creates a file, directory or symlink.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_open(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: Str,
    mode: libc::mode_t,
    flags: c_int,
    class: u32,
    chunk_size: u64,
    value: Str,
    obj: Ptr<Ptr<DfsObj>>,
) -> c_int {
    errno::now(|| {
        let (mount, parent) = (handles::mount(dfs)?, parent_of(parent)?);
        obj.needed()?;
        let target = if value.is_null() { None } else { Some(value.bytes()?) };
        let wanted = Wanted { mode, flags, class, chunk_size, target };
        let (dir, name) = (parent.node(&mount.fs), Name::read(name)?.0);
        file::find_and_give(|| wanted.node(&dir, name), flags, obj)
    })
}

/// Opens the same object again.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_dup(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    flags: c_int,
    new_obj: Ptr<Ptr<DfsObj>>,
) -> c_int {
    errno::now(|| {
        let (_mount, open) = (handles::mount(dfs)?, handles::file(obj)?);
        new_obj.needed()?;
        file::give(open.node(), flags, new_obj)
    })
}

/// Creates a directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_mkdir(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: Str,
    mode: libc::mode_t,
    class: u32,
) -> c_int {
    errno::now(|| {
        let (mount, parent) = (handles::mount(dfs)?, parent_of(parent)?);
        let new = Create { class: class_of(class), ..Create::with_mode(mode & MODE_MASK) };
        parent.node(&mount.fs).mkdir(Name::read(name)?.0, &new)?;
        Ok(())
    })
}
