//! Mounts that are used by path. Nothing is cached: a lookup costs no more than checking whether a cached one is still
//! valid.
use crate::abi::{Dfs, DfsAttr, DfsSys, Handle, Iov, Ptr, Str};
use crate::dfs::connect;
use crate::dfs::global::{
    dfs_global2local, dfs_global2local_all, dfs_local2global, dfs_local2global_all,
};
use crate::dfs::mount::{self, How, Mount, dfs_set_prefix};
use crate::dfs::open;
use crate::errno::{self, Errno, Result};
use crate::handles::{self, Entry, Held, kind};
use ::dfs::{Follow, Node};
use std::ffi::c_int;

/// `DFS_SYS_NO_CACHE` and `DFS_SYS_NO_LOCK`, which change nothing.
const KNOWN_FLAGS: c_int = 0x3;

/// A mount that is used by path.
pub(crate) struct Sys {
    dfs: Handle,
}

impl Sys {
    /// The mount itself.
    pub(crate) fn mount(&self) -> Result<Held<Mount>> {
        Ok(handles::mount(handles::as_pointer(self.dfs))?)
    }

    /// The node at a path.
    pub(crate) fn find(&self, path: Str, follow: Follow) -> Result<Node> {
        let mount = self.mount()?;
        let path = absolute(&mount, path)?;
        Ok(mount.fs.resolve(&mount.fs.root(), &path, follow)?)
    }

    /// The last directory of a path, and the name in it.
    pub(crate) fn parent(&self, path: Str) -> Result<(Node, Vec<u8>)> {
        let mount = self.mount()?;
        let path = absolute(&mount, path)?;
        let (dir, name) = mount.fs.resolve_parent(&mount.fs.root(), &path)?;
        Ok((dir, name.to_vec()))
    }
}

/// Removes the prefix of the mount from a path. `INVAL` if the rest does not start with `/`.
fn absolute(mount: &Mount, path: Str) -> Result<Vec<u8>> {
    let path = mount.strip(path.bytes()?);
    if path.starts_with(b"/") { Ok(path) } else { Err(Errno::INVAL) }
}

/// The node at a path. With `O_NOFOLLOW`, a symlink at its end is not followed.
pub(crate) fn find(sys: Ptr<DfsSys>, path: Str, flags: c_int) -> Result<Node> {
    handles::sys(sys)?.find(path, open::follow(flags))
}

/// The last directory of a path, and the name in it. The root has neither, so it is refused as in use.
pub(crate) fn parent(sys: Ptr<DfsSys>, path: Str) -> Result<(Node, Vec<u8>)> {
    match handles::sys(sys)?.parent(path)? {
        (_, name) if name.is_empty() => Err(Errno::BUSY),
        found => Ok(found),
    }
}

/// Mounts a file system by calling `begin` with an address for the mount. Stores a handle for access by path in `sys`.
fn begin(
    sflags: c_int,
    sys: Ptr<Ptr<DfsSys>>,
    begin: impl FnOnce(Ptr<Ptr<Dfs>>) -> Result<()>,
) -> Result<()> {
    sys.needed()?;
    if sflags & !KNOWN_FLAGS != 0 {
        return Err(Errno::INVAL);
    }
    let mut dfs = Ptr::null();
    // SAFETY: it is a variable of this function.
    begin(unsafe { Ptr::new(&raw mut dfs) })?;
    let entry = Entry::Sys(Sys { dfs: handles::behind(dfs) });
    match handles::open(entry) {
        Ok(handle) => sys.set(handles::as_pointer(handle)),
        Err(code) => {
            mount::end(dfs)?;
            return Err(code.into());
        }
    }
    Ok(())
}

/// Unmounts, and ends the handle.
fn end(sys: Ptr<DfsSys>) -> c_int {
    errno::now(|| {
        let dfs = handles::sys(sys)?.dfs;
        drop(handles::close(handles::behind(sys).cookie, &[kind::SYS])?);
        mount::end(handles::as_pointer(dfs))
    })
}

/// Returns the `dfs` handle of the mount that a `dfs_sys` handle uses.
fn base(sys: Ptr<DfsSys>) -> Result<Ptr<Dfs>> {
    Ok(handles::as_pointer(handles::sys(sys)?.dfs))
}

/// Connects, opens and mounts.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_connect(
    pool: Str,
    _system: Str,
    cont: Str,
    flags: c_int,
    sflags: c_int,
    attr: Ptr<DfsAttr>,
    sys: Ptr<Ptr<DfsSys>>,
) -> c_int {
    let how = How { flags, snapshot: 0 };
    errno::always(|| begin(sflags, sys, |dfs| connect::connect((pool, cont), how, attr, dfs)))
}

/// Unmounts, and closes the handles of the pool and the container.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_disconnect(sys: Ptr<DfsSys>) -> c_int {
    end(sys)
}

/// Mounts the file system of an open container.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_mount(
    poh: Handle,
    coh: Handle,
    flags: c_int,
    sflags: c_int,
    sys: Ptr<Ptr<DfsSys>>,
) -> c_int {
    let how = How { flags, snapshot: 0 };
    errno::now(|| {
        begin(sflags, sys, |dfs| {
            dfs.set(mount::mount(poh, coh, how)?);
            Ok(())
        })
    })
}

/// Unmounts.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_umount(sys: Ptr<DfsSys>) -> c_int {
    end(sys)
}

/// Sets a prefix that lookups strip from paths.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_set_prefix(sys: Ptr<DfsSys>, prefix: Str) -> c_int {
    errno::now(|| errno::code(dfs_set_prefix(base(sys)?, prefix)))
}

/// Exports a mount to other processes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_local2global(sys: Ptr<DfsSys>, glob: Ptr<Iov>) -> c_int {
    errno::now(|| errno::code(dfs_local2global(base(sys)?, glob)))
}

/// Imports a mount of another process.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_global2local(
    poh: Handle,
    coh: Handle,
    flags: c_int,
    sflags: c_int,
    glob: Iov,
    sys: Ptr<Ptr<DfsSys>>,
) -> c_int {
    errno::now(|| {
        begin(sflags, sys, |dfs| errno::code(dfs_global2local(poh, coh, flags, glob, dfs)))
    })
}

/// Exports a mount with its pool and container.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_local2global_all(sys: Ptr<DfsSys>, glob: Ptr<Iov>) -> c_int {
    errno::now(|| errno::code(dfs_local2global_all(base(sys)?, glob)))
}

/// Imports a mount of another process: connects, opens and mounts.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_global2local_all(
    flags: c_int,
    sflags: c_int,
    glob: Iov,
    sys: Ptr<Ptr<DfsSys>>,
) -> c_int {
    errno::now(|| begin(sflags, sys, |dfs| errno::code(dfs_global2local_all(flags, glob, dfs))))
}

/// Stores the `dfs` handle of the mount that a `dfs_sys` handle uses.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys2base(sys: Ptr<DfsSys>, dfs: Ptr<Ptr<Dfs>>) -> c_int {
    errno::now(|| {
        dfs.needed()?.set(base(sys)?);
        Ok(())
    })
}
