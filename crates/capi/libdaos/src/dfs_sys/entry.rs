//! Creating and removing by path.
use super::mount::{find, parent};
use crate::abi::{DfsSys, ObjId, Ptr, Str};
use crate::dfs::entry;
use crate::dfs::open::class_of;
use crate::errno::{self, Errno, Result};
use ::dfs::{Create, Follow, KIND_MASK, Kind, MODE_MASK, Node};
use esker::types::ErrorKind;
use std::ffi::c_int;

/// Creates an empty file or a directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_mknod(
    sys: Ptr<DfsSys>,
    path: Str,
    mode: libc::mode_t,
    class: u32,
    chunk_size: u64,
) -> c_int {
    errno::now(|| {
        let (dir, name) = parent(sys, path)?;
        let new = Create {
            mode: mode & MODE_MASK,
            exclusive: true,
            chunk_size: (chunk_size != 0).then_some(chunk_size),
            class: class_of(class),
            ..Create::default()
        };
        match Kind::from_mode(mode & KIND_MASK) {
            Some(Kind::File) => dir.create(&name, &new)?,
            Some(Kind::Directory) => dir.mkdir(&name, &new)?,
            _ => return Err(Errno::INVAL),
        };
        Ok(())
    })
}

/// Creates a symlink.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_symlink(sys: Ptr<DfsSys>, target: Str, path: Str) -> c_int {
    const MODE: u32 = 0o777;
    errno::now(|| {
        let (dir, name) = parent(sys, path)?;
        dir.symlink(&name, target.bytes()?, &Create::with_mode(MODE))?;
        Ok(())
    })
}

/// Options for a new directory with these permissions and object class.
fn directory(mode: libc::mode_t, class: u32) -> Create {
    Create { class: class_of(class), ..Create::with_mode(mode & MODE_MASK) }
}

/// Creates a directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_mkdir(
    sys: Ptr<DfsSys>,
    path: Str,
    mode: libc::mode_t,
    class: u32,
) -> c_int {
    errno::now(|| {
        let (dir, name) = parent(sys, path).map_err(busy_to_exist)?;
        dir.mkdir(&name, &directory(mode, class))?;
        Ok(())
    })
}

/// Replaces `EBUSY`, the error for the root, by `EEXIST`: the root exists already.
fn busy_to_exist(errno: Errno) -> Errno {
    if errno == Errno::BUSY { Errno::EXIST } else { errno }
}

/// Creates a directory and its missing parents.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_mkdir_p(
    sys: Ptr<DfsSys>,
    path: Str,
    mode: libc::mode_t,
    class: u32,
) -> c_int {
    errno::now(|| {
        let path = crate::handles::sys(sys)?.mount()?.strip(path.bytes()?);
        let mount = crate::handles::sys(sys)?.mount()?;
        let mut dir = mount.fs.root();
        let mut names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty()).peekable();
        while let Some(name) = names.next() {
            dir = match step(&dir, name, &directory(mode, class)) {
                // The last name exists, but is not a directory.
                Err(Errno::NOTDIR) if names.peek().is_none() => return Err(Errno::EXIST),
                stepped => stepped?,
            };
        }
        Ok(())
    })
}

/// Returns the next directory of the path, and creates it with `new` if it is missing.
fn step(dir: &Node, name: &[u8], new: &Create) -> Result<Node> {
    match dir.fs().resolve(dir, name, Follow::All) {
        Ok(node) if node.kind() == Kind::Directory => return Ok(node),
        Ok(_) => return Err(Errno::NOTDIR),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    match dir.mkdir(name, new) {
        // Another process has created it meanwhile.
        Err(error) if error.kind() == ErrorKind::Exists => Ok(dir.lookup(name)?),
        made => Ok(made?),
    }
}

/// Removes an entry.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_remove(sys: Ptr<DfsSys>, path: Str, force: u8, oid: Ptr<ObjId>) -> c_int {
    dfs_sys_remove_type(sys, path, force, 0, oid)
}

/// Removes an entry of the type in `mode`, or of any type if `mode` has none.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_remove_type(
    sys: Ptr<DfsSys>,
    path: Str,
    force: u8,
    mode: libc::mode_t,
    oid: Ptr<ObjId>,
) -> c_int {
    errno::now(|| {
        let (dir, name) = parent(sys, path)?;
        if mode & KIND_MASK != 0 {
            check_kind(&find(sys, path, libc::O_NOFOLLOW)?, mode)?;
        }
        entry::remove(&dir, &name, force != 0, oid)
    })
}

/// Fails if the node is not of the kind that `mode` asks for.
fn check_kind(node: &Node, mode: libc::mode_t) -> Result<()> {
    let wanted = Kind::from_mode(mode & KIND_MASK).ok_or(Errno::INVAL)?;
    match (wanted, node.kind()) {
        (wanted, found) if wanted == found => Ok(()),
        (Kind::Directory, _) => Err(Errno::NOTDIR),
        (_, Kind::Directory) => Err(Errno::ISDIR),
        _ => Err(Errno::INVAL),
    }
}
