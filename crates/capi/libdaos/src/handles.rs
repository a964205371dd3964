//! Handles: the cookies that C holds, and the open pools, containers and objects that they identify.
//!
//! A cookie consists of a type, the number of a slot in a table and the generation of that slot. An invalid, closed or
//! zero handle is therefore recognised and never dereferenced. Looking up a handle takes no lock.
use crate::abi::{Dfs, DfsObj, DfsPipeline, DfsSys, Dir, Handle, Ptr};
use crate::code::{Code, Result};
use crate::container::access::Rights;
use crate::dfs::{EntryFilter, Mount, OpenFile};
use crate::dfs_sys::{OpenDir, Sys};
use crate::event::Queue;
use crate::list::StoredPositions;
use crate::oit::Oit;
use crate::stores::OpenStore;
use esker::types::info::OpenMode;
use esker::{Access, Array, Container, Kv, Object, Pool, Transaction, Wait};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

mod slab;

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
    pub(crate) const FILTER: u64 = 10;
    pub(crate) const TX: u64 = 11;
    pub(crate) const KV: u64 = 13;
    /// A store of `esker.h`, or a part of one; [`OpenStore`](crate::stores::OpenStore) tells them apart.
    pub(crate) const STORE: u64 = 14;
    pub(crate) const OIT: u64 = 15;
}

#[cfg(not(all(loom, test)))]
static HANDLES: slab::Table<Entry> = slab::Table::new();

// Under loom only models of the table run, and nothing opens a handle.
#[cfg(all(loom, test))]
loom::lazy_static! {
    static ref HANDLES: slab::Table<Entry> = slab::Table::new();
}

/// A reference to an entry or a part of it, which keeps the entry alive.
pub(crate) type Held<T> = slab::Held<'static, Entry, T>;

/// Opens a handle.
///
/// # Errors
/// [`Code::NOMEM`] if the table is full.
pub(crate) fn open(entry: Entry) -> Result<Handle> {
    let kind = entry.kind();
    HANDLES.insert(entry).map(|cookie| Handle { cookie: cookie | kind })
}

/// Closes a handle of one of these types. The cookie becomes invalid; the entry lives until its last reference ends.
pub(crate) fn close(cookie: u64, kinds: &[u64]) -> Result<Held<Entry>> {
    if !kinds.contains(&(cookie & slab::SPARE_MASK)) {
        return Err(Code::NO_HDL);
    }
    let held = entry(Handle { cookie })?;
    held.close()?;
    Ok(held)
}

/// All entries that are open at the moment.
pub(crate) fn open_entries() -> impl Iterator<Item = Held<Entry>> {
    HANDLES.open_entries()
}

/// Closes every handle.
pub(crate) fn close_all() {
    HANDLES.close_all();
}

/// Invalidates all handles without dropping their entries: in a child after a fork these still belong to the parent.
pub(crate) fn forget_all() {
    HANDLES.forget_all();
}

/// The handle in a value that C treats as a pointer.
pub(crate) fn behind<T>(pointer: Ptr<T>) -> Handle {
    Handle { cookie: pointer.raw().addr() as u64 }
}

/// The handle as a value that C treats as a pointer. Nothing dereferences it, so invalid values are harmless.
pub(crate) fn as_pointer<T>(handle: Handle) -> Ptr<T> {
    let pointer = std::ptr::without_provenance_mut(handle.cookie as usize);
    // SAFETY: the type is opaque to C, and the library passes the value only to `behind`.
    unsafe { Ptr::new(pointer) }
}

/// Whether the handle has this type; it need not be open.
pub(crate) fn is(handle: Handle, kind: u64) -> bool {
    handle.cookie & slab::SPARE_MASK == kind
}

/// A reference to the part that `pick` finds in the entry of a handle. `NO_HDL` if it finds none.
pub(crate) fn held<T>(handle: Handle, pick: impl FnOnce(&Entry) -> Option<&T>) -> Result<Held<T>> {
    entry(handle)?.pick(pick)
}

/// The entry of an open handle of any type.
pub(crate) fn entry(handle: Handle) -> Result<Held<Entry>> {
    let held = HANDLES.hold(handle.cookie)?;
    // A cookie with another type than its entry's is forged.
    match held.kind() == handle.cookie & slab::SPARE_MASK {
        true => Ok(held),
        false => Err(Code::NO_HDL),
    }
}

/// The pool of a handle. A handle that `global2local` made is valid only until the original one is closed.
pub(crate) fn pool(handle: Handle) -> Result<Held<OpenPool>> {
    held(handle, |entry| match entry {
        Entry::Pool(pool) if pool.is_open() => Some(pool),
        _ => None,
    })
}

/// Closes the handle of a pool, unless `idle` returns an error, such as that the pool is in use.
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

/// The container of a handle, if the user may read its data.
pub(crate) fn container(handle: Handle) -> Result<Held<OpenContainer>> {
    let open = any_container(handle)?;
    open.rights.require_read()?;
    Ok(open)
}

/// The container of a handle, whatever the user may do with it.
pub(crate) fn any_container(handle: Handle) -> Result<Held<OpenContainer>> {
    held(handle, |entry| match entry {
        Entry::Container(container) => Some(container),
        _ => None,
    })
}

/// The object behind a handle of an object, Key-Value or array.
pub(crate) fn object(handle: Handle) -> Result<Held<Object>> {
    held(handle, Entry::object)
}

/// The Key-Value of a handle.
pub(crate) fn kv(handle: Handle) -> Result<Held<Kv>> {
    held(handle, |entry| match entry {
        Entry::Kv(kv) => Some(&kv.it),
        _ => None,
    })
}

/// The array of a handle.
pub(crate) fn array(handle: Handle) -> Result<Held<Array>> {
    held(handle, |entry| match entry {
        Entry::Array(array) => Some(array.array()),
        _ => None,
    })
}

/// The array of a handle, with the mode and the list positions of the handle.
pub(crate) fn open_array(handle: Handle) -> Result<Held<OpenArray>> {
    held(handle, |entry| match entry {
        Entry::Array(array) => Some(array),
        _ => None,
    })
}

/// The transaction of a handle.
pub(crate) fn transaction(handle: Handle) -> Result<Held<Transaction>> {
    held(handle, |entry| match entry {
        Entry::Tx(transaction) => Some(transaction),
        _ => None,
    })
}

/// The object id table of a handle.
pub(crate) fn oit(handle: Handle) -> Result<Held<Oit>> {
    held(handle, |entry| match entry {
        Entry::Oit(oit) => Some(oit),
        _ => None,
    })
}

/// The mounted file system of a handle.
pub(crate) fn mount(dfs: Ptr<Dfs>) -> Result<Held<Mount>> {
    held(behind(dfs), |entry| match entry {
        Entry::Mount(mount) => Some(mount),
        _ => None,
    })
}

/// The open file, directory or symlink of a handle.
pub(crate) fn file(obj: Ptr<DfsObj>) -> Result<Held<OpenFile>> {
    held(behind(obj), |entry| match entry {
        Entry::File(file) => Some(file),
        _ => None,
    })
}

/// The file system used by path of a handle.
pub(crate) fn sys(sys: Ptr<DfsSys>) -> Result<Held<Sys>> {
    held(behind(sys), |entry| match entry {
        Entry::Sys(sys) => Some(sys),
        _ => None,
    })
}

/// The open directory of a handle, in a file system used by path.
pub(crate) fn dir(dir: Ptr<Dir>) -> Result<Held<OpenDir>> {
    held(behind(dir), |entry| match entry {
        Entry::Dir(dir) => Some(dir),
        _ => None,
    })
}

/// The filter of directory entries of a handle.
pub(crate) fn filter(filter: Ptr<DfsPipeline>) -> Result<Held<EntryFilter>> {
    held(behind(filter), |entry| match entry {
        Entry::Filter(filter) => Some(filter),
        _ => None,
    })
}

/// The event queue of a handle. As in DAOS, a bad handle fails with [`Code::NONEXIST`] instead of [`Code::NO_HDL`].
pub(crate) fn queue(handle: Handle) -> Result<Arc<Queue>> {
    let queue = held(handle, |entry| match entry {
        Entry::Queue(queue) => Some(queue),
        _ => None,
    });
    queue.map(|queue| Arc::clone(&queue)).map_err(|_| Code::NONEXIST)
}

/// The `th` argument of an operation, kept until the operation completes.
pub(crate) struct Via(Option<Held<Transaction>>);

impl Via {
    /// The transaction, or the latest state.
    pub(crate) fn access(&self) -> Access<'_> {
        match &self.0 {
            None => Access::Latest,
            Some(transaction) => Access::Tx(transaction),
        }
    }
}

/// Looks up the `th` argument: 0 means no transaction.
pub(crate) fn via(handle: Handle) -> Result<Via> {
    match handle.cookie {
        0 => Ok(Via(None)),
        _ => transaction(handle).map(|transaction| Via(Some(transaction))),
    }
}

/// An open pool, container, object and so on.
pub(crate) enum Entry {
    Pool(OpenPool),
    Container(OpenContainer),
    Object(Opened<Object>),
    Array(OpenArray),
    Kv(Opened<Kv>),
    Tx(Transaction),
    Queue(Arc<Queue>),
    Oit(Oit),
    Mount(Mount),
    File(OpenFile),
    Sys(Sys),
    Dir(OpenDir),
    Filter(EntryFilter),
    Store(Box<OpenStore>),
}

impl Entry {
    /// Kind of the handle.
    pub(crate) fn kind(&self) -> u64 {
        match self {
            Self::Pool(_) => kind::POOL,
            Self::Container(_) => kind::CONTAINER,
            Self::Object(_) => kind::OBJECT,
            Self::Array(_) => kind::ARRAY,
            Self::Kv(_) => kind::KV,
            Self::Tx(_) => kind::TX,
            Self::Queue(_) => kind::QUEUE,
            Self::Oit(_) => kind::OIT,
            Self::Mount(_) => kind::MOUNT,
            Self::File(_) => kind::FILE,
            Self::Sys(_) => kind::SYS,
            Self::Dir(_) => kind::DIR,
            Self::Filter(_) => kind::FILTER,
            Self::Store(_) => kind::STORE,
        }
    }

    /// The object, if the entry is one.
    pub(crate) fn object(&self) -> Option<&Object> {
        match self {
            Self::Object(object) => Some(&object.it),
            Self::Kv(kv) => Some(kv.it.object()),
            Self::Array(array) => Some(array.array().object()),
            _ => None,
        }
    }

    /// The table for positions of listings by this handle. A position is stored in it if it is too long for an anchor.
    /// `None` if the entry is not an object.
    pub(crate) fn positions(&self) -> Option<&StoredPositions> {
        match self {
            Self::Object(object) => Some(&object.positions),
            Self::Array(array) => Some(&array.positions),
            Self::Kv(kv) => Some(&kv.positions),
            _ => None,
        }
    }
}

/// An array. Changing its chunk size replaces it, and the earlier ones stay alive with the handle.
pub(crate) struct OpenArray {
    first: Array,
    /// The mode it was opened with, `DAOS_OO_*`.
    pub(crate) mode: u32,
    pub(crate) positions: StoredPositions,
    latest: AtomicPtr<Array>,
    /// The arrays that `latest` points or pointed to. They live as long as the handle.
    replacements: Mutex<Vec<Pinned>>,
}

/// An owned array at a fixed address, which other pointers may refer to.
struct Pinned(*mut Array);

// SAFETY: it owns the array as a box does.
unsafe impl Send for Pinned where Box<Array>: Send {}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: it was created by `Box::into_raw`, and pointers to it do not outlive its owner.
        drop(unsafe { Box::from_raw(self.0) });
    }
}

impl OpenArray {
    /// An open array, which [`OpenArray::change`] may replace.
    pub(crate) fn new(array: Array, mode: u32) -> Self {
        Self {
            first: array,
            mode,
            positions: StoredPositions::default(),
            latest: AtomicPtr::new(std::ptr::null_mut()),
            replacements: Mutex::default(),
        }
    }

    /// The array that the handle uses now.
    pub(crate) fn array(&self) -> &Array {
        // SAFETY: it is null or points to an array in `replacements`, which only grows.
        unsafe { self.latest.load(Ordering::Acquire).as_ref() }.unwrap_or(&self.first)
    }

    /// Replaces the array. All earlier ones are kept until the handle is closed, because operations in other threads
    /// may still use them.
    pub(crate) fn change(&self, array: Array) {
        let array = Box::into_raw(Box::new(array));
        let mut replacements = self.replacements.lock().unwrap_or_else(PoisonError::into_inner);
        replacements.push(Pinned(array));
        self.latest.store(array, Ordering::Release);
    }
}

/// An object or Key-Value, and the positions of its listings.
pub(crate) struct Opened<T> {
    pub(crate) it: T,
    pub(crate) positions: StoredPositions,
}

impl<T> Opened<T> {
    /// An open object or Key-Value without positions of listings.
    pub(crate) fn new(it: T) -> Self {
        Self { it, positions: StoredPositions::default() }
    }
}

/// A pool, the name it was opened with, and the number of containers opened through it.
pub(crate) struct OpenPool {
    pub(crate) pool: Pool,
    /// The pool for opening containers: as in DAOS, a read-only connection does not make containers read-only.
    pub(crate) for_containers: Pool,
    name: Box<str>,
    /// Number of containers that are open through this handle.
    uses: Arc<AtomicU32>,
    /// Whether the connection is open: shared with all handles that `global2local` made from this one in this process.
    open: Arc<AtomicBool>,
    /// Whether closing this handle closes the connection.
    is_own: bool,
}

impl OpenPool {
    /// A pool that this process has opened itself, so that closing its handle closes the pool. `name` is the one it was
    /// opened with.
    pub(crate) fn new(pool: Pool, name: &str) -> Self {
        let open = Arc::new(AtomicBool::new(true));
        let (for_containers, name) = (pool.clone(), with_absolute_path(name).into());
        Self { pool, for_containers, name, uses: Arc::default(), open, is_own: true }
    }

    /// Connects to a pool. For a read-only connection, the pool is also opened for writing if this user may do so,
    /// because containers may be opened for writing nevertheless.
    pub(crate) fn connect(name: &str, mode: OpenMode) -> esker::types::Result<Self> {
        if mode == OpenMode::ReadOnly
            && let Ok(for_containers) = Pool::connect(name, OpenMode::ReadWrite)
        {
            let pool = Pool::from_backend(Arc::clone(for_containers.backend()), mode);
            let mut open = Self::new(pool, name);
            open.for_containers = for_containers;
            return Ok(open);
        }
        Ok(Self::new(Pool::connect(name, mode)?, name))
    }

    /// Returns an open pool for another handle on the same connection. That handle becomes invalid when this one is
    /// closed.
    pub(crate) fn lend(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            for_containers: self.for_containers.clone(),
            name: self.name.clone(),
            uses: Arc::default(),
            open: Arc::clone(&self.open),
            is_own: false,
        }
    }

    /// Whether the connection is open. Closing the handle that made it ends it for all handles.
    pub(crate) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    /// The URL with which other processes open the pool. A name that is not a URL may mean something else to them.
    pub(crate) fn url(&self) -> Result<String> {
        match self.name.contains(':') {
            true => Ok(self.name.to_string()),
            false => Ok(self.pool.info().wait()?.url),
        }
    }

    /// Whether containers are open through this handle.
    pub(crate) fn is_used(&self) -> bool {
        self.uses.load(Ordering::Acquire) > 0
    }

    /// Counts a container that was opened through this pool, and returns it with all rights.
    pub(crate) fn with(&self, container: Container) -> OpenContainer {
        self.uses.fetch_add(1, Ordering::AcqRel);
        let is_read = container.mode() == OpenMode::ReadOnly;
        let pool = if is_read { self.pool.clone() } else { self.for_containers.clone() };
        let uses = Arc::clone(&self.uses);
        let (rights, described) = (Rights::ALL, None);
        OpenContainer { container, described, rights, pool, uses, is_own: true, is_timed: true }
    }
}

/// Schemes of URLs with the path of a pool.
const PATH_SCHEMES: [&str; 3] = ["esker", "nodes", "posix"];

/// The name of a pool; a URL with a relative path gets the absolute one, because other processes may have another working
/// directory.
fn with_absolute_path(name: &str) -> String {
    let absolute = || {
        let (scheme, path) = name.split_once(':')?;
        let path = PATH_SCHEMES.contains(&scheme).then(|| path.strip_prefix("//").unwrap_or(path));
        let path = std::path::absolute(path?).ok()?;
        Some(format!("{scheme}:{}", path.to_str()?))
    };
    absolute().unwrap_or_else(|| name.to_owned())
}

impl Drop for OpenPool {
    fn drop(&mut self) {
        if self.is_own {
            self.open.store(false, Ordering::Release);
        }
    }
}

/// A container, counted as a use of the pool it was opened through.
pub(crate) struct OpenContainer {
    pub(crate) container: Container,
    /// The container opened for changes of its metadata, if the user may change that but not the data.
    described: Option<Container>,
    /// Permissions of the user.
    pub(crate) rights: Rights,
    pub(crate) pool: Pool,
    uses: Arc<AtomicU32>,
    /// Whether closing this handle closes the container.
    is_own: bool,
    /// Whether opening and closing it update its times.
    pub(crate) is_timed: bool,
}

impl OpenContainer {
    /// Sets the rights of the user. `described` is the container for changes of metadata, if not the container itself.
    pub(crate) fn for_user(mut self, rights: Rights, described: Option<Container>) -> Self {
        (self.rights, self.described) = (rights, described);
        self
    }

    /// The container to use for changes of its metadata.
    pub(crate) fn described(&self) -> &Container {
        self.described.as_ref().unwrap_or(&self.container)
    }

    /// Returns an open container for another handle, which uses the connection `pool`, with the rights of the same
    /// user.
    pub(crate) fn lend(&self, pool: &OpenPool) -> Self {
        let lent = pool.with(self.container.clone()).for_user(self.rights, self.described.clone());
        lent.lent()
    }

    /// Marks a handle that becomes invalid when the original one is closed.
    fn lent(mut self) -> Self {
        self.is_own = false;
        self.untimed()
    }

    /// Marks a handle that does not update the container's times.
    pub(crate) fn untimed(mut self) -> Self {
        self.is_timed = false;
        self
    }

    /// Number of handles that the backend counts for this one.
    pub(crate) fn handles(&self) -> u32 {
        u32::from(self.is_own) + u32::from(self.is_own && self.described.is_some())
    }

    /// Closes the container for all handles on it.
    pub(crate) async fn evict(&self) -> Result<()> {
        if let Some(described) = &self.described {
            described.close().await?;
        }
        Ok(self.container.close().await?)
    }

    /// Closes the container, unless the handle is lent.
    pub(crate) async fn close(&self) -> Result<()> {
        if self.is_own { self.evict().await } else { Ok(()) }
    }
}

impl Drop for OpenContainer {
    fn drop(&mut self) {
        self.uses.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_in_names_of_pools_become_absolute() {
        let here = std::env::current_dir().unwrap();
        let here = here.to_str().unwrap();
        for name in ["tank", "memory:./p", "rados:p?conf=c", "daos:p", "posix:", "esker:/a/p"] {
            assert_eq!(with_absolute_path(name), name);
        }
        for (name, absolute) in [
            ("posix:./p?fsync=on", format!("posix:{here}/p?fsync=on")),
            ("esker:p", format!("esker:{here}/p")),
            ("nodes:///a/p.map", "nodes:/a/p.map".to_owned()),
        ] {
            assert_eq!(with_absolute_path(name), absolute);
        }
    }
}
