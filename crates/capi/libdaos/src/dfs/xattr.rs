//! Extended attributes, and where symlinks lead.
use super::file::opened;
use crate::abi::{Bytes, Dfs, DfsObj, Ptr, Str};
use crate::errno::{self, Errno, Result};
use crate::handles;
use ::dfs::limits::{XATTR_NAME_MAX, XATTR_VALUE_MAX};
use ::dfs::{Node, XattrMode};
use std::ffi::c_int;

pub(crate) fn name<'a>(name: Str) -> Result<&'a [u8]> {
    match name.bytes()? {
        bytes if (1..=XATTR_NAME_MAX).contains(&bytes.len()) => Ok(bytes),
        _ => Err(Errno::INVAL),
    }
}

/// Puts bytes where C wants them, and how many there are in place of how many fit.
///
/// # Errors
/// `full` where they do not fit; room of 0 only asks.
pub(crate) fn give(bytes: &[u8], value: Bytes, size: Ptr<u64>, full: Errno) -> Result<()> {
    let room = if value.is_null() { 0 } else { size.get()? };
    size.needed()?.set(bytes.len() as u64);
    match room {
        0 => Ok(()),
        room if room < bytes.len() as u64 => Err(full),
        _ => {
            value.write(bytes.len() as u64)?.copy_from_slice(bytes);
            Ok(())
        }
    }
}

/// Sets an attribute.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_setxattr(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    attribute: Str,
    value: Bytes,
    size: u64,
    flags: c_int,
) -> c_int {
    errno::now(|| set(&opened(dfs, obj)?.node(), attribute, (value, size), flags))
}

/// Sets an attribute of a node.
pub(crate) fn set(
    node: &Node,
    attribute: Str,
    (value, size): (Bytes, u64),
    flags: c_int,
) -> Result<()> {
    let mode = match flags {
        0 => XattrMode::Any,
        libc::XATTR_CREATE => XattrMode::Create,
        libc::XATTR_REPLACE => XattrMode::Replace,
        _ => return Err(Errno::INVAL),
    };
    if size > XATTR_VALUE_MAX as u64 {
        return Err(Errno::INVAL);
    }
    Ok(node.set_xattr(name(attribute)?, value.read(size)?, mode)?)
}

/// Reads an attribute.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_getxattr(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    attribute: Str,
    value: Bytes,
    size: Ptr<u64>,
) -> c_int {
    errno::now(|| {
        let found = opened(dfs, obj)?.node().get_xattr(name(attribute)?)?;
        give(&found, value, size, Errno::TOOBIG)
    })
}

/// Removes an attribute.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_removexattr(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>, attribute: Str) -> c_int {
    errno::now(|| Ok(opened(dfs, obj)?.node().remove_xattr(name(attribute)?)?))
}

/// The names of all attributes, each with a NUL behind it.
pub(crate) fn names(node: &Node) -> Result<Vec<u8>> {
    let mut names = node.list_xattrs()?;
    names.iter_mut().for_each(|name| name.push(0));
    Ok(names.concat())
}

/// Lists the names of attributes: those that fit, and the bytes of all.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_listxattr(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    list: Str,
    size: Ptr<u64>,
) -> c_int {
    errno::now(|| {
        let names = names(&opened(dfs, obj)?.node())?;
        let room = if list.is_null() { 0 } else { size.get()? };
        let fits = fitting(&names, room);
        let place: Bytes = list.cast();
        place.write(fits as u64)?.copy_from_slice(&names[..fits]);
        size.needed()?.set(names.len() as u64);
        Ok(())
    })
}

/// Bytes of the first names that fit whole.
fn fitting(names: &[u8], room: u64) -> usize {
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(names.len());
    names[..room].iter().rposition(|byte| *byte == 0).map_or(0, |end| end + 1)
}

/// Tells where a symlink leads, cut to the room there is for it.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_get_symlink_value(obj: Ptr<DfsObj>, buf: Str, size: Ptr<u64>) -> c_int {
    errno::now(|| read_link(&handles::file(obj)?.node(), buf, size))
}

/// Tells where a symlink leads: its bytes and a NUL, as many as fit.
pub(crate) fn read_link(node: &Node, buf: Str, size: Ptr<u64>) -> Result<()> {
    let room = size.get()?;
    let mut target = node.read_link()?;
    target.push(0);
    size.set(target.len() as u64);
    let fits = if buf.is_null() { 0 } else { room.min(target.len() as u64) };
    let place: Bytes = buf.cast();
    place.write(fits)?.copy_from_slice(&target[..fits as usize]);
    Ok(())
}
