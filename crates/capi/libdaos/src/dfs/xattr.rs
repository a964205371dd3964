//! Extended attributes, and the targets of symlinks.
use super::file::{opened, opened_to_change};
use crate::abi::{Bytes, Dfs, DfsObj, Ptr, Str};
use crate::attribute;
use crate::errno::{self, Errno, Result};
use crate::handles;
use ::dfs::limits::{XATTR_NAME_MAX, XATTR_VALUE_MAX};
use ::dfs::{Node, XattrMode};
use std::ffi::c_int;

/// Reads the name of an extended attribute: 1 to [`XATTR_NAME_MAX`] bytes, otherwise `INVAL`.
pub(crate) fn name<'a>(name: Str) -> Result<&'a [u8]> {
    match name.bytes()? {
        bytes if (1..=XATTR_NAME_MAX).contains(&bytes.len()) => Ok(bytes),
        _ => Err(Errno::INVAL),
    }
}

/// Returns the size of the caller's buffer in bytes; 0 for a null buffer, by which a caller only asks for the size of
/// the value.
pub(crate) fn room_of(place: Bytes, size: Ptr<u64>) -> Result<u64> {
    size.needed()?;
    Ok(if place.is_null() { 0 } else { size.get()? })
}

/// Copies a value to the caller's buffer, and sets `size`, which is the size of the buffer, to that of the value.
///
/// # Errors
/// `short` if it does not fit.
pub(crate) fn give(found: &[u8], value: Bytes, size: Ptr<u64>, short: Errno) -> Result<()> {
    let (room, len) = (room_of(value, size)?, found.len() as u64);
    size.set(len);
    if room < len {
        return Err(short);
    }
    value.write(len)?.copy_from_slice(found);
    Ok(())
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
    errno::now(|| set(&opened_to_change(dfs, obj)?.node(), attribute, (value, size), flags))
}

/// Sets an attribute of a node to the `size` bytes at `value`. `flags` are those of `setxattr(2)`.
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
        match room_of(value, size)? {
            0 => size.set(found.len() as u64),
            _ => give(&found, value, size, Errno::TOOBIG)?,
        }
        Ok(())
    })
}

/// Removes an attribute.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_removexattr(dfs: Ptr<Dfs>, obj: Ptr<DfsObj>, attribute: Str) -> c_int {
    errno::now(|| Ok(opened_to_change(dfs, obj)?.node().remove_xattr(name(attribute)?)?))
}

/// Lists the names of a node's attributes that fit the buffer, and replaces the size of the buffer by the bytes that
/// all names take. Returns true if all fit.
pub(crate) fn list(node: &Node, list: Str, size: Ptr<u64>) -> Result<bool> {
    let names = node.list_xattrs()?;
    let room = room_of(list.cast(), size)?;
    let (listed, len) = attribute::listed(names.iter().map(Vec::as_slice), room);
    let place: Bytes = list.cast();
    place.write(listed.len() as u64)?.copy_from_slice(&listed);
    size.set(len);
    Ok(len <= room)
}

/// Lists the names of attributes that fit the buffer, and returns the size of all names in bytes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_listxattr(
    dfs: Ptr<Dfs>,
    obj: Ptr<DfsObj>,
    list: Str,
    size: Ptr<u64>,
) -> c_int {
    errno::now(|| {
        self::list(&opened(dfs, obj)?.node(), list, size)?;
        Ok(())
    })
}

/// Reads the target of a symlink, cut to the size of the buffer.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_get_symlink_value(obj: Ptr<DfsObj>, buf: Str, size: Ptr<u64>) -> c_int {
    errno::now(|| read_link(&handles::file(obj)?.node(), buf, size))
}

/// Reads the target of a symlink: its bytes and a NUL, as many as fit. `size` becomes the length of both.
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
