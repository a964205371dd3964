//! Conversion of fetches and changes from messages into operations of the backend trait, and back.
use esker_backend::OpenContainer;
use esker_types::ops::{
    AkeyRef, Change, Commit, DkeyFetch, Fetch, Preparation, ReadAt, ReadTokens, Sink, Source,
    Update, Value, Wanted, Write, WriteOp,
};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result};
use esker_wire::frame::Bulk;
use esker_wire::message::{
    AkeyReply, AkeyRequest, At, ChangeRequest, DkeyRequest, Failure, Reply, ValueRequest,
    WriteRequest, filled_ranges,
};
use esker_wire::spare::Spare;

/// The read tokens that serving a request yields, for its response.
#[derive(Default)]
pub(crate) struct Proof(ReadTokens);

impl Proof {
    /// The state to read, with a place for tokens if the client asked for them.
    pub(crate) fn read_at(&self, at: At) -> ReadAt<'_> {
        ReadAt { view: at.view, tokens: at.tokens.then_some(&self.0) }
    }

    /// Adds tokens that were collected elsewhere.
    pub(crate) fn take(&self, tokens: &ReadTokens) {
        tokens.map(|token| self.0.add(token));
    }

    pub(crate) fn into_tokens(self) -> Vec<Vec<u8>> {
        self.0.map(<[u8]>::to_vec)
    }
}

/// Checks that the buffers of all akeys together fit into the `room` that the client announced.
fn check_room(dkeys: &[DkeyRequest<'_>], room: u32) -> Result<()> {
    let akeys = dkeys.iter().flat_map(|dkey| &dkey.akeys);
    let total = akeys.filter_map(|akey| akey.room).fold(0, u64::saturating_add);
    if total > u64::from(room) {
        let message = format!("a fetch of {total} bytes was announced as one of {room}");
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    Ok(())
}

/// A buffer for each akey of each dkey; `None` for an akey of which the client wants only the size.
fn buffers(dkeys: &[DkeyRequest<'_>], spare: &Spare) -> Vec<Vec<Option<Vec<u8>>>> {
    let buffer = |akey: &AkeyRequest<'_>| akey.room.map(|room| spare.filled(room as usize));
    dkeys.iter().map(|dkey| dkey.akeys.iter().map(buffer).collect()).collect()
}

/// Data of at least this length is sent without a copy, if the pool stores it contiguously.
const VIEW_MIN: u64 = 32 << 10;

/// Answers a fetch of one long value or extent without a copy. `None` if the fetch is of another form, has conditions
/// or wants tokens, or if the pool has no such view.
async fn view(
    container: &dyn OpenContainer,
    oid: ObjectId,
    dkeys: &[DkeyRequest<'_>],
    at: ReadAt<'_>,
) -> Option<(Reply, Bulk)> {
    let [of] = dkeys else { return None };
    let [akey] = &of.akeys[..] else { return None };
    let (wanted, count) = match akey.extents.as_deref() {
        None => (Wanted::Single, 1),
        Some(extents @ [extent]) => (Wanted::Array(extents), extent.count),
        Some(_) => return None,
    };
    let room = akey.room.filter(|room| *room >= VIEW_MIN)?;
    if at.tokens.is_some() || !(of.cond | akey.cond).is_empty() {
        return None;
    }
    let key = AkeyRef { dkey: of.dkey, akey: akey.akey };
    // The fetch that follows reports the error.
    let found = container.view(oid, key, wanted, at).await.ok()??;
    let len = found.bytes.len() as u64;
    let size = len.checked_div(count)?;
    if len > room || ![0, size].contains(&akey.record_size) {
        return None;
    }
    let filled = akey.extents.clone().unwrap_or_default();
    let reply = Reply::Fetched(vec![AkeyReply { size, filled_bytes: len, filled }]);
    let bulk = match found.crc32c {
        Some(sum) => Bulk::with_sum(found.bytes, sum),
        None => found.bytes.into(),
    };
    Some((reply, bulk))
}

/// The fetch of the requested akey into `buffer`, or of its size only if there is none.
fn fetch_of<'f>(akey: &'f AkeyRequest<'f>, buffer: &'f mut Option<Vec<u8>>) -> Fetch<'f> {
    let sink = buffer.as_mut().map_or(Sink::None, |buffer| Sink::One(buffer));
    let mut fetch = match &akey.extents {
        None => Fetch::single(akey.akey, sink),
        Some(extents) => Fetch::array(akey.akey, akey.record_size, extents, sink),
    };
    fetch.request.want_filled = matches!(fetch.request.wanted, Wanted::Array(_));
    fetch.request.record_size = akey.record_size;
    fetch.with_cond(akey.cond)
}

/// Reads the akeys that a client asks for. `room` is the number of bytes that the client has announced. The reply's
/// data are the bytes that were found. Its buffers come from `spare`, and return to it once the data is sent.
pub(crate) async fn fetch(
    container: &dyn OpenContainer,
    oid: ObjectId,
    dkeys: &[DkeyRequest<'_>],
    room: u32,
    at: ReadAt<'_>,
    spare: &Spare,
) -> Result<(Reply, Bulk)> {
    check_room(dkeys, room)?;
    // A long value is sent from the pool's memory, without a buffer, where that is possible.
    if let Some(viewed) = view(container, oid, dkeys, at).await {
        return Ok(viewed);
    }
    let mut buffers = buffers(dkeys, spare);
    let mut fetches: Vec<Vec<Fetch<'_>>> = dkeys
        .iter()
        .zip(&mut buffers)
        .map(|(dkey, buffers)| {
            dkey.akeys.iter().zip(buffers).map(|(akey, buffer)| fetch_of(akey, buffer)).collect()
        })
        .collect();
    let mut wanted: Vec<DkeyFetch<'_, '_>> = dkeys
        .iter()
        .zip(&mut fetches)
        .map(|(dkey, akeys)| DkeyFetch { dkey: dkey.dkey, cond: dkey.cond, akeys })
        .collect();
    let fetched = container.fetch(oid, &mut wanted, at).await;
    drop(wanted);
    let found: Vec<AkeyReply> = fetches.iter_mut().flatten().map(reply_of).collect();
    drop(fetches);
    // DAOS returns the sizes of a failed fetch, too, for example when a buffer was too small.
    if let Err(error) = fetched {
        return Ok((Reply::FetchFailed(Failure::from(&error), found), Bulk::default()));
    }
    let akeys = dkeys.iter().flat_map(|dkey| &dkey.akeys);
    let mut bulk = Vec::new();
    for ((akey, reply), buffer) in akeys.zip(&found).zip(buffers.iter_mut().flatten()) {
        add_found(akey, reply, buffer.take().unwrap_or_default(), &mut bulk)?;
    }
    Ok((Reply::Fetched(found), spare.keep(bulk).into()))
}

/// Takes the reply for the client out of the completed fetch.
fn reply_of(fetch: &mut Fetch<'_>) -> AkeyReply {
    let reply = &mut fetch.reply;
    let filled = std::mem::take(&mut reply.filled);
    AkeyReply { size: reply.size, filled_bytes: reply.filled_bytes, filled }
}

/// Adds the bytes that were found, which are in `buffer`, to the bulk. If the bulk is empty and one range from the
/// start of the buffer was filled, the buffer becomes the bulk without a copy.
fn add_found(
    akey: &AkeyRequest<'_>,
    reply: &AkeyReply,
    mut buffer: Vec<u8>,
    bulk: &mut Vec<u8>,
) -> Result<()> {
    let ranges = match &akey.extents {
        Some(_) if akey.room.is_none() => return Ok(()),
        Some(extents) => filled_ranges(extents, &reply.filled, reply.size)?,
        None => std::iter::once(0..reply.filled_bytes).collect(),
    };
    if let ([range], true) = (&ranges[..], bulk.is_empty())
        && range.start == 0
    {
        buffer.truncate(range.end as usize);
        *bulk = buffer;
        return Ok(());
    }
    for range in ranges {
        bulk.extend_from_slice(
            buffer.get(range.start as usize..range.end as usize).unwrap_or_default(),
        );
    }
    Ok(())
}

/// Splits the bulk of a change into its values.
struct Values<'b>(&'b [u8]);

impl<'b> Values<'b> {
    /// Takes the next `len` bytes of the data of a change.
    fn take(&mut self, len: u64) -> Result<Source<'b>> {
        let split = usize::try_from(len).ok().and_then(|len| self.0.split_at_checked(len));
        let (value, rest) = split.ok_or_else(|| {
            Error::new(ErrorKind::Corrupt, "a change has fewer bytes of data than its values")
        })?;
        self.0 = rest;
        Ok(Source::One(value))
    }

    /// Fails if data of the change is left.
    fn finish(self) -> Result<()> {
        match self.0 {
            [] => Ok(()),
            _ => Err(Error::new(
                ErrorKind::Corrupt,
                "a change has more bytes of data than its values",
            )),
        }
    }

    /// The value of one akey, with its data.
    fn value<'v>(&mut self, request: &'v ValueRequest) -> Result<Value<'v>>
    where
        'b: 'v,
    {
        Ok(match request {
            ValueRequest::Single(len) => Value::Single(self.take(*len)?),
            ValueRequest::Array(record_size, extents, len) => {
                Value::Array { record_size: *record_size, extents, data: self.take(*len)? }
            }
            ValueRequest::PunchExtents(extents) => Value::PunchExtents(extents),
        })
    }

    /// The updates of a request, with their data; none if it punches.
    fn updates<'v>(&mut self, request: &'v WriteRequest<'v>) -> Result<Vec<Update<'v>>>
    where
        'b: 'v,
    {
        let WriteRequest::Update(_, _, akeys) = request else { return Ok(Vec::new()) };
        let mut update = |(akey, cond, value): &'v (&'v [u8], _, ValueRequest)| {
            Ok(Update { akey, value: self.value(value)?, cond: *cond })
        };
        akeys.iter().map(&mut update).collect()
    }
}

/// Mode of applying a change.
pub(crate) enum Way {
    /// Committed.
    Commit,
    /// Committed; its tokens need to hold at one moment before the commit.
    CommitProved,
    /// Prepared as part of a commit over several nodes.
    Prepare(Commit),
}

/// Applies a change of a client, whose data is `bulk`: at once, or prepared for a commit over several nodes, as `way`
/// says. Returns its epoch.
pub(crate) async fn write(
    container: &dyn OpenContainer,
    request: &ChangeRequest<'_>,
    bulk: &[u8],
    way: Way,
) -> Result<Epoch> {
    let mut values = Values(bulk);
    let updates = request.writes.iter().map(|(_, write)| values.updates(write));
    let updates = updates.collect::<Result<Vec<_>>>()?;
    values.finish()?;
    let writes: Vec<Write<'_>> = request
        .writes
        .iter()
        .zip(&updates)
        .map(|((oid, write), updates)| Write { oid: *oid, op: op_of(write, updates) })
        .collect();
    let tokens = request.tokens.as_ref().map(|tokens| read_tokens(tokens));
    let change = Change { tokens: tokens.as_ref(), id: request.id, ..Change::from_writes(&writes) };
    match way {
        Way::Commit => container.write(change).await,
        Way::CommitProved => container.write(Change { proved_once: true, ..change }).await,
        Way::Prepare(commit) => container.prepare(commit, Preparation::Change(change)).await,
    }
}

/// Tokens of a request, for the backend.
pub(crate) fn read_tokens(tokens: &[&[u8]]) -> ReadTokens {
    let read = ReadTokens::default();
    tokens.iter().for_each(|token| read.add(token));
    read
}

/// Converts a request to write. `updates` are those that were made from the same request.
fn op_of<'v>(request: &'v WriteRequest<'v>, updates: &'v [Update<'v>]) -> WriteOp<'v> {
    match *request {
        WriteRequest::Update(dkey, cond, _) => WriteOp::Update { dkey, cond, updates },
        WriteRequest::PunchObject(cond) => WriteOp::PunchObject { cond },
        WriteRequest::PunchDkey(dkey, cond) => WriteOp::PunchDkey { dkey, cond },
        WriteRequest::PunchAkeys(dkey, ref akeys, cond) => {
            WriteOp::PunchAkeys { dkey, akeys, cond }
        }
    }
}
