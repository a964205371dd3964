//! The connection of this process. librados keeps threads, which a child made by fork does not have: it
//! connects anew, and leaves what it inherited alone.
use super::url::RadosUrl;
use esker_librados::{Cluster, IoContext, Usage};
use esker_os::ForkLock;
use esker_types::Result;
use std::sync::Arc;

/// Connections of a process, made when there is more to do than one can. All that one moves goes through one thread of
/// librados and one of the OSD.
const CONNECTIONS: usize = 2;

/// How a pool is reached.
pub(super) struct Session {
    pub(super) url: RadosUrl,
    connections: [ForkLock<Option<Cluster>>; CONNECTIONS],
}

impl Session {
    pub(super) fn connect(url: RadosUrl) -> Result<Self> {
        let session = Self { url, connections: Default::default() };
        session.cluster(0).map(|_| session)
    }

    /// A connection of this process.
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

    pub(super) fn usage(&self) -> Result<Usage> {
        self.cluster(0)?.usage()
    }
}

/// A namespace, opened by this process when it is first wanted.
pub(super) struct Namespace {
    session: Arc<Session>,
    name: String,
    places: [ForkLock<Option<IoContext>>; CONNECTIONS],
}

impl Namespace {
    pub(super) fn new(session: &Arc<Session>, name: String) -> Self {
        Self { session: Arc::clone(session), name, places: Default::default() }
    }

    /// The connection on which nothing is under way, else the one with the least.
    pub(super) fn place(&self) -> Result<IoContext> {
        let mut best = self.place_on(0)?;
        for index in 1..CONNECTIONS {
            if best.under_way() == 0 {
                break;
            }
            let other = self.place_on(index)?;
            if other.under_way() < best.under_way() {
                best = other;
            }
        }
        Ok(best)
    }

    fn place_on(&self, index: usize) -> Result<IoContext> {
        let mut known = self.places[index].lock();
        match &*known {
            Some(place) => Ok(place.clone()),
            None => {
                let cluster = self.session.cluster(index)?;
                let place = cluster.io_context(&self.session.url.pool, &self.name)?;
                *known = Some(place.clone());
                Ok(place)
            }
        }
    }
}
