//! An open container on another node.
use super::{change, fetch};
use crate::connection::{Connection, Data, ReplyLimits};
use crate::remote::pool::{Call, ask, done_reply, exchange, exchange_data, names, value};
use esker_backend::{Metadata, MetadataChanges, OpenContainer, Reply};
use esker_types::info::{ContainerInfo, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, Commit, DkeyFetch, KeyFound, KeyQuery, KeyScope, ListLimit,
    Preparation, ReadAt, ReadLease, ReadTokens, Removal, StoredExtent, Take, Taken, TakenWithArray,
};
use esker_types::{Epoch, KeyBatch, ObjectId, Result};
use esker_wire::message::{self, At, ContainerRequest, Handle, MetadataRequest, Request};
use std::sync::Arc;

/// A container that this process has open on another node.
pub(crate) struct RemoteContainer {
    pub(crate) connection: Arc<Connection>,
    pub(crate) handle: Handle,
    pub(crate) info: ContainerInfo,
}

impl RemoteContainer {
    /// Sends a request about this container. `read` takes the value out of the reply, or rejects a reply of another
    /// kind.
    fn ask<'a, T: 'a>(
        &'a self,
        request: ContainerRequest<'a>,
        read: impl FnOnce(message::Reply) -> Option<T> + Send + 'a,
    ) -> Reply<'a, T> {
        ask(&self.connection, Request::Container(self.handle, request), None, read)
    }

    /// Sends a change, to be applied at once or, with `commit`, prepared for that commit.
    async fn send_change(&self, change: Change<'_>, commit: Option<Commit>) -> Result<Epoch> {
        let tokens = change.tokens.map(|tokens| tokens.map(<[u8]>::to_vec));
        let (request, data) = change::encode(
            &change,
            tokens.as_deref(),
            self.connection.copies_data(),
            self.connection.spare(),
        );
        let request = match commit {
            None if change.proved_once => ContainerRequest::WriteProved(request),
            None => ContainerRequest::Write(request),
            Some(commit) => ContainerRequest::PrepareChange(commit, request),
        };
        let request = Request::Container(self.handle, request);
        let call = Call { request, data, limits: ReplyLimits::with_room(0), tokens: None };
        exchange(&self.connection, call, epoch).await
    }

    /// Fetches the dkeys by one request, and puts the data of the reply into the caller's buffers.
    async fn fetch_data(
        &self,
        oid: ObjectId,
        dkeys: &mut [DkeyFetch<'_, '_>],
        at: ReadAt<'_>,
    ) -> Result<()> {
        let request = ContainerRequest::Fetch(oid, fetch::encode(dkeys), at_of(at));
        let request = Request::Container(self.handle, request);
        let (data, limits) = (Data::default(), ReplyLimits::with_room(fetch::room(dkeys)));
        let call = Call { request, data, limits, tokens: at.tokens };
        let mut into = fetch::destination(dkeys);
        match exchange_data(&self.connection, call, &mut into).await? {
            (message::Reply::Fetched(replies), found) => fetch::fill(dkeys, replies, &found),
            (message::Reply::FetchFailed(failure, replies), _) => {
                fetch::note(dkeys, replies);
                Err(self.connection.request_error(failure))
            }
            _ => Err(self.connection.unexpected_reply_error()),
        }
    }

    /// Asks the engine for a lease on what was read. `None` if it grants none.
    async fn ask_lease(&self, reads: &ReadTokens) -> Result<Option<ReadLease>> {
        let (tokens, leased) = (reads.map(<[u8]>::to_vec), ReadTokens::default());
        let tokens = tokens.iter().map(Vec::as_slice).collect();
        let request = Request::Container(self.handle, ContainerRequest::LeaseReads(tokens));
        let term = ask(&self.connection, request, Some(&leased), |reply| match reply {
            message::Reply::Leased(term) => Some(term),
            _ => None,
        });
        Ok(term.await?.map(|term| ReadLease { term, reads: leased }))
    }

    /// Sends a read and collects its tokens.
    fn read<'a, T: 'a>(
        &'a self,
        request: ContainerRequest<'a>,
        at: ReadAt<'a>,
        read: impl FnOnce(message::Reply) -> Option<T> + Send + 'a,
    ) -> Reply<'a, T> {
        ask(&self.connection, Request::Container(self.handle, request), at.tokens, read)
    }
}

/// The state to read, and whether tokens are wanted, as a request has them.
fn at_of(at: ReadAt<'_>) -> At {
    At { view: at.view, tokens: at.tokens.is_some() }
}

/// Returns the epoch in a reply. None if the reply is of another kind, which is an error.
fn epoch(reply: message::Reply) -> Option<Epoch> {
    match reply {
        message::Reply::Epoch(epoch) => Some(epoch),
        _ => None,
    }
}

/// Returns the number in a reply. None if the reply is of another kind, which is an error.
fn number(reply: message::Reply) -> Option<u64> {
    match reply {
        message::Reply::Number(number) => Some(number),
        _ => None,
    }
}

/// Returns the boolean in a reply. None if the reply is of another kind, which is an error.
fn flag(reply: message::Reply) -> Option<bool> {
    match reply {
        message::Reply::Flag(flag) => Some(flag),
        _ => None,
    }
}

impl Metadata for RemoteContainer {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        self.ask(ContainerRequest::Metadata(MetadataRequest::Get(name)), value)
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        self.ask(ContainerRequest::Metadata(MetadataRequest::Set(changes.to_vec())), done_reply)
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        self.ask(ContainerRequest::Metadata(MetadataRequest::List(prefix)), names)
    }
}

impl OpenContainer for RemoteContainer {
    fn info(&self) -> &ContainerInfo {
        &self.info
    }

    fn close(&self) -> Reply<'_, ()> {
        self.ask(ContainerRequest::Close, done_reply)
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        self.ask(ContainerRequest::Rename(label), done_reply)
    }

    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        self.ask(ContainerRequest::AllocateOids(count), number)
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        self.ask(ContainerRequest::NextOid, number)
    }

    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        Reply::Pending(Box::pin(self.send_change(change, None)))
    }

    fn prepare<'a>(&'a self, commit: Commit, what: Preparation<'a>) -> Reply<'a, Epoch> {
        match what {
            Preparation::Change(change) => {
                Reply::Pending(Box::pin(self.send_change(change, Some(commit))))
            }
            Preparation::Snapshot(name) => {
                self.ask(ContainerRequest::PrepareSnapshot(commit, name), epoch)
            }
        }
    }

    fn fetch<'a, 'f, 'b>(
        &'a self,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        Reply::Pending(Box::pin(self.fetch_data(oid, dkeys, at)))
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        let dkey = match scope {
            KeyScope::Dkeys => None,
            KeyScope::Akeys(dkey) => Some(dkey),
        };
        let request = ContainerRequest::ListKeys(oid, dkey, anchor.clone(), limit, at_of(at));
        self.read(request, at, move |reply| match reply {
            message::Reply::Keys(keys, next) => {
                *anchor = next;
                Some(keys)
            }
            _ => None,
        })
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        let AkeyRef { dkey, akey } = key;
        let (from, entries) = (anchor.clone(), entries as u64);
        let request = ContainerRequest::ListExtents(oid, dkey, akey, from, entries, at_of(at));
        self.read(request, at, move |reply| match reply {
            message::Reply::Extents(extents, next) => {
                *anchor = next;
                Some(extents)
            }
            _ => None,
        })
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        let request = ContainerRequest::ListObjects(anchor.clone(), entries as u64, at_of(at));
        self.read(request, at, move |reply| match reply {
            message::Reply::Objects(objects, next) => {
                *anchor = next;
                Some(objects)
            }
            _ => None,
        })
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        self.read(ContainerRequest::Query(oid, query, at_of(at)), at, |reply| match reply {
            message::Reply::Found(found) => Some(found),
            _ => None,
        })
    }

    fn query_keys<'a>(
        &'a self,
        oids: &'a [ObjectId],
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<Option<KeyFound>>> {
        let request = ContainerRequest::QueryEach(oids.to_vec(), query, at_of(at));
        self.read(request, at, |reply| match reply {
            message::Reply::FoundEach(found) => (found.len() == oids.len()).then_some(found),
            _ => None,
        })
    }

    fn lease_reads<'a>(&'a self, reads: &'a ReadTokens) -> Reply<'a, Option<ReadLease>> {
        Reply::Pending(Box::pin(self.ask_lease(reads)))
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        self.read(ContainerRequest::LastEpoch(oid, dkey, at_of(at)), at, epoch)
    }

    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        self.ask(ContainerRequest::CreateSnapshot(name), epoch)
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        self.ask(ContainerRequest::ListSnapshots, |reply| match reply {
            message::Reply::Snapshots(snapshots) => Some(snapshots),
            _ => None,
        })
    }

    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        self.ask(ContainerRequest::DestroySnapshot(epoch), done_reply)
    }

    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        self.ask(ContainerRequest::Lease(oid), done_reply)
    }

    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.ask(ContainerRequest::Release(oid), flag)
    }

    fn lease_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, ()> {
        self.ask(ContainerRequest::LeaseEach(oids.to_vec()), done_reply)
    }

    fn release_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, Vec<bool>> {
        self.ask(ContainerRequest::ReleaseEach(oids.to_vec()), |reply| match reply {
            message::Reply::Flags(last) => (last.len() == oids.len()).then_some(last),
            _ => None,
        })
    }

    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        self.ask(ContainerRequest::UnlinkOnLastClose(oid), flag)
    }

    fn take<'a>(&'a self, take: Take<'a>) -> Reply<'a, Option<Taken>> {
        self.ask(ContainerRequest::Take(take), |reply| match reply {
            message::Reply::Taken(taken) => Some(taken),
            _ => None,
        })
    }

    fn take_with_array<'a>(
        &'a self,
        take: Take<'a>,
        array: ObjectId,
        reads: Option<&'a ReadTokens>,
    ) -> Reply<'a, Option<TakenWithArray>> {
        Reply::Pending(Box::pin(async move {
            let tokens = reads.map(|reads| reads.map(<[u8]>::to_vec));
            let request = match &tokens {
                None => ContainerRequest::TakeWithArray(take, array),
                Some(tokens) => {
                    let tokens = tokens.iter().map(Vec::as_slice).collect();
                    ContainerRequest::TakeProved(tokens, take, array)
                }
            };
            let taken = self.ask(request, |reply| match reply {
                message::Reply::TakenWithArray(taken) => Some(taken),
                _ => None,
            });
            taken.await
        }))
    }

    fn remove_unused(&self, oid: ObjectId) -> Reply<'_, Removal> {
        self.ask(ContainerRequest::RemoveUnused(oid), |reply| match reply {
            message::Reply::Removal(removal) => Some(removal),
            _ => None,
        })
    }

    fn remove_unused_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, Vec<Removal>> {
        self.ask(ContainerRequest::RemoveUnusedEach(oids.to_vec()), |reply| match reply {
            message::Reply::Removals(all) => (all.len() == oids.len()).then_some(all),
            _ => None,
        })
    }
}
