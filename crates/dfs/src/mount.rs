//! Mounted file systems.
use crate::attr::Attr;
use crate::deferred_close::DeferredCloses;
use crate::directory_cache::DirectoryCache;
use crate::entry;
use crate::entry_cache::EntryCache;
use crate::entry_hints::EntryHints;
use crate::inode::{Inode, Kind};
use crate::lazy::DirectoryTimes;
use crate::lease_on_create::NewFileLeases;
use crate::limits::RETRIES_MAX;
use crate::node::Node;
use crate::oids::Oids;
use crate::open::OpenFiles;
use crate::orphans;
use crate::path_validation::ValidatedPaths;
use crate::rename::Moves;
use crate::superblock::{self, NewDfs, ROOT_NAME, Roots, Superblock};
use esker::backend::NewContainer;
use esker::types::info::{ContainerInfo, OpenMode, Space};
use esker::types::{Epoch, Error, ErrorKind, Result};
use esker::{Access, Container, Pool, Wait};
use std::sync::{Arc, OnceLock, PoisonError, RwLock, Weak};

/// Mount options.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MountOptions {
    /// Refuse changes.
    pub read_only: bool,
    /// Mount the state of this snapshot; implies `read_only`.
    pub snapshot: Option<Epoch>,
}

/// A mounted file system: a POSIX namespace in a container (DAOS: `dfs_t`). Clones share it.
///
/// Calls block, as those of POSIX do. Errors carry the errno of POSIX ([`Error::errno`]).
#[derive(Clone)]
pub struct Dfs(Arc<Mounted>);

pub(crate) struct Mounted {
    container: Container,
    superblock: Superblock,
    roots: Roots,
    view: Access<'static>,
    read_only: bool,
    /// Inode of the root when this process last read it; others may have changed it since.
    root: RwLock<Inode>,
    mount_point: OnceLock<Box<[u8]>>,
    pub(crate) oids: Oids,
    pub(crate) new_file_leases: NewFileLeases,
    pub(crate) open_files: OpenFiles,
    pub(crate) deferred_closes: Arc<DeferredCloses>,
    pub(crate) times: DirectoryTimes,
    pub(crate) moves: Moves,
    pub(crate) entry_hints: EntryHints,
    pub(crate) entry_cache: EntryCache,
    pub(crate) validated_paths: ValidatedPaths,
    pub(crate) directory_cache: DirectoryCache,
}

/// Space of a file system (POSIX: `statvfs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FsSpace {
    /// Bytes per block; the other numbers of bytes are multiples of it.
    pub block_size: u64,
    /// Bytes of the pool for data.
    pub total: u64,
    /// Free bytes of the pool for data.
    pub free: u64,
    /// Approximate number of entries that fit the index.
    pub files: u64,
    /// Approximate number of entries that still fit.
    pub files_free: u64,
}

/// Bytes per block as `statvfs` shows them.
const BLOCK_SIZE: u64 = 4096;
/// Approximate bytes of the index per file: its entry and its share of pages.
const INDEX_BYTES_PER_FILE: u64 = 512;

/// Creates the container, declared a file system where that cannot be done later.
fn declare(pool: &Pool, container: &NewContainer<'_>, new: &NewDfs) -> Result<ContainerInfo> {
    if !pool.capabilities().fixed_layouts {
        return pool.create_container(container).wait();
    }
    let properties = superblock::properties(Roots::for_new_container(pool, &new.superblock()?)?);
    let properties = properties.map(|(name, value)| (format!("prop:{name}"), value));
    let mut metadata = container.metadata.to_vec();
    metadata.extend(properties.iter().map(|(name, value)| (name.as_str(), value.as_slice())));
    pool.create_container(&container.clone().with_metadata(&metadata)).wait()
}

/// Refuses a container that was not created as this file system, where that cannot be done later.
fn check_declared(container: &Container, new: &NewDfs) -> Result<()> {
    if !container.capabilities().fixed_layouts {
        return Ok(());
    }
    let roots = Roots::from_superblock(container, &new.superblock()?)?;
    for (name, value) in superblock::properties(roots) {
        if container.properties().get(name).wait()?.as_deref() != Some(&value) {
            return Err(fixed_layout_error(container));
        }
    }
    Ok(())
}

impl Dfs {
    /// Creates a container with a file system (DAOS: `dfs_cont_create`).
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the label is taken, [`ErrorKind::Invalid`] for invalid sizes or
    /// classes, [`ErrorKind::NotSupported`] if the pool has no transactions.
    pub fn create_container(
        pool: &Pool,
        container: &NewContainer<'_>,
        new: &NewDfs,
    ) -> Result<ContainerInfo> {
        let info = declare(pool, container, new)?;
        let name = info.uuid.to_string();
        let format = || {
            let container = pool.open_container(&name, OpenMode::ReadWrite).wait()?;
            Self::format(&container, new)?;
            container.close().wait()
        };
        match format() {
            Ok(()) => Ok(info),
            Err(error) => {
                let _ = pool.destroy_container(&name, true).wait();
                Err(error)
            }
        }
    }

    /// Creates a file system in a container that has none.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if there is one: of racing callers one wins; [`ErrorKind::NotSupported`] if the pool takes the
    /// layout of a container only when it creates it; else as [`Dfs::create_container`].
    pub fn format(container: &Container, new: &NewDfs) -> Result<()> {
        container.transaction().map(drop).map_err(explain_no_transactions)?;
        check_declared(container, new)?;
        let roots = superblock::format(container, new)?;
        let properties = superblock::properties(roots);
        let changes: Vec<_> =
            properties.iter().map(|(name, value)| (*name, Some(value.as_slice()))).collect();
        container.properties().change(&changes).wait()
    }

    /// Opens the pool and the container with these names and mounts its file system.
    ///
    /// # Errors
    /// The errors of [`Pool::connect`], [`Pool::open_container`] and [`Dfs::mount`].
    pub fn open(pool: &str, container: &str, options: MountOptions) -> Result<Self> {
        let read_only = options.read_only || options.snapshot.is_some();
        let mode = if read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let container = Pool::connect(pool, mode)?.open_container(container, mode).wait()?;
        Self::mount(container, options)
    }

    /// Mounts the file system of an open container (DAOS: `dfs_mount`).
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if the container holds none, [`ErrorKind::NotFound`] for an unknown
    /// snapshot, or if its superblock or the entry of the root was removed, [`ErrorKind::NotSupported`] if the backend has no transactions.
    pub fn mount(container: Container, options: MountOptions) -> Result<Self> {
        container.transaction_read_only().map(drop).map_err(explain_no_transactions)?;
        let view = match options.snapshot {
            Some(epoch) => container.at(epoch).wait()?,
            None => Access::Latest,
        };
        let superblock = Superblock::read(&container, view)?;
        let roots = Roots::from_superblock(&container, &superblock)?;
        let root = entry::fetch(&container.object(roots.superblock), ROOT_NAME, view).wait()?;
        let root = root.filter(|root| root.kind == Kind::Directory).ok_or_else(no_root_error)?;
        let roots = roots.with_root(root.oid);
        let read_only = options.read_only
            || options.snapshot.is_some()
            || container.mode() == OpenMode::ReadOnly;
        let mounted = Mounted {
            container,
            superblock,
            roots,
            view,
            read_only,
            root: RwLock::new(root),
            mount_point: OnceLock::new(),
            oids: Oids::default(),
            new_file_leases: NewFileLeases::default(),
            open_files: OpenFiles::default(),
            deferred_closes: Arc::default(),
            times: DirectoryTimes::default(),
            moves: Moves::default(),
            entry_hints: EntryHints::default(),
            entry_cache: EntryCache::default(),
            validated_paths: ValidatedPaths::default(),
            directory_cache: DirectoryCache::default(),
        };
        let fs = Self(Arc::new(mounted));
        if !read_only {
            orphans::sweep(&fs)?;
        }
        Ok(fs)
    }

    /// The root directory, with the inode that this process last read; [`Node::refresh`] reads it again.
    #[must_use]
    pub fn root(&self) -> Node {
        Node::root(self, *self.0.root.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.0.superblock
    }

    /// Its container.
    #[must_use]
    pub fn container(&self) -> &Container {
        &self.0.container
    }

    /// Ids of the objects every file system has.
    #[must_use]
    pub fn roots(&self) -> Roots {
        self.0.roots
    }

    /// True if it is mounted read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.0.read_only
    }

    /// Sets the path under which programs see the file system, so that absolute symbolic links into it are followed.
    /// Only the first call has an effect.
    pub fn set_mount_point(&self, path: &[u8]) {
        let path = path.strip_suffix(b"/").unwrap_or(path);
        let _ = self.0.mount_point.set(path.into());
    }

    /// The path under which programs see the file system, if set.
    #[must_use]
    pub fn mount_point(&self) -> Option<&[u8]> {
        self.0.mount_point.get().map(|path| &**path)
    }

    /// The state that reads see: the latest, or a snapshot.
    #[must_use]
    pub fn view(&self) -> Access<'static> {
        self.0.view
    }

    /// Attributes for an inode that was just read; fetches the size of a file.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn attr_of(&self, inode: &Inode) -> Result<Attr> {
        Attr::fetch(self, inode)
    }

    /// Space (DAOS: `dfs_query`, POSIX: `statvfs`).
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn space(&self) -> Result<FsSpace> {
        let targets = self.0.container.pool_info().wait()?.targets;
        let sum = |field: fn(&Space) -> u64| targets.iter().map(field).sum::<u64>();
        // The number of entries is estimated from the space of the index.
        let entries = |field: fn(&Space) -> u64| match sum(|target| target.index_total) {
            0 => 0,
            _ => sum(field) / INDEX_BYTES_PER_FILE,
        };
        Ok(FsSpace {
            block_size: BLOCK_SIZE,
            total: sum(|target| target.data_total),
            free: sum(|target| target.data_free),
            files: entries(Space::entries_total),
            files_free: entries(Space::entries_free),
        })
    }

    /// Stores the pending times of files and directories, and releases the leases of closed files.
    ///
    /// # Errors
    /// Errors of the backend.
    pub fn flush(&self) -> Result<()> {
        self.0.release_closed()?;
        self.0.open_files.store_times(&self.0)?;
        self.0.times.store_all(&self.0)
    }
}

/// Methods for other modules.
impl Dfs {
    pub(crate) fn mounted(&self) -> &Mounted {
        &self.0
    }

    pub(crate) fn downgrade(&self) -> Weak<Mounted> {
        Arc::downgrade(&self.0)
    }

    /// # Errors
    /// [`ErrorKind::ReadOnly`].
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.0.read_only {
            false => Ok(()),
            true => Err(Error::new(ErrorKind::ReadOnly, "the file system is mounted read-only")),
        }
    }

    /// Same as [`Mounted::transact`].
    pub(crate) fn transact<T>(&self, work: impl FnMut(Access<'_>) -> Result<T>) -> Result<T> {
        self.0.transact(work)
    }
}

impl Mounted {
    pub(crate) fn container(&self) -> &Container {
        &self.container
    }

    pub(crate) fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// True if requests go over the network, so that each costs a round trip.
    pub(crate) fn is_slow(&self) -> bool {
        self.container.capabilities().asynchronous
    }

    /// True if the backend grants leases on reads of this view, so that entries can be cached.
    pub(crate) fn grants_leases(&self) -> bool {
        matches!(self.view, Access::Latest) && self.container.capabilities().read_leases
    }

    pub(crate) fn roots(&self) -> Roots {
        self.roots
    }

    /// Records the current inode of the root.
    pub(crate) fn set_root(&self, inode: &Inode) {
        *self.root.write().unwrap_or_else(PoisonError::into_inner) = *inode;
    }

    /// Runs `work` in a transaction and commits it; retries on conflicts.
    pub(crate) fn transact<T>(&self, mut work: impl FnMut(Access<'_>) -> Result<T>) -> Result<T> {
        let mut attempts = Attempts::default();
        loop {
            let transaction = self.container.transaction()?;
            let value = work(Access::Tx(&transaction));
            let committed = value.and_then(|value| transaction.commit().wait().map(|()| value));
            if let Some(result) = attempts.resolve(committed) {
                return result;
            }
        }
    }
}

/// Counts the attempts at a transaction that conflicts with others.
#[derive(Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// The result of an attempt; `None` if it met a conflict and the caller tries the transaction again.
    pub(crate) fn resolve<T>(&mut self, result: Result<T>) -> Option<Result<T>> {
        match result {
            Err(error) if error.kind() == ErrorKind::TxRestart => self.again().err().map(Err),
            result => Some(result),
        }
    }

    fn again(&mut self) -> Result<()> {
        self.0 += 1;
        if self.0 < RETRIES_MAX {
            std::thread::yield_now();
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Again,
            format!("{RETRIES_MAX} attempts met conflicts (RETRIES_MAX); try again later"),
        ))
    }
}

impl Drop for Mounted {
    /// Pending times are lost only if storing them fails, which a drop cannot report.
    fn drop(&mut self) {
        let _ = self.release_closed();
        let _ = self.times.store_all(self);
    }
}

fn explain_no_transactions(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotSupported => Error::new(
            ErrorKind::NotSupported,
            "a file system needs transactions, which this pool does not have; use a native pool",
        ),
        _ => error,
    }
}

#[cold]
fn fixed_layout_error(container: &Container) -> Error {
    let info = container.info();
    let name = if info.label.is_empty() { info.uuid.to_string() } else { info.label.clone() };
    let message = format!(
        "container {name:?} was not created as this file system, and the layout of a container of DAOS cannot be set \
         later: create another with `esker cont create --type posix`"
    );
    Error::new(ErrorKind::NotSupported, message)
}

#[cold]
fn no_root_error() -> Error {
    let message = "the file system has no root directory; run `esker fs check --repair`";
    Error::new(ErrorKind::NotFound, message)
}
