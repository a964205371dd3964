//! Handles: the cookies C holds, and what stands behind them.
//!
//! A cookie tells the type, the place in a table and the generation of that place, so that a wild,
//! closed or zero handle is known as such and never followed. Looking one up takes no lock.
mod entry;
mod pool;
mod slab;
mod sync;

pub(crate) use entry::{Entry, OpenArray, Opened};
pub(crate) use pool::{OpenContainer, OpenPool};

use crate::abi::{Dfs, DfsObj, DfsSys, Dir, Handle, Ptr};
use crate::code::{Code, Result};
use crate::dfs::{Mount, OpenFile};
use crate::dfs_sys::{OpenDir, Sys};
use crate::event::Queue;
use crate::oit::Oit;
use esker::{Access, Array, Kv, Object, Transaction};
use std::sync::Arc;

/// Types of handles, the lower four bits of a cookie.
pub(crate) mod kind {
    pub(crate) const QUEUE: u64 = 1;
    pub(crate) const MOUNT: u64 = 2;
    pub(crate) const POOL: u64 = 3;
    pub(crate) const FILE: u64 = 4;
    pub(crate) const CONTAINER: u64 = 5;
    pub(crate) const SYS: u64 = 6;
    pub(crate) const OBJECT: u64 = 7;
    pub(crate) const DIR: u64 = 8;
    pub(crate) const ARRAY: u64 = 9;
    pub(crate) const TX: u64 = 11;
    pub(crate) const KV: u64 = 13;
    pub(crate) const OIT: u64 = 15;
}

#[cfg(not(all(loom, test)))]
static HANDLES: slab::Table<Entry> = slab::Table::new();

// Here loom runs models of the table, and nobody opens anything.
#[cfg(all(loom, test))]
loom::lazy_static! {
    static ref HANDLES: slab::Table<Entry> = slab::Table::new();
}

/// A part of an entry, which stays while this is held.
pub(crate) type Held<T> = slab::Held<'static, Entry, T>;

/// Opens a handle.
///
/// # Errors
/// [`Code::NOMEM`] where the table is full.
pub(crate) fn open(entry: Entry) -> Result<Handle> {
    let kind = entry.kind();
    HANDLES.insert(entry).map(|cookie| Handle { cookie: cookie | kind })
}

/// Closes a handle of one of these types: it is gone for others, its entry stays while held.
pub(crate) fn close(cookie: u64, kinds: &[u64]) -> Result<Held<Entry>> {
    if !kinds.contains(&(cookie & slab::SPARE_MASK)) {
        return Err(Code::NO_HDL);
    }
    let held = entry(Handle { cookie })?;
    held.close()?;
    Ok(held)
}

/// What is open just now.
pub(crate) fn open_entries() -> impl Iterator<Item = Held<Entry>> {
    HANDLES.open_entries()
}

/// Closes every handle.
pub(crate) fn close_all() {
    HANDLES.close_all();
}

/// Makes all handles unknown without ending what they stand for: in a child after a fork that is
/// still the parent's.
pub(crate) fn forget_all() {
    HANDLES.forget_all();
}

/// The handle that C holds in place of a pointer.
pub(crate) fn behind<T>(pointer: Ptr<T>) -> Handle {
    Handle { cookie: pointer.raw().addr() as u64 }
}

/// The handle in place of a pointer, which nobody follows: so wild ones do no harm.
pub(crate) fn as_pointer<T>(handle: Handle) -> Ptr<T> {
    let pointer = std::ptr::without_provenance_mut(handle.cookie as usize);
    // SAFETY: what the headers say of it is that it is one of ours, and only `behind` takes it.
    unsafe { Ptr::new(pointer) }
}

/// True where the handle is of this type, whether it is open or not.
pub(crate) fn is(handle: Handle, kind: u64) -> bool {
    handle.cookie & slab::SPARE_MASK == kind
}

fn held<T>(handle: Handle, pick: impl FnOnce(&Entry) -> Option<&T>) -> Result<Held<T>> {
    entry(handle)?.pick(pick)
}

/// Anything open.
pub(crate) fn entry(handle: Handle) -> Result<Held<Entry>> {
    let held = HANDLES.hold(handle.cookie)?;
    // A type that is not the entry's was made up.
    match held.kind() == handle.cookie & slab::SPARE_MASK {
        true => Ok(held),
        false => Err(Code::NO_HDL),
    }
}

/// An open pool.
pub(crate) fn pool(handle: Handle) -> Result<Held<OpenPool>> {
    held(handle, |entry| match entry {
        Entry::Pool(pool) if pool.is_open() => Some(pool),
        _ => None,
    })
}

/// Ends the use of a pool that is `idle`.
pub(crate) fn close_pool(
    handle: Handle,
    idle: impl FnOnce(&OpenPool) -> Result<()>,
) -> Result<Held<Entry>> {
    let pool = held(handle, |entry| match entry {
        Entry::Pool(pool) => Some(pool),
        _ => None,
    })?;
    idle(&pool)?;
    close(handle.cookie, &[kind::POOL])
}

/// An open container whose data its user may read.
pub(crate) fn container(handle: Handle) -> Result<Held<OpenContainer>> {
    let open = any_container(handle)?;
    open.rights.to_read_data()?;
    Ok(open)
}

/// An open container, whatever its user may do.
pub(crate) fn any_container(handle: Handle) -> Result<Held<OpenContainer>> {
    held(handle, |entry| match entry {
        Entry::Container(container) => Some(container),
        _ => None,
    })
}

/// An object, however it was opened.
pub(crate) fn object(handle: Handle) -> Result<Held<Object>> {
    held(handle, Entry::object)
}

/// A Key-Value.
pub(crate) fn kv(handle: Handle) -> Result<Held<Kv>> {
    held(handle, |entry| match entry {
        Entry::Kv(kv) => Some(&kv.it),
        _ => None,
    })
}

/// An array.
pub(crate) fn array(handle: Handle) -> Result<Held<Array>> {
    held(handle, |entry| match entry {
        Entry::Array(array) => Some(array.array()),
        _ => None,
    })
}

/// An array with what belongs to its handle.
pub(crate) fn open_array(handle: Handle) -> Result<Held<OpenArray>> {
    held(handle, |entry| match entry {
        Entry::Array(array) => Some(array),
        _ => None,
    })
}

/// A transaction.
pub(crate) fn transaction(handle: Handle) -> Result<Held<Transaction>> {
    held(handle, |entry| match entry {
        Entry::Tx(transaction) => Some(transaction),
        _ => None,
    })
}

/// An object id table.
pub(crate) fn oit(handle: Handle) -> Result<Held<Oit>> {
    held(handle, |entry| match entry {
        Entry::Oit(oit) => Some(oit),
        _ => None,
    })
}

/// A mounted file system.
pub(crate) fn mount(dfs: Ptr<Dfs>) -> Result<Held<Mount>> {
    held(behind(dfs), |entry| match entry {
        Entry::Mount(mount) => Some(mount),
        _ => None,
    })
}

/// An open file, directory or symlink.
pub(crate) fn file(obj: Ptr<DfsObj>) -> Result<Held<OpenFile>> {
    held(behind(obj), |entry| match entry {
        Entry::File(file) => Some(file),
        _ => None,
    })
}

/// A file system that is used by paths.
pub(crate) fn sys(sys: Ptr<DfsSys>) -> Result<Held<Sys>> {
    held(behind(sys), |entry| match entry {
        Entry::Sys(sys) => Some(sys),
        _ => None,
    })
}

/// An open directory of a file system that is used by paths.
pub(crate) fn dir(dir: Ptr<Dir>) -> Result<Held<OpenDir>> {
    held(behind(dir), |entry| match entry {
        Entry::Dir(dir) => Some(dir),
        _ => None,
    })
}

/// An event queue; what is none does not exist, rather than being no handle.
pub(crate) fn queue(handle: Handle) -> Result<Arc<Queue>> {
    let queue = held(handle, |entry| match entry {
        Entry::Queue(queue) => Some(queue),
        _ => None,
    });
    queue.map(|queue| Arc::clone(&queue)).map_err(|_| Code::NONEXIST)
}

/// The `th` argument of an operation, kept while the operation lasts.
pub(crate) struct Via(Option<Held<Transaction>>);

impl Via {
    pub(crate) fn access(&self) -> Access<'_> {
        match &self.0 {
            None => Access::Latest,
            Some(transaction) => Access::Tx(transaction),
        }
    }
}

/// What an operation sees and where its changes go.
pub(crate) fn via(handle: Handle) -> Result<Via> {
    match handle.cookie {
        0 => Ok(Via(None)),
        _ => transaction(handle).map(|transaction| Via(Some(transaction))),
    }
}
