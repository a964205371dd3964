//! Mounting and unmounting.
use crate::abi::{Dfs, Handle, Ptr, Str};
use crate::container::daos_cont_close;
use crate::errno::{self, Errno, Result};
use crate::handles::{self, Entry, kind};
use crate::init::{daos_fini, daos_init};
use crate::pool::daos_pool_disconnect;
use ::dfs::MountOptions;
use esker::Container;
use esker::types::Epoch;
use esker::types::info::OpenMode;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock};

/// A mounted file system.
pub(crate) struct Mount {
    pub(crate) fs: ::dfs::Dfs,
    pub(crate) poh: Handle,
    pub(crate) coh: Handle,
    /// The snapshot it shows, 0 for the latest state.
    pub(crate) snapshot: u64,
    /// Unmounting closes the handles of the pool and the container.
    owns_handles: bool,
    /// Start of paths that lookups remove, without slashes at its end (`dfs_set_prefix`).
    prefix: RwLock<Vec<u8>>,
}

impl Mount {
    /// Removes the prefix of the mount from a path. A path without the prefix stays as it is.
    pub(crate) fn strip(&self, path: &[u8]) -> Vec<u8> {
        let prefix = self.prefix.read().unwrap_or_else(PoisonError::into_inner);
        match path.strip_prefix(&prefix[..]) {
            Some([]) => b"/".to_vec(),
            Some(rest) if rest.starts_with(b"/") => rest.to_vec(),
            _ => path.to_vec(),
        }
    }

    /// `O_RDWR` or `O_RDONLY`.
    pub(crate) fn flags(&self) -> c_int {
        if self.fs.is_read_only() { libc::O_RDONLY } else { libc::O_RDWR }
    }
}

/// `dfs_init` calls without their `dfs_fini`.
static USERS: AtomicU32 = AtomicU32::new(0);

/// Starts using `dfs_connect`.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_init() -> c_int {
    let started = daos_init();
    if started == 0 {
        USERS.fetch_add(1, Ordering::AcqRel);
    }
    errno::always(|| errno::code(started))
}

/// Undoes one call of `dfs_init`.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_fini() -> c_int {
    let less = |users: u32| users.checked_sub(1);
    errno::always(|| match USERS.fetch_update(Ordering::AcqRel, Ordering::Acquire, less) {
        Ok(_) => errno::code(daos_fini()),
        Err(_) => Err(Errno::INVAL),
    })
}

/// True between `dfs_init` and `dfs_fini`.
pub(super) fn are_users() -> bool {
    USERS.load(Ordering::Acquire) > 0
}

/// True if the flags request a mount for writing.
pub(crate) fn is_for_writing(flags: c_int) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// The mode in which a mount with these flags opens its pool and container.
pub(super) fn mode(flags: c_int) -> OpenMode {
    if is_for_writing(flags) { OpenMode::ReadWrite } else { OpenMode::ReadOnly }
}

/// `DFS_BALANCED`: a file system that was created with this flag must be mounted with it.
pub(super) const BALANCED: c_int = 4;

/// Flags and snapshot of a mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) flags: c_int,
    /// 0 for the latest state.
    pub(crate) snapshot: u64,
}

/// Mounts the file system of an open container, and returns its handle.
pub(crate) fn mount(poh: Handle, coh: Handle, how: How) -> Result<Ptr<Dfs>> {
    handles::pool(poh)?;
    let container = handles::container(coh)?.container.clone();
    give(container, (poh, coh), how, false)
}

/// Mounts a container, and returns the pointer that programs pass. With `owns_handles`, unmounting also closes the
/// handles `poh` and `coh`.
pub(super) fn give(
    container: Container,
    (poh, coh): (Handle, Handle),
    How { flags, snapshot }: How,
    owns_handles: bool,
) -> Result<Ptr<Dfs>> {
    let writing = is_for_writing(flags) && snapshot == 0;
    if writing && container.mode() == OpenMode::ReadOnly {
        return Err(Errno::PERM);
    }
    let snapshot_of = |epoch| (epoch != 0).then_some(Epoch(epoch));
    let options = MountOptions { read_only: !writing, snapshot: snapshot_of(snapshot) };
    let fs = ::dfs::Dfs::mount(container, options)?;
    // A file system with balanced consistency must be mounted with it.
    if fs.superblock().consistency as c_int & !flags & BALANCED != 0 {
        return Err(Errno::PERM);
    }
    let prefix = RwLock::default();
    let mount = Mount { fs, poh, coh, snapshot, owns_handles, prefix };
    Ok(handles::as_pointer(handles::open(Entry::Mount(mount))?))
}

/// Mounts the file system of an open container.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_mount(poh: Handle, coh: Handle, flags: c_int, dfs: Ptr<Ptr<Dfs>>) -> c_int {
    errno::now(|| {
        dfs.needed()?.set(mount(poh, coh, How { flags, snapshot: 0 })?);
        Ok(())
    })
}

/// Mounts a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_mount_snap(
    poh: Handle,
    coh: Handle,
    flags: c_int,
    epoch: u64,
    name: Str,
    dfs: Ptr<Ptr<Dfs>>,
) -> c_int {
    errno::now(|| {
        let snapshot = snapshot(epoch, name)?;
        dfs.needed()?.set(mount(poh, coh, How { flags, snapshot })?);
        Ok(())
    })
}

/// The epoch of the snapshot to mount. Snapshots have no names here, so a name is refused.
pub(super) fn snapshot(epoch: u64, name: Str) -> Result<u64> {
    match (epoch, name.is_null()) {
        (0, true) => Err(Errno::INVAL),
        (_, true) => Ok(epoch),
        (_, false) => Err(Errno::NOTSUP),
    }
}

/// Unmounts, and closes the handles that the mount owns. An error of the flush is returned last, so that it leaves
/// nothing open.
pub(crate) fn end(dfs: Ptr<Dfs>) -> Result<()> {
    let mount = handles::mount(dfs)?;
    let flushed = mount.fs.flush();
    drop(handles::close(handles::behind(dfs).cookie, &[kind::MOUNT])?);
    let (owned, poh, coh) = (mount.owns_handles, mount.poh, mount.coh);
    // The end of the file system releases leases and stores times, so the container must still be open.
    drop(mount);
    if owned {
        // A container that fails to close must not leave the pool connected.
        let closed = errno::code(daos_cont_close(coh, Ptr::null()));
        closed.and(errno::code(daos_pool_disconnect(poh, Ptr::null())))?;
    }
    Ok(flushed?)
}

/// Unmounts.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_umount(dfs: Ptr<Dfs>) -> c_int {
    errno::now(|| end(dfs))
}

/// Unmounts, and closes the handles of the pool and the container.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_disconnect(dfs: Ptr<Dfs>) -> c_int {
    errno::now(|| end(dfs))
}

/// Accepts a handle that the mount returned to the caller and that the caller no longer needs. Uses are not counted, so
/// it only checks that the handle is that of the mount: `INVAL` otherwise.
fn put(ours: impl FnOnce(&Mount) -> Handle, dfs: Ptr<Dfs>, handle: Handle) -> Result<()> {
    match ours(&*handles::mount(dfs)?) == handle {
        true => Ok(()),
        false => Err(Errno::INVAL),
    }
}

/// The handle of the pool.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_pool_get(dfs: Ptr<Dfs>, poh: Ptr<Handle>) -> c_int {
    errno::now(|| {
        poh.needed()?.set(handles::mount(dfs)?.poh);
        Ok(())
    })
}

/// Gives the handle of the pool back.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_pool_put(dfs: Ptr<Dfs>, poh: Handle) -> c_int {
    errno::now(|| put(|mount| mount.poh, dfs, poh))
}

/// The handle of the container.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_get(dfs: Ptr<Dfs>, coh: Ptr<Handle>) -> c_int {
    errno::now(|| {
        coh.needed()?.set(handles::mount(dfs)?.coh);
        Ok(())
    })
}

/// Gives the handle of the container back.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_cont_put(dfs: Ptr<Dfs>, coh: Handle) -> c_int {
    errno::now(|| put(|mount| mount.coh, dfs, coh))
}

/// Sets a prefix that lookups strip from paths.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_set_prefix(dfs: Ptr<Dfs>, prefix: Str) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        let new = if prefix.is_null() { b"" } else { prefix.bytes()? };
        if !new.is_empty() && !new.starts_with(b"/") {
            return Err(Errno::INVAL);
        }
        let end = new.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        *mount.prefix.write().unwrap_or_else(PoisonError::into_inner) = new[..end].to_vec();
        Ok(())
    })
}

/// Stores the times of files and directories that are not stored yet.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sync(dfs: Ptr<Dfs>) -> c_int {
    errno::now(|| Ok(handles::mount(dfs)?.fs.flush()?))
}
