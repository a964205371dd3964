//! Extended attributes.
use crate::answer::{Answer, refuse};
use crate::edge::{In, Out, Text, export};
use crate::open_file::OpenFile;
use crate::paths::MountPath;
use crate::serve::{at, at_node, on};
use dfs::{Follow, XattrMode};
use esker_preload_interface::Node;
use std::ffi::c_int;

const HERE: c_int = libc::AT_FDCWD;

/// Beginnings of names that can be set. Linux refuses names outside its namespaces. In the namespace `system` are access
/// control lists, which are not supported; other file systems without them refuse these names, too.
const NAMESPACES: [&[u8]; 3] = [b"user.", b"trusted.", b"security."];

/// Copies a value to a buffer of `size` bytes, and returns its length. With `size` 0, returns only the length.
fn copy_out(value: &[u8], room: Out<u8>, size: usize) -> Answer<isize> {
    match size {
        0 => {}
        _ if size < value.len() => return refuse(libc::ERANGE),
        _ => room.buffer(value.len())?.copy_from_slice(value),
    }
    Ok(value.len() as isize)
}

/// Serves `getxattr`: copies the value of an attribute, and returns its length in bytes.
fn get(node: &Node, name: Text, room: Out<u8>, size: usize) -> Answer<isize> {
    let value = node.get_xattr(name.bytes().unwrap_or_default())?;
    copy_out(&value, room, size)
}

/// Serves `listxattr`: copies the names, each with a zero byte at its end, and returns their total length in bytes.
fn list(node: &Node, room: Out<u8>, size: usize) -> Answer<isize> {
    let names = node.list_xattrs()?;
    let text: Vec<u8> = names.iter().flat_map(|name| [&**name, b"\0"].concat()).collect();
    copy_out(&text, room, size)
}

/// Serves `setxattr`: `flags` state whether the attribute must be new or must exist.
fn set(node: &Node, name: Text, value: In<u8>, size: usize, flags: c_int) -> Answer<c_int> {
    let mode = match flags {
        0 => XattrMode::Any,
        libc::XATTR_CREATE => XattrMode::Create,
        libc::XATTR_REPLACE => XattrMode::Replace,
        _ => return refuse(libc::EINVAL),
    };
    let name = name.bytes().unwrap_or_default();
    if !NAMESPACES.iter().any(|namespace| name.starts_with(namespace)) {
        return refuse(libc::EOPNOTSUPP);
    }
    node.set_xattr(name, value.data(size)?, mode)?;
    Ok(0)
}

fn remove(node: &Node, name: Text) -> Answer<c_int> {
    node.remove_xattr(name.bytes().unwrap_or_default())?;
    Ok(0)
}

export! {
    fn getxattr(path: Text, name: Text, room: Out<u8>, size: usize) -> isize | next {
        at_node(path, |node| get(&node, name, room, size), |path| next(path, name, room, size))
    }

    fn lgetxattr(path: Text, name: Text, room: Out<u8>, size: usize) -> isize | next {
        let ours = |path: MountPath<'_>| path.with_node(Follow::AllButLast, |node| get(&node, name, room, size));
        at(HERE, path, ours, |_, path| next(path, name, room, size))
    }

    fn fgetxattr(fd: c_int, name: Text, room: Out<u8>, size: usize) -> isize | next {
        let ours = |file: &OpenFile| get(&file.node()?, name, room, size);
        on(fd, ours, || next(fd, name, room, size))
    }

    fn listxattr(path: Text, room: Out<u8>, size: usize) -> isize | next {
        at_node(path, |node| list(&node, room, size), |path| next(path, room, size))
    }

    fn llistxattr(path: Text, room: Out<u8>, size: usize) -> isize | next {
        let ours = |path: MountPath<'_>| path.with_node(Follow::AllButLast, |node| list(&node, room, size));
        at(HERE, path, ours, |_, path| next(path, room, size))
    }

    fn flistxattr(fd: c_int, room: Out<u8>, size: usize) -> isize | next {
        on(fd, |file| list(&file.node()?, room, size), || next(fd, room, size))
    }

    fn setxattr(path: Text, name: Text, value: In<u8>, size: usize, flags: c_int) -> c_int | next {
        at_node(path, |node| set(&node, name, value, size, flags), |path| next(path, name, value, size, flags))
    }

    fn lsetxattr(path: Text, name: Text, value: In<u8>, size: usize, flags: c_int) -> c_int | next {
        let ours = |path: MountPath<'_>| path.with_node(Follow::AllButLast, |node| set(&node, name, value, size, flags));
        at(HERE, path, ours, |_, path| next(path, name, value, size, flags))
    }

    fn fsetxattr(fd: c_int, name: Text, value: In<u8>, size: usize, flags: c_int) -> c_int | next {
        let ours = |file: &OpenFile| set(&file.node()?, name, value, size, flags);
        on(fd, ours, || next(fd, name, value, size, flags))
    }

    fn removexattr(path: Text, name: Text) -> c_int | next {
        at_node(path, |node| remove(&node, name), |path| next(path, name))
    }

    fn lremovexattr(path: Text, name: Text) -> c_int | next {
        let ours = |path: MountPath<'_>| path.with_node(Follow::AllButLast, |node| remove(&node, name));
        at(HERE, path, ours, |_, path| next(path, name))
    }

    fn fremovexattr(fd: c_int, name: Text) -> c_int | next {
        on(fd, |file| remove(&file.node()?, name), || next(fd, name))
    }
}
