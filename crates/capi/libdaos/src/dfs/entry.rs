//! Removing and moving entries.
use super::{Name, parent_of};
use crate::abi::{Dfs, DfsObj, ObjId, Ptr, Str};
use crate::errno::{self, Result};
use crate::handles;
use ::dfs::{Node, RenameMode};
use esker::types::ErrorKind;
use std::ffi::c_int;

/// Removes an entry.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_remove(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: Str,
    force: u8,
    oid: Ptr<ObjId>,
) -> c_int {
    errno::now(|| {
        let (mount, parent) = (handles::mount(dfs)?, parent_of(parent)?);
        remove(&parent.node(&mount.fs), Name::read(name)?.0, force != 0, oid)
    })
}

/// Removes the entry `name`, and stores the id of its object in `oid` unless that is null. With `force`, a directory is
/// removed with its content.
pub(crate) fn remove(dir: &Node, name: &[u8], force: bool, oid: Ptr<ObjId>) -> Result<()> {
    let removed = if oid.is_null() { None } else { Some(dir.lookup(name)?.oid()) };
    match dir.unlink(name) {
        Err(error) if error.kind() == ErrorKind::IsDirectory => match force {
            true => dir.remove_tree(name).map(drop)?,
            false => dir.rmdir(name)?,
        },
        done => done?,
    }
    if let Some(removed) = removed {
        oid.set(removed.into());
    }
    Ok(())
}

/// Moves an entry. Stores the id of the object that it replaced in `oid`, or zeros if there was none.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_move(
    dfs: Ptr<Dfs>,
    parent: Ptr<DfsObj>,
    name: Str,
    new_parent: Ptr<DfsObj>,
    new_name: Str,
    oid: Ptr<ObjId>,
) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        let (from, to) =
            (parent_of(parent)?.node(&mount.fs), parent_of(new_parent)?.node(&mount.fs));
        let (name, new_name) = (Name::read(name)?.0, Name::read(new_name)?.0);
        let object = |dir: &Node, name: &[u8]| dir.lookup(name).ok().map(|node| node.oid());
        let replaced = match oid.is_null() {
            true => None,
            // A move to another name of the same object replaces nothing.
            false => object(&to, new_name).filter(|found| object(&from, name) != Some(*found)),
        };
        from.rename(name, &to, new_name, RenameMode::Replace)?;
        if !oid.is_null() {
            oid.set(replaced.map_or_else(ObjId::default, ObjId::from));
        }
        Ok(())
    })
}

/// Swaps two entries.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_exchange(
    dfs: Ptr<Dfs>,
    parent1: Ptr<DfsObj>,
    name1: Str,
    parent2: Ptr<DfsObj>,
    name2: Str,
) -> c_int {
    errno::now(|| {
        let mount = handles::mount(dfs)?;
        let (one, other) =
            (parent_of(parent1)?.node(&mount.fs), parent_of(parent2)?.node(&mount.fs));
        let (name, other_name) = (Name::read(name1)?.0, Name::read(name2)?.0);
        Ok(one.rename(name, &other, other_name, RenameMode::Exchange)?)
    })
}
