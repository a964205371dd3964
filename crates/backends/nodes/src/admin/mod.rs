//! Administration of a pool over nodes: requests to its engines.
pub(crate) mod survey;

use crate::connection::{CONNECT_TIMEOUT, Connection, REQUEST_TIMEOUT};
use crate::dial::Tcp;
use crate::map::{Map, Node};
use crate::remote::pool::{ask, ask_patiently, done_reply};
use esker_types::info::{ContainerInfo, PoolInfo};
use esker_types::{Error, ErrorKind, Result};
use esker_wire::handshake::Secret;
use esker_wire::message::{Check, Maintained, Maintenance, PoolRequest, Reply, Request};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;
use tokio::task::JoinSet;

/// Timeout of a node's reply about its state.
pub const QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Time that a node may take to destroy its pool.
pub const DESTROY_TIMEOUT: Duration = Duration::from_secs(60);

/// Pause between queries of a node for the end of its check.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Number of refusals of a node under repair before its repair counts as failed. A node that does not answer in time does
/// not refuse: its engine serves no connections while it repairs.
const REFUSALS_MAX: u32 = 20;

/// Number of consecutive queries that a node under repair does not answer before the caller is told. Each takes
/// [`CONNECT_TIMEOUT`], so that is after [`SILENCE_TOLD_AFTER`].
const SILENCES_TOLD: u32 = 30;

/// Time after which [`Map::maintain`] tells its caller that a node does not answer.
pub const SILENCE_TOLD_AFTER: Duration = CONNECT_TIMEOUT.saturating_mul(SILENCES_TOLD);

/// Future of a node's answer.
pub(crate) type Answer<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

impl Map {
    /// Queries all nodes concurrently, within a tokio runtime. The answers are in the order of the nodes; a node that
    /// does not answer within [`QUERY_TIMEOUT`] has failed.
    pub async fn query(&self) -> Vec<Result<PoolInfo>> {
        self.ask_all(QUERY_TIMEOUT, |connection| {
            ask_once(connection, PoolRequest::Info, |reply| match reply {
                Reply::Pool(info) => Some(info),
                _ => None,
            })
        })
        .await
    }

    /// Requests that each engine has served, by the name of their kind, within a tokio runtime. The answers are in the
    /// order of the nodes.
    pub async fn requests(&self) -> Vec<Result<Vec<(String, u64)>>> {
        self.ask_all(QUERY_TIMEOUT, |connection| {
            ask_once(connection, PoolRequest::Requests, |reply| match reply {
                Reply::Requests(counts) => Some(counts),
                _ => None,
            })
        })
        .await
    }

    /// The containers of the pool, as its first node lists them, within a tokio runtime.
    ///
    /// # Errors
    /// The errors of the node; `TimedOut` if it does not answer within [`QUERY_TIMEOUT`].
    pub async fn containers(&self) -> Result<Vec<ContainerInfo>> {
        let Some(first) = self.nodes.first() else { return Ok(Vec::new()) };
        ask_node(first, self.tcp(), &self.secret, QUERY_TIMEOUT, list).await
    }

    /// The containers of each node, within a tokio runtime. Only those of the first node have labels.
    pub async fn containers_of_all(&self) -> Vec<Result<Vec<ContainerInfo>>> {
        self.ask_all(QUERY_TIMEOUT, list).await
    }

    /// Maintains the pools of all nodes concurrently, without a time limit, within a tokio runtime. Calls `silent` with the
    /// name of each node that has not answered for [`SILENCE_TOLD_AFTER`]: it still repairs its pool, or is away.
    pub async fn maintain(&self, what: Maintenance, silent: fn(&str)) -> Vec<Result<Maintained>> {
        self.on_all(move |node, tcp, secret| async move {
            maintain(&node, tcp, &secret, what, silent).await
        })
        .await
    }

    /// Ends the engines of all nodes, within a tokio runtime. With `remove`, their pools are destroyed first.
    pub async fn shut_down(&self, remove: bool) -> Vec<Result<()>> {
        self.ask_all(DESTROY_TIMEOUT, move |connection| {
            ask_once(connection, PoolRequest::ShutDown { remove }, done_reply)
        })
        .await
    }

    /// Verifies the structures of all nodes' pools concurrently, without a time limit, within a tokio runtime.
    pub async fn check(&self) -> Vec<Result<Check>> {
        self.ask_all(Duration::MAX, |connection| {
            Box::pin(async move {
                loop {
                    let request = Request::Pool(PoolRequest::Check);
                    let found = ask(&connection, request, None, |reply| match reply {
                        Reply::Checked(found) => Some(found),
                        _ => None,
                    });
                    match found.await? {
                        Some(found) => return Ok(found),
                        None => tokio::time::sleep(ASK_AGAIN).await,
                    }
                }
            })
        })
        .await
    }

    /// Returns the options for connections to the nodes of this pool.
    pub(crate) fn tcp(&self) -> Tcp {
        Tcp { tls: self.tls }
    }

    /// Asks all nodes at the same time, each on a connection of its own. The results are in the order of the nodes.
    async fn ask_all<T: Send + 'static>(
        &self,
        timeout: Duration,
        ask: impl Fn(Connection) -> Answer<T> + Copy + Send + Sync + 'static,
    ) -> Vec<Result<T>> {
        self.on_all(move |node, tcp, secret| async move {
            ask_node(&node, tcp, &secret, timeout, ask).await
        })
        .await
    }

    /// Runs `work` for all nodes concurrently. The results are in the order of the nodes.
    async fn on_all<T, W>(&self, work: impl Fn(Node, Tcp, Secret) -> W) -> Vec<Result<T>>
    where
        T: Send + 'static,
        W: Future<Output = Result<T>> + Send + 'static,
    {
        let mut under_way = JoinSet::new();
        for (number, node) in self.nodes.iter().cloned().enumerate() {
            let work = work(node, self.tcp(), self.secret.clone());
            under_way.spawn(async move { (number, work.await) });
        }
        let mut results = under_way.join_all().await;
        results.sort_by_key(|(number, _)| *number);
        results.into_iter().map(|(_, result)| result).collect()
    }
}

/// Asks a node which containers its pool has.
fn list(connection: Connection) -> Answer<Vec<ContainerInfo>> {
    ask_once(connection, PoolRequest::List, |reply| match reply {
        Reply::Containers(containers) => Some(containers),
        _ => None,
    })
}

/// Sends one request over a connection, within the time that the caller allows. `read` takes the result from the reply;
/// `None` if the reply does not fit.
fn ask_once<T: Send + 'static>(
    connection: Connection,
    request: PoolRequest<'static>,
    read: fn(Reply) -> Option<T>,
) -> Answer<T> {
    Box::pin(async move { ask_patiently(&connection, Request::Pool(request), read).await })
}

/// Maintains the pool of a node, and waits for the end. A repair ends the connection; its result is then queried over
/// another one. Calls `silent` once if the node does not answer for long.
async fn maintain(
    node: &Node,
    tcp: Tcp,
    secret: &Secret,
    what: Maintenance,
    silent: fn(&str),
) -> Result<Maintained> {
    let number = u64::from_le_bytes(esker_os::random_bytes()?);
    let mut progress = Progress::default();
    loop {
        let request = move |connection| -> Answer<Option<Maintained>> {
            Box::pin(async move {
                let request = Request::Pool(PoolRequest::Maintain(what, number));
                let asked = ask(&connection, request, None, |reply| match reply {
                    Reply::Maintained(done) => Some(done),
                    _ => None,
                });
                asked.await
            })
        };
        match ask_node(node, tcp, secret, REQUEST_TIMEOUT, request).await {
            Ok(Some(done)) => return Ok(done),
            Ok(None) => progress = Progress { begun: true, ..Progress::default() },
            Err(error) => {
                if progress.check(error)? {
                    silent(&node.name);
                }
            }
        }
        tokio::time::sleep(ASK_AGAIN).await;
    }
}

/// Progress of the maintenance of a node.
#[derive(Default)]
struct Progress {
    begun: bool,
    /// Refusals of the node since its last answer.
    refusals: u32,
    /// Queries since its last answer that ended by a timeout.
    silences: u32,
}

impl Progress {
    /// Returns the error of a query, unless the node may be repairing its pool. True for the timeout after which the
    /// caller is told that the node does not answer.
    fn check(&mut self, error: Error) -> Result<bool> {
        match error.kind() {
            ErrorKind::TimedOut if self.begun => {
                self.silences = self.silences.saturating_add(1);
                Ok(self.silences == SILENCES_TOLD)
            }
            ErrorKind::Io | ErrorKind::Canceled if self.begun && self.refusals < REFUSALS_MAX => {
                self.refusals += 1;
                Ok(false)
            }
            _ => Err(error),
        }
    }
}

/// Connects to one node, and lets `ask` send requests. Fails if the node does not answer within `timeout`.
pub(crate) async fn ask_node<T>(
    node: &Node,
    tcp: Tcp,
    secret: &Secret,
    timeout: Duration,
    ask: impl FnOnce(Connection) -> Answer<T>,
) -> Result<T> {
    let answer = async {
        let session = u64::from_le_bytes(esker_os::random_bytes()?);
        ask(tcp.connect(node, secret, session).await?).await
    };
    let answer = tokio::time::timeout(timeout, answer).await;
    answer.unwrap_or_else(|_| Err(timeout_error(node, timeout)))
}

#[cold]
fn timeout_error(node: &Node, timeout: Duration) -> Error {
    let message = format!("node {} did not answer within {} s", node.name, timeout.as_secs());
    Error::new(ErrorKind::TimedOut, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::Endpoint;
    use bytes::Bytes;
    use esker_types::Uuid;
    use esker_wire::frame::{Frame, Kind, Limits, Receiver, Sender};
    use esker_wire::handshake;
    use esker_wire::message::{Response, encode};
    use tokio::io::{DuplexStream, split};

    /// Its engine serves no connections meanwhile, so each query ends after the handshake timeout.
    #[test]
    fn node_that_repairs_for_long_is_waited_for() {
        let mut progress = Progress { begun: true, ..Progress::default() };
        let mut silent = || progress.check(ErrorKind::TimedOut.into()).unwrap();
        assert_eq!((1..=10 * SILENCES_TOLD).find(|_| silent()), Some(SILENCES_TOLD));
        assert!((0..10 * SILENCES_TOLD).all(|_| !silent()), "it is told once");
        // A node that refuses connections now and then is not waited for.
        for _ in 0..REFUSALS_MAX {
            assert!(!progress.check(ErrorKind::Io.into()).unwrap());
            assert!(!progress.check(ErrorKind::TimedOut.into()).unwrap());
        }
        let failed = progress.check(ErrorKind::Io.into()).unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Io);
        assert!(Progress::default().check(ErrorKind::TimedOut.into()).is_err());
    }

    /// An engine that replies to one request, `delay` after it has received it. Time is simulated.
    async fn serve_slowly(stream: DuplexStream, delay: Duration) -> Result<()> {
        let (from, to) = split(stream);
        let (mut from, mut to) = (Receiver::new(from), Sender::new(to));
        handshake::accept(&mut from, &mut to, &secret(), POOL, [1; 32]).await?;
        let Some(request) = from.receive(Limits::AUTHENTICATED).await? else { return Ok(()) };
        for _ in 0..delay.as_secs() {
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        let message = encode(&Response { reply: Reply::Done, tokens: Vec::new() })?.into();
        let (kind, call, bulk) = (Kind::Reply, request.call, Bytes::new());
        to.send(&Frame { kind, call, room: 0, message, bulk }).await?;
        to.flush().await?;
        from.discard().await;
        Ok(())
    }

    const POOL: Uuid = Uuid([6; 16]);

    fn secret() -> Secret {
        Secret::new([1; 32])
    }

    #[test]
    fn node_may_take_longer_than_a_request_to_destroy_its_pool() {
        let delay = Duration::from_secs(45);
        assert!(REQUEST_TIMEOUT < delay && delay < DESTROY_TIMEOUT);
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (client, engine) = tokio::io::duplex(1 << 10);
            tokio::spawn(serve_slowly(engine, delay));
            let (secret, (from, to)) = (secret(), split(client));
            let to_engine =
                Endpoint { name: "n1", address: "", secret: &secret, pool: POOL, session: 1 };
            let connection = Connection::open(to_engine, from, to).await.unwrap();
            let request = PoolRequest::ShutDown { remove: true };
            ask_once(connection, request, done_reply).await.unwrap();
        });
    }
}
