//! Mounts and objects as blobs that other processes open: a magic number, then plain fields.
use super::connect::ContainerName;
use super::file;
use super::mount::{self, How, Mount};
use crate::abi::{Dfs, DfsObj, Handle, Iov, Ptr, UuidBytes};
use crate::errno::{self, Errno, Result};
use crate::global::{header, long, put, take, word};
use crate::handles;
use ::dfs::Follow;
use esker::types::{ObjectId, Uuid};
use std::ffi::c_int;

const MOUNT_MAGIC: u32 = 0xdaca_0df5;
const MOUNT_ALL_MAGIC: u32 = 0xdaca_0dfa;
const OBJECT_MAGIC: u32 = 0xdaca_0df0;
/// Magic number, flags, container, snapshot.
const MOUNT_BYTES: usize = 32;
/// Magic number, flags, container, object; a path follows.
const OBJECT_BYTES: usize = 40;

/// Fields of the blob of a mount that follow its magic number.
struct Fields {
    flags: c_int,
    container: UuidBytes,
    snapshot: u64,
}

impl Fields {
    fn from_mount(mount: &Mount) -> Self {
        let container = mount.fs.container().info().uuid.0;
        Self { flags: mount.flags(), container, snapshot: mount.snapshot }
    }

    /// The mount in the form in which a process passes it to another.
    fn to_bytes(&self, magic: u32) -> Vec<u8> {
        let mut blob = header(magic, self.flags as u32);
        blob.extend_from_slice(&self.container);
        blob.extend_from_slice(&self.snapshot.to_le_bytes());
        blob
    }

    /// Reads the form that another process has made. After a header of 8 bytes come the container and the snapshot.
    fn read(blob: &[u8]) -> Result<Self> {
        let container = blob.get(8..24).and_then(|bytes| bytes.try_into().ok());
        Ok(Self {
            flags: word(blob, 4)? as c_int,
            container: container.ok_or(Errno::INVAL)?,
            snapshot: long(blob, 24)?,
        })
    }

    /// Options of the mount; flags of 0 mean the flags in the blob. The process that exported the mount has checked the
    /// consistency of the container.
    fn how(&self, flags: c_int) -> How {
        let flags = if flags == 0 { self.flags } else { flags };
        How { flags: flags | mount::BALANCED, snapshot: self.snapshot }
    }
}

/// Exports a mount to other processes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_local2global(dfs: Ptr<Dfs>, glob: Ptr<Iov>) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        Ok(put(glob, &Fields::from_mount(&mount).to_bytes(MOUNT_MAGIC))?)
    })
}

/// Imports a mount of another process.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_global2local(
    poh: Handle,
    coh: Handle,
    flags: c_int,
    glob: Iov,
    dfs: Ptr<Ptr<Dfs>>,
) -> c_int {
    errno::now(|| {
        let blob = take(&glob, MOUNT_MAGIC)?;
        dfs.needed()?;
        let fields = Fields::read(blob)?;
        let container = handles::container(coh)?.container.info().uuid.0;
        if blob.len() != MOUNT_BYTES || fields.container != container {
            return Err(Errno::INVAL);
        }
        dfs.set(mount::mount(poh, coh, fields.how(flags))?);
        Ok(())
    })
}

/// Exports a mount with its pool and container.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_local2global_all(dfs: Ptr<Dfs>, glob: Ptr<Iov>) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        let mut blob = Fields::from_mount(&mount).to_bytes(MOUNT_ALL_MAGIC);
        blob.extend_from_slice(handles::pool(mount.poh)?.url()?.as_bytes());
        Ok(put(glob, &blob)?)
    })
}

/// Imports a mount of another process: connects, opens and mounts.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_global2local_all(flags: c_int, glob: Iov, dfs: Ptr<Ptr<Dfs>>) -> c_int {
    errno::now(|| {
        let blob = take(&glob, MOUNT_ALL_MAGIC)?;
        dfs.needed()?;
        let fields = Fields::read(blob)?;
        let url = blob.get(MOUNT_BYTES..).and_then(|url| std::str::from_utf8(url).ok());
        let container = Uuid(fields.container).to_string();
        let name = ContainerName { pool: url.ok_or(Errno::INVAL)?, container: &container };
        dfs.set(name.mount(fields.how(flags), |_| Err(Errno::NOENT))?);
        Ok(())
    })
}

/// Exports an open object to other processes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_obj_local2global(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>, glob: Ptr<Iov>) -> c_int {
    errno::now(|| {
        let (mount, open) = (handles::mount(dfs)?, handles::file(obj)?);
        let node = open.node();
        let mut blob = header(OBJECT_MAGIC, open.flags as u32);
        blob.extend_from_slice(&mount.fs.container().info().uuid.0);
        for number in [node.oid().lo, node.oid().hi] {
            blob.extend_from_slice(&number.to_le_bytes());
        }
        blob.extend_from_slice(&node.path());
        Ok(put(glob, &blob)?)
    })
}

/// Imports an open object of another process. It must still have the path that it had there.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_obj_global2local(
    dfs: Ptr<Dfs>,
    flags: c_int,
    glob: Iov,
    obj: Ptr<Ptr<DfsObj>>,
) -> c_int {
    errno::now(|| {
        let (mount, blob) = (handles::mount(dfs)?, take(&glob, OBJECT_MAGIC)?);
        obj.needed()?;
        // After the header come the container, the object id, and the path.
        let oid = ObjectId { lo: long(blob, 24)?, hi: long(blob, 32)? };
        if blob[8..24] != mount.fs.container().info().uuid.0 {
            return Err(Errno::INVAL);
        }
        let path = blob.get(OBJECT_BYTES..).ok_or(Errno::INVAL)?;
        let node = mount.fs.resolve(&mount.fs.root(), path, Follow::AllButLast)?;
        if node.oid() != oid {
            return Err(Errno::NOENT);
        }
        let flags = if flags == 0 { word(blob, 4)? as c_int } else { flags };
        file::give(node, flags & libc::O_ACCMODE, obj)
    })
}
