//! The network of a simulation: streams that delay their bytes, break, or pause.
use crate::clock::pass;
use esker_backend::Pool;
use esker_engine::Engine;
use esker_nodes::{CONNECT_TIMEOUT, Connection, Dial, Node};
use esker_os::executor::{Task, task};
use esker_testing::Random;
use esker_types::{Error, ErrorKind, Result, Uuid};
use esker_wire::handshake::Secret;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

/// Bytes that a stream holds; more than are in flight at a time.
const STREAM: usize = 1 << 20;

/// All nodes with an engine, and the network between them and the clients.
pub(crate) struct Network {
    random: Mutex<Random>,
    secret: Secret,
    nodes: Vec<Host>,
}

/// One node.
struct Host {
    pool: Arc<dyn Pool>,
    uuid: Uuid,
    /// The network partition cuts the node off.
    is_apart: Flag,
    running: Mutex<Running>,
}

/// Engine and connections of a node, which end when it dies.
#[derive(Default)]
struct Running {
    engine: Option<Engine>,
    served: Vec<JoinHandle<Result<()>>>,
    streams: Vec<Cut>,
}

/// Breaks a connection.
type Cut = Arc<Flag>;

/// A flag. Tasks that wait for it continue in the order in which they came; those of `tokio::sync::watch` do not.
#[derive(Default)]
struct Flag {
    set: AtomicBool,
    changed: Notify,
}

impl Flag {
    /// True if the flag is set.
    fn get(&self) -> bool {
        self.set.load(Ordering::Relaxed)
    }

    /// Sets or clears the flag, and wakes the tasks that wait for it.
    fn put(&self, set: bool) {
        self.set.store(set, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    /// Waits until the flag has this value.
    async fn becomes(&self, wanted: bool) {
        while self.get() != wanted {
            self.changed.notified().await;
        }
    }
}

impl Host {
    /// Locks the state of the engine.
    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().expect("no panic")
    }
}

impl Network {
    /// Nodes that serve these pools.
    pub(crate) fn new(random: Random, secret: Secret, pools: Vec<(Arc<dyn Pool>, Uuid)>) -> Self {
        let host = |(pool, uuid)| {
            let (is_apart, running) = (Flag::default(), Mutex::default());
            Host { pool, uuid, is_apart, running }
        };
        let nodes = pools.into_iter().map(host).collect();
        let network = Self { random: Mutex::new(random), secret, nodes };
        (0..network.nodes.len()).for_each(|node| network.start(node));
        network
    }

    /// A random number below `limit`.
    fn below(&self, limit: u64) -> u64 {
        self.random.lock().expect("no panic").below(limit)
    }

    /// Delay of a message: mostly less than a millisecond, at times as long as a retransmission of TCP.
    fn delay(&self) -> Duration {
        match self.below(200) {
            0 => Duration::from_millis(1000 + self.below(3000)),
            1..6 => Duration::from_millis(200 + self.below(200)),
            _ => Duration::from_micros(50 + self.below(500)),
        }
    }

    /// Starts the engine of a node.
    pub(crate) fn start(&self, node: usize) {
        let Host { pool, uuid, .. } = &self.nodes[node];
        let engine = Engine::new(Arc::clone(pool), *uuid, self.secret.clone());
        self.nodes[node].running().engine.get_or_insert(engine);
    }

    /// Kills the engine of a node: its work ends at once, and so do its connections.
    pub(crate) fn kill(&self, node: usize) {
        let Running { served, streams, .. } = std::mem::take(&mut *self.nodes[node].running());
        served.iter().for_each(JoinHandle::abort);
        for cut in streams {
            cut.put(true);
        }
    }

    /// Stops the engine of a node in good order.
    pub(crate) async fn drain(&self, node: usize) {
        let engine = self.nodes[node].running().engine.take();
        if let Some(engine) = engine {
            // Unreachable clients do not receive their replies in time.
            let _ = engine.drain().await;
        }
    }

    /// Breaks one connection of a node.
    pub(crate) fn cut(&self, node: usize) {
        let mut running = self.nodes[node].running();
        running.streams.retain(|cut| !cut.get());
        let count = running.streams.len() as u64;
        if count > 0 {
            running.streams[self.below(count) as usize].put(true);
        }
    }

    /// Separates a node from all clients, or reconnects it.
    pub(crate) fn part(&self, node: usize, apart: bool) {
        self.nodes[node].is_apart.put(apart);
    }

    /// A stream to the engine of a node; `None` if it does not run.
    async fn connect(self: &Arc<Self>, node: usize) -> Option<DuplexStream> {
        self.travel(node).await;
        let (client, near) = duplex(STREAM);
        let (far, server) = duplex(STREAM);
        let mut running = self.nodes[node].running();
        let engine = running.engine.clone()?;
        let cut = Cut::default();
        running.served.push(tokio::spawn(async move {
            let (from, to) = split(server);
            engine.serve(from, to).await
        }));
        running.streams.push(Arc::clone(&cut));
        let ((near_from, near_to), (far_from, far_to)) = (split(near), split(far));
        let requests = Direction { from: near_from, to: far_to, may_be_late: true };
        let replies = Direction { from: far_from, to: near_to, may_be_late: false };
        tokio::spawn(Arc::clone(self).carry(node, requests, Arc::clone(&cut)));
        tokio::spawn(Arc::clone(self).carry(node, replies, cut));
        Some(client)
    }

    /// Takes as long as a message to or from a node.
    async fn travel(&self, node: usize) {
        pass(self.delay()).await;
        self.nodes[node].is_apart.becomes(false).await;
    }

    /// Carries bytes in one direction until the stream ends or is cut.
    async fn carry(self: Arc<Self>, node: usize, direction: Direction, cut: Cut) {
        let Direction { mut from, mut to, may_be_late } = direction;
        let mut bytes = vec![0; STREAM];
        loop {
            let read = tokio::select! {
                biased;
                () = cut.becomes(true) => break,
                read = from.read(&mut bytes) => read,
            };
            let Ok(count @ 1..) = read else { break };
            let whole = tokio::select! {
                biased;
                () = cut.becomes(true) => false,
                () = self.travel(node) => true,
            };
            if !whole {
                drop(from);
                if may_be_late && self.below(2) == 0 {
                    self.deliver_late(node, &bytes[..count], &mut to).await;
                }
                break;
            }
            if to.write_all(&bytes[..count]).await.is_err() {
                break;
            }
        }
        let _ = to.shutdown().await;
    }

    /// Delivers late requests whose client has made a new connection meanwhile.
    async fn deliver_late(&self, node: usize, bytes: &[u8], to: &mut WriteHalf<DuplexStream>) {
        pass(Duration::from_millis(self.below(5000))).await;
        self.travel(node).await;
        // The engine may have died meanwhile.
        let _ = to.write_all(bytes).await;
    }
}

/// One direction of a stream.
struct Direction {
    from: ReadHalf<DuplexStream>,
    to: WriteHalf<DuplexStream>,
    /// Bytes in flight when the stream was cut may arrive later.
    may_be_late: bool,
}

/// Connects to the nodes of a network. The address of a node is its number.
pub(crate) struct Wires(pub(crate) Arc<Network>);

impl Wires {
    /// Opens a connection to the engine of a node; fails if it does not run.
    async fn open(&self, node: &Node, secret: &Secret, session: u64) -> Result<Connection> {
        let number = node.address.parse().expect("a number");
        let refused = || Error::new(ErrorKind::Io, "the engine does not run");
        let stream = self.0.connect(number).await.ok_or_else(refused)?;
        let (from, to) = split(stream);
        Connection::open(node.endpoint(secret, session), from, to).await
    }
}

impl Dial for Wires {
    fn dial<'a>(
        &'a self,
        node: &'a Node,
        secret: &'a Secret,
        session: u64,
    ) -> Task<'a, Result<Connection>> {
        task(async move {
            let opening = self.open(node, secret, session);
            let opened = tokio::time::timeout(CONNECT_TIMEOUT, opening).await;
            opened.unwrap_or_else(|_| Err(Error::new(ErrorKind::TimedOut, "no reply in time")))
        })
    }

    fn pause(&self, duration: Duration) -> Task<'_, Result<()>> {
        task(async move {
            pass(duration).await;
            Ok(())
        })
    }
}
