//! Mounted file systems.
use crate::deferred_close::DeferredCloses;
use crate::deferred_removal::DeferredRemovals;
use crate::directory_cache::DirectoryCache;
use crate::entry::EntryLocation;
use crate::entry_cache::EntryCache;
use crate::entry_hints::EntryHints;
use crate::inode::{Inode, Kind, Time};
use crate::lazy::DirectoryTimes;
use crate::lease_on_create::NewFileLeases;
use crate::moves::Moves;
use crate::oids::Oids;
use crate::open::OpenFiles;
use crate::retry::Attempts;
use crate::superblock::{FileRules, Roots, Superblock};
use crate::validated_paths::ValidatedPaths;
use esker::types::info::Space;
use esker::types::{Epoch, Error, ErrorKind, ObjectId, Result};
use esker::{Access, Container, Wait};
use esker_os::ForkLock;
use std::sync::{Arc, OnceLock, Weak};

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
    /// Inode of the root when it was mounted.
    mounted_root: Inode,
    /// Inode of the root when this process last read it, if it has; others may have changed it since.
    root: ForkLock<Option<Inode>>,
    mount_point: OnceLock<Box<[u8]>>,
    pub(crate) oids: Oids,
    pub(crate) new_file_leases: NewFileLeases,
    pub(crate) open_files: OpenFiles,
    pub(crate) deferred_closes: Arc<DeferredCloses>,
    pub(crate) deferred_removals: DeferredRemovals,
    pub(crate) times: DirectoryTimes,
    pub(crate) moves: Moves,
    pub(crate) entry_hints: EntryHints,
    pub(crate) entry_cache: EntryCache,
    pub(crate) validated_paths: ValidatedPaths,
    pub(crate) directory_cache: DirectoryCache,
    pub(crate) rules: FileRules,
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

impl Dfs {
    /// The superblock.
    #[must_use]
    pub fn superblock(&self) -> &Superblock {
        &self.0.superblock
    }

    /// The container of the file system.
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
}

/// Methods for other modules.
impl Dfs {
    /// Shares the state of a mount with clones.
    pub(crate) fn new(mounted: Mounted) -> Self {
        Self(Arc::new(mounted))
    }

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

    /// Runs `work` in a transaction and commits it; retries on conflicts (see [`Mounted::transact`]).
    pub(crate) fn transact<T>(&self, work: impl FnMut(Access<'_>) -> Result<T>) -> Result<T> {
        self.0.transact(work)
    }
}

impl Mounted {
    /// State of a mount with empty caches. `view` is the state that reads see, `root` the inode of the root.
    pub(crate) fn new(
        container: Container,
        (superblock, roots): (Superblock, Roots),
        (view, read_only): (Access<'static>, bool),
        root: Inode,
    ) -> Self {
        Self {
            container,
            superblock,
            roots,
            view,
            read_only,
            mounted_root: root,
            root: ForkLock::default(),
            mount_point: OnceLock::new(),
            oids: Oids::default(),
            new_file_leases: NewFileLeases::default(),
            open_files: OpenFiles::default(),
            deferred_closes: Arc::default(),
            deferred_removals: DeferredRemovals::default(),
            times: DirectoryTimes::default(),
            moves: Moves::default(),
            entry_hints: EntryHints::default(),
            entry_cache: EntryCache::default(),
            validated_paths: ValidatedPaths::default(),
            directory_cache: DirectoryCache::default(),
            rules: FileRules::default(),
        }
    }

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

    /// The inode of the root when this process last read it. A forked child begins with that of the mount.
    pub(crate) fn root_inode(&self) -> Inode {
        self.root.lock().unwrap_or(self.mounted_root)
    }

    /// Records the current inode of the root.
    pub(crate) fn set_root(&self, inode: &Inode) {
        *self.root.lock() = Some(*inode);
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

/// State of files that this process has not stored yet.
impl Mounted {
    /// Time when the content changed, if it is not stored yet. A time that another process has set since wins.
    pub(crate) fn pending_time(&self, inode: &Inode) -> Option<Time> {
        let changed = match inode.kind {
            Kind::File => self.open_files.written(inode.oid),
            Kind::Directory => self.times.last(inode.oid),
            Kind::Symlink => None,
        };
        changed?.unless_set(inode)
    }

    /// Sets the times of an inode that the caller is about to store: `ctime` to now, `mtime` to a pending time.
    pub(crate) fn stamp(&self, inode: &mut Inode) {
        inode.mtime = self.pending_time(inode).unwrap_or(inode.mtime);
        inode.ctime = Time::now();
    }

    /// Records in this process that the attributes of the entry at `location` were stored. The stored `mtime` replaces
    /// a pending one, and the inode of the root is cached.
    pub(crate) fn note_attributes(&self, location: &EntryLocation, inode: &Inode) {
        if inode.oid == self.roots.root {
            self.set_root(inode);
        }
        match inode.kind {
            Kind::Directory => self.times.set(inode.oid, location, inode.mtime),
            _ => self.open_files.note_stored(inode.oid, inode.mtime),
        }
    }

    /// Records the new location of an entry.
    pub(crate) fn note_move(&self, inode: &Inode, location: &EntryLocation) {
        self.times.note_move(inode.oid, location);
        if inode.kind == Kind::Directory {
            self.moves.note(inode.oid, location);
        }
        self.open_files.note_location(inode.oid, Some(location));
    }

    /// Records that a file lost its name.
    pub(crate) fn note_removal(&self, oid: ObjectId) {
        self.open_files.note_location(oid, None);
    }

    /// The new location of a directory, or an open file, that this process moved.
    pub(crate) fn moved_to(&self, oid: ObjectId) -> Option<EntryLocation> {
        self.moves.location(oid).or_else(|| self.open_files.open_file_location(oid))
    }
}
