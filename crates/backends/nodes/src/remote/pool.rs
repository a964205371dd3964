//! A pool on another node.
use crate::connection::{Connection, Data, Found, ReplyLimits};
use crate::remote::container::RemoteContainer;
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::ops::{Commit, CommitId, Decisions, Outcome, ReadTokens};
use esker_types::{Epoch, Error, Result};
use esker_wire::frame::Destination;
use esker_wire::message::{self, MetadataRequest, PoolRequest, Request};
use std::sync::Arc;
use std::time::Duration;

/// A pool on another node, accessed through its engine.
pub struct RemotePool {
    pub(crate) connection: Arc<Connection>,
    capabilities: Capabilities,
}

impl RemotePool {
    /// Opens the pool of a connection's engine.
    ///
    /// # Errors
    /// The errors of a request.
    pub async fn open(connection: Connection) -> Result<Self> {
        let request = Request::Pool(PoolRequest::Capabilities);
        let capabilities = ask(&connection, request, None, |reply| match reply {
            message::Reply::Capabilities(capabilities) => Some(capabilities),
            _ => None,
        })
        .await?;
        Ok(Self { connection: Arc::new(connection), capabilities })
    }

    /// True if the connection is lost.
    pub(crate) fn is_over(&self) -> bool {
        self.connection.is_over()
    }

    /// Sends a request about the pool. `read` takes the value out of the reply, or rejects a reply of another kind.
    fn ask<'a, T: 'a>(
        &'a self,
        request: PoolRequest<'a>,
        read: impl FnOnce(message::Reply) -> Option<T> + Send + 'a,
    ) -> Reply<'a, T> {
        ask(&self.connection, Request::Pool(request), None, read)
    }
}

/// Sends a request without data, and converts its reply with `read`. Tokens go to `tokens`.
pub(crate) fn ask<'a, T: 'a>(
    connection: &'a Connection,
    request: Request<'a>,
    tokens: Option<&'a ReadTokens>,
    read: impl FnOnce(message::Reply) -> Option<T> + Send + 'a,
) -> Reply<'a, T> {
    let call = Call { request, data: Data::default(), limits: ReplyLimits::with_room(0), tokens };
    Reply::Pending(Box::pin(exchange(connection, call, read)))
}

/// Sends a request like [`ask`], but waits for its reply as long as the connection lasts. The caller limits the time if
/// that is needed.
pub(crate) async fn ask_patiently<T>(
    connection: &Connection,
    request: Request<'_>,
    read: impl FnOnce(message::Reply) -> Option<T>,
) -> Result<T> {
    let limits = ReplyLimits { room: 0, timeout: Duration::MAX };
    let call = Call { request, data: Data::default(), limits, tokens: None };
    exchange(connection, call, read).await
}

/// A request and its data.
pub(crate) struct Call<'a> {
    pub(crate) request: Request<'a>,
    /// Its data.
    pub(crate) data: Data<'a>,
    /// Limits of its reply.
    pub(crate) limits: ReplyLimits,
    /// Destination of the read's tokens.
    pub(crate) tokens: Option<&'a ReadTokens>,
}

/// Sends a request and converts its reply: `read` gets it, unless the request failed, and returns `None` if it does not
/// fit.
pub(crate) async fn exchange<T>(
    connection: &Connection,
    call: Call<'_>,
    read: impl FnOnce(message::Reply) -> Option<T>,
) -> Result<T> {
    let (reply, _) = exchange_data(connection, call, &mut Destination::default()).await?;
    read(reply).ok_or_else(|| connection.unexpected_reply_error())
}

/// Sends a request. The data of its reply may be received `into` the caller's memory, if it fills that.
pub(crate) async fn exchange_data(
    connection: &Connection,
    call: Call<'_>,
    into: &mut Destination<'_>,
) -> Result<(message::Reply, Found)> {
    let (response, found) =
        connection.call_with(&call.request, call.data, call.limits, into).await?;
    if let Some(read) = call.tokens {
        response.tokens.iter().for_each(|token| read.add(token));
    }
    match response.reply {
        message::Reply::Failed(failure) => Err(connection.request_error(failure)),
        reply => Ok((reply, found)),
    }
}

/// Accepts a reply without a result. `None` if the reply is of another kind, which is an error.
pub(crate) fn done_reply(reply: message::Reply) -> Option<()> {
    matches!(reply, message::Reply::Done).then_some(())
}

/// The value in a reply; the inner `None` means that there is none. The outer `None` means that the reply is of another
/// kind, which is an error.
pub(crate) fn value(reply: message::Reply) -> Option<Option<Vec<u8>>> {
    match reply {
        message::Reply::Value(value) => Some(value),
        _ => None,
    }
}

/// Returns the names in a reply. None if the reply is of another kind, which is an error.
pub(crate) fn names(reply: message::Reply) -> Option<Vec<String>> {
    match reply {
        message::Reply::Names(names) => Some(names),
        _ => None,
    }
}

impl Metadata for RemotePool {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.ask(PoolRequest::Metadata(MetadataRequest::Get(name)), value)
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.ask(PoolRequest::Metadata(MetadataRequest::Set(changes.to_vec())), done_reply)
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.ask(PoolRequest::Metadata(MetadataRequest::List(prefix)), names)
    }
}

impl Pool for RemotePool {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        self.ask(PoolRequest::Info, |reply| match reply {
            message::Reply::Pool(info) => Some(info),
            _ => None,
        })
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        // The client draws the UUID, so that a repeated request creates the same container.
        let uuid = match new.uuid.map_or_else(esker_os::random_uuid, Ok::<_, Error>) {
            Ok(uuid) => uuid,
            Err(error) => return Reply::Ready(Err(error)),
        };
        let request = PoolRequest::Create {
            label: new.label,
            uuid,
            checksum: new.checksum,
            metadata: new.metadata.to_vec(),
            first_oid: new.first_oid,
        };
        self.ask(request, |reply| match reply {
            message::Reply::Container(info) => Some(info),
            _ => None,
        })
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        let connection = Arc::clone(&self.connection);
        self.ask(PoolRequest::Open(name, mode), |reply| match reply {
            message::Reply::Opened(handle, info) => {
                Some(Box::new(RemoteContainer { connection, handle, info })
                    as Box<dyn OpenContainer>)
            }
            _ => None,
        })
    }

    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        self.ask(PoolRequest::Destroy(name, force), done_reply)
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        self.ask(PoolRequest::List, |reply| match reply {
            message::Reply::Containers(containers) => Some(containers),
            _ => None,
        })
    }

    fn commit(&self, commit: Commit, epoch: Epoch) -> Reply<'_, ()> {
        self.ask(PoolRequest::Commit(commit, epoch), done_reply)
    }

    fn abort(&self, commit: Commit) -> Reply<'_, ()> {
        self.ask(PoolRequest::Abort(commit), done_reply)
    }

    fn outcome(&self, commit: Commit, decide: bool) -> Reply<'_, Outcome> {
        self.ask(PoolRequest::Outcome(commit, decide), |reply| match reply {
            message::Reply::Outcome(outcome) => Some(outcome),
            _ => None,
        })
    }

    fn prepared(&self) -> Reply<'_, Vec<Commit>> {
        self.ask(PoolRequest::Prepared, |reply| match reply {
            message::Reply::Commits(commits) => Some(commits),
            _ => None,
        })
    }

    fn forget(&self, commit: Commit) -> Reply<'_, ()> {
        self.ask(PoolRequest::Forget(commit), done_reply)
    }

    fn decisions(&self, most: usize) -> Reply<'_, Decisions> {
        self.ask(PoolRequest::Decisions(most as u64), |reply| match reply {
            message::Reply::Decisions(decisions) => Some(decisions),
            _ => None,
        })
    }

    fn sweep<'a>(&'a self, ids: &'a [CommitId]) -> Reply<'a, ()> {
        self.ask(PoolRequest::Sweep(ids.to_vec()), done_reply)
    }
}
