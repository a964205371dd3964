//! Files by paths.
use super::mount::{find, parent};
use crate::abi::{Bytes, DfsObj, DfsSys, Event, Ptr, Str};
use crate::dfs::open::{Wanted, follow, of_kind};
use crate::dfs::{file, io};
use crate::errno::{self, Errno, Result};
use crate::handles;
use ::dfs::{Follow, KIND_MASK, Kind, Node, Open};
use esker::types::ops::{Sink, Source};
use std::ffi::c_int;

/// Opens or creates a file, directory or symlink.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_open(
    sys: Ptr<DfsSys>,
    path: Str,
    mode: libc::mode_t,
    flags: c_int,
    class: u32,
    chunk_size: u64,
    value: Str,
    obj: Ptr<Ptr<DfsObj>>,
) -> c_int {
    errno::now(|| {
        obj.needed()?;
        let target = if value.is_null() { None } else { Some(value.bytes()?) };
        let wanted = Wanted { mode, flags, class, chunk_size, target };
        file::find_and_give(|| node(sys, path, &wanted), flags, obj)
    })
}

/// Finds a file, or creates it if it is missing and the flags have `O_CREAT`.
fn node(sys: Ptr<DfsSys>, path: Str, wanted: &Wanted<'_>) -> Result<Node> {
    let kind = Kind::from_mode(wanted.mode & KIND_MASK);
    let follow = match kind {
        Some(Kind::Symlink) => Follow::AllButLast,
        _ => follow(wanted.flags),
    };
    let exclusive = wanted.flags & libc::O_EXCL != 0;
    match handles::sys(sys)?.find(path, follow) {
        Err(Errno::NOENT) if wanted.flags & libc::O_CREAT != 0 => {
            let (dir, name) = parent(sys, path)?;
            wanted.node(&dir, &name)
        }
        Ok(_) if exclusive && wanted.flags & libc::O_CREAT != 0 => Err(Errno::EXIST),
        Ok(found) => kind.map_or(Ok(found.clone()), |kind| of_kind(found, kind)),
        Err(errno) => Err(errno),
    }
}

/// Closes an object.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_close(obj: Ptr<DfsObj>) -> c_int {
    file::dfs_release(obj)
}

/// Reads at an offset. `size` is the room in bytes, and becomes the number of bytes read.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_read(
    sys: Ptr<DfsSys>,
    obj: Ptr<DfsObj>,
    buf: Bytes,
    offset: u64,
    size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    errno::drive(ev, || {
        handles::sys(sys)?;
        let open = handles::file(obj)?;
        Ok(async move {
            let room = buf.write(size.get()?)?;
            size.set(open.readable()?.read_into(offset, Sink::One(room)).await? as u64);
            Ok(())
        })
    })
}

/// Writes `size` bytes at an offset. `size` becomes the number of bytes written.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_write(
    sys: Ptr<DfsSys>,
    obj: Ptr<DfsObj>,
    buf: Bytes,
    offset: u64,
    size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    errno::drive(ev, || {
        handles::sys(sys)?;
        let open = handles::file(obj)?;
        Ok(async move {
            let data = buf.read(size.get()?)?;
            size.set(open.writable()?.write_from(offset, Source::One(data)).await? as u64);
            Ok(())
        })
    })
}

/// Punches a hole, or truncates or extends a file.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_punch(sys: Ptr<DfsSys>, path: Str, offset: u64, len: u64) -> c_int {
    errno::now(|| {
        let file = of_kind(find(sys, path, 0)?, Kind::File)?;
        io::punch(&file.open(Open::BOTH)?, offset, len)
    })
}
