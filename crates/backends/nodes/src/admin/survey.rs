//! Survey of the containers on the nodes of a pool, for administration: missing, orphaned and lost ones.
use crate::admin::{Answer, ask_node};
use crate::map::Map;
use crate::remote::pool::{RemotePool, ask_patiently, done_reply};
use esker_backend::{Placement, Pool};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, Part};
use esker_types::ops::{Anchor, ReadAt};
use esker_types::{ObjectId, Result, Uuid};
use esker_wire::message::{PoolRequest, Reply, Request};
use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

/// Objects that are listed at a time.
const LIST_BATCH: usize = 1024;

/// The containers on each node of a pool.
#[derive(Clone, Debug)]
pub struct Survey {
    /// The containers of the catalog: the first node lists them.
    pub catalog: Vec<ContainerInfo>,
    /// The containers of each node, or the error of its query.
    pub parts: Vec<Result<BTreeSet<Uuid>>>,
}

impl Survey {
    /// Containers of the catalog that a node lacks: all, if it does not answer.
    #[must_use]
    pub fn missing_containers(&self, node: usize) -> Vec<&ContainerInfo> {
        let has = |uuid: &Uuid| matches!(self.parts.get(node), Some(Ok(has)) if has.contains(uuid));
        self.catalog.iter().filter(|info| !has(&info.uuid)).collect()
    }

    /// Containers on a node that are not in the catalog. They were destroyed while the node was away, or their client
    /// was killed while it created or destroyed them.
    #[must_use]
    pub fn orphaned_containers(&self, node: usize) -> Vec<Uuid> {
        let Some(Ok(has)) = self.parts.get(node) else { return Vec::new() };
        let is_known = |uuid: &&Uuid| self.catalog.iter().any(|info| info.uuid == **uuid);
        has.iter().filter(|uuid| !is_known(uuid)).copied().collect()
    }

    /// Nodes that do not have a container, including those that did not answer.
    #[must_use]
    pub fn nodes_without(&self, container: Uuid) -> Vec<usize> {
        let lacks =
            |has: &Result<BTreeSet<Uuid>>| !matches!(has, Ok(has) if has.contains(&container));
        let parts = self.parts.iter().enumerate();
        parts.filter(|(_, has)| lacks(has)).map(|(node, _)| node).collect()
    }
}

impl Map {
    /// Asks all nodes for their containers, within a tokio runtime.
    ///
    /// # Errors
    /// The error of the first node, if it does not answer.
    pub async fn survey(&self) -> Result<Survey> {
        let parts = self.containers_of_all().await;
        // Asked last: containers that were destroyed meanwhile do not count as missing.
        let catalog = self.containers().await?;
        let uuids = |part: Vec<ContainerInfo>| part.into_iter().map(|info| info.uuid).collect();
        Ok(Survey { catalog, parts: parts.into_iter().map(|part| part.map(uuids)).collect() })
    }

    /// Objects of a container that have targets on one of the nodes `lost`, as far as the other nodes know of them,
    /// within a tokio runtime.
    ///
    /// # Errors
    /// The errors of opening the container and of listing it.
    pub async fn objects_on(&self, container: Uuid, lost: &[usize]) -> Result<HashSet<ObjectId>> {
        let placement =
            Placement::new(self.targets, Part { node: 0, nodes: self.nodes.len() as u32 });
        let is_there = |oid: &ObjectId| {
            placement.nodes(*oid).iter().any(|node| lost.contains(&(*node as usize)))
        };
        let mut found = HashSet::new();
        for (number, node) in self.nodes.iter().enumerate() {
            if lost.contains(&number) {
                continue;
            }
            let list = |connection| -> Answer<Vec<ObjectId>> {
                Box::pin(
                    async move { objects(RemotePool::open(connection).await?, container).await },
                )
            };
            let known = ask_node(node, self.tcp(), &self.secret, Duration::MAX, list).await?;
            found.extend(known.into_iter().filter(is_there));
        }
        Ok(found)
    }

    /// Creates empty containers on a node that lacks them, within a tokio runtime.
    ///
    /// # Errors
    /// The errors of creating a container.
    pub async fn create_missing(&self, node: usize, containers: &[&ContainerInfo]) -> Result<()> {
        let requests = containers.iter().map(|info| PoolRequest::Create {
            label: None,
            uuid: info.uuid,
            checksum: info.checksum,
            metadata: Vec::new(),
            first_oid: 0,
        });
        self.send_all(node, requests.collect()).await
    }

    /// Removes a named value from containers of the catalog, within a tokio runtime.
    ///
    /// # Errors
    /// The errors of opening a container and of changing its named values.
    pub async fn remove_metadata(&self, containers: &[ContainerInfo], name: &str) -> Result<()> {
        let Some(node) = self.nodes.first() else { return Ok(()) };
        let remove = |connection| -> Answer<()> {
            let (uuids, name) = (containers.iter().map(|info| info.uuid), name.to_owned());
            let uuids: Vec<Uuid> = uuids.collect();
            Box::pin(async move {
                let pool = RemotePool::open(connection).await?;
                for uuid in uuids {
                    let uuid = ContainerRef::Uuid(uuid);
                    let opened = pool.open_container(uuid, OpenMode::ReadWrite).await?;
                    opened.set_metadata(&[(&name, None)]).await?;
                    opened.close().await?;
                }
                Ok(())
            })
        };
        ask_node(node, self.tcp(), &self.secret, Duration::MAX, remove).await
    }

    /// Removes containers from a node, open ones too, within a tokio runtime.
    ///
    /// # Errors
    /// The errors of destroying a container.
    pub async fn remove(&self, node: usize, containers: &[Uuid]) -> Result<()> {
        let destroy = |uuid: &Uuid| PoolRequest::Destroy(ContainerRef::Uuid(*uuid), true);
        self.send_all(node, containers.iter().map(destroy).collect()).await
    }

    /// Sends requests to a node, one after the other.
    async fn send_all(&self, node: usize, requests: Vec<PoolRequest<'static>>) -> Result<()> {
        let Some(node) = self.nodes.get(node) else { return Ok(()) };
        let all = |connection| -> Answer<()> {
            Box::pin(async move {
                for request in requests {
                    let request = Request::Pool(request);
                    let reply = ask_patiently(&connection, request, |reply| match reply {
                        Reply::Container(_) => Some(()),
                        other => done_reply(other),
                    });
                    reply.await?;
                }
                Ok(())
            })
        };
        ask_node(node, self.tcp(), &self.secret, Duration::MAX, all).await
    }
}

/// Lists all objects of a container on a node.
async fn objects(pool: RemotePool, container: Uuid) -> Result<Vec<ObjectId>> {
    let opened = pool.open_container(ContainerRef::Uuid(container), OpenMode::ReadOnly).await?;
    let (mut anchor, mut all) = (Anchor::Start, Vec::new());
    while !anchor.is_end() {
        all.extend(opened.list_objects(&mut anchor, LIST_BATCH, ReadAt::LATEST).await?);
    }
    opened.close().await?;
    Ok(all)
}
