//! The part of a pool on another node: its connection comes back after it was lost, and what was under way is done once.
use crate::dial::Dial;
use crate::map::Node;
use crate::pool::Remote;
use crate::slots::Slots;
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_os::PerProcess;
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::ops::{Commit, CommitId, Decisions, Outcome};
use esker_types::{Epoch, Error, ErrorKind, Result, Uuid};
use esker_wire::handshake::Secret;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// How long a node whose connection was lost may take to come back before what needs it fails.
pub const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a node is taken for dead after it could not be reached. Then the next operation tries again.
const DOWN_FOR: Duration = Duration::from_millis(500);

/// Pause between attempts to reach a node again.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// How often an operation is sent before it fails, if the connection is lost each time.
const SENT_MAX: u32 = 4;

/// The part of a pool on another node.
pub(crate) struct Peer {
    node: Node,
    secret: Secret,
    capabilities: Capabilities,
    /// How long it may take to come back.
    patience: Duration,
    dial: Arc<dyn Dial>,
    connection: PerProcess<Connection>,
}

/// The connection of this process.
struct Connection {
    slots: Slots,
    current: Mutex<Option<Arc<Remote>>>,
    /// Held by whoever connects. Why that failed last, and when.
    connecting: tokio::sync::Mutex<Option<(Instant, Error)>>,
}

impl Connection {
    fn new() -> Result<Self> {
        let (current, connecting) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { slots: Slots::new()?, current, connecting })
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Remote>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn usable(&self) -> Option<Arc<Remote>> {
        self.current().as_ref().filter(|remote| !remote.is_over()).cloned()
    }
}

impl Peer {
    /// The part on `node`. Connects when it is first used.
    pub(crate) fn new(
        node: Node,
        secret: Secret,
        capabilities: Capabilities,
        patience: Duration,
        dial: Arc<dyn Dial>,
    ) -> Self {
        Self { node, secret, capabilities, patience, dial, connection: PerProcess::empty() }
    }

    /// Name of the node.
    pub(crate) fn name(&self) -> &str {
        &self.node.name
    }

    fn connection(&self) -> Result<&Connection> {
        self.connection.get_or_make(Connection::new)
    }

    /// The slots for changes to this node.
    pub(crate) fn slots(&self) -> Result<&Slots> {
        self.connection().map(|connection| &connection.slots)
    }

    /// The pool by a connection that stands as far as is known.
    ///
    /// # Errors
    /// Why the node cannot be reached.
    pub(crate) async fn remote(&self) -> Result<Arc<Remote>> {
        let connection = self.connection()?;
        if let Some(remote) = connection.usable() {
            return Ok(remote);
        }
        let mut failed = connection.connecting.lock().await;
        if let Some(remote) = connection.usable() {
            return Ok(remote);
        }
        if let Some((when, error)) = &*failed
            && when.elapsed() < DOWN_FOR
        {
            return Err(error.clone());
        }
        let was_lost = connection.current().take().is_some();
        let patience = if was_lost { self.patience } else { Duration::ZERO };
        match self.connect(connection.slots.session(), patience).await {
            Ok(remote) => {
                if was_lost {
                    remote.link.copy_data();
                }
                *connection.current() = Some(Arc::clone(&remote));
                Ok(remote)
            }
            Err(error) => {
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Tries to connect for as long as it may take, and at least once.
    async fn connect(&self, session: u64, patience: Duration) -> Result<Arc<Remote>> {
        let until = Instant::now() + patience;
        loop {
            let connected = match self.dial.dial(&self.node, &self.secret, session).await {
                Ok(link) => Remote::open(link).await,
                Err(error) => Err(error),
            };
            match connected {
                Ok(remote) => return Ok(Arc::new(remote)),
                Err(error) if Instant::now() >= until || !may_pass(&error) => {
                    return Err(self.named(error));
                }
                Err(_) => self.dial.pause(TRY_EVERY).await?,
            }
        }
    }
}

impl Peer {
    /// The error, with the name of the node.
    fn named(&self, error: Error) -> Error {
        let name = &self.node.name;
        if error.message().contains(&format!("node {name}")) {
            return error;
        }
        Error::new(error.kind(), format!("node {name}: {}", error.message()))
    }
}

/// True if a node that cannot be reached for this reason may soon be reached again.
fn may_pass(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Io | ErrorKind::TimedOut)
}

/// How often an operation was sent.
#[derive(Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// True if the operation is to be sent again: its connection was lost.
    pub(crate) fn again<T>(&mut self, remote: &Remote, result: &Result<T>) -> bool {
        self.0 += 1;
        result.is_err() && remote.is_over() && self.0 < SENT_MAX
    }

    /// True if an earlier attempt may have succeeded, although no reply came.
    pub(crate) fn may_be_done(&self) -> bool {
        self.0 > 0
    }
}

/// Does `$call` on the pool `$remote` of a peer; again on a new connection, if that is lost. A macro, because a closure
/// cannot lend what it borrows to a future that must be `Send`.
macro_rules! resent {
    ($peer:expr, $remote:ident => $call:expr) => {
        resent!($peer, $remote, _attempts => $call)
    };
    ($peer:expr, $remote:ident, $attempts:ident => $call:expr) => {
        Reply::Pending(Box::pin(async move {
            let mut $attempts = $crate::peer::Attempts::default();
            loop {
                let $remote = $peer.remote().await?;
                let result = $call;
                if !$attempts.again(&$remote, &result) {
                    return result;
                }
            }
        }))
    };
}
pub(crate) use resent;

impl Metadata for Peer {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        resent!(self, remote => remote.get_metadata(name).await)
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        resent!(self, remote => remote.set_metadata(changes).await)
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        resent!(self, remote => remote.list_metadata(prefix).await)
    }
}

impl Peer {
    /// A container that was created by an attempt whose reply was lost.
    async fn created(&self, uuid: Option<Uuid>) -> Result<ContainerInfo> {
        let all = self.list_containers().await?;
        let found = all.into_iter().find(|info| Some(info.uuid) == uuid);
        found.ok_or_else(|| ErrorKind::Exists.into())
    }
}

impl Pool for Peer {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        resent!(self, remote => remote.info().await)
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        resent!(self, remote, attempts => match remote.create_container(new).await {
            Err(error) if error.kind() == ErrorKind::Exists && attempts.may_be_done() => {
                self.created(new.uuid).await
            }
            other => other,
        })
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        resent!(self, remote => remote.open_container(name, mode).await)
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        resent!(self, remote, attempts => match remote.destroy_container(name, force).await {
            Err(error) if error.kind() == ErrorKind::NotFound && attempts.may_be_done() => Ok(()),
            other => other,
        })
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        resent!(self, remote => remote.list_containers().await)
    }

    fn commit(&self, commit: Commit, epoch: Epoch) -> Reply<'_, ()> {
        resent!(self, remote => remote.commit(commit, epoch).await)
    }

    fn give_up(&self, commit: Commit) -> Reply<'_, ()> {
        resent!(self, remote => remote.give_up(commit).await)
    }

    fn outcome(&self, commit: Commit, decide: bool) -> Reply<'_, Outcome> {
        resent!(self, remote => remote.outcome(commit, decide).await)
    }

    fn prepared(&self) -> Reply<'_, Vec<Commit>> {
        resent!(self, remote => remote.prepared().await)
    }

    fn forget(&self, commit: Commit) -> Reply<'_, ()> {
        resent!(self, remote => remote.forget(commit).await)
    }

    fn decisions(&self, most: usize) -> Reply<'_, Decisions> {
        resent!(self, remote => remote.decisions(most).await)
    }

    fn sweep<'a>(&'a self, ids: &'a [CommitId]) -> Reply<'a, ()> {
        resent!(self, remote => remote.sweep(ids).await)
    }
}
