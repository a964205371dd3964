//! The connection of this process. librados keeps threads, which a child made by fork does not have: it
//! connects anew, and leaves what it inherited alone.
use super::url::RadosUrl;
use esker_librados::{Cluster, Place, Usage};
use esker_store::ForkLock;
use esker_types::Result;
use std::sync::Arc;

/// How a pool is reached.
pub(super) struct Session {
    pub(super) url: RadosUrl,
    cluster: ForkLock<Option<Cluster>>,
}

impl Session {
    pub(super) fn connect(url: RadosUrl) -> Result<Self> {
        let session = Self { url, cluster: ForkLock::default() };
        session.cluster().map(|_| session)
    }

    /// The connection of this process.
    fn cluster(&self) -> Result<Cluster> {
        let mut known = self.cluster.lock();
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
        self.cluster()?.usage()
    }
}

/// A namespace, opened by this process when it is first wanted.
pub(super) struct Namespace {
    session: Arc<Session>,
    name: String,
    place: ForkLock<Option<Place>>,
}

impl Namespace {
    pub(super) fn new(session: &Arc<Session>, name: String) -> Self {
        Self { session: Arc::clone(session), name, place: ForkLock::default() }
    }

    pub(super) fn place(&self) -> Result<Place> {
        let mut known = self.place.lock();
        match &*known {
            Some(place) => Ok(place.clone()),
            None => {
                let place = self.session.cluster()?.place(&self.session.url.pool, &self.name)?;
                *known = Some(place.clone());
                Ok(place)
            }
        }
    }
}
