//! Pools on Ceph: opening them, and the containers that this process has opened or listed.
use super::names::{self, CONTAINER};
use super::registry::{Listed, Registry};
use super::session::{Namespace, Session};
use super::space::Space;
use super::url::RadosUrl;
use esker_backend::block::{Block, end_of_claim};
use esker_backend::handles::{Handled, Handles, Table, gone};
use esker_backend::leases::Leases;
use esker_os::ForkLock;
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, Durability, Medium, OpenMode, PoolInfo,
    Space as Share,
};
use esker_types::limits::RADOS_TRIES_MAX;
use esker_types::{Checksum, Error, ErrorKind, ObjectId, Result};
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of targets that a rados pool reports: the maximum number of shards of an object. Ceph decides where they
/// are stored.
pub(super) const TARGETS: u32 = 8;

/// Number of chunks remembered as recorded in the first object of their array.
const HINTS_MAX: usize = 1 << 16;

/// Time after which a process that uses a container asks again whether it still exists.
const CHECK_PERIOD: Duration = Duration::from_secs(2);

/// Omap key of the next number for object ids.
const NEXT_OID: &[u8] = b"n";

/// A pool on Ceph.
pub struct Rados(pub(super) Arc<Shared>);

/// Data shared by a pool and its open containers.
pub(super) struct Shared {
    pub(super) session: Arc<Session>,
    pub(super) registry: Registry,
    pub(super) table: Table<Container>,
}

/// A container that this process has opened or listed.
pub(super) struct Container {
    pub(super) id: ContainerId,
    /// The entry of the container in the registry.
    pub(super) listed: Listed,
    pub(super) namespace: Namespace,
    pub(super) known_chunks: KnownChunks,
    /// Objects found by the most recent listing.
    pub(super) objects: ForkLock<Arc<BTreeSet<ObjectId>>>,
    /// Numbers for object ids that this process has claimed. A forked child claims others.
    oids: ForkLock<Block>,
    pub(super) leases: Leases,
    handles: Handles,
    /// Time at which this process last asked whether the container exists (`uptime`).
    checked: AtomicU64,
}

impl Handled for Container {
    fn handles(&self) -> &Handles {
        &self.handles
    }
}

/// Chunks that this process has recorded in the first objects of their arrays.
#[derive(Default)]
pub(super) struct KnownChunks(ForkLock<HashSet<(ObjectId, u64)>>);

impl KnownChunks {
    /// True if this process has recorded the chunk.
    pub(super) fn has(&self, oid: ObjectId, chunk: u64) -> bool {
        self.0.lock().contains(&(oid, chunk))
    }

    /// Records that this process has recorded a chunk in the first object of its array. The set is emptied when it is
    /// full: it only saves work.
    pub(super) fn add(&self, oid: ObjectId, chunk: u64) {
        let mut known = self.0.lock();
        if known.len() >= HINTS_MAX {
            known.clear();
        }
        known.insert((oid, chunk));
    }
}

impl Rados {
    /// Opens the pool at a URL; creates it if it does not exist and the mode allows writing.
    ///
    /// # Errors
    /// `NotFound` if the pool or the Ceph pool does not exist; `NotSupported` for exclusive use, and if librados is
    /// not available; `TimedOut` if the cluster does not answer; `NoPermission`, `Incompatible`.
    pub fn open(url: &RadosUrl, mode: OpenMode) -> Result<Self> {
        if mode == OpenMode::Exclusive {
            let message = "a rados pool does not support exclusive use, because it cannot detect other clients: \
                           open it without";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        let session = Arc::new(Session::connect(url.clone())?);
        let registry = Registry::open(&session, mode)?;
        Ok(Self(Arc::new(Shared { session, registry, table: Table::default() })))
    }
}

impl Shared {
    /// Reports the space of the whole cluster, because Ceph does not count per pool here.
    pub(super) fn info(&self) -> Result<PoolInfo> {
        let usage = self.session.usage()?;
        let share = |bytes: u64| bytes / u64::from(TARGETS);
        let (data_total, data_free) = (share(usage.total), share(usage.free));
        let space = Share { data_total, data_free, is_shared: true, ..Share::default() };
        Ok(PoolInfo {
            uuid: self.registry.uuid,
            label: self.session.url.namespace.clone(),
            url: self.session.url.to_string(),
            targets: vec![space; TARGETS as usize],
            medium: Medium::Other,
            durability: Durability::Commit,
        })
    }

    /// The container `listed`, as it was just read from the registry. It is added to the table. If another client has
    /// destroyed the container that this process knows, and created one with the same UUID later, the known one is
    /// retired. Another thread may know the later one already: then that stays.
    pub(super) fn note(&self, listed: &Listed) -> Arc<Container> {
        let known = self.known(listed);
        if known.listed.info.created >= listed.info.created {
            return known;
        }
        known.handles.retire();
        self.known(listed)
    }

    /// The container of the table with the UUID of `listed`, which is added if the table has none.
    fn known(&self, listed: &Listed) -> Arc<Container> {
        self.table.note(listed.info.uuid, |id| Container {
            id,
            listed: listed.clone(),
            namespace: self.registry.namespace_of(listed.info.uuid),
            known_chunks: KnownChunks::default(),
            objects: ForkLock::default(),
            oids: ForkLock::default(),
            leases: Leases::default(),
            handles: Handles::default(),
            checked: AtomicU64::new(esker_os::uptime()),
        })
    }

    /// Fails if the container was destroyed. Another process may have done that: its entry in the registry tells. The
    /// entry is read once per [`CHECK_PERIOD`], because a read for each operation would overload its RADOS object.
    pub(super) async fn check_exists(&self, container: &Container) -> Result<()> {
        container.check_alive()?;
        match container.is_check_due() {
            true => self.check_listed(container).await,
            false => Ok(()),
        }
    }

    /// Fails if the container is not in the registry any more. Another one may have its UUID by now.
    pub(super) async fn check_listed(&self, container: &Container) -> Result<()> {
        let opened = &container.listed.info;
        match self.registry.find(ContainerRef::Uuid(opened.uuid)).await {
            Ok(found) if found.info.created == opened.created => return Ok(()),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        container.handles.retire();
        Err(gone())
    }

    /// The description of a container, with this process's number for it and its handles.
    pub(super) fn described(&self, listed: &Listed) -> ContainerInfo {
        let known = self.note(listed);
        ContainerInfo { id: known.id, handles: known.handles.count(), ..listed.info.clone() }
    }
}

impl Container {
    /// The access to the RADOS objects of the container.
    pub(super) fn space(&self) -> Result<Space> {
        Ok(Space { io: self.namespace.io_context()?, checksum: self.listed.info.checksum })
    }

    /// True if the last check of its existence is old. Only one of several operations is told so.
    fn is_check_due(&self) -> bool {
        let (now, last) = (esker_os::uptime(), self.checked.load(Ordering::Relaxed));
        let is_old = Duration::from_micros(now.saturating_sub(last)) >= CHECK_PERIOD;
        let claim =
            || self.checked.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed);
        is_old && claim().is_ok()
    }

    /// All objects that may exist: those with at least one RADOS object.
    pub(super) fn find_objects(&self) -> Result<BTreeSet<ObjectId>> {
        let mut oids = BTreeSet::new();
        for name in self.namespace.io_context()?.objects()? {
            oids.extend(names::object_of(&name?));
        }
        Ok(oids)
    }

    /// The first of `count` numbers that no other client gets.
    pub(super) async fn allocate(&self, count: u64) -> Result<u64> {
        for _ in 0..RADOS_TRIES_MAX {
            if let Some(first) = self.oids.lock().take(count) {
                return Ok(first);
            }
            if let Some(block) = self.claim(count).await? {
                *self.oids.lock() = Block::claimed(block.0, block.1, count);
                return Ok(block.0);
            }
        }
        Err(super::space::contended_error(CONTAINER))
    }

    /// Claims a block of at least `count` numbers: its first number, and the number after it. `None` if another client
    /// was faster.
    async fn claim(&self, count: u64) -> Result<Option<(u64, u64)>> {
        let space = self.space()?;
        let old = space.value(CONTAINER, NEXT_OID).await?;
        let first = number(old.as_deref()).unwrap_or(self.listed.first_oid);
        let end = end_of_claim(first, count);
        let end = end.ok_or_else(|| Error::new(ErrorKind::Overflow, "no object ids are left"))?;
        let new = end.to_le_bytes();
        let changed = space.exchange(CONTAINER, NEXT_OID, old.as_deref(), &new).await?;
        Ok(changed.then_some((first, end)))
    }

    /// The number after all that clients have claimed.
    pub(super) async fn next(&self) -> Result<u64> {
        let next = self.space()?.value(CONTAINER, NEXT_OID).await?;
        Ok(number(next.as_deref()).unwrap_or(self.listed.first_oid))
    }
}

/// Decodes a number; `None` if there is none, or it is damaged.
fn number(value: Option<&[u8]>) -> Option<u64> {
    Some(u64::from_le_bytes(value?.try_into().ok()?))
}

/// The checksum type of objects outside containers.
pub(super) const OWN_CHECKSUM: Checksum = Checksum::Crc32c;
