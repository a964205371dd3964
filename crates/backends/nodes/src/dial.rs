//! How connections to other nodes are made: over TCP, over the fabric, or as a test says.
use crate::link::Link;
use crate::map::{Map, Node, Transport};
use crate::runtime::{on_runtime, pause};
use esker_fabric::Place;
use esker_os::executor::{Task, task};
use esker_types::Result;
use esker_wire::handshake::Secret;
use std::sync::Arc;
use std::time::Duration;

/// Makes connections to the engines of other nodes.
pub trait Dial: Send + Sync {
    /// Connects to the engine of `node`. `session` names this client in the ids of its changes. Fails with the errors of
    /// [`Link::connect`].
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Link>>;

    /// Waits before a node is tried again.
    fn pause(&self, duration: Duration) -> Task<'_, Result<()>>;
}

/// Connects over TCP. The connections live on threads of their own.
#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    /// With TLS, and never without.
    pub tls: bool,
}

impl Tcp {
    /// Connects to the engine of `node`, within a tokio runtime that goes on running.
    ///
    /// # Errors
    /// Those of [`Link::connect`] and [`Link::connect_tls`].
    pub(crate) async fn connect(self, node: &Node, secret: &Secret, session: u64) -> Result<Link> {
        let to = node.endpoint(secret, session);
        match self.tls {
            false => Link::connect(to).await,
            true => Link::connect_tls(to).await,
        }
    }
}

impl Dial for Tcp {
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Link>> {
        let (tcp, node, secret) = (*self, node.clone(), secret.clone());
        task(on_runtime(async move { tcp.connect(&node, &secret, session).await }))
    }

    fn pause(&self, duration: Duration) -> Task<'_, Result<()>> {
        task(pause(duration))
    }
}

/// Connects over TCP, and goes on over the fabric. In a child made by fork whose parent used the fabric, over TCP only:
/// libfabric does not work there.
#[derive(Clone, Debug, Default)]
pub struct Fabric {
    /// Name of the provider; else the first that libfabric offers, which FI_PROVIDER decides.
    pub provider: Option<String>,
}

impl Dial for Fabric {
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Link>> {
        let place = || Place { provider: self.provider.clone(), local: None };
        let (fabric, node, secret) =
            (esker_fabric::is_usable().then(place), node.clone(), secret.clone());
        task(on_runtime(
            async move { Link::connect_by(fabric, node.endpoint(&secret, session)).await },
        ))
    }

    fn pause(&self, duration: Duration) -> Task<'_, Result<()>> {
        task(pause(duration))
    }
}

/// Makes the connections of a pool.
pub(crate) fn dial_by(map: &Map) -> Arc<dyn Dial> {
    match map.transport {
        Transport::Tcp => Arc::new(map.tcp()),
        Transport::Fabric => Arc::new(Fabric::default()),
    }
}
