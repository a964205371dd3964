//! Attributes of files, directories and symlinks.
use super::file::{opened, opened_to_change};
use super::{OpenFile, parent_of};
use crate::abi::{Dfs, DfsObj, DfsObjInfo, ObjId, Ptr, Str, Zeroed};
use crate::acl::accounts::real_owner;
use crate::errno::{self, Errno, Result};
use crate::handles;
use ::dfs::{Attr, Follow, KIND_MASK, Kind, MODE_MASK, Node, SetAttr, Time};
use std::ffi::{c_int, c_long};

const SET_MODE: c_int = 1 << 0;
const SET_ATIME: c_int = 1 << 1;
const SET_MTIME: c_int = 1 << 2;
const SET_SIZE: c_int = 1 << 3;
const SET_UID: c_int = 1 << 4;
const SET_GID: c_int = 1 << 5;
const SET_ALL: c_int = SET_MODE | SET_ATIME | SET_MTIME | SET_SIZE | SET_UID | SET_GID;

/// Leaves the owner unchanged.
const SAME: u32 = u32::MAX;

/// Attributes as a `struct stat`. Access times are not stored; the modification time is reported instead.
pub(crate) fn stat_of(attr: &Attr) -> libc::stat {
    let mut stat = libc::stat::zeroed();
    stat.st_ino = attr.number();
    stat.st_mode = attr.full_mode();
    stat.st_nlink = attr.nlink.into();
    stat.st_uid = attr.uid;
    stat.st_gid = attr.gid;
    stat.st_size = attr.size as i64;
    stat.st_blksize = attr.block_size as _;
    stat.st_blocks = attr.blocks() as i64;
    stat.st_atime = attr.mtime.seconds;
    stat.st_atime_nsec = c_long::from(attr.mtime.nanos);
    stat.st_mtime = attr.mtime.seconds;
    stat.st_mtime_nsec = c_long::from(attr.mtime.nanos);
    stat.st_ctime = attr.ctime.seconds;
    stat.st_ctime_nsec = c_long::from(attr.ctime.nanos);
    stat
}

/// Stores the attributes of the entry `name` in `stat`. A null parent means the root.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_stat(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: Str,
    stat: Ptr<libc::stat>,
) -> c_int {
    errno::now(|| {
        let (mount, parent) = (handles::mount(dfs)?, parent_of(parent)?);
        stat.needed()?;
        let (_, attr) = parent.find_with_attr(&mount.fs, name)?;
        stat.set(stat_of(&attr));
        Ok(())
    })
}

/// Attributes of an open object that still has its name.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_ostat(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>, stat: Ptr<libc::stat>) -> c_int {
    errno::now(|| {
        let open = opened(dfs, obj)?;
        stat.needed()?.set(stat_of(&current(&open)?));
        Ok(())
    })
}

/// Attributes of an open object. `NOENT` if its last name was removed.
fn current(open: &OpenFile) -> Result<Attr> {
    let attr = match &open.file {
        Some(file) => file.attr()?,
        None => open.node().attr()?,
    };
    if attr.nlink == 0 { Err(Errno::NOENT) } else { Ok(attr) }
}

/// The permission bits of a mode. Type bits are allowed if they match the node.
pub(crate) fn permissions(mode: libc::mode_t, kind: Kind) -> Result<u32> {
    match mode & KIND_MASK {
        0 => Ok(mode & MODE_MASK),
        bits if bits == kind.bits() => Ok(mode & MODE_MASK),
        _ => Err(Errno::INVAL),
    }
}

/// Sets attributes of an open object. `PERM` if it was opened `O_RDONLY`.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_osetattr(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    stat: Ptr<libc::stat>,
    flags: c_int,
) -> c_int {
    errno::now(|| {
        let open = opened_to_change(dfs, obj)?;
        if open.flags == libc::O_RDONLY {
            return Err(Errno::PERM);
        }
        let set = wanted(&stat.get()?, flags, open.node().kind())?;
        let attr = match &open.file {
            Some(file) => file.set_attr(&set)?,
            None => open.node().set_attr(&set)?,
        };
        stat.set(stat_of(&attr));
        Ok(())
    })
}

/// The attributes to be set on a node of this kind, as `flags` selects them. An access time is accepted and ignored,
/// because none is stored.
pub(crate) fn wanted(stat: &libc::stat, flags: c_int, kind: Kind) -> Result<SetAttr> {
    if flags & !SET_ALL != 0 {
        return Err(Errno::INVAL);
    }
    let has = |flag| flags & flag != 0;
    let time = |seconds, nanos: c_long| match u32::try_from(nanos) {
        Ok(nanos @ 0..1_000_000_000) => Ok(Time { seconds, nanos }),
        _ => Err(Errno::INVAL),
    };
    let size = has(SET_SIZE).then(|| u64::try_from(stat.st_size)).transpose();
    let mtime = has(SET_MTIME).then(|| time(stat.st_mtime, stat.st_mtime_nsec)).transpose()?;
    Ok(SetAttr {
        mode: has(SET_MODE).then(|| permissions(stat.st_mode, kind)).transpose()?,
        uid: has(SET_UID).then_some(stat.st_uid),
        gid: has(SET_GID).then_some(stat.st_gid),
        size: size.map_err(|_| Errno::INVAL)?,
        mtime,
        ..SetAttr::default()
    })
}

/// Looks up an entry. A symlink is followed unless `flags` has `O_NOFOLLOW`.
fn target(dfs: Ptr<Dfs>, parent: Ptr<DfsObj>, name: Str, flags: c_int) -> Result<Node> {
    let (mount, parent) = (handles::mount(dfs)?, parent_of(parent)?);
    let node = parent.find(&mount.fs, name)?;
    match (node.kind(), flags & libc::O_NOFOLLOW) {
        (Kind::Symlink, 0) => {
            Ok(mount.fs.resolve(&parent.node(&mount.fs), node.name(), Follow::All)?)
        }
        _ => Ok(node),
    }
}

/// Checks the user's permissions on an entry.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_access(dfs: Ptr<Dfs>, parent: Ptr<DfsObj>, name: Str, mask: c_int) -> c_int {
    errno::now(|| may(&target(dfs, parent, name, 0)?, mask))
}

/// Checks that the process may access a node in the ways that `mask` names, by the bits of `access(2)`. `ACCES` if the
/// mode of the node does not allow it, `PERM` for writing to a read-only mount.
pub(crate) fn may(node: &Node, mask: c_int) -> Result<()> {
    let mask = u32::try_from(mask).ok().filter(|mask| *mask <= 7).ok_or(Errno::INVAL)?;
    if mask & ::dfs::WRITE != 0 && node.fs().is_read_only() {
        return Err(Errno::PERM);
    }
    match mask == 0 || allows(&node.attr_as_found()?, real_owner(), mask) {
        true => Ok(()),
        false => Err(Errno::ACCES),
    }
}

/// True if the mode allows the access, by the rule of DAOS. In contrast to POSIX, the bits for others apply to all
/// users, also to the owner and the group, in addition to their own bits. Root has no special rights.
fn allows(attr: &Attr, (uid, gid): (libc::uid_t, libc::gid_t), mask: u32) -> bool {
    let owner = if uid == attr.uid { attr.mode >> 6 } else { 0 };
    let group = if gid == attr.gid { attr.mode >> 3 } else { 0 };
    (owner | group | attr.mode) & mask == mask
}

/// Changes permissions.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_chmod(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: Str,
    mode: libc::mode_t,
) -> c_int {
    errno::now(|| chmod(&target(dfs, parent, name, 0)?, mode))
}

/// Changes permissions of a node.
pub(crate) fn chmod(node: &Node, mode: libc::mode_t) -> Result<()> {
    let mode = Some(permissions(mode, node.kind())?);
    node.set_attr(&SetAttr { mode, ..SetAttr::default() })?;
    Ok(())
}

/// Changes owners.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_chown(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: Str,
    uid: libc::uid_t,
    gid: libc::gid_t,
    flags: c_int,
) -> c_int {
    errno::now(|| chown(&target(dfs, parent, name, flags)?, uid, gid))
}

/// Changes the owner, the group, or both of a node. [`SAME`] leaves one unchanged.
pub(crate) fn chown(node: &Node, uid: u32, gid: u32) -> Result<()> {
    let given = |id: u32| (id != SAME).then_some(id);
    let set = SetAttr { uid: given(uid), gid: given(gid), ..SetAttr::default() };
    if set != SetAttr::default() {
        node.set_attr(&set)?;
    }
    Ok(())
}

/// The mode of an open object.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_get_mode(obj: Ptr<DfsObj>, mode: Ptr<libc::mode_t>) -> c_int {
    errno::now(|| {
        mode.needed()?.set(handles::file(obj)?.node().inode().full_mode());
        Ok(())
    })
}

/// The identifier of an object.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_obj2id(obj: Ptr<DfsObj>, oid: Ptr<ObjId>) -> c_int {
    errno::now(|| {
        oid.needed()?.set(handles::file(obj)?.node().oid().into());
        Ok(())
    })
}

/// Class, chunk size and identifier of an object.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_obj_get_info(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    info: Ptr<DfsObjInfo>,
) -> c_int {
    errno::now(|| {
        let open = opened(dfs, obj)?;
        info.needed()?;
        let node = open.node();
        let superblock = node.fs().superblock();
        // For a directory, reports the classes that new entries get: its own, or that of the file system for their
        // type, or the general one.
        let or = |own: u32, general: u32| if own == 0 { general } else { own };
        let own = if node.kind() == Kind::Directory { node.inode().class } else { 0 };
        let defaults = |class| match node.kind() {
            Kind::Directory => or(or(own, class), superblock.class),
            _ => 0,
        };
        info.set(DfsObjInfo {
            oclass: node.oid().class().code(),
            chunk_size: node.attr_as_found()?.block_size,
            dir_oclass: defaults(superblock.dir_class),
            file_oclass: defaults(superblock.file_class),
            oid: node.oid().into(),
        });
        Ok(())
    })
}

/// Bytes per chunk of a file.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_get_chunk_size(obj: Ptr<DfsObj>, chunk_size: Ptr<u64>) -> c_int {
    errno::now(|| {
        let open = handles::file(obj)?;
        chunk_size.needed()?.set(open.file()?.array().attributes().chunk_size);
        Ok(())
    })
}

/// Sets a default for new entries of a directory.
fn set_default(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>, set: SetAttr) -> c_int {
    errno::now(|| {
        opened(dfs, obj)?.directory()?.set_attr(&set)?;
        Ok(())
    })
}

/// Sets the object class of new entries of a directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_obj_set_oclass(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    _flags: c_int,
    class: u32,
) -> c_int {
    set_default(dfs, obj, SetAttr { class: Some(class), ..SetAttr::default() })
}

/// Sets the chunk size of new files of a directory.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_obj_set_chunk_size(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    _flags: c_int,
    chunk_size: u64,
) -> c_int {
    set_default(dfs, obj, SetAttr { chunk_size: Some(chunk_size), ..SetAttr::default() })
}
