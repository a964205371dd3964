//! The connection of this process. librados uses threads, which a child made by fork does not inherit: the child
//! opens its own connection and leaves the inherited one alone.
use super::url::RadosUrl;
use crate::librados::{Cluster, IoContext, Usage};
use esker_os::ForkLock;
use esker_types::Result;
use std::sync::Arc;

/// Number of connections of a process, opened under load. All operations of a connection go through one thread of
/// librados and one of the OSD.
const CONNECTIONS: usize = 2;

/// How to connect to a pool.
pub(super) struct Session {
    pub(super) url: RadosUrl,
    connections: [ForkLock<Option<Cluster>>; CONNECTIONS],
}

impl Session {
    /// Connects to the cluster of a URL.
    pub(super) fn connect(url: RadosUrl) -> Result<Self> {
        let session = Self { url, connections: Default::default() };
        session.cluster(0).map(|_| session)
    }

    /// The connection number `index` of this process, which is made when it is first needed.
    fn cluster(&self, index: usize) -> Result<Cluster> {
        let mut known = self.connections[index].lock();
        match &*known {
            Some(cluster) => Ok(cluster.clone()),
            None => {
                let cluster = Cluster::connect(&self.url.settings)?;
                *known = Some(cluster.clone());
                Ok(cluster)
            }
        }
    }

    /// The space of the cluster.
    pub(super) fn usage(&self) -> Result<Usage> {
        self.cluster(0)?.usage()
    }
}

/// A namespace, opened by this process on first use.
pub(super) struct Namespace {
    session: Arc<Session>,
    name: String,
    io_contexts: [ForkLock<Option<IoContext>>; CONNECTIONS],
}

impl Namespace {
    /// The namespace `name` of the pool of the session.
    pub(super) fn new(session: &Arc<Session>, name: String) -> Self {
        Self { session: Arc::clone(session), name, io_contexts: Default::default() }
    }

    /// An idle connection, or else the one with the fewest operations in progress.
    pub(super) fn io_context(&self) -> Result<IoContext> {
        let mut best = self.io_context_on(0)?;
        for index in 1..CONNECTIONS {
            if best.under_way() == 0 {
                break;
            }
            let other = self.io_context_on(index)?;
            if other.under_way() < best.under_way() {
                best = other;
            }
        }
        Ok(best)
    }

    /// The I/O context of one of the connections to the cluster, created at first use.
    fn io_context_on(&self, index: usize) -> Result<IoContext> {
        let mut known = self.io_contexts[index].lock();
        match &*known {
            Some(io) => Ok(io.clone()),
            None => {
                let cluster = self.session.cluster(index)?;
                let io = cluster.io_context(&self.session.url.pool, &self.name)?;
                *known = Some(io.clone());
                Ok(io)
            }
        }
    }
}
