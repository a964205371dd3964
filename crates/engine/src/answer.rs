//! Answers requests by the pool and its containers.
use crate::fetch::{self, Proof, Way};
use crate::host;
use crate::kinds::RequestKind;
use crate::limits::{
    self, LEASE_TOKENS_MAX, LEASED_EACH_MAX, QUERIES_MAX, check, check_change, check_fetch,
    limit_listing,
};
use crate::session::Session;
use bytes::Bytes;
use esker_backend::{Metadata, NewContainer, OpenContainer};
use esker_os::executor::must_not_wait;
use esker_types::limits::DECISIONS_SWEPT_MAX;
use esker_types::ops::{AkeyRef, KeyScope, Preparation};
use esker_types::{Error, ErrorKind, Result};
use esker_wire::frame::Bulk;
use esker_wire::message::{
    ContainerRequest, Failure, Handle, MetadataRequest, PoolRequest, Reply, Request, Response,
    decode,
};
use std::any::Any;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// The result of a request.
pub(crate) struct Answered {
    pub(crate) kind: RequestKind,
    /// Time from the start of serving the request to its reply.
    pub(crate) took: Duration,
    pub(crate) response: Response,
    pub(crate) data: Bulk,
    /// True if serving it panicked.
    pub(crate) is_defect: bool,
}

impl Answered {
    /// True if the request failed without a panic. If it failed because its thread must not wait, it had no effect: it
    /// may run again on a thread that may wait.
    pub(crate) fn may_wait(&self) -> bool {
        !self.is_defect && self.response.reply.failure().is_some()
    }

    /// Builds the response to a request whose handler panicked. Whether the request took effect is not known. `panic`
    /// is the payload of the panic, which the message shows if it is a text.
    #[cold]
    fn defect(kind: RequestKind, took: Duration, panic: &(dyn Any + Send)) -> Self {
        let reason = panic.downcast_ref::<&str>().copied();
        let reason = reason.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let (kind_name, reason) = (kind.name(), reason.unwrap_or("a panic"));
        let message = format!(
            "the engine met a defect while it served a request of kind {kind_name} ({reason}); whether the request \
             took effect is not known; please report this with the engine's log"
        );
        tracing::error!(message);
        let error = Error::new(ErrorKind::Io, message);
        let (reply, data) = plain(Reply::Failed(Failure::from(&error)));
        let response = Response { reply, tokens: Vec::new() };
        Self { kind, took, response, data, is_defect: true }
    }
}

impl Session {
    /// Answers a request, whose data is `bulk`: the response, and at most `room` bytes of data. A handler that panics
    /// gets a response as well.
    pub(crate) async fn answer(&self, message: &[u8], bulk: Bytes, room: u32) -> Answered {
        let begin = Instant::now();
        let mut serving = pin!(self.serve(begin, message, bulk, room));
        let mut attempt = |context: &mut Context<'_>| {
            // A handler that panicked is not polled again. Its locks are taken although they are poisoned.
            catch_unwind(AssertUnwindSafe(|| serving.as_mut().poll(context)))
        };
        poll_fn(|context| match attempt(context) {
            Ok(polled) => polled,
            Err(panic) => {
                let decoded = decode(message);
                let kind = decoded.as_ref().map_or(RequestKind::Malformed, RequestKind::of_request);
                Poll::Ready(Answered::defect(kind, begin.elapsed(), &*panic))
            }
        })
        .await
    }

    /// Decodes and serves one request, whose data is `bulk`. A failure becomes the reply, with at most `room` bytes of
    /// data.
    async fn serve(&self, begin: Instant, message: &[u8], bulk: Bytes, room: u32) -> Answered {
        let proof = Proof::default();
        let decoded = decode(message);
        let kind = decoded.as_ref().map_or(RequestKind::Malformed, RequestKind::of_request);
        let answered = match decoded {
            Ok(request) if !bulk.is_empty() && !has_data(&request) => Err(surplus_data_error()),
            // Boxing the rare requests keeps the future of the others small.
            Ok(Request::Pool(request)) => Box::pin(self.answer_pool(request)).await.map(plain),
            Ok(Request::Container(handle, request)) => {
                self.answer_container(handle, request, &bulk, room, &proof).await
            }
            Err(error) => Err(error),
        };
        let (reply, data) =
            answered.unwrap_or_else(|error| plain(Reply::Failed(Failure::from(&error))));
        let (took, response) = (begin.elapsed(), Response { reply, tokens: proof.into_tokens() });
        Answered { kind, took, response, data, is_defect: false }
    }

    /// Serves a request about the pool.
    async fn answer_pool(&self, request: PoolRequest<'_>) -> Result<Reply> {
        let pool = &self.pool;
        Ok(match request {
            PoolRequest::Capabilities => Reply::Capabilities(pool.capabilities()),
            PoolRequest::Info => Reply::Pool(pool.info().await?),
            PoolRequest::Metadata(request) => metadata(&**pool, request).await?,
            PoolRequest::Create { label, uuid, checksum, metadata, first_oid } => {
                let new = NewContainer::nameless().with_label(label).with_uuid(uuid);
                let new =
                    new.with_checksum(checksum).with_metadata(&metadata).with_first_oid(first_oid);
                Reply::Container(pool.create_container(&new).await?)
            }
            PoolRequest::Open(name, mode) => {
                let container = pool.open_container(name, mode).await?;
                let info = container.info().clone();
                Reply::Opened(self.register(container).await?, info)
            }
            PoolRequest::Destroy(name, force) => {
                expect_may_wait()?;
                done_reply(pool.destroy_container(name, force).await)?
            }
            PoolRequest::List => Reply::Containers(pool.list_containers().await?),
            PoolRequest::ShutDown { remove } => {
                done_reply(host::require_host(self.host.as_deref())?.shut_down(remove))?
            }
            PoolRequest::Check => {
                Reply::Checked(host::require_host(self.host.as_deref())?.check()?)
            }
            PoolRequest::Maintain(what, number) => {
                Reply::Maintained(host::require_host(self.host.as_deref())?.maintain(what, number)?)
            }
            PoolRequest::Commit(commit, epoch) => done_reply(pool.commit(commit, epoch).await)?,
            PoolRequest::Abort(commit) => done_reply(pool.abort(commit).await)?,
            PoolRequest::Outcome(commit, decide) => {
                Reply::Outcome(pool.outcome(commit, decide).await?)
            }
            PoolRequest::Forget(commit) => done_reply(pool.forget(commit).await)?,
            PoolRequest::Prepared => Reply::Commits(pool.prepared().await?),
            PoolRequest::Decisions(most) => {
                let most = usize::try_from(most).unwrap_or(usize::MAX).min(DECISIONS_SWEPT_MAX);
                Reply::Decisions(pool.decisions(most).await?)
            }
            PoolRequest::Sweep(ids) => {
                check("decisions of a sweep", ids.len(), DECISIONS_SWEPT_MAX)?;
                done_reply(pool.sweep(&ids).await)?
            }
            PoolRequest::Requests => Reply::Requests(self.metrics.requests()),
        })
    }

    /// Serves a request about an open container. `bulk` is the data of the request, and `room` the most bytes of data
    /// in the reply. `proof` collects the tokens of reads.
    async fn answer_container(
        &self,
        handle: Handle,
        request: ContainerRequest<'_>,
        bulk: &[u8],
        room: u32,
        proof: &Proof,
    ) -> Result<(Reply, Bulk)> {
        if let ContainerRequest::Release(oid) = request {
            return self.release(handle, oid).await.map(|last| plain(Reply::Flag(last)));
        }
        if let ContainerRequest::ReleaseEach(oids) = request {
            check("objects of a lease", oids.len(), LEASED_EACH_MAX)?;
            return self.release_each(handle, &oids).await.map(|last| plain(Reply::Flags(last)));
        }
        let container = self.container(handle)?;
        Ok(plain(match request {
            ContainerRequest::Fetch(oid, dkeys, at) => {
                check_fetch(&dkeys)?;
                let at = proof.read_at(at);
                return fetch::fetch(&*container, oid, &dkeys, room, at, &self.spare).await;
            }
            ContainerRequest::Write(change) => {
                check_change(&change)?;
                Reply::Epoch(fetch::write(&*container, &change, bulk, Way::Commit).await?)
            }
            ContainerRequest::WriteProved(change) => {
                check_change(&change)?;
                Reply::Epoch(fetch::write(&*container, &change, bulk, Way::CommitProved).await?)
            }
            ContainerRequest::PrepareChange(commit, change) => {
                check_change(&change)?;
                let way = Way::Prepare(commit);
                Reply::Epoch(fetch::write(&*container, &change, bulk, way).await?)
            }
            ContainerRequest::PrepareSnapshot(commit, name) => {
                Reply::Epoch(container.prepare(commit, Preparation::Snapshot(name)).await?)
            }
            ContainerRequest::Close => done_reply(self.close(handle).await)?,
            ContainerRequest::Lease(oid) => done_reply(self.lease(handle, oid, &container).await)?,
            ContainerRequest::LeaseEach(oids) => {
                check("objects of a lease", oids.len(), LEASED_EACH_MAX)?;
                done_reply(self.lease_each(handle, &oids, &container).await)?
            }
            other => Box::pin(answer_any(&*container, other, proof)).await?,
        }))
    }
}

/// True for requests that may have data.
fn has_data(request: &Request<'_>) -> bool {
    matches!(
        request,
        Request::Container(
            _,
            ContainerRequest::Write(_)
                | ContainerRequest::WriteProved(_)
                | ContainerRequest::PrepareChange(..)
        )
    )
}

#[cold]
fn surplus_data_error() -> Error {
    Error::new(ErrorKind::Corrupt, "a request has data, but its kind has none")
}

/// Fails on a thread that must not wait, before the request has any effect: a request that waits half-way could not run
/// again.
fn expect_may_wait() -> Result<()> {
    match must_not_wait() {
        false => Ok(()),
        true => Err(Error::new(ErrorKind::Busy, "this is done on a thread that may wait: retry")),
    }
}

fn done_reply(result: Result<()>) -> Result<Reply> {
    result.map(|()| Reply::Done)
}

/// A reply without data.
fn plain(reply: Reply) -> (Reply, Bulk) {
    (reply, Bulk::default())
}

/// Serves a request about the metadata of a pool or container.
async fn metadata<M: Metadata + ?Sized>(of: &M, request: MetadataRequest<'_>) -> Result<Reply> {
    Ok(match request {
        MetadataRequest::Get(name) => Reply::Value(of.get_metadata(name).await?),
        MetadataRequest::Set(changes) => done_reply(of.set_metadata(&changes).await)?,
        MetadataRequest::List(prefix) => Reply::Names(of.list_metadata(prefix).await?),
    })
}

/// Answers requests that concern only the container.
async fn answer_any(
    container: &dyn OpenContainer,
    request: ContainerRequest<'_>,
    proof: &Proof,
) -> Result<Reply> {
    Ok(match request {
        ContainerRequest::Metadata(request) => metadata(container, request).await?,
        ContainerRequest::Rename(label) => done_reply(container.rename(label).await)?,
        ContainerRequest::AllocateOids(count) => {
            Reply::Number(container.allocate_oids(count).await?)
        }
        ContainerRequest::NextOid => Reply::Number(container.next_oid().await?),
        ContainerRequest::CreateSnapshot(name) => {
            Reply::Epoch(container.create_snapshot(name).await?)
        }
        ContainerRequest::ListSnapshots => Reply::Snapshots(container.list_snapshots().await?),
        ContainerRequest::DestroySnapshot(epoch) => {
            expect_may_wait()?;
            done_reply(container.destroy_snapshot(epoch).await)?
        }
        ContainerRequest::UnlinkOnLastClose(oid) => {
            Reply::Flag(container.unlink_on_last_close(oid).await?)
        }
        ContainerRequest::Take(take) => Reply::Taken(container.take(take).await?),
        ContainerRequest::TakeWithArray(take, array) => {
            Reply::TakenWithArray(container.take_with_array(take, array, None).await?)
        }
        ContainerRequest::TakeProved(tokens, take, array) => {
            check("tokens of a removal", tokens.len(), LEASE_TOKENS_MAX)?;
            let reads = fetch::read_tokens(&tokens);
            Reply::TakenWithArray(container.take_with_array(take, array, Some(&reads)).await?)
        }
        ContainerRequest::RemoveUnusedEach(oids) => {
            check("objects of a removal", oids.len(), LEASED_EACH_MAX)?;
            Reply::Removals(container.remove_unused_each(&oids).await?)
        }
        ContainerRequest::RemoveUnused(oid) => Reply::Removal(container.remove_unused(oid).await?),
        ContainerRequest::LeaseReads(tokens) => {
            check("tokens of a lease", tokens.len(), LEASE_TOKENS_MAX)?;
            let lease = container.lease_reads(&fetch::read_tokens(&tokens)).await?;
            Reply::Leased(lease.map(|lease| {
                proof.take(&lease.reads);
                lease.term
            }))
        }
        read => answer_read(container, read, proof).await?,
    })
}

/// Serves listings and queries, and collects the tokens of what they read.
async fn answer_read(
    container: &dyn OpenContainer,
    request: ContainerRequest<'_>,
    proof: &Proof,
) -> Result<Reply> {
    Ok(match request {
        ContainerRequest::ListKeys(oid, dkey, mut anchor, limit, at) => {
            let scope = dkey.map_or(KeyScope::Dkeys, KeyScope::Akeys);
            let at = proof.read_at(at);
            let keys =
                container.list_keys(oid, scope, &mut anchor, limit_listing(limit), at).await?;
            Reply::Keys(keys, anchor)
        }
        ContainerRequest::ListExtents(oid, dkey, akey, mut anchor, entries, at) => {
            let (key, entries) = (AkeyRef { dkey, akey }, limits::limit_entries(entries));
            let found =
                container.list_extents(oid, key, &mut anchor, entries, proof.read_at(at)).await?;
            Reply::Extents(found, anchor)
        }
        ContainerRequest::ListObjects(mut anchor, entries, at) => {
            let entries = limits::limit_entries(entries);
            let objects = container.list_objects(&mut anchor, entries, proof.read_at(at)).await?;
            Reply::Objects(objects, anchor)
        }
        ContainerRequest::Query(oid, query, at) => {
            Reply::Found(container.query_key(oid, query, proof.read_at(at)).await?)
        }
        ContainerRequest::QueryEach(oids, query, at) => {
            check("objects of a query", oids.len(), QUERIES_MAX)?;
            Reply::FoundEach(container.query_keys(&oids, query, proof.read_at(at)).await?)
        }
        ContainerRequest::LastEpoch(oid, dkey, at) => {
            Reply::Epoch(container.last_epoch(oid, dkey, proof.read_at(at)).await?)
        }
        ContainerRequest::Metadata(_)
        | ContainerRequest::Close
        | ContainerRequest::Rename(_)
        | ContainerRequest::AllocateOids(_)
        | ContainerRequest::NextOid
        | ContainerRequest::Write(_)
        | ContainerRequest::WriteProved(_)
        | ContainerRequest::Fetch(..)
        | ContainerRequest::CreateSnapshot(_)
        | ContainerRequest::ListSnapshots
        | ContainerRequest::DestroySnapshot(_)
        | ContainerRequest::Lease(_)
        | ContainerRequest::LeaseEach(_)
        | ContainerRequest::Release(_)
        | ContainerRequest::ReleaseEach(_)
        | ContainerRequest::UnlinkOnLastClose(_)
        | ContainerRequest::RemoveUnused(_)
        | ContainerRequest::RemoveUnusedEach(_)
        | ContainerRequest::Take(_)
        | ContainerRequest::TakeWithArray(..)
        | ContainerRequest::TakeProved(..)
        | ContainerRequest::LeaseReads(_)
        | ContainerRequest::PrepareChange(..)
        | ContainerRequest::PrepareSnapshot(..) => return Err(out_of_place()),
    })
}

#[cold]
fn out_of_place() -> Error {
    Error::new(ErrorKind::Invalid, "the engine answers this request elsewhere: please report this")
}
