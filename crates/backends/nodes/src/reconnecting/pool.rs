//! The pool of another node. A lost connection is replaced by a new one, and repeated requests are applied once.
use crate::dial::Dial;
use crate::map::Node;
use crate::reconnecting::slots::Slots;
use crate::remote::pool::RemotePool;
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

/// Time for a node to come back after its connection was lost, before operations on it fail.
pub const RECONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time for which a node counts as dead after it could not be reached. The next operation tries again.
const DOWN_FOR: Duration = Duration::from_millis(500);

/// Pause between attempts to reach a node again.
const TRY_EVERY: Duration = Duration::from_millis(50);

/// Attempts of an operation before it fails, if the connection is lost each time.
const SENT_MAX: u32 = 4;

/// The pool of another node.
pub(crate) struct ReconnectingPool {
    node: Node,
    secret: Secret,
    capabilities: Capabilities,
    /// Reconnect timeout.
    reconnect_timeout: Duration,
    dial: Arc<dyn Dial>,
    connection: PerProcess<PeerConnection>,
}

/// The connection of this process.
struct PeerConnection {
    slots: Slots,
    /// The last connection; `None` before the first one, and after a failure to connect.
    current: Mutex<Option<Arc<RemotePool>>>,
    /// Held by the operation that connects. The time and error of the last failure.
    connecting: tokio::sync::Mutex<Option<(Instant, Error)>>,
}

impl PeerConnection {
    fn new() -> Result<Self> {
        let (current, connecting) = (Mutex::default(), tokio::sync::Mutex::default());
        Ok(Self { slots: Slots::new()?, current, connecting })
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<RemotePool>>> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, if it is not known to be lost.
    fn usable(&self) -> Option<Arc<RemotePool>> {
        self.current().as_ref().filter(|remote| !remote.is_over()).cloned()
    }
}

impl ReconnectingPool {
    /// The pool of `node`. Connects at its first use.
    pub(crate) fn new(
        node: Node,
        secret: Secret,
        capabilities: Capabilities,
        reconnect_timeout: Duration,
        dial: Arc<dyn Dial>,
    ) -> Self {
        Self {
            node,
            secret,
            capabilities,
            reconnect_timeout,
            dial,
            connection: PerProcess::empty(),
        }
    }

    /// Name of the node.
    pub(crate) fn name(&self) -> &str {
        &self.node.name
    }

    /// Returns the transport that connects to the node.
    pub(crate) fn dial(&self) -> &dyn Dial {
        &*self.dial
    }

    fn connection(&self) -> Result<&PeerConnection> {
        self.connection.get_or_make(PeerConnection::new)
    }

    /// The slots for changes to this node.
    pub(crate) fn slots(&self) -> Result<&Slots> {
        self.connection().map(|connection| &connection.slots)
    }

    /// The pool over a connection that is not known to be lost. After the loss of a connection, data is copied before
    /// it is sent: a buffer that changed meanwhile may have been the reason.
    ///
    /// # Errors
    /// The error for which the node cannot be reached.
    pub(crate) async fn remote(&self) -> Result<Arc<RemotePool>> {
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
        // The lost connection stays there while this connects. If the caller drops this future, the next caller waits
        // as long for the node.
        let was_lost = connection.current().is_some();
        let reconnect_timeout = if was_lost { self.reconnect_timeout } else { Duration::ZERO };
        match self.connect(connection.slots.session(), reconnect_timeout).await {
            Ok(remote) => {
                if was_lost {
                    remote.connection.copy_data();
                }
                *connection.current() = Some(Arc::clone(&remote));
                Ok(remote)
            }
            Err(error) => {
                *connection.current() = None;
                *failed = Some((Instant::now(), error.clone()));
                Err(error)
            }
        }
    }

    /// Tries to connect until the timeout, and at least once.
    async fn connect(&self, session: u64, reconnect_timeout: Duration) -> Result<Arc<RemotePool>> {
        let until = Instant::now() + reconnect_timeout;
        loop {
            let connected = match self.dial.dial(&self.node, &self.secret, session).await {
                Ok(opened) => RemotePool::open(opened).await,
                Err(error) => Err(error),
            };
            match connected {
                Ok(remote) => return Ok(Arc::new(remote)),
                Err(error) if Instant::now() >= until || !may_pass(&error) => {
                    return Err(self.with_node_name(error));
                }
                Err(_) => self.dial.pause(TRY_EVERY).await?,
            }
        }
    }
}

impl ReconnectingPool {
    /// Adds the name of the node to an error.
    fn with_node_name(&self, error: Error) -> Error {
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

/// Counts the attempts of an operation.
#[derive(Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// True if the operation must be sent again: its connection was lost.
    pub(crate) fn again<T>(&mut self, remote: &RemotePool, result: &Result<T>) -> bool {
        self.0 += 1;
        result.is_err() && remote.is_over() && self.0 < SENT_MAX
    }

    /// True if an earlier attempt may have succeeded, although no reply came.
    pub(crate) fn may_be_done(&self) -> bool {
        self.0 > 0
    }
}

/// Runs `$call` on the pool `$remote` of a peer, and again over a new connection if that is lost. It is a macro,
/// because a closure cannot lend its borrows to a future that must be `Send`.
macro_rules! resent {
    ($peer:expr, $remote:ident => $call:expr) => {
        resent!($peer, $remote, _attempts => $call)
    };
    ($peer:expr, $remote:ident, $attempts:ident => $call:expr) => {
        Reply::Pending(Box::pin(async move {
            let mut $attempts = $crate::reconnecting::pool::Attempts::default();
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

impl Metadata for ReconnectingPool {
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

impl ReconnectingPool {
    /// Finds the container with this UUID, which an attempt has created whose reply was lost. `Exists` if it is not
    /// there: then another container has the label.
    async fn created(&self, uuid: Option<Uuid>) -> Result<ContainerInfo> {
        let all = self.list_containers().await?;
        let found = all.into_iter().find(|info| Some(info.uuid) == uuid);
        found.ok_or_else(|| ErrorKind::Exists.into())
    }
}

impl Pool for ReconnectingPool {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        resent!(self, remote => remote.info().await)
    }

    /// If a repeated request finds the container, the first one has created it, and its reply was lost.
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

    /// If a repeated request finds no container, the first one has destroyed it, and its reply was lost.
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

    fn abort(&self, commit: Commit) -> Reply<'_, ()> {
        resent!(self, remote => remote.abort(commit).await)
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
