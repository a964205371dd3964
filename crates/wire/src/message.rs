//! Messages: requests and replies as values, encoded by postcard. Data is not encoded: it is the bulk of the frame.
use esker_types::info::{
    Capabilities, ContainerInfo, ContainerRef, OpenMode, PoolInfo, SnapshotInfo,
};
use esker_types::ops::{
    Anchor, ChangeId, Commit, CommitId, Cond, Decisions, KeyFound, KeyQuery, ListLimit, Outcome,
    Removal, StoredExtent, Take, Taken, TakenWithArray, View,
};
use esker_types::{Checksum, Epoch, Error, ErrorKind, Extent, KeyBatch, ObjectId, Result, Uuid};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::time::Duration;

/// Encodes a message.
///
/// # Errors
/// `Overflow` if it cannot be encoded.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    encode_to(message, &mut bytes).map(|()| bytes)
}

/// Appends an encoded message to `bytes`.
pub(crate) fn encode_to(message: &impl Serialize, bytes: &mut Vec<u8>) -> Result<()> {
    postcard::serialize_with_flavor(message, Append(bytes)).map_err(|error| {
        Error::new(ErrorKind::Overflow, format!("a message cannot be encoded: {error}"))
    })
}

/// Lets postcard append to a vector.
struct Append<'b>(&'b mut Vec<u8>);

impl postcard::ser_flavors::Flavor for Append<'_> {
    type Output = ();

    fn try_extend(&mut self, bytes: &[u8]) -> postcard::Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }

    fn try_push(&mut self, byte: u8) -> postcard::Result<()> {
        self.0.push(byte);
        Ok(())
    }

    fn finalize(self) -> postcard::Result<()> {
        Ok(())
    }
}

/// Decodes a message that must take all of `bytes`.
///
/// # Errors
/// `Corrupt` if it does not.
pub fn decode<'b, T: Deserialize<'b>>(bytes: &'b [u8]) -> Result<T> {
    let refused = |why: &dyn std::fmt::Display| {
        Error::new(
            ErrorKind::Corrupt,
            format!("the peer sent a message that is not understood: {why}"),
        )
    };
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok((_, rest)) => Err(refused(&format_args!("{} bytes are left over", rest.len()))),
        Err(error) => Err(refused(&error)),
    }
}

/// Number of an open container within a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Handle(pub u32);

/// Subject of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request<'a> {
    /// A request about the pool.
    #[serde(borrow)]
    Pool(PoolRequest<'a>),
    /// A request about an open container.
    Container(Handle, #[serde(borrow)] ContainerRequest<'a>),
}

/// Requests about named values of a pool or container.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MetadataRequest<'a> {
    /// The value of a name: [`Reply::Value`].
    Get(&'a str),
    /// Sets or removes names: [`Reply::Done`].
    #[serde(borrow)]
    Set(Vec<(&'a str, Option<&'a [u8]>)>),
    /// Names that begin with a prefix: [`Reply::Names`].
    List(&'a str),
}

/// Requests about a pool (trait `Pool` of the backend).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PoolRequest<'a> {
    /// [`Reply::Capabilities`].
    Capabilities,
    /// [`Reply::Pool`].
    Info,
    /// Named values of the pool.
    #[serde(borrow)]
    Metadata(MetadataRequest<'a>),
    /// Creates a container: [`Reply::Container`].
    Create {
        /// Its label.
        label: Option<&'a str>,
        /// Its UUID.
        uuid: Uuid,
        /// Checksum over its data.
        checksum: Checksum,
        /// Its initial metadata.
        #[serde(borrow)]
        metadata: Vec<(&'a str, &'a [u8])>,
        /// First object id to allocate.
        first_oid: u64,
    },
    /// Opens a container: [`Reply::Opened`].
    Open(#[serde(borrow)] ContainerRef<'a>, OpenMode),
    /// Destroys a container, even an open one if the flag is set: [`Reply::Done`].
    Destroy(#[serde(borrow)] ContainerRef<'a>, bool),
    /// [`Reply::Containers`].
    List,
    /// Commits a prepared commit at this epoch: [`Reply::Done`].
    Commit(Commit, Epoch),
    /// Aborts a prepared commit: [`Reply::Done`].
    Abort(Commit),
    /// The state of a commit. With the flag, an undecided one is aborted: [`Reply::Outcome`].
    Outcome(Commit, bool),
    /// The commits that are prepared: [`Reply::Commits`].
    Prepared,
    /// Removes a commit decision: [`Reply::Done`].
    Forget(Commit),
    /// Ends the engine's process after the reply: [`Reply::Done`].
    ShutDown {
        /// Destroys the engine's pool first.
        remove: bool,
    },
    /// Verifies the structures of the engine's pool: [`Reply::Checked`].
    Check,
    /// Maintains the engine's pool: [`Reply::Maintained`]. All requests about one maintenance have the same unique
    /// number.
    Maintain(Maintenance, u64),
    /// The oldest commit decisions, up to this number: [`Reply::Decisions`].
    Decisions(u64),
    /// Removes commit decisions: [`Reply::Done`].
    Sweep(Vec<CommitId>),
    /// The number of requests that the engine has served: [`Reply::Requests`].
    Requests,
}

/// Maintenance of a node's pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Maintenance {
    /// Removes damaged records and recounts the space. The engine ends all its connections first.
    Repair,
    /// Reads all data.
    Scrub,
    /// Compacts all data.
    Compact,
}

/// Requests about an open container (trait `OpenContainer` of the backend).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ContainerRequest<'a> {
    /// Named values of the container.
    #[serde(borrow)]
    Metadata(MetadataRequest<'a>),
    /// [`Reply::Done`].
    Close,
    /// [`Reply::Done`].
    Rename(Option<&'a str>),
    /// Reserves numbers for object ids, this many; the first one: [`Reply::Number`].
    AllocateOids(u64),
    /// The first number that is not reserved: [`Reply::Number`].
    NextOid,
    /// Applies a change: [`Reply::Epoch`]. The bulk is the concatenation of the values.
    #[serde(borrow)]
    Write(ChangeRequest<'a>),
    /// [`Reply::Fetched`].
    Fetch(ObjectId, #[serde(borrow)] Vec<DkeyRequest<'a>>, At),
    /// Lists dkeys, or akeys of the given dkey: [`Reply::Keys`].
    ListKeys(ObjectId, #[serde(borrow)] Option<&'a [u8]>, Anchor, ListLimit, At),
    /// Lists at most this number of extents of an array, given by dkey and akey: [`Reply::Extents`].
    ListExtents(ObjectId, &'a [u8], &'a [u8], Anchor, u64, At),
    /// Lists at most this number of objects: [`Reply::Objects`].
    ListObjects(Anchor, u64, At),
    /// [`Reply::Found`].
    Query(ObjectId, #[serde(borrow)] KeyQuery<'a>, At),
    /// The last change of an object, or of the given dkey: [`Reply::Epoch`].
    LastEpoch(ObjectId, #[serde(borrow)] Option<&'a [u8]>, At),
    /// [`Reply::Epoch`].
    CreateSnapshot(&'a str),
    /// [`Reply::Snapshots`].
    ListSnapshots,
    /// [`Reply::Done`].
    DestroySnapshot(Epoch),
    /// Takes a lease on an object: [`Reply::Done`].
    Lease(ObjectId),
    /// Ends a lease on an object: [`Reply::Flag`], true if the client is to remove the object.
    Release(ObjectId),
    /// Leaves the removal of an object to its last lease: [`Reply::Flag`], false if there is none.
    UnlinkOnLastClose(ObjectId),
    /// Prepares a change: [`Reply::Epoch`]. The values are the bulk, as those of a write.
    PrepareChange(Commit, #[serde(borrow)] ChangeRequest<'a>),
    /// Prepares a snapshot with this name: [`Reply::Epoch`].
    PrepareSnapshot(Commit, &'a str),
    /// One query for each of several objects: [`Reply::FoundEach`].
    QueryEach(Vec<ObjectId>, #[serde(borrow)] KeyQuery<'a>, At),
    /// A lease on the reads of these tokens: [`Reply::Leased`], with the tokens of the lease.
    LeaseReads(#[serde(borrow)] Vec<&'a [u8]>),
    /// A write whose tokens need to hold only at one moment after its arrival: [`Reply::Epoch`].
    WriteProved(#[serde(borrow)] ChangeRequest<'a>),
    /// A lease on each of several objects: [`Reply::Done`].
    LeaseEach(Vec<ObjectId>),
    /// The end of a lease on each of several objects: [`Reply::Flags`].
    ReleaseEach(Vec<ObjectId>),
    /// Removes an array that ends in its first chunk and has no lease: [`Reply::Removal`].
    RemoveUnused(ObjectId),
    /// Removes a dkey and returns its content: [`Reply::Taken`].
    Take(#[serde(borrow)] Take<'a>),
    /// Removes a dkey, returns its content, and removes an array that ends in its first chunk and has no lease:
    /// [`Reply::TakenWithArray`].
    TakeWithArray(#[serde(borrow)] Take<'a>, ObjectId),
    /// Removes several arrays as `RemoveUnused` does: [`Reply::Removals`].
    RemoveUnusedEach(Vec<ObjectId>),
    /// `TakeWithArray` if nothing that was read under these tokens has changed: [`Reply::TakenWithArray`].
    TakeProved(#[serde(borrow)] Vec<&'a [u8]>, #[serde(borrow)] Take<'a>, ObjectId),
}

/// The state that a read sees, and whether it returns tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct At {
    /// The state that it sees.
    pub view: View,
    /// Asks for tokens.
    pub tokens: bool,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangeRequest<'a> {
    /// Its id, so that it may be sent again.
    pub id: Option<ChangeId>,
    /// Tokens of the transaction's reads; `None` outside a transaction.
    #[serde(borrow)]
    pub tokens: Option<Vec<&'a [u8]>>,
    /// Its writes, in order.
    #[serde(borrow)]
    pub writes: Vec<(ObjectId, WriteRequest<'a>)>,
}

/// A write to one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WriteRequest<'a> {
    /// New content for akeys of one dkey.
    Update(&'a [u8], Cond, #[serde(borrow)] Vec<(&'a [u8], Cond, ValueRequest)>),
    /// Removes the object.
    PunchObject(Cond),
    /// Removes a dkey.
    PunchDkey(&'a [u8], Cond),
    /// Removes akeys of a dkey.
    PunchAkeys(&'a [u8], #[serde(borrow)] Vec<&'a [u8]>, Cond),
}

/// New content of an akey, without its bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ValueRequest {
    /// A single value: this many bytes of the bulk.
    Single(u64),
    /// Records of an array: record size, extents, bytes of the bulk.
    Array(u64, Vec<Extent>, u64),
    /// These records become holes.
    PunchExtents(Vec<Extent>),
}

/// A fetch of akeys of one dkey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DkeyRequest<'a> {
    /// The dkey.
    pub dkey: &'a [u8],
    /// Its condition.
    pub cond: Cond,
    /// Its akeys.
    #[serde(borrow)]
    pub akeys: Vec<AkeyRequest<'a>>,
}

/// A fetch of one akey.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AkeyRequest<'a> {
    /// The akey.
    pub akey: &'a [u8],
    /// Extents of an array, or `None` for the single value.
    pub extents: Option<Vec<Extent>>,
    /// Bytes per record the caller expects, 0 for any.
    pub record_size: u64,
    /// Its condition.
    pub cond: Cond,
    /// Bytes of the caller's buffer; `None` if only sizes are requested.
    pub room: Option<u64>,
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Response {
    /// The result, or the error.
    pub reply: Reply,
    /// Tokens of the reads, if the client requested them. A read that failed has them as well, since a conflict may
    /// have been the reason.
    pub tokens: Vec<Vec<u8>>,
}

/// A reply: the result, or the error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Reply {
    /// An error of the engine's backend.
    Failed(Failure),
    /// An error of a fetch, and the akeys that were fetched before it.
    FetchFailed(Failure, Vec<AkeyReply>),
    /// Success without a result.
    Done,
    /// A number.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// The epoch of a change or object.
    Epoch(Epoch),
    /// The value of a name.
    Value(Option<Vec<u8>>),
    /// Names.
    Names(Vec<String>),
    /// Capabilities of the engine's backend.
    Capabilities(Capabilities),
    /// Properties of a pool.
    Pool(PoolInfo),
    /// Properties of a container.
    Container(ContainerInfo),
    /// Handle and properties of an open container.
    Opened(Handle, ContainerInfo),
    /// Containers of a pool.
    Containers(Vec<ContainerInfo>),
    /// Akeys in the order of the request. The bytes that were found are the bulk.
    Fetched(Vec<AkeyReply>),
    /// Keys, and the anchor at which the listing continues.
    Keys(KeyBatch, Anchor),
    /// Extents, and the anchor at which the listing continues.
    Extents(Vec<StoredExtent>, Anchor),
    /// Objects, and the anchor at which the listing continues.
    Objects(Vec<ObjectId>, Anchor),
    /// Result of a query.
    Found(Option<KeyFound>),
    /// Snapshots.
    Snapshots(Vec<SnapshotInfo>),
    /// State of a commit.
    Outcome(Outcome),
    /// Prepared commits.
    Commits(Vec<Commit>),
    /// Result of a check, or `None` if it is not finished: ask again.
    Checked(Option<Check>),
    /// Result of a maintenance, or `None` if it is not finished: ask again.
    Maintained(Option<Maintained>),
    /// Results of a query, in the order of the objects.
    FoundEach(Vec<Option<KeyFound>>),
    /// Duration of a lease on reads, counted from before the request; `None` if none is granted.
    Leased(Option<Duration>),
    /// Yes or no for each of several objects.
    Flags(Vec<bool>),
    /// Commit decisions.
    Decisions(Decisions),
    /// Result of the removal of an array.
    Removal(Removal),
    /// Content of a dkey that was removed.
    Taken(Option<Taken>),
    /// Kinds of requests, and how many of them were served.
    Requests(Vec<(String, u64)>),
    /// Content of a dkey that was removed, and the result of the removal of an array.
    TakenWithArray(Option<TakenWithArray>),
    /// Results of the removal of several arrays.
    Removals(Vec<Removal>),
}

/// Result of a maintenance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Maintained {
    /// Remaining problems, and repairs, one message each.
    Repaired(Check, Vec<String>),
    /// Records and bytes that were read, and damage, one message per object.
    Scrubbed(u64, u64, Vec<String>),
    /// Bytes that became free.
    Compacted(u64),
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Problems, one message each; empty if the pool is consistent.
    pub problems: Vec<String>,
    /// Number of index records verified.
    pub records: u64,
    /// Bytes of data that they refer to.
    pub live_bytes: u64,
    /// Bytes that are neither live, nor free, nor counted as dead.
    pub lost_bytes: u64,
    /// Locations of the lost bytes, one message per segment.
    pub lost: Vec<String>,
}

impl Reply {
    /// The kind of the error, if the reply is a failure.
    #[must_use]
    pub fn failure(&self) -> Option<ErrorKind> {
        match self {
            Self::Failed(failure) | Self::FetchFailed(failure, _) => Some(failure.kind),
            _ => None,
        }
    }
}

/// Result of a fetch of one akey.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AkeyReply {
    /// Record size, or size of the single value; 0 if the akey does not exist.
    pub size: u64,
    /// Bytes of the caller's buffer up to the end of the last one filled.
    pub filled_bytes: u64,
    /// Records that were found. Their bytes, and no others, are in the bulk.
    pub filled: Vec<Extent>,
}

/// An encoded error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    kind: ErrorKind,
    message: String,
    needed: Option<u64>,
}

impl From<&Error> for Failure {
    fn from(error: &Error) -> Self {
        Self { kind: error.kind(), message: error.message().to_owned(), needed: error.needed() }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        let error = Error::new(failure.kind, failure.message);
        match failure.needed {
            Some(needed) => error.with_needed(needed),
            None => error,
        }
    }
}

/// Ranges of bytes, in the buffer of a fetch of `wanted`, of the records that were found. `filled` is in the order of
/// `wanted`; a record that was requested twice is in it twice.
///
/// # Errors
/// `Corrupt` if `filled` has a record that was not wanted.
pub fn filled_ranges(
    wanted: &[Extent],
    filled: &[Extent],
    record_size: u64,
) -> Result<Vec<Range<u64>>> {
    let mut buffer =
        Buffer { rest: wanted, next: wanted.first().map_or(0, |first| first.start), before: 0 };
    let mut ranges = Vec::with_capacity(filled.len());
    for found in filled {
        let mut found = *found;
        while found.count > 0 {
            let (at, count) = buffer.place(found).ok_or_else(not_asked_for)?;
            let bytes = |records: u64| records.checked_mul(record_size).ok_or_else(not_asked_for);
            ranges.push(bytes(at)?..bytes(at.saturating_add(count))?);
            found = Extent { start: found.start.saturating_add(count), count: found.count - count };
        }
    }
    Ok(ranges)
}

/// The part of a buffer that has no records yet.
struct Buffer<'e> {
    /// The extents of this part, from the current one on.
    rest: &'e [Extent],
    /// First record of the current extent that may come next.
    next: u64,
    /// Number of records of all extents before the current one.
    before: u64,
}

impl Buffer<'_> {
    /// Index in the buffer of the first records of `found`, and how many of them are together there. `None` if no
    /// extent that is left has the first of them.
    fn place(&mut self, found: Extent) -> Option<(u64, u64)> {
        loop {
            let (present, others) = self.rest.split_first()?;
            let end = present.start.checked_add(present.count)?;
            if found.start >= self.next && found.start < end {
                let count = found.count.min(end - found.start);
                self.next = found.start + count;
                return Some((self.before.checked_add(found.start - present.start)?, count));
            }
            self.before = self.before.checked_add(present.count)?;
            self.next = others.first().map_or(0, |next| next.start);
            self.rest = others;
        }
    }
}

#[cold]
fn not_asked_for() -> Error {
    Error::new(ErrorKind::Corrupt, "a reply has records that were not asked for")
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::ops::{Decided, Edge};

    fn extent(start: u64, count: u64) -> Extent {
        Extent { start, count }
    }

    /// The encoding must never change within a version of the protocol.
    #[test]
    fn messages_have_the_bytes_of_version_3() {
        let open = PoolRequest::Open(ContainerRef::Label("c"), OpenMode::ReadWrite);
        let uuid = PoolRequest::Destroy(ContainerRef::Uuid(Uuid([7; 16])), true);
        let query = KeyQuery {
            edge: Edge::Max,
            dkey: None,
            after: Some(b"k"),
            akey: None,
            want_akey: true,
            want_extent: false,
        };
        let at = At { view: View::Latest, tokens: false };
        let query = ContainerRequest::Query(ObjectId { hi: 1, lo: 300 }, query, at);
        let put = [(&b"a"[..], Cond::NONE, ValueRequest::Single(64))].to_vec();
        let put = WriteRequest::Update(b"d", Cond::DKEY_INSERT, put);
        let put = ChangeRequest {
            id: Some(ChangeId { session: 9, slot: 1, sequence: 2 }),
            tokens: None,
            writes: vec![(ObjectId { hi: 0, lo: 5 }, put)],
        };
        let bytes = |request: &Request<'_>| encode(request).unwrap();
        assert_eq!(bytes(&Request::Pool(open)), [0, 4, 0, 1, b'c', 1]);
        let destroy = [&[0, 5, 1][..], &[7; 16], &[1]].concat();
        assert_eq!(bytes(&Request::Pool(uuid)), destroy);
        assert_eq!(
            bytes(&Request::Container(Handle(3), query)),
            [1, 3, 10, 1, 0xac, 2, 1, 0, 1, 1, b'k', 0, 1, 0, 0, 0]
        );
        assert_eq!(
            bytes(&Request::Container(Handle(3), ContainerRequest::Write(put))),
            [1, 3, 5, 1, 9, 1, 2, 0, 1, 0, 5, 0, 1, b'd', 2, 1, 1, b'a', 0, 0, 64]
        );
        let proved = ChangeRequest { id: None, tokens: Some(vec![b"t"]), writes: Vec::new() };
        assert_eq!(
            bytes(&Request::Container(Handle(3), ContainerRequest::WriteProved(proved))),
            [1, 3, 22, 0, 1, 1, 1, b't', 0]
        );
    }

    /// The encoding must never change within a version of the protocol. These are the messages of commits over nodes,
    /// leases, and requests that take a dkey.
    #[test]
    fn commits_have_the_bytes_of_version_3() {
        let commit = Commit { id: CommitId(Uuid([7; 16])), coordinator: 300 };
        let bytes = |request: Request<'_>| encode(&request).unwrap();
        let named = [&[7; 16][..], &[0xac, 2]].concat();
        let pool = |kind: u8, rest: &[u8]| [&[0, kind][..], &named, rest].concat();
        assert_eq!(bytes(Request::Pool(PoolRequest::Commit(commit, Epoch(5)))), pool(7, &[5]));
        assert_eq!(bytes(Request::Pool(PoolRequest::Abort(commit))), pool(8, &[]));
        assert_eq!(bytes(Request::Pool(PoolRequest::Outcome(commit, true))), pool(9, &[1]));
        assert_eq!(bytes(Request::Pool(PoolRequest::Prepared)), [0, 10]);
        assert_eq!(bytes(Request::Pool(PoolRequest::Forget(commit))), pool(11, &[]));
        let snapshot = ContainerRequest::PrepareSnapshot(commit, "s");
        assert_eq!(
            bytes(Request::Container(Handle(3), snapshot)),
            [&[1, 3, 19][..], &named, &[1, b's']].concat()
        );
        let leased = encode(&Reply::Leased(Some(Duration::from_millis(50)))).unwrap();
        assert_eq!(leased, [24, 1, 0, 0x80, 0xe1, 0xeb, 0x17]);
        let lease = ContainerRequest::LeaseReads(vec![b"t"]);
        assert_eq!(bytes(Request::Container(Handle(3), lease)), [1, 3, 21, 1, 1, b't']);
        let oid = ObjectId { hi: 1, lo: 2 };
        let each =
            [ContainerRequest::LeaseEach(vec![oid]), ContainerRequest::ReleaseEach(vec![oid])];
        for (kind, each) in (23..).zip(each) {
            assert_eq!(bytes(Request::Container(Handle(3), each)), [1, 3, kind, 1, 1, 2]);
        }
        assert_eq!(encode(&Reply::Flags(vec![true, false])).unwrap(), [25, 2, 1, 0]);
        let remove = ContainerRequest::RemoveUnused(oid);
        assert_eq!(bytes(Request::Container(Handle(3), remove)), [1, 3, 25, 1, 2]);
        assert_eq!(encode(&Reply::Removal(Removal::Striped)).unwrap(), [27, 2]);
        let take =
            Take { oid, dkey: b"d", akey: b"a", extent: extent(0, 9), at: 4, expected: b"e" };
        let request = Request::Container(Handle(3), ContainerRequest::Take(take));
        assert_eq!(bytes(request), [1, 3, 26, 1, 2, 1, b'd', 1, b'a', 0, 9, 4, 1, b'e']);
        let taken = Taken { bytes: b"b".to_vec(), others: vec![(b"o".to_vec(), Vec::new())] };
        let reply = encode(&Reply::Taken(Some(taken.clone()))).unwrap();
        assert_eq!(reply, [28, 1, 1, b'b', 1, 1, b'o', 0]);
        let both = ContainerRequest::TakeWithArray(take, ObjectId { hi: 3, lo: 4 });
        let expected = [1, 3, 27, 1, 2, 1, b'd', 1, b'a', 0, 9, 4, 1, b'e', 3, 4];
        assert_eq!(bytes(Request::Container(Handle(3), both)), expected);
        let proved = ContainerRequest::TakeProved(vec![b"t"], take, ObjectId { hi: 3, lo: 4 });
        let expected = [1, 3, 29, 1, 1, b't', 1, 2, 1, b'd', 1, b'a', 0, 9, 4, 1, b'e', 3, 4];
        assert_eq!(bytes(Request::Container(Handle(3), proved)), expected);
        let both = TakenWithArray { taken, removal: Some(Removal::InUse) };
        let both = encode(&Reply::TakenWithArray(Some(both))).unwrap();
        assert_eq!(both, [30, 1, 1, b'b', 1, 1, b'o', 0, 1, 0]);
        let each = ContainerRequest::RemoveUnusedEach(vec![oid]);
        assert_eq!(bytes(Request::Container(Handle(3), each)), [1, 3, 28, 1, 1, 2]);
        assert_eq!(encode(&Reply::Removals(vec![Removal::Removed])).unwrap(), [31, 1, 1]);
        let outcome = encode(&Reply::Outcome(Outcome::Committed(Epoch(5)))).unwrap();
        assert_eq!(outcome, [19, 1, 5]);
        assert_eq!(encode(&Reply::Outcome(Outcome::Unknown)).unwrap(), [19, 3]);
    }

    /// The encoding must never change within a version of the protocol.
    #[test]
    fn sweeps_have_the_bytes_of_version_3() {
        let id = CommitId(Uuid([7; 16]));
        let bytes = |request: PoolRequest<'_>| encode(&Request::Pool(request)).unwrap();
        assert_eq!(bytes(PoolRequest::Decisions(300)), [0, 15, 0xac, 2]);
        let sweep = bytes(PoolRequest::Sweep(vec![id, id]));
        assert_eq!(sweep, [&[0, 16, 2][..], &[7; 32]].concat());
        let oldest = vec![Decided { id, is_committed: true }];
        let decisions = Decisions { clock: Epoch(5), is_full: true, oldest };
        let reply = encode(&Reply::Decisions(decisions.clone())).unwrap();
        assert_eq!(reply, [&[26, 5, 1, 1][..], &[7; 16], &[1]].concat());
        let Reply::Decisions(decoded) = decode(&reply).unwrap() else { panic!("another reply") };
        assert_eq!(decoded, decisions);
        let unknown = Failure::from(&Error::new(ErrorKind::TxUncertain, "?"));
        assert_eq!(encode(&Reply::Failed(unknown)).unwrap(), [0, 38, 1, b'?', 0]);
    }

    /// The encoding must never change within a version of the protocol.
    #[test]
    fn counts_of_requests_have_the_bytes_of_version_3() {
        assert_eq!(encode(&Request::Pool(PoolRequest::Requests)).unwrap(), [0, 17]);
        let reply = encode(&Reply::Requests(vec![("oids".to_owned(), 300)])).unwrap();
        assert_eq!(reply, [&[29, 1, 4][..], b"oids", &[0xac, 2]].concat());
    }

    /// The ranges count bytes of the caller's buffer, and a record has 10 bytes.
    #[test]
    fn records_are_placed_where_they_were_asked_for() {
        let ranges = |wanted: &[Extent], filled: &[Extent]| {
            filled_ranges(wanted, filled, 10).map_err(|error| error.kind())
        };
        let wanted = [extent(1, 144), extent(6, 7), extent(13, 2)];
        let filled = [extent(1, 3), extent(100, 45), extent(6, 7)];
        assert_eq!(ranges(&wanted, &filled), Ok(vec![0..30, 990..1440, 1440..1510]));
        assert_eq!(
            ranges(&wanted, &[extent(1, 144), extent(8, 7)]),
            Ok(vec![0..1440, 1460..1510, 1510..1530])
        );
        assert_eq!(ranges(&wanted, &[extent(0, 1)]), Err(ErrorKind::Corrupt));
        assert_eq!(ranges(&wanted, &[extent(13, 3), extent(13, 3)]), Err(ErrorKind::Corrupt));
        assert_eq!(ranges(&[extent(u64::MAX, 1)], &[extent(u64::MAX, 1)]), Err(ErrorKind::Corrupt));
    }
}
