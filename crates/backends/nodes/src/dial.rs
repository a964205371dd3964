//! How connections to other nodes are made: over TCP, or as a test says.
use crate::link::Link;
use crate::map::Node;
use crate::runtime::{on_runtime, pause};
use esker_os::executor::{Task, task};
use esker_types::Result;
use esker_wire::handshake::Secret;
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
pub struct Tcp;

impl Dial for Tcp {
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Link>> {
        let (node, secret) = (node.clone(), secret.clone());
        task(on_runtime(async move {
            let Node { name, address, uuid, .. } = &node;
            Link::connect(name, address, &secret, *uuid, session).await
        }))
    }

    fn pause(&self, duration: Duration) -> Task<'_, Result<()>> {
        task(pause(duration))
    }
}
