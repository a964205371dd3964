//! Connecting to other nodes: over TCP, over the fabric, or by a test's own means.
use crate::connection::Connection;
use crate::map::{Map, Node, Transport};
use crate::runtime::{on_runtime, pause, spawn};
use esker_os::executor::{Task, task};
use esker_types::Result;
use esker_wire::fabric::EndpointOptions;
use esker_wire::handshake::Secret;
use std::sync::Arc;
use std::time::Duration;

/// Makes connections to the engines of other nodes.
pub trait Dial: Send + Sync {
    /// Connects to the engine of `node`. `session` identifies this client in the ids of its changes. Fails with the
    /// errors of [`Connection::connect`].
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Connection>>;

    /// Waits before the next attempt to reach a node.
    fn pause(&self, duration: Duration) -> Task<'_, Result<()>>;

    /// Runs `work` in the background. `work` waits until a connection is lost, then connects again and takes the leases
    /// again. The default drops `work`: then the next request does that.
    fn spawn(&self, _work: Task<'static, ()>) {}
}

/// Connects over TCP. The connections run on threads of their own.
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    /// Requires TLS.
    pub tls: bool,
}

impl Tcp {
    /// Connects to the engine of `node`, with TLS if `self.tls`. The caller runs in a tokio runtime that continues to
    /// run.
    ///
    /// # Errors
    /// The errors of [`Connection::connect`] and [`Connection::connect_tls`].
    pub(crate) async fn connect(
        self,
        node: &Node,
        secret: &Secret,
        session: u64,
    ) -> Result<Connection> {
        let to = node.endpoint(secret, session);
        match self.tls {
            false => Connection::connect(to).await,
            true => Connection::connect_tls(to).await,
        }
    }
}

impl Dial for Tcp {
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Connection>> {
        let (tcp, node, secret) = (*self, node.clone(), secret.clone());
        task(on_runtime(async move { tcp.connect(&node, &secret, session).await }))
    }

    fn pause(&self, duration: Duration) -> Task<'_, Result<()>> {
        task(pause(duration))
    }

    fn spawn(&self, work: Task<'static, ()>) {
        spawn(work);
    }
}

/// Connects over TCP, and continues over the fabric. A child made by fork whose parent used the fabric uses TCP only,
/// since libfabric does not work there.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    /// Name of the provider, or `None` for the first that libfabric offers (FI_PROVIDER selects it).
    pub provider: Option<String>,
}

impl Dial for Fabric {
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Connection>> {
        let options = || EndpointOptions { provider: self.provider.clone(), local: None };
        let (fabric, node, secret) =
            (esker_wire::fabric::is_usable().then(options), node.clone(), secret.clone());
        task(on_runtime(async move {
            Connection::connect_by(fabric, node.endpoint(&secret, session)).await
        }))
    }

    fn pause(&self, duration: Duration) -> Task<'_, Result<()>> {
        task(pause(duration))
    }

    fn spawn(&self, work: Task<'static, ()>) {
        spawn(work);
    }
}

/// The way to connect that the map asks for.
pub(crate) fn dial_by(map: &Map) -> Arc<dyn Dial> {
    match map.transport {
        Transport::Tcp => Arc::new(map.tcp()),
        Transport::Fabric => Arc::new(Fabric::default()),
    }
}
