//! A pool over nodes: it has targets on all of them, and its list of containers on the first.
use crate::dial::{Dial, dial_by};
use crate::map::Map;
use crate::reconnecting::container::{ReconnectingContainer, missing_container_error};
use crate::reconnecting::pool::{RECONNECT_TIMEOUT, ReconnectingPool};
use crate::sharded::commit::{Doubt, UNDECIDED_TIMEOUT};
use crate::sharded::container::ShardedContainer;
use crate::sharded::sweep::KnownClock;
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Placement, Pool, Reply,
};
use esker_os::ForkLock;
use esker_os::executor::{Wait, side_by_side, task};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, Part, PoolInfo, Space};
use esker_types::limits::ABANDONED_CONTAINERS_MAX;
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Concurrent requests of one operation to different nodes.
pub(crate) const SIDE_BY_SIDE: usize = 64;

/// A pool over the nodes of a map.
///
/// The first node is the **catalog**: it lists containers, their names, attributes and snapshots, and allocates object
/// ids. Every other node identifies containers by their UUID.
pub struct ShardedPool(Arc<Shared>);

/// State that a pool and its open containers share.
pub(crate) struct Shared {
    uuid: Uuid,
    label: String,
    /// Address of the pool: the path of its map.
    url: String,
    pub(crate) placement: Placement,
    pub(crate) members: Vec<Member>,
    pub(crate) timeouts: Timeouts,
    pub(crate) dial: Arc<dyn Dial>,
    /// Containers whose creation or removal failed here, and of which other nodes may have a part. The first node may
    /// have the container: it did not answer. A forked child starts without any: its parent removes them. While there
    /// are [`ABANDONED_CONTAINERS_MAX`], no creation begins that could add another one.
    abandoned: ForkLock<Vec<Uuid>>,
}

/// Timeouts of a client that waits for others.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Time for a node to come back after its connection was lost. By default [`RECONNECT_TIMEOUT`].
    pub reconnect: Duration,
    /// Age at which an undecided commit over several nodes is aborted. By default [`UNDECIDED_TIMEOUT`].
    pub undecided: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { reconnect: RECONNECT_TIMEOUT, undecided: UNDECIDED_TIMEOUT }
    }
}

/// One node of a pool.
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) access: MemberAccess,
    /// Clock from which the commits that it coordinates start.
    pub(crate) clock: KnownClock,
}

/// Access of this process to a node.
pub(crate) enum MemberAccess {
    /// The process is on the node, and works on its targets directly.
    Own(Arc<dyn Pool>),
    /// Through the engine of the node.
    Away(Arc<ReconnectingPool>),
}

impl Member {
    /// The pool of this node: opened here, or reached over a connection.
    pub(crate) fn pool(&self) -> &dyn Pool {
        match &self.access {
            MemberAccess::Own(pool) => &**pool,
            MemberAccess::Away(peer) => &**peer,
        }
    }

    /// Opens a container of the catalog, if this process works on the node's pool itself. On any other node, the
    /// container is opened at its first use.
    pub(crate) async fn open(
        &self,
        info: &ContainerInfo,
        mode: OpenMode,
    ) -> Result<Box<dyn OpenContainer>> {
        match &self.access {
            MemberAccess::Own(pool) => {
                let opened = pool.open_container(ContainerRef::Uuid(info.uuid), mode).await;
                opened.map_err(|error| missing_container_error(&self.name, info, error))
            }
            MemberAccess::Away(peer) => {
                Ok(Box::new(ReconnectingContainer::new(Arc::clone(peer), info.clone(), mode)))
            }
        }
    }
}

/// Prefixes an error with the name of the node, unless it has one.
#[cold]
fn with_node_name(node: &str, error: Error) -> Error {
    if error.message().starts_with("node ") {
        return error;
    }
    let named = Error::new(error.kind(), format!("node {node}: {}", error.message()));
    match error.needed() {
        Some(needed) => named.with_needed(needed),
        None => named,
    }
}

/// Capabilities of a pool over nodes.
fn capabilities(targets: u32) -> Capabilities {
    Capabilities {
        change_ids: false,
        asynchronous: true,
        read_leases: true,
        ..Capabilities::all(targets)
    }
}

/// Runs `$call`, and again once the commit that blocks it is resolved. `$result` is its result.
macro_rules! resolved {
    ($shared:expr, $node:expr, $call:expr) => {{
        let mut doubt = Doubt::default();
        loop {
            let result = $call;
            match &result {
                Err(error) if error.kind() == ErrorKind::InDoubt => {
                    doubt.wait($shared, $node as usize, error).await?;
                }
                _ => break $shared.naming($node as usize, result),
            }
        }
    }};
}
pub(crate) use resolved;

impl ShardedPool {
    /// Opens the pool of a map. `own` are the nodes' pools, by number, on which this process can work directly. It
    /// connects to the other engines at their first use, and to the catalog now.
    ///
    /// # Errors
    /// The error for which the catalog cannot be reached.
    pub fn open(map: &Map, path: &Path, own: Vec<(u32, Arc<dyn Pool>)>) -> Result<Self> {
        Self::open_with(map, path, own, Timeouts::default())
    }

    /// Opens the pool with other timeouts than the defaults.
    ///
    /// # Errors
    /// The errors of [`ShardedPool::open`].
    pub fn open_with(
        map: &Map,
        path: &Path,
        own: Vec<(u32, Arc<dyn Pool>)>,
        timeouts: Timeouts,
    ) -> Result<Self> {
        Self::open_by(map, path, own, timeouts, dial_by(map)).wait()
    }

    /// Opens the pool with timeouts, and with connections that `dial` makes.
    ///
    /// # Errors
    /// The errors of [`ShardedPool::open`].
    pub async fn open_by(
        map: &Map,
        path: &Path,
        own: Vec<(u32, Arc<dyn Pool>)>,
        timeouts: Timeouts,
        dial: Arc<dyn Dial>,
    ) -> Result<Self> {
        let placement =
            Placement::new(map.targets, Part { node: 0, nodes: map.nodes.len() as u32 });
        let away = |node: &crate::map::Node| {
            let capabilities = capabilities(map.targets);
            let (secret, dial) = (map.secret.clone(), Arc::clone(&dial));
            let peer =
                ReconnectingPool::new(node.clone(), secret, capabilities, timeouts.reconnect, dial);
            let access = MemberAccess::Away(Arc::new(peer));
            Member { name: node.name.clone(), access, clock: KnownClock::default() }
        };
        let mut members: Vec<Member> = map.nodes.iter().map(away).collect();
        for (number, pool) in own {
            if let Some(member) = members.get_mut(number as usize) {
                member.access = MemberAccess::Own(pool);
            }
        }
        let url = format!("nodes:{}", path.display());
        let (uuid, label) = (map.uuid, map.label.clone());
        let abandoned = ForkLock::default();
        let shared = Shared { uuid, label, url, placement, members, timeouts, dial, abandoned };
        let pool = Self(Arc::new(shared));
        resolved!(&pool.0, 0, pool.0.catalog().info().await)?;
        Ok(pool)
    }

    /// Waits for the commits that are prepared on all nodes now, and decides those that dead clients have left. Until
    /// then an engine cannot list the containers of its node.
    ///
    /// # Errors
    /// For each node, the error for which its commits stay undecided, such as that of a lost node.
    pub async fn resolve_commits(&self) -> Vec<Result<()>> {
        let nodes = 0..self.0.members.len();
        let tasks = nodes.map(|node| task(self.0.resolve_commits(node))).collect();
        side_by_side(tasks, SIDE_BY_SIDE).await
    }
}

/// True for errors after which a creation takes no effect later. Other errors may hide that its reply was lost.
fn is_refusal(error: &Error) -> bool {
    use ErrorKind::{Exists, InDoubt, Invalid, NoSpace};
    matches!(error.kind(), Exists | InDoubt | Invalid | NoSpace)
}

#[cold]
fn too_many_abandoned_error() -> Error {
    let message = format!(
        "{ABANDONED_CONTAINERS_MAX} containers (ABANDONED_CONTAINERS_MAX) whose creation failed could not be removed \
         from all nodes: try again once all nodes answer"
    );
    Error::new(ErrorKind::Overflow, message)
}

#[cold]
fn unsettled_error(member: &Member) -> Error {
    let message = format!("a commit stays undecided on node {}: try again", member.name);
    Error::new(ErrorKind::InDoubt, message)
}

impl Shared {
    /// Returns the pool of the first node, which has the list of containers.
    pub(crate) fn catalog(&self) -> &dyn Pool {
        self.members[0].pool()
    }

    /// Runs `work` for all nodes but the first, concurrently. The results are in their order. If a commit in doubt
    /// blocks `work` on a node, it runs again there once the commit is resolved.
    pub(crate) async fn on_others<'a, T: Send>(
        &'a self,
        work: impl Fn(&'a Member) -> Reply<'a, T> + Sync,
    ) -> Vec<Result<T>> {
        let work = &work;
        let tasks = (1..)
            .zip(&self.members[1..])
            .map(|(node, member)| task(async move { resolved!(self, node, work(member).await) }));
        side_by_side(tasks.collect(), SIDE_BY_SIDE).await
    }

    /// Waits for the commits that are prepared on a node at this time. Decides those whose clients are dead.
    async fn resolve_commits(&self, node: usize) -> Result<()> {
        let member = &self.members[node];
        let first = member.pool().prepared().await?;
        let (mut doubt, mut left) = (Doubt::default(), first.clone());
        while left.iter().any(|commit| first.contains(commit)) {
            doubt.wait(self, node, &unsettled_error(member)).await?;
            left = member.pool().prepared().await?;
        }
        Ok(())
    }

    /// Adds the node's name to errors that concern its pool, since the other nodes may work.
    pub(crate) fn naming<T>(&self, node: usize, result: Result<T>) -> Result<T> {
        result.map_err(|error| match error.kind() {
            ErrorKind::NoSpace | ErrorKind::Checksum | ErrorKind::Corrupt => {
                with_node_name(&self.members[node].name, error)
            }
            _ => error,
        })
    }

    /// Removes a container from all nodes but the first. A node that does not have it is not an error.
    async fn destroy_elsewhere(&self, uuid: Uuid) -> Result<()> {
        let name = ContainerRef::Uuid(uuid);
        let removed = self.on_others(|member| member.pool().destroy_container(name, true)).await;
        let failed = self.members[1..].iter().zip(removed).find_map(|(member, removed)| {
            removed.err().filter(|error| error.kind() != ErrorKind::NotFound).map(|e| (member, e))
        });
        match failed {
            None => Ok(()),
            Some((member, error)) => {
                let message = format!(
                    "the container is destroyed, but node {} still has its data: {}",
                    member.name,
                    error.message()
                );
                Err(Error::new(error.kind(), message))
            }
        }
    }

    /// Finds a container in the catalog, which is on the first node.
    async fn find(&self, name: ContainerRef<'_>) -> Result<ContainerInfo> {
        let all = resolved!(self, 0, self.catalog().list_containers().await)?;
        let found = all.into_iter().find(|info| match name {
            ContainerRef::Label(label) => info.label == label,
            ContainerRef::Uuid(uuid) => info.uuid == uuid,
        });
        found.ok_or_else(|| ErrorKind::NotFound.into())
    }

    /// Creates a container on all nodes, on the catalog last: then it exists. If that fails, what was created is
    /// removed: now if the container does not exist, otherwise before the next creation. With a given UUID it stays,
    /// because it may be part of another creation.
    async fn create(&self, new: &NewContainer<'_>) -> Result<ContainerInfo> {
        let uuid = new.uuid.map_or_else(esker_os::random_uuid, Ok)?;
        self.check_before_creation(new).await?;
        self.remove_abandoned().await;
        // A container with a given UUID is not added to the list.
        if new.uuid.is_none() && self.abandoned.lock().len() >= ABANDONED_CONTAINERS_MAX {
            return Err(too_many_abandoned_error());
        }
        let part = NewContainer::nameless().with_uuid(uuid).with_checksum(new.checksum);
        let made = self.on_others(|member| member.pool().create_container(&part)).await;
        let made = made
            .into_iter()
            .find_map(|made| made.err().filter(|error| error.kind() != ErrorKind::Exists));
        let (created, is_refused) = match made {
            Some(error) => (Err(error), true),
            None => {
                let created = self.create_in_catalog(&new.clone().with_uuid(uuid)).await;
                let is_refused = created.as_ref().is_err_and(is_refusal);
                (created, is_refused)
            }
        };
        if created.is_err() && new.uuid.is_none() && !(is_refused && self.remove_failed(uuid).await)
        {
            self.abandoned.lock().push(uuid);
        }
        created
    }

    /// Fails if the pool has a container with the given UUID, or with the label if a UUID is given, or if the first node
    /// does not answer. In all cases, nothing has been created on any node.
    async fn check_before_creation(&self, new: &NewContainer<'_>) -> Result<()> {
        let Some(uuid) = new.uuid else {
            return resolved!(self, 0, self.catalog().info().await).map(drop);
        };
        let all = resolved!(self, 0, self.catalog().list_containers().await)?;
        let has_label = |info: &ContainerInfo| {
            new.label.is_some_and(|label| !label.is_empty() && info.label == label)
        };
        match all.iter().find(|info| info.uuid == uuid || has_label(info)) {
            None => Ok(()),
            Some(ContainerInfo { uuid, label, .. }) => {
                let message = format!("the pool has a container {uuid} {label} already");
                Err(Error::new(ErrorKind::Exists, message))
            }
        }
    }

    /// Removes what a failed creation or removal of a container has left on nodes other than the first. True if none is
    /// left there, or if the first node has the container, so that it exists. If the first node does not answer, it may
    /// have the container. Then nothing is removed, and the result is false.
    async fn remove_failed(&self, uuid: Uuid) -> bool {
        match self.has_container(uuid).await {
            Ok(true) => true,
            Ok(false) => self.destroy_elsewhere(uuid).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Removes what earlier creations and removals have left, once the first node answers again.
    ///
    /// A change of the catalog that failed without an answer may still wait for the lock of the catalog, which a list
    /// does not take. A change takes the same lock: this one changes nothing, and ends after those that waited before it.
    async fn remove_abandoned(&self) {
        // They stay in the list meanwhile, so that none is lost if the caller drops this future.
        let abandoned = self.abandoned.lock().clone();
        if abandoned.is_empty() || self.catalog().set_metadata(&[]).await.is_err() {
            return;
        }
        for uuid in abandoned {
            if self.remove_failed(uuid).await {
                self.abandoned.lock().retain(|left| *left != uuid);
            }
        }
    }

    /// Whether the catalog has a container with this UUID. Fails if the first node, which has the catalog, does not
    /// answer.
    async fn has_container(&self, uuid: Uuid) -> Result<bool> {
        let all = resolved!(self, 0, self.catalog().list_containers().await)?;
        Ok(all.iter().any(|info| info.uuid == uuid))
    }

    async fn create_in_catalog(&self, new: &NewContainer<'_>) -> Result<ContainerInfo> {
        resolved!(self, 0, self.catalog().create_container(new).await)
    }

    /// Destroys a container: first in the catalog, so that nobody can open it any more, then on the other nodes.
    async fn destroy(&self, name: ContainerRef<'_>, force: bool) -> Result<()> {
        self.remove_abandoned().await;
        let uuid = self.find(name).await?.uuid;
        let name = ContainerRef::Uuid(uuid);
        if let Err(error) = resolved!(self, 0, self.catalog().destroy_container(name, force).await)
            && !self.is_gone_despite(&error, uuid).await
        {
            return Err(error);
        }
        self.destroy_elsewhere(uuid).await
    }

    /// True if the catalog has removed a container although only an `error` without an answer came back. If it may still
    /// remove it, the parts on other nodes are removed later.
    async fn is_gone_despite(&self, error: &Error, uuid: Uuid) -> bool {
        if !matches!(error.kind(), ErrorKind::Io | ErrorKind::TimedOut) {
            return false;
        }
        let is_gone = self.has_container(uuid).await.is_ok_and(|is_there| !is_there);
        let mut abandoned = self.abandoned.lock();
        if !is_gone && !abandoned.contains(&uuid) && abandoned.len() < ABANDONED_CONTAINERS_MAX {
            abandoned.push(uuid);
        }
        is_gone
    }

    /// Space of all targets, by their numbers. Targets of nodes that cannot be reached have no space.
    async fn info(&self) -> Result<PoolInfo> {
        let first = resolved!(self, 0, self.catalog().info().await)?;
        let others = self.on_others(|member| member.pool().info()).await;
        let of = |info: Result<PoolInfo>| info.map(|info| info.targets).unwrap_or_default();
        let mut spaces = vec![first.targets.clone()];
        spaces.extend(others.into_iter().map(of));
        let space = |target: u32| {
            let place = self.placement.locate(target);
            let of_node = spaces.get(place.node as usize);
            of_node.and_then(|of| of.get(place.target as usize)).copied().unwrap_or_default()
        };
        let targets: Vec<Space> = (0..self.placement.targets()).map(space).collect();
        let (uuid, label, url) = (self.uuid, self.label.clone(), self.url.clone());
        Ok(PoolInfo { uuid, label, url, targets, ..first })
    }
}

impl Metadata for ShardedPool {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        Reply::Pending(Box::pin(async move {
            resolved!(&self.0, 0, self.0.catalog().get_metadata(name).await)
        }))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        Reply::Pending(Box::pin(async move {
            resolved!(&self.0, 0, self.0.catalog().set_metadata(changes).await)
        }))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        Reply::Pending(Box::pin(async move {
            resolved!(&self.0, 0, self.0.catalog().list_metadata(prefix).await)
        }))
    }
}

impl Pool for ShardedPool {
    fn capabilities(&self) -> Capabilities {
        capabilities(self.0.placement.targets())
    }

    fn nodes(&self) -> u32 {
        self.0.placement.part().nodes
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        Reply::Pending(Box::pin(self.0.info()))
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        Reply::Pending(Box::pin(self.0.create(new)))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        Reply::Pending(Box::pin(async move {
            let opened = ShardedContainer::open(&self.0, name, mode).await?;
            Ok(Box::new(opened) as Box<dyn OpenContainer>)
        }))
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        Reply::Pending(Box::pin(self.0.destroy(name, force)))
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        Reply::Pending(Box::pin(async move {
            resolved!(&self.0, 0, self.0.catalog().list_containers().await)
        }))
    }
}
