//! An open container of a pool over nodes.
use crate::reconnecting::container::ReconnectingContainer;
use crate::sharded::commit::{Doubt, STARTS_MAX, Share, Work, commit};
use crate::sharded::pool::{MemberAccess, SIDE_BY_SIDE, Shared, resolved};
use crate::sharded::replay::Replay;
use crate::sharded::spread::{Listing, batches_mut, batches_of_writes, size_of_fetch};
use crate::sharded::tagged::{Tagged, add_tagged, by_node};
use esker_backend::block::{BLOCK, Block};
use esker_backend::{
    Metadata, MetadataChanges, OpenContainer, Reply, Viewed, merge_pages, outermost,
};
use esker_os::ForkLock;
use esker_os::executor::{side_by_side, task};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, SnapshotInfo};
use esker_types::ops::{
    AkeyRef, Anchor, Change, Cond, DkeyFetch, FIRST_CHUNK, KeyFound, KeyQuery, KeyScope, ListLimit,
    ReadAt, ReadLease, ReadTokens, Removal, StoredExtent, Take, Taken, TakenWithArray, Wanted,
    Write, WriteOp,
};
use esker_types::{Epoch, Error, ErrorKind, KeyBatch, ObjectId, ObjectType, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// An open container: on the catalog, and on every other node from its first use there.
pub(crate) struct ShardedContainer {
    shared: Arc<Shared>,
    /// The container on each node, by the node's number.
    parts: Vec<Box<dyn OpenContainer>>,
    /// Numbers for object ids that this process has claimed.
    oids: ForkLock<Block>,
}

/// True for results that no commit in doubt blocks.
fn is_resolved<T>(result: &Result<T>) -> bool {
    !matches!(result, Err(error) if error.kind() == ErrorKind::InDoubt)
}

/// Groups objects by the nodes to query about them. For each node: the positions of its objects in `oids`, and the
/// objects.
fn by_nodes<N: IntoIterator<Item = usize>>(
    oids: &[ObjectId],
    nodes_of: impl Fn(ObjectId) -> N,
) -> BTreeMap<usize, (Vec<usize>, Vec<ObjectId>)> {
    let mut of_nodes: BTreeMap<usize, (Vec<usize>, Vec<ObjectId>)> = BTreeMap::new();
    for (index, oid) in oids.iter().enumerate() {
        for node in nodes_of(*oid) {
            let (indices, oids) = of_nodes.entry(node).or_default();
            indices.push(index);
            oids.push(*oid);
        }
    }
    of_nodes
}

/// The reply of `$part`, which belongs to `$node`. A local part runs `$call` if it may be made `$directly`; else
/// `$again` runs, perhaps several times.
macro_rules! reply_of {
    ($self:ident, $node:expr, $directly:expr, $part:ident => $call:expr, $again:expr) => {{
        let node = $node;
        if $self.is_own(node) && $directly {
            let $part = &*$self.parts[node];
            if let Reply::Ready(result) = $call
                && is_resolved(&result)
            {
                return Reply::Ready($self.shared.naming(node, result));
            }
        }
        Reply::Pending(Box::pin(async move {
            let $part = &*$self.parts[node];
            resolved!(&$self.shared, node, $again)
        }))
    }};
}

/// The reply of one node.
macro_rules! one_node {
    ($self:ident, $node:expr, $part:ident => $call:expr) => {
        reply_of!($self, $node, true, $part => $call, $call.await)
    };
}

/// The reply of one node that is to read `$at`.
macro_rules! read_one {
    ($self:ident, $node:expr, $part:ident, $at:ident => $call:expr) => {{
        let node = $node;
        reply_of!($self, node, $at.tokens.is_none(), $part => $call, {
            let tagged = Tagged::new(node, $at);
            let $at = tagged.at($at);
            $call.await
        })
    }};
}

impl ShardedContainer {
    /// Opens a container on all nodes. The first node, which has the list of containers, is asked first; it alone
    /// grants exclusive use.
    pub(crate) async fn open(
        shared: &Arc<Shared>,
        name: ContainerRef<'_>,
        mode: OpenMode,
    ) -> Result<Self> {
        let first: Box<dyn OpenContainer> = match &shared.members[0].access {
            MemberAccess::Own(pool) => resolved!(shared, 0, pool.open_container(name, mode).await)?,
            MemberAccess::Away(peer) => {
                let opened =
                    resolved!(shared, 0, ReconnectingContainer::open(peer, name, mode).await);
                Box::new(opened?)
            }
        };
        // The catalog alone grants exclusive use.
        let elsewhere = if mode == OpenMode::ReadOnly { mode } else { OpenMode::ReadWrite };
        let info = first.info().clone();
        let mut parts = vec![first];
        for node in 1..shared.members.len() {
            match open_part(shared, node, &info, elsewhere).await {
                Ok(part) => parts.push(part),
                Err(error) => {
                    close_all(&parts).await?;
                    return Err(error);
                }
            }
        }
        Ok(Self { shared: Arc::clone(shared), parts, oids: ForkLock::default() })
    }

    /// The container on the first node, which has its names, metadata and snapshots.
    fn catalog(&self) -> &dyn OpenContainer {
        &*self.parts[0]
    }

    /// True if this process works on the targets of the node directly.
    fn is_own(&self, node: usize) -> bool {
        matches!(self.shared.members[node].access, MemberAccess::Own(_))
    }

    /// The number of the node that stores a dkey.
    fn index_of(&self, oid: ObjectId, dkey: &[u8]) -> usize {
        self.node_of(oid, dkey) as usize
    }

    /// The node that has the leases on an object. For an array, it is the node of the first chunk: one request finds
    /// out there whether a small file is in use, and removes it.
    fn home_of(&self, oid: ObjectId) -> usize {
        let placement = self.shared.placement;
        let shard = match oid.object_type().is_some_and(ObjectType::is_array) {
            true => placement.shard(oid, &FIRST_CHUNK),
            false => placement.first(oid),
        };
        placement.locate(shard).node as usize
    }

    /// Nodes that store data of an object.
    fn nodes_of(&self, oid: ObjectId) -> Vec<usize> {
        self.shared.placement.nodes(oid).into_iter().map(|node| node as usize).collect()
    }

    /// The node of a write, if it concerns only one.
    fn only_node_of(&self, write: &Write<'_>) -> Option<usize> {
        let placement = self.shared.placement;
        match placement.only_shard_of(write) {
            Some(shard) => Some(placement.locate(shard).node as usize),
            None => (self.parts.len() == 1).then_some(0),
        }
    }

    /// The node of a change, if it concerns only one and no transaction.
    fn only_node(&self, change: &Change<'_>) -> Option<usize> {
        let mut nodes = change.writes.iter().map(|write| self.only_node_of(write));
        let first = nodes.next()?.filter(|_| change.tokens.is_none())?;
        nodes.all(|node| node == Some(first)).then_some(first)
    }

    /// The node of all reads, if there is only one and all writes concern it alone.
    fn only_node_with(
        &self,
        tokens: &BTreeMap<usize, ReadTokens>,
        writes: &[Write<'_>],
    ) -> Option<usize> {
        let node = *tokens.keys().next().filter(|_| tokens.len() == 1)?;
        writes.iter().all(|write| self.only_node_of(write) == Some(node)).then_some(node)
    }

    /// Splits a change into shares, in the order of their nodes. `tokens` are those of its reads, by node.
    async fn shares<'a>(
        &self,
        all: &'a [Write<'a>],
        mut tokens: BTreeMap<usize, ReadTokens>,
    ) -> Result<Vec<Share<'a>>> {
        let mut writes: BTreeMap<usize, Vec<Write<'a>>> = BTreeMap::new();
        for (number, write) in all.iter().enumerate() {
            match self.only_node_of(write) {
                Some(node) => writes.entry(node).or_default().push(*write),
                None => {
                    let before = &all[..number];
                    let punch = self.punch_everywhere(write, before, &mut tokens).await?;
                    for node in self.nodes_of(write.oid) {
                        writes.entry(node).or_default().push(punch);
                    }
                }
            }
        }
        let nodes: BTreeSet<usize> = writes.keys().chain(tokens.keys()).copied().collect();
        let share = |node| {
            let (writes, tokens) = (writes.remove(&node).unwrap_or_default(), tokens.remove(&node));
            Share { node, work: Work::Change { writes, tokens } }
        };
        Ok(nodes.into_iter().map(share).collect())
    }

    /// Punches an object on several nodes. No node knows alone whether the object exists. So that is read here, unless a
    /// write in `before` decides it. `tokens` ensure that the answer still holds at the commit.
    async fn punch_everywhere<'a>(
        &self,
        write: &Write<'a>,
        before: &[Write<'_>],
        tokens: &mut BTreeMap<usize, ReadTokens>,
    ) -> Result<Write<'a>> {
        let punch = Write { oid: write.oid, op: WriteOp::PunchObject { cond: Cond::NONE } };
        let WriteOp::PunchObject { cond } = write.op else { return Ok(punch) };
        if cond == Cond::NONE {
            return Ok(punch);
        }
        let replay = Replay::from_writes(write.oid, before);
        let exists = match replay.exists() {
            Some(exists) => exists,
            None => self.exists(write.oid, &replay, tokens).await?,
        };
        if exists {
            return Ok(punch);
        }
        Err(Error::new(ErrorKind::NotFound, "the object to be punched does not exist"))
    }

    /// True if any node has a dkey of the object that the writes in `replay` keep.
    ///
    /// All nodes are read, even after a hit: `tokens` gets the read versions of each. The commit is refused if they
    /// have changed by then.
    async fn exists(
        &self,
        oid: ObjectId,
        replay: &Replay<'_>,
        tokens: &mut BTreeMap<usize, ReadTokens>,
    ) -> Result<bool> {
        let mut exists = false;
        for node in self.nodes_of(oid) {
            let read = tokens.entry(node).or_default();
            exists |= self.exists_on(node, oid, replay, read).await?;
        }
        Ok(exists)
    }

    /// True if one node has a dkey that the writes in `replay` keep.
    async fn exists_on(
        &self,
        node: usize,
        oid: ObjectId,
        replay: &Replay<'_>,
        tokens: &ReadTokens,
    ) -> Result<bool> {
        let (mut anchor, limit) = (Anchor::Start, replay.dkeys() + 1);
        while !anchor.is_end() {
            let scope = KeyScope::Dkeys;
            for dkey in self.keys_on(node, oid, scope, &mut anchor, limit, tokens).await?.iter() {
                let exists = match replay.keeps_dkey(dkey) {
                    Some(exists) => exists,
                    None => self.keeps_any_akey(node, oid, dkey, replay, tokens).await?,
                };
                if exists {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// True if a dkey of one node has an akey that the writes in `replay` keep.
    async fn keeps_any_akey(
        &self,
        node: usize,
        oid: ObjectId,
        dkey: &[u8],
        replay: &Replay<'_>,
        tokens: &ReadTokens,
    ) -> Result<bool> {
        let (mut anchor, limit) = (Anchor::Start, replay.akeys(dkey) + 1);
        while !anchor.is_end() {
            let scope = KeyScope::Akeys(dkey);
            let akeys = self.keys_on(node, oid, scope, &mut anchor, limit, tokens).await?;
            if akeys.iter().any(|akey| replay.keeps_akey(dkey, akey)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lists keys of one node, once no commit is in doubt there. `tokens` gets the read versions as the node returns
    /// them.
    async fn keys_on(
        &self,
        node: usize,
        oid: ObjectId,
        scope: KeyScope<'_>,
        anchor: &mut Anchor,
        limit: usize,
        tokens: &ReadTokens,
    ) -> Result<KeyBatch> {
        let at = ReadAt { tokens: Some(tokens), ..ReadAt::LATEST };
        let (part, limit) = (&self.parts[node], ListLimit::entries(limit));
        resolved!(&self.shared, node, part.list_keys(oid, scope, &mut *anchor, limit, at).await)
    }

    /// Applies a change whose writes may be on several nodes.
    async fn write_spread(&self, change: Change<'_>) -> Result<Epoch> {
        if change.id.is_some() {
            let message = "a pool over nodes gives its changes ids itself";
            return Err(Error::new(ErrorKind::NotSupported, message));
        }
        if change.one_by_one && change.tokens.is_none() {
            return self.write_one_by_one(change.writes).await;
        }
        for _ in 1..STARTS_MAX {
            match self.write_together(change).await {
                // Another client has aborted it because it took long. It had no effect, and depends on no earlier read.
                Err(error) if error.kind() == ErrorKind::TxRestart && change.tokens.is_none() => {}
                other => return other,
            }
        }
        self.write_together(change).await
    }

    /// Applies all writes, or none. Writes to one node are one request; writes to several nodes are a commit in two
    /// phases.
    async fn write_together(&self, change: Change<'_>) -> Result<Epoch> {
        let tokens = change.tokens.map(|tokens| by_node(tokens, self.parts.len()));
        let tokens = tokens.transpose()?.unwrap_or_default();
        if let Some(node) = self.only_node_with(&tokens, change.writes) {
            let change = Change { tokens: tokens.get(&node), ..change };
            return resolved!(&self.shared, node, self.parts[node].write(change).await);
        }
        let shares = self.shares(change.writes, tokens).await?;
        let reads_only = change.writes.is_empty();
        if shares.len() > 1 && !reads_only {
            return commit(&self.shared, &self.parts, &shares).await;
        }
        // All reads were made before the first of these checks. Data that they find unchanged was therefore valid at
        // one moment.
        let tasks = shares.iter().map(|share| task(self.do_share(share)));
        let epochs = side_by_side(tasks.collect(), SIDE_BY_SIDE).await;
        let epochs = epochs.into_iter().collect::<Result<Vec<Epoch>>>()?;
        Ok(epochs.into_iter().max().unwrap_or_else(Epoch::now))
    }

    /// Writes one node's share of a change on that node, without a commit over several nodes.
    async fn do_share(&self, share: &Share<'_>) -> Result<Epoch> {
        let Work::Change { writes, tokens } = &share.work else { return Ok(Epoch::now()) };
        let part = &self.parts[share.node];
        let change = Change { tokens: tokens.as_ref(), ..Change::from_writes(writes) };
        resolved!(&self.shared, share.node, part.write(change).await)
    }

    /// Applies writes that may take effect one by one: many requests of a moderate size run concurrently.
    async fn write_one_by_one(&self, writes: &[Write<'_>]) -> Result<Epoch> {
        let mut shares = self.shares(writes, BTreeMap::new()).await?;
        let mut tasks = Vec::new();
        for Share { node, work } in &mut shares {
            let Work::Change { writes, .. } = work else { continue };
            for batch in batches_of_writes(writes) {
                tasks.push(task(self.write_in_turn(*node, batch)));
            }
        }
        let epochs = side_by_side(tasks, SIDE_BY_SIDE).await;
        let epochs = epochs.into_iter().collect::<Result<Vec<Epoch>>>()?;
        Ok(epochs.into_iter().max().unwrap_or_else(Epoch::now))
    }

    /// Sends requests of writes to a node one after the other. Returns the epoch of the last.
    async fn write_in_turn(&self, node: usize, requests: Vec<&[Write<'_>]>) -> Result<Epoch> {
        let part = &self.parts[node];
        let mut epoch = Epoch(0);
        for writes in requests {
            let change = Change::from_writes(writes);
            epoch = resolved!(&self.shared, node, part.write(change).await)?;
        }
        Ok(epoch)
    }

    /// Fetches dkeys of several nodes, from all nodes at the same time.
    async fn fetch_spread(
        &self,
        oid: ObjectId,
        dkeys: &mut [DkeyFetch<'_, '_>],
        at: ReadAt<'_>,
    ) -> Result<()> {
        let mut by_node: BTreeMap<usize, Vec<DkeyFetch<'_, '_>>> = BTreeMap::new();
        for DkeyFetch { dkey, cond, akeys } in dkeys {
            let of_node = by_node.entry(self.index_of(oid, dkey)).or_default();
            of_node.push(DkeyFetch { dkey, cond: *cond, akeys });
        }
        let mut tasks = Vec::new();
        for (node, dkeys) in &mut by_node {
            let (node, part) = (*node, &self.parts[*node]);
            for batch in batches_mut(dkeys, |dkey| size_of_fetch(dkey)) {
                tasks.push(task(async move {
                    resolved!(&self.shared, node, {
                        let tagged = Tagged::new(node, at);
                        part.fetch(oid, &mut *batch, tagged.at(at)).await
                    })
                }));
            }
        }
        side_by_side(tasks, SIDE_BY_SIDE).await.into_iter().collect()
    }

    /// Runs `work` for each of `nodes` concurrently. Returns the results in the order of `nodes`, or an error.
    async fn on<'a, T: Send>(
        &'a self,
        nodes: impl IntoIterator<Item = usize>,
        work: impl Fn(usize) -> Reply<'a, T>,
    ) -> Result<Vec<T>> {
        let tasks = nodes.into_iter().map(|node| task(work(node)));
        side_by_side(tasks.collect(), SIDE_BY_SIDE).await.into_iter().collect()
    }

    /// Runs the query on one node.
    fn query_at<'a>(
        &'a self,
        node: usize,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        read_one!(self, node, part, at => part.query_key(oid, query, at))
    }

    /// Queries several objects with one request to each node, which stores parts of many of them.
    async fn query_each(
        &self,
        oids: &[ObjectId],
        query: KeyQuery<'_>,
        at: ReadAt<'_>,
    ) -> Result<Vec<Option<KeyFound>>> {
        let of_nodes = by_nodes(oids, |oid| match query.dkey {
            Some(dkey) => vec![self.index_of(oid, dkey)],
            None => self.nodes_of(oid),
        });
        let tasks =
            of_nodes.iter().map(|(node, (_, oids))| task(self.queries_at(*node, oids, query, at)));
        let replies = side_by_side(tasks.collect(), SIDE_BY_SIDE).await;
        let mut found: Vec<Vec<KeyFound>> = vec![Vec::new(); oids.len()];
        for ((indices, _), reply) in of_nodes.values().zip(replies) {
            for (index, of_object) in indices.iter().zip(reply?) {
                found[*index].extend(of_object);
            }
        }
        let merge = |(oid, found): (&ObjectId, Vec<KeyFound>)| {
            outermost(oid.dkey_kind(), query.edge, found)
        };
        oids.iter().zip(found).map(merge).collect()
    }

    /// Sends queries about several objects to one node.
    fn queries_at<'a>(
        &'a self,
        node: usize,
        oids: &'a [ObjectId],
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<Option<KeyFound>>> {
        read_one!(self, node, part, at => part.query_keys(oids, query, at))
    }

    /// Takes leases on objects, each on the home node of the object. If a node fails, ends the leases taken on other
    /// nodes.
    async fn take_leases(&self, oids: &[ObjectId]) -> Result<()> {
        let of_nodes = by_nodes(oids, |oid| [self.home_of(oid)]);
        let takes = of_nodes.iter().map(|(node, (_, oids))| task(self.leases_at(*node, oids)));
        let taken: Vec<Result<()>> = side_by_side(takes.collect(), SIDE_BY_SIDE).await;
        if taken.iter().any(Result::is_err) {
            let held = of_nodes.values().zip(&taken).filter(|(_, taken)| taken.is_ok());
            let held: Vec<_> = held.flat_map(|((_, oids), _)| oids).copied().collect();
            esker_backend::undo_leases(self, &held).await;
        }
        taken.into_iter().collect()
    }

    /// Ends leases on the nodes of the objects. True for each that was the last lease of an object that is to be
    /// removed.
    async fn end_leases(&self, oids: &[ObjectId]) -> Result<Vec<bool>> {
        let of_nodes = by_nodes(oids, |oid| [self.home_of(oid)]);
        let ends = of_nodes.iter().map(|(node, (_, oids))| task(self.ends_at(*node, oids)));
        let replies = side_by_side(ends.collect(), SIDE_BY_SIDE).await;
        let mut last = vec![false; oids.len()];
        let mut result = Ok(());
        for ((indices, _), reply) in of_nodes.values().zip(replies) {
            match reply {
                Ok(reply) => {
                    let flags = indices.iter().zip(reply);
                    flags.for_each(|(index, is_last)| last[*index] = is_last);
                }
                Err(error) => result = Err(error),
            }
        }
        // The results of reachable nodes are returned even if another one failed.
        if last.contains(&true) { Ok(last) } else { result.map(|()| last) }
    }

    /// Takes leases on one node.
    fn leases_at<'a>(&'a self, node: usize, oids: &'a [ObjectId]) -> Reply<'a, ()> {
        one_node!(self, node, part => part.lease_each(oids))
    }

    /// Ends leases on one node.
    fn ends_at<'a>(&'a self, node: usize, oids: &'a [ObjectId]) -> Reply<'a, Vec<bool>> {
        one_node!(self, node, part => part.release_each(oids))
    }

    /// Removes arrays that no process uses, with one request to each of their nodes.
    async fn remove_each(&self, oids: &[ObjectId]) -> Result<Vec<Removal>> {
        let of_nodes = by_nodes(oids, |oid| [self.home_of(oid)]);
        let tasks = of_nodes.iter().map(|(node, (_, oids))| task(self.removals_at(*node, oids)));
        let replies = side_by_side(tasks.collect(), SIDE_BY_SIDE).await;
        let mut removals = vec![Removal::Removed; oids.len()];
        for ((indices, _), reply) in of_nodes.values().zip(replies) {
            indices.iter().zip(reply?).for_each(|(index, removal)| removals[*index] = removal);
        }
        Ok(removals)
    }

    /// Removes a dkey and an array of one node if that node has all reads, and they hold.
    async fn take_proved(
        &self,
        node: usize,
        take: Take<'_>,
        array: ObjectId,
        reads: &ReadTokens,
    ) -> Result<Option<TakenWithArray>> {
        let mut of_nodes = by_node(reads, self.parts.len())?;
        let Some(reads) = of_nodes.remove(&node).filter(|_| of_nodes.is_empty()) else {
            return Err(elsewhere_error());
        };
        let part = &self.parts[node];
        resolved!(&self.shared, node, part.take_with_array(take, array, Some(&reads)).await)
    }

    /// Removes arrays on one node.
    fn removals_at<'a>(&'a self, node: usize, oids: &'a [ObjectId]) -> Reply<'a, Vec<Removal>> {
        one_node!(self, node, part => part.remove_unused_each(oids))
    }

    /// Takes a lease on what was read, on each node that was read from, so that a cache may use it without asking. The
    /// lease ends when the first of the nodes' leases does. `None` if nothing was read, or a node grants no lease.
    async fn lease_everywhere(&self, reads: &ReadTokens) -> Result<Option<ReadLease>> {
        let of_nodes = by_node(reads, self.parts.len())?;
        if of_nodes.is_empty() {
            return Ok(None);
        }
        let tasks = of_nodes.iter().map(|(node, of)| task(self.lease_at(*node, of)));
        let leases = side_by_side(tasks.collect(), SIDE_BY_SIDE).await;
        let mut all = ReadLease { term: Duration::MAX, reads: ReadTokens::default() };
        for (node, lease) in of_nodes.keys().zip(leases) {
            let Some(ReadLease { term, reads }) = lease? else { return Ok(None) };
            all.term = all.term.min(term);
            add_tagged(*node as u16, &reads, &all.reads);
        }
        Ok(Some(all))
    }

    /// Takes a lease on what was read from one node.
    fn lease_at<'a>(&'a self, node: usize, reads: &'a ReadTokens) -> Reply<'a, Option<ReadLease>> {
        one_node!(self, node, part => part.lease_reads(reads))
    }

    /// Asks one node for the last epoch of an object or dkey.
    fn epoch_at<'a>(
        &'a self,
        node: usize,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        read_one!(self, node, part, at => part.last_epoch(oid, dkey, at))
    }

    /// Lists keys of one node.
    fn list_at<'a>(
        &'a self,
        node: usize,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        read_one!(self, node, part, at => part.list_keys(oid, scope, &mut *anchor, limit, at))
    }

    /// Lists dkeys of several nodes, one node after the other.
    async fn list_spread(
        &self,
        oid: ObjectId,
        anchor: &mut Anchor,
        limit: ListLimit,
        at: ReadAt<'_>,
    ) -> Result<KeyBatch> {
        let mut listing = Listing::at(anchor, self.nodes_of(oid))?;
        let mut keys = KeyBatch::default();
        while let Some(node) = listing.node() {
            let rest = ListLimit {
                entries: limit.entries.saturating_sub(keys.len()),
                bytes: limit.bytes.saturating_sub(keys.byte_len()),
            };
            if rest.entries == 0 {
                break;
            }
            let mut inner = listing.anchor();
            let found = self.list_at(node, oid, KeyScope::Dkeys, &mut inner, rest, at).await?;
            if !keys.is_empty() && found.byte_len() > rest.bytes {
                break; // A first key too long for what is left of the buffer waits for the next call.
            }
            found.iter().for_each(|key| keys.push(key));
            if !listing.advance(inner) {
                break;
            }
        }
        *anchor = listing.into_anchor();
        Ok(keys)
    }

    /// Lists the next objects of all nodes, merged.
    async fn objects(
        &self,
        anchor: &mut Anchor,
        entries: usize,
        at: ReadAt<'_>,
    ) -> Result<Vec<ObjectId>> {
        if anchor.is_end() || entries == 0 {
            return Ok(Vec::new());
        }
        let from = anchor.clone();
        let pages = self.on(0..self.parts.len(), |node| {
            let mut from = from.clone();
            Reply::Pending(Box::pin(async move {
                let part = &self.parts[node];
                resolved!(&self.shared, node, {
                    let tagged = Tagged::new(node, at);
                    part.list_objects(&mut from, entries, tagged.at(at)).await
                })
                .map(|found| (found, from))
            }))
        });
        Ok(merge_pages(pages.await?, anchor, entries))
    }

    /// Returns the first of `count` new object ids. They come from a block that the node of the catalog has reserved
    /// for this process.
    async fn allocate(&self, count: u64) -> Result<u64> {
        if let Some(first) = self.oids.lock().take(count) {
            return Ok(first);
        }
        let claimed = count.max(BLOCK);
        let first = resolved!(&self.shared, 0, self.catalog().allocate_oids(claimed).await)?;
        *self.oids.lock() = Block::claimed(first, first + claimed, count);
        Ok(first)
    }

    /// Takes a snapshot of one moment on all nodes.
    async fn snapshot(&self, name: &str) -> Result<Epoch> {
        if let [only] = &self.parts[..] {
            return resolved!(&self.shared, 0, only.create_snapshot(name).await);
        }
        let share = |node| Share { node, work: Work::Snapshot(name) };
        let shares: Vec<Share<'_>> = (0..self.parts.len()).map(share).collect();
        for _ in 1..STARTS_MAX {
            match commit(&self.shared, &self.parts, &shares).await {
                // Another client has aborted it because it took long.
                Err(error) if error.kind() == ErrorKind::TxRestart => {}
                other => return other,
            }
        }
        commit(&self.shared, &self.parts, &shares).await
    }

    /// Destroys a snapshot, on the catalog last: until then it is listed, and can be destroyed again. A node that does
    /// not have it any more is not an error.
    async fn forget_snapshot(&self, epoch: Epoch) -> Result<()> {
        let elsewhere = self.on(1..self.parts.len(), |node| {
            Reply::Pending(Box::pin(async move {
                let part = &self.parts[node];
                let gone = resolved!(&self.shared, node, part.destroy_snapshot(epoch).await);
                gone.or_else(|error| match error.kind() {
                    ErrorKind::NotFound => Ok(()),
                    _ => Err(error),
                })
            }))
        });
        elsewhere.await?;
        resolved!(&self.shared, 0, self.catalog().destroy_snapshot(epoch).await)
    }
}

/// Opens a container of the catalog on one node, once no commit blocks it there.
async fn open_part(
    shared: &Shared,
    node: usize,
    info: &ContainerInfo,
    mode: OpenMode,
) -> Result<Box<dyn OpenContainer>> {
    resolved!(shared, node, shared.members[node].open(info, mode).await)
}

#[cold]
fn elsewhere_error() -> Error {
    let message =
        "a removal depends on data of several nodes: read it, and remove without a condition";
    Error::new(ErrorKind::TxRestart, message)
}

/// Closes all parts; returns the first error.
async fn close_all(parts: &[Box<dyn OpenContainer>]) -> Result<()> {
    let tasks = parts.iter().map(|part| task(part.close()));
    side_by_side(tasks.collect(), SIDE_BY_SIDE).await.into_iter().collect()
}

impl Metadata for ShardedContainer {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        one_node!(self, 0, part => part.get_metadata(name))
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        one_node!(self, 0, part => part.set_metadata(changes))
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        one_node!(self, 0, part => part.list_metadata(prefix))
    }
}

impl OpenContainer for ShardedContainer {
    fn info(&self) -> &ContainerInfo {
        self.catalog().info()
    }

    fn close(&self) -> Reply<'_, ()> {
        Reply::Pending(Box::pin(close_all(&self.parts)))
    }

    fn node_of(&self, oid: ObjectId, dkey: &[u8]) -> u32 {
        let placement = self.shared.placement;
        placement.locate(placement.shard(oid, dkey)).node
    }

    fn rename<'a>(&'a self, label: Option<&'a str>) -> Reply<'a, ()> {
        one_node!(self, 0, part => part.rename(label))
    }

    /// On the node of the catalog, an allocation needs no request, so no block is claimed.
    fn allocate_oids(&self, count: u64) -> Reply<'_, u64> {
        if self.is_own(0) {
            return one_node!(self, 0, part => part.allocate_oids(count));
        }
        Reply::Pending(Box::pin(self.allocate(count)))
    }

    fn next_oid(&self) -> Reply<'_, u64> {
        one_node!(self, 0, part => part.next_oid())
    }

    /// A change of one node is one request. Writes that may take effect one by one are sent to another node in batches.
    fn write<'a>(&'a self, change: Change<'a>) -> Reply<'a, Epoch> {
        let only = self.only_node(&change).filter(|_| change.id.is_none());
        match only.filter(|node| self.is_own(*node) || !change.one_by_one) {
            Some(node) => one_node!(self, node, part => part.write(change)),
            None => Reply::Pending(Box::pin(self.write_spread(change))),
        }
    }

    /// A fetch of one dkey, or from this node, is one request. Other fetches are split over nodes and into batches.
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
        let mut nodes = dkeys.iter().map(|dkey| self.index_of(oid, dkey.dkey));
        let Some(first) = nodes.next() else { return Reply::Ready(Ok(())) };
        if nodes.all(|node| node == first) && (self.is_own(first) || dkeys.len() == 1) {
            return read_one!(self, first, part, at => part.fetch(oid, &mut *dkeys, at));
        }
        Reply::Pending(Box::pin(self.fetch_spread(oid, dkeys, at)))
    }

    fn view<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        wanted: Wanted<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<Viewed>> {
        let node = self.index_of(oid, key.dkey);
        if !self.is_own(node) {
            return Reply::Ready(Ok(None));
        }
        read_one!(self, node, part, at => part.view(oid, key, wanted, at))
    }

    fn list_keys<'a>(
        &'a self,
        oid: ObjectId,
        scope: KeyScope<'a>,
        anchor: &'a mut Anchor,
        limit: ListLimit,
        at: ReadAt<'a>,
    ) -> Reply<'a, KeyBatch> {
        if let KeyScope::Akeys(dkey) = scope {
            return self.list_at(self.index_of(oid, dkey), oid, scope, anchor, limit, at);
        }
        match self.nodes_of(oid)[..] {
            [only] => self.list_at(only, oid, scope, anchor, limit, at),
            _ => Reply::Pending(Box::pin(self.list_spread(oid, anchor, limit, at))),
        }
    }

    fn list_extents<'a>(
        &'a self,
        oid: ObjectId,
        key: AkeyRef<'a>,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<StoredExtent>> {
        let node = self.index_of(oid, key.dkey);
        read_one!(self, node, part, at => {
            part.list_extents(oid, key, &mut *anchor, entries, at)
        })
    }

    fn list_objects<'a>(
        &'a self,
        anchor: &'a mut Anchor,
        entries: usize,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<ObjectId>> {
        Reply::Pending(Box::pin(self.objects(anchor, entries, at)))
    }

    fn query_key<'a>(
        &'a self,
        oid: ObjectId,
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Option<KeyFound>> {
        if let Some(dkey) = query.dkey {
            return self.query_at(self.index_of(oid, dkey), oid, query, at);
        }
        let nodes = self.nodes_of(oid);
        Reply::Pending(Box::pin(async move {
            let found = self.on(nodes, |node| self.query_at(node, oid, query, at)).await?;
            outermost(oid.dkey_kind(), query.edge, found.into_iter().flatten())
        }))
    }

    fn query_keys<'a>(
        &'a self,
        oids: &'a [ObjectId],
        query: KeyQuery<'a>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Vec<Option<KeyFound>>> {
        Reply::Pending(Box::pin(self.query_each(oids, query, at)))
    }

    fn lease_reads<'a>(&'a self, reads: &'a ReadTokens) -> Reply<'a, Option<ReadLease>> {
        Reply::Pending(Box::pin(self.lease_everywhere(reads)))
    }

    fn last_epoch<'a>(
        &'a self,
        oid: ObjectId,
        dkey: Option<&'a [u8]>,
        at: ReadAt<'a>,
    ) -> Reply<'a, Epoch> {
        if let Some(dkey) = dkey {
            return self.epoch_at(self.index_of(oid, dkey), oid, Some(dkey), at);
        }
        let nodes = self.nodes_of(oid);
        Reply::Pending(Box::pin(async move {
            let epochs = self.on(nodes, |node| self.epoch_at(node, oid, None, at)).await?;
            Ok(epochs.into_iter().max().unwrap_or_default())
        }))
    }

    fn create_snapshot<'a>(&'a self, name: &'a str) -> Reply<'a, Epoch> {
        Reply::Pending(Box::pin(self.snapshot(name)))
    }

    fn list_snapshots(&self) -> Reply<'_, Vec<SnapshotInfo>> {
        one_node!(self, 0, part => part.list_snapshots())
    }

    fn destroy_snapshot(&self, epoch: Epoch) -> Reply<'_, ()> {
        Reply::Pending(Box::pin(self.forget_snapshot(epoch)))
    }

    fn lease(&self, oid: ObjectId) -> Reply<'_, ()> {
        one_node!(self, self.home_of(oid), part => part.lease(oid))
    }

    fn release(&self, oid: ObjectId) -> Reply<'_, bool> {
        one_node!(self, self.home_of(oid), part => part.release(oid))
    }

    fn lease_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, ()> {
        Reply::Pending(Box::pin(self.take_leases(oids)))
    }

    fn release_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, Vec<bool>> {
        Reply::Pending(Box::pin(self.end_leases(oids)))
    }

    fn lease_losses(&self, oid: ObjectId) -> u64 {
        self.parts[self.home_of(oid)].lease_losses(oid)
    }

    fn unlink_on_last_close(&self, oid: ObjectId) -> Reply<'_, bool> {
        one_node!(self, self.home_of(oid), part => part.unlink_on_last_close(oid))
    }

    fn take<'a>(&'a self, take: Take<'a>) -> Reply<'a, Option<Taken>> {
        one_node!(self, self.index_of(take.oid, take.dkey), part => part.take(take))
    }

    /// One request if the dkey and the array are on the same node. Otherwise only the dkey is removed, and the array is
    /// left to the caller.
    fn take_with_array<'a>(
        &'a self,
        take: Take<'a>,
        array: ObjectId,
        reads: Option<&'a ReadTokens>,
    ) -> Reply<'a, Option<TakenWithArray>> {
        let node = self.index_of(take.oid, take.dkey);
        match (self.home_of(array) == node, reads) {
            (true, None) => one_node!(self, node, part => part.take_with_array(take, array, None)),
            (true, Some(reads)) => {
                Reply::Pending(Box::pin(self.take_proved(node, take, array, reads)))
            }
            (false, None) => Reply::Pending(Box::pin(async move {
                let taken = self.take(take).await?;
                Ok(taken.map(|taken| TakenWithArray { taken, removal: None }))
            })),
            (false, Some(_)) => Reply::Ready(Err(elsewhere_error())),
        }
    }

    fn remove_unused(&self, oid: ObjectId) -> Reply<'_, Removal> {
        one_node!(self, self.home_of(oid), part => part.remove_unused(oid))
    }

    fn remove_unused_each<'a>(&'a self, oids: &'a [ObjectId]) -> Reply<'a, Vec<Removal>> {
        Reply::Pending(Box::pin(self.remove_each(oids)))
    }

    fn note_lock_file(&self, oid: ObjectId, made: bool) -> Reply<'_, ()> {
        one_node!(self, self.home_of(oid), part => part.note_lock_file(oid, made))
    }
}
