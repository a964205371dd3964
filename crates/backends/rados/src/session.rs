//! The connection of this process. librados uses threads, which a child made by fork does not inherit: the child
//! opens its own connection and leaves the inherited one alone.
use super::url::RadosUrl;
use crate::librados::{Cluster, IoContext, Usage};
use esker_os::ForkLock;
use esker_types::Result;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of connections of a process, opened under load. All operations of a connection go through one thread of
/// librados and one of the OSD.
const CONNECTIONS: usize = 2;

/// Time after a failed attempt to make a further connection before the next one.
const PAUSE: Duration = Duration::from_secs(10);

/// How to connect to a pool.
pub(super) struct Session {
    pub(super) url: RadosUrl,
    connections: [ForkLock<Option<Cluster>>; CONNECTIONS],
    /// Time of the next attempt to make a further connection (`uptime`).
    retry: AtomicU64,
}

impl Session {
    /// Connects to the cluster of a URL.
    pub(super) fn connect(url: RadosUrl) -> Result<Self> {
        let session = Self { url, connections: Default::default(), retry: AtomicU64::new(0) };
        session.cluster().map(|_| session)
    }

    /// The first connection of this process, which is made when it is first needed.
    fn cluster(&self) -> Result<Cluster> {
        let mut known = self.connections[0].lock();
        match &*known {
            Some(cluster) => Ok(cluster.clone()),
            None => self.open(&mut known),
        }
    }

    /// A further connection of this process. `None` while another thread makes it, and for [`PAUSE`] after that failed.
    fn further_cluster(&self, index: usize) -> Option<Cluster> {
        let mut known = self.connections[index].try_lock()?;
        if let Some(cluster) = &*known {
            return Some(cluster.clone());
        }
        if esker_os::uptime() < self.retry.load(Ordering::Relaxed) {
            return None;
        }
        let opened = self.open(&mut known).ok();
        if opened.is_none() {
            let next = esker_os::uptime() + PAUSE.as_micros() as u64;
            self.retry.store(next, Ordering::Relaxed);
        }
        opened
    }

    /// Connects to the cluster, and stores the connection.
    fn open(&self, known: &mut Option<Cluster>) -> Result<Cluster> {
        let cluster = Cluster::connect(&self.url.settings)?;
        *known = Some(cluster.clone());
        Ok(cluster)
    }

    /// The space of the cluster.
    pub(super) fn usage(&self) -> Result<Usage> {
        self.cluster()?.usage()
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
        let mut best = self.first_io_context()?;
        for index in 1..CONNECTIONS {
            if best.under_way() == 0 {
                break;
            }
            // The first connection serves as well, so nothing waits or fails for a further one.
            let other = self.further_io_context(index);
            best = other.filter(|other| other.under_way() < best.under_way()).unwrap_or(best);
        }
        Ok(best)
    }

    /// The I/O context of the first connection to the cluster, created at first use.
    fn first_io_context(&self) -> Result<IoContext> {
        let mut known = self.io_contexts[0].lock();
        match &*known {
            Some(io) => Ok(io.clone()),
            None => self.open(&self.session.cluster()?, &mut known),
        }
    }

    /// The I/O context of a further connection. `None` if it cannot be used now.
    fn further_io_context(&self, index: usize) -> Option<IoContext> {
        let mut known = self.io_contexts[index].try_lock()?;
        match &*known {
            Some(io) => Some(io.clone()),
            None => self.open(&self.session.further_cluster(index)?, &mut known).ok(),
        }
    }

    /// Opens the namespace on a connection, and stores the I/O context.
    fn open(&self, cluster: &Cluster, known: &mut Option<IoContext>) -> Result<IoContext> {
        let io = cluster.io_context(&self.session.url.pool, &self.name)?;
        *known = Some(io.clone());
        Ok(io)
    }
}
