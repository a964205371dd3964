//! Opening a pool, and operations on the whole pool.
use super::container::{Container, PoolDirectory, random_uuid};
use super::files::{self, Files, is_stale, while_stale};
use super::form::form;
use super::lock::{ThreadLocks, time_of};
use super::meta::Meta;
use super::pool::{META, PosixPool, PosixUrl, TMP};
use esker_backend::MetadataChanges;
use esker_backend::handles::{Handled, Table, gone};
use esker_types::info::{ContainerInfo, Durability, Medium, OpenMode, PoolInfo, Space};
use esker_types::ops::{Anchor, KeyScope, ListLimit};
use esker_types::{Error, ErrorKind, ObjectId, Result};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// Number of targets that a posix pool reports, so that programs may use any object class up to this width. The file
/// system decides where data is stored.
pub(super) const TARGETS: u32 = 8;

/// The file among the temporary files whose age is the time since the pool was last swept.
const SWEPT: &str = "swept";
/// Interval between sweeps.
const SWEEP_PAUSE: Duration = Duration::from_secs(3600);

/// A pool in a POSIX file system.
pub struct Posix(pub(super) Arc<Shared>);

/// Data shared by a pool and its open containers.
pub(super) struct Shared {
    pub(super) directory: PoolDirectory,
    pub(super) table: Table<Container>,
    pool: PosixPool,
}

impl Posix {
    /// Opens the pool at a URL.
    ///
    /// # Errors
    /// `NotFound` if it does not exist, `NotSupported` for exclusive use, `Incompatible`, `Corrupt`.
    pub fn open(url: &PosixUrl, mode: OpenMode) -> Result<Self> {
        let mut pool = PosixPool::read(&url.path)?;
        if mode == OpenMode::Exclusive {
            let message = "a posix pool does not support exclusive use, because it cannot detect other nodes: \
                           open it without";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        pool.fsync = url.fsync.unwrap_or(pool.fsync);
        let root = esker_os::resolve_links(&url.path)?;
        let files = Files::new(&root.join(TMP), &random_uuid()?.to_string(), pool.fsync);
        let (thread_locks, journal_locks) = (ThreadLocks::new(), ThreadLocks::new());
        let directory = PoolDirectory { root, files, thread_locks, journal_locks };
        if mode != OpenMode::ReadOnly {
            PosixPool::upgrade(&directory.root, &directory.files)?;
            sweep(&directory);
        }
        Ok(Self(Arc::new(Shared { directory, table: Table::default(), pool })))
    }
}

impl Shared {
    /// Describes the pool. The file system's space is divided among the targets.
    pub(super) fn info(&self) -> Result<PoolInfo> {
        let (free, total) = esker_os::space_of(&self.directory.root)?;
        let share = |bytes: u64| bytes / u64::from(TARGETS);
        let (data_total, data_free) = (share(total), share(free));
        let space = Space { data_total, data_free, is_shared: true, ..Space::default() };
        Ok(PoolInfo {
            uuid: self.pool.uuid,
            label: self.pool.label.clone(),
            url: format!("posix:{}", self.directory.root.display()),
            targets: vec![space; TARGETS as usize],
            medium: Medium::Other,
            durability: match self.pool.fsync {
                true => Durability::Commit,
                false => Durability::Process,
            },
        })
    }

    /// Syncs the file system, unless each operation has synced what it has written.
    pub(super) fn sync(&self) -> Result<()> {
        if self.pool.fsync { Ok(()) } else { esker_os::sync_file_system(&self.directory.root) }
    }

    /// Lists the containers by label.
    pub(super) fn list(&self) -> Result<Vec<ContainerInfo>> {
        let all = self.directory.all()?;
        let mut infos: Vec<_> = all.iter().map(|meta| self.note(meta).info(meta)).collect();
        infos.sort_by(|a, b| (&a.label, a.uuid).cmp(&(&b.label, b.uuid)));
        Ok(infos)
    }

    /// The container with this metadata, which is added to the table.
    pub(super) fn note(&self, meta: &Meta) -> Arc<Container> {
        self.table.note(meta.uuid, |id| Container::new(id, &self.directory, meta))
    }

    /// The metadata of the pool, which has none until some is set.
    pub(super) fn meta(&self) -> Result<Meta> {
        let found = Meta::read(&self.directory.root.join(META))?;
        Ok(found.unwrap_or_else(|| Meta::new(self.pool.uuid)))
    }

    /// Changes the metadata of the pool.
    pub(super) fn change_meta(&self, changes: &MetadataChanges<'_>) -> Result<()> {
        let fresh = Some(Meta::new(self.pool.uuid));
        self.directory.change_meta(&self.directory.root, fresh, |meta| {
            meta.change(changes);
            Ok(())
        })
    }
}

/// An open container.
pub(super) struct Opened {
    pub(super) pool: Arc<Shared>,
    pub(super) container: Arc<Container>,
    pub(super) info: ContainerInfo,
}

impl Opened {
    /// The present metadata of the container.
    pub(super) fn meta(&self) -> Result<Meta> {
        self.container.check_alive()?;
        Meta::read(&self.container.dir.join(META))?.ok_or_else(gone)
    }

    /// Changes the metadata of the container.
    pub(super) fn change_meta(&self, changes: &MetadataChanges<'_>) -> Result<()> {
        self.container.check_alive()?;
        self.pool.directory.change_meta(&self.container.dir, None, |meta| {
            meta.change(changes);
            Ok(())
        })
    }

    /// The next objects after `anchor`: entries of the container that have a key.
    pub(super) fn objects(&self, anchor: &mut Anchor, entries: usize) -> Result<Vec<ObjectId>> {
        let container = &self.container;
        container.check_alive()?;
        let from = match &*anchor {
            Anchor::End => return Ok(Vec::new()),
            Anchor::Start => None,
            Anchor::After { position, .. } => {
                let bytes = position.as_slice().try_into().map_err(|_| Anchor::foreign())?;
                Some(ObjectId::from_bytes(bytes))
            }
        };
        // A commit of a dead process creates and removes objects when it is completed.
        self.journal().wait_for_all()?;
        let names = files::names_in(&container.dir)?;
        let oids: BTreeSet<_> = names.iter().filter_map(|name| object_of(name)).collect();
        let mut page = Vec::new();
        for oid in oids.into_iter().filter(|oid| from.is_none_or(|from| *oid > from)) {
            if page.len() >= entries {
                return Ok(page);
            }
            if self.has_keys(oid)? {
                page.push(oid);
                *anchor = Anchor::After { shard: 0, position: oid.to_bytes().to_vec() };
            }
        }
        *anchor = Anchor::End;
        Ok(page)
    }

    /// True if the object has a key.
    fn has_keys(&self, oid: ObjectId) -> Result<bool> {
        let object = form(&self.pool.directory, &self.container, oid);
        let list = || object.list_keys(KeyScope::Dkeys, &mut Anchor::Start, ListLimit::entries(1));
        Ok(!while_stale(is_stale, list)?.is_empty())
    }
}

/// The object whose file or directory has this name.
pub(super) fn object_of(name: &str) -> Option<ObjectId> {
    let digits = name.strip_suffix(".d").unwrap_or(name);
    let number = u128::from_str_radix(digits, 16).ok().filter(|_| digits.len() == 32)?;
    Some(ObjectId::from_bytes(number.to_be_bytes()))
}

/// Removes abandoned files, at most once per hour for all processes together. Of many processes that start at the same
/// time, only one does it. A new file shows the time of the file system. If this user lacks write permission, another
/// user's process does it later.
fn sweep(directory: &PoolDirectory) {
    let tmp = directory.root.join(TMP);
    let mark = tmp.join(SWEPT);
    let swept = std::fs::metadata(&mark).and_then(|info| info.modified());
    if swept.is_ok_and(|swept| swept.elapsed().is_ok_and(|age| age < SWEEP_PAUSE)) {
        return;
    }
    let now = directory.files.temporary(|_| Ok(())).and_then(|probe| {
        let now = time_of(&probe)?;
        directory.files.replace(&probe, &mark).map(|_| now)
    });
    if let Ok(now) = now {
        files::sweep(&tmp, now);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.directory.files.end_session();
    }
}
