//! Random requests and responses of all kinds: well formed, with numbers and keys at and beyond the limits.
use esker_testing::Random;
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{
    Anchor, ChangeId, Commit, CommitId, Cond, Decided, Decisions, Edge, KeyQuery, ListLimit,
    Removal, Take, Taken, TakenWithArray, View,
};
use esker_types::{Checksum, Epoch, Extent, KeyBatch, ObjectClass, ObjectId, ObjectType, Uuid};
use esker_wire::message::{
    AkeyReply, AkeyRequest, At, ChangeRequest, ContainerRequest, DkeyRequest, Handle,
    MetadataRequest, PoolRequest, Reply, Request, Response, ValueRequest, WriteRequest, encode,
};
use std::time::Duration;

/// Numbers next to which something may overflow.
const EDGES: [u64; 10] =
    [0, 1, 7, 100, 4 << 20, 1 << 32, 1 << 60, i64::MAX as u64, u64::MAX - 1, u64::MAX];

/// Keys, short and long, and those of arrays.
const KEYS: [&[u8]; 6] = [b"a", b"d", b"key", &[0; 8], &[0, 0, 0, 0, 0, 0, 0, 1], &[0xff; 8]];

/// Keys that are refused, or stored otherwise.
const ODD_KEYS: [&[u8]; 2] = [b"", &[7; 3000]];

/// Tokens of native pools: of one slot and of many, of the past, of the future, and of no target.
const TOKENS: [&[u8]; 5] = [&[0; 16], &TOKEN_OF_FUTURE, &[0; 524], &[0xff; 524], &[0xff; 16]];
const TOKEN_OF_FUTURE: [u8; 16] =
    [1, 0, 0, 0, 7, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];

const NAMES: [&str; 4] = ["c", "", "other", "a name with spaces and a line\nbreak"];

/// Draws messages.
pub(crate) struct Draw<'r>(pub(crate) &'r mut Random);

impl Draw<'_> {
    /// One of the elements.
    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.0.below(of.len() as u64) as usize]
    }

    fn flag(&mut self) -> bool {
        self.0.one_in(2)
    }

    /// A number, often one next to which something may overflow.
    fn number(&mut self) -> u64 {
        match self.0.below(3) {
            0 => self.pick(&EDGES),
            1 => self.0.draw(),
            _ => self.0.below(20),
        }
    }

    /// A key, rarely one that is refused or stored otherwise.
    fn key(&mut self) -> &'static [u8] {
        if self.0.one_in(30) { self.pick(&ODD_KEYS) } else { self.pick(&KEYS) }
    }

    /// One in two times, what `one` draws.
    fn some<T>(&mut self, one: impl FnOnce(&mut Self) -> T) -> Option<T> {
        self.flag().then(|| one(self))
    }

    /// Up to four elements that `one` draws.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.0.below(5)).map(|_| one(self)).collect()
    }

    /// A condition: mostly none, sometimes bits without a meaning.
    fn cond(&mut self) -> Cond {
        match self.0.below(12) {
            0 => Cond::from_bits_retain(self.0.draw()),
            1 => Cond::from_bits_retain(1 << self.0.below(8)),
            _ => Cond::NONE,
        }
    }

    /// An object id: mostly one of a few, so that requests meet.
    fn oid(&mut self) -> ObjectId {
        let types = [
            ObjectType::MultiHashed,
            ObjectType::KvHashed,
            ObjectType::Array,
            ObjectType::MultiInteger,
        ];
        match self.0.below(5) {
            0 => ObjectId::from_bytes(std::array::from_fn(|_| self.0.draw() as u8)),
            _ => ObjectId::generate(0, self.0.below(3), self.pick(&types), ObjectClass::S1),
        }
    }

    /// A view for a read.
    fn at(&mut self) -> At {
        let view = match self.0.below(4) {
            0 => View::Snapshot(Epoch(self.number())),
            _ => View::Latest,
        };
        At { view, tokens: self.flag() }
    }

    /// Extents, which may overflow.
    fn extents(&mut self) -> Vec<Extent> {
        self.list(|draw| Extent { start: draw.number(), count: draw.number() })
    }

    /// An anchor, which need not be one of a listing.
    fn anchor(&mut self) -> Anchor {
        match self.0.below(4) {
            0 => Anchor::End,
            1 => Anchor::After { shard: self.number() as u32, position: self.key().to_vec() },
            2 => Anchor::at_record(self.number()),
            _ => Anchor::Start,
        }
    }

    /// A request about attributes.
    fn metadata(&mut self) -> MetadataRequest<'static> {
        match self.0.below(3) {
            0 => MetadataRequest::Get(self.pick(&NAMES)),
            1 => MetadataRequest::Set(
                self.list(|draw| (draw.pick(&NAMES), draw.some(|draw| draw.key()))),
            ),
            _ => MetadataRequest::List(self.pick(&NAMES)),
        }
    }

    /// A value of an update, which often does not fit its data.
    fn value(&mut self) -> ValueRequest {
        match self.0.below(4) {
            0 if self.0.one_in(5) => ValueRequest::Single(self.number()),
            0 | 1 => ValueRequest::Single(self.0.below(10)),
            2 => ValueRequest::PunchExtents(self.extents()),
            _ => self.array(),
        }
    }

    /// An array that often fits its data.
    fn array(&mut self) -> ValueRequest {
        if self.0.one_in(5) {
            return ValueRequest::Array(self.number(), self.extents(), self.number());
        }
        let (record_size, count) = (1 + self.0.below(3), self.0.below(5));
        let extents = vec![Extent { start: self.number(), count }];
        ValueRequest::Array(record_size, extents, record_size * count)
    }

    /// One write to an object.
    fn write(&mut self) -> WriteRequest<'static> {
        let (dkey, cond) = (self.key(), self.cond());
        match self.0.below(6) {
            0 => WriteRequest::PunchObject(cond),
            1 => WriteRequest::PunchDkey(dkey, cond),
            2 => WriteRequest::PunchAkeys(dkey, self.list(Self::key), cond),
            _ => {
                let akey = |draw: &mut Self| (draw.key(), draw.cond(), draw.value());
                WriteRequest::Update(dkey, cond, self.list(akey))
            }
        }
    }

    /// A change of several writes, rarely with tokens of reads.
    fn change(&mut self) -> ChangeRequest<'static> {
        let id = |draw: &mut Self| ChangeId {
            session: draw.number(),
            slot: draw.number() as u16,
            sequence: draw.number(),
        };
        ChangeRequest {
            id: self.some(id),
            tokens: self.0.one_in(6).then(|| self.list(Self::key)),
            writes: self.list(|draw| (draw.oid(), draw.write())),
        }
    }

    /// A request that fetches akeys of several dkeys.
    fn fetch(&mut self) -> ContainerRequest<'static> {
        let akey = |draw: &mut Self| AkeyRequest {
            akey: draw.key(),
            extents: draw.some(Self::extents),
            record_size: if draw.flag() { 0 } else { draw.number() },
            cond: draw.cond(),
            room: draw.some(|draw| draw.0.below(100)),
        };
        let dkey = |draw: &mut Self| DkeyRequest {
            dkey: draw.key(),
            cond: draw.cond(),
            akeys: draw.list(akey),
        };
        ContainerRequest::Fetch(self.oid(), self.list(dkey), self.at())
    }

    /// A query of the smallest or largest key.
    fn query(&mut self) -> KeyQuery<'static> {
        KeyQuery {
            edge: if self.flag() { Edge::Min } else { Edge::Max },
            dkey: self.some(Self::key),
            after: self.some(Self::key),
            akey: self.some(Self::key),
            want_akey: self.flag(),
            want_extent: self.flag(),
        }
    }

    /// A request that lists keys, objects or extents.
    fn listing(&mut self) -> ContainerRequest<'static> {
        let (oid, anchor, at, entries) = (self.oid(), self.anchor(), self.at(), self.number());
        let limit = ListLimit { entries: entries as usize, bytes: self.number() as usize };
        match self.0.below(3) {
            0 => ContainerRequest::ListKeys(oid, self.some(Self::key), anchor, limit, at),
            1 => ContainerRequest::ListObjects(anchor, entries, at),
            _ => ContainerRequest::ListExtents(oid, self.key(), self.key(), anchor, entries, at),
        }
    }

    /// A token of a read, often one that no pool has given.
    fn token(&mut self) -> &'static [u8] {
        if self.0.one_in(5) { self.key() } else { self.pick(&TOKENS) }
    }

    /// A removal, mostly of a dkey that other requests write.
    fn take(&mut self) -> Take<'static> {
        let (oid, dkey, akey) = (self.oid(), self.key(), self.key());
        let extent = match self.0.one_in(4) {
            true => Extent { start: self.number(), count: self.number() },
            false => Extent { start: self.0.below(10), count: self.0.below(20) },
        };
        let at = if self.0.one_in(4) { self.number() } else { self.0.below(9) };
        Take { oid, dkey, akey, extent, at, expected: self.pick(&[b"", b"", b"\x05", b"\x05\x05"]) }
    }

    /// A request that removes a dkey or an array.
    fn removal(&mut self) -> ContainerRequest<'static> {
        use ContainerRequest as Of;
        match self.0.below(5) {
            0 => Of::Take(self.take()),
            1 => Of::TakeWithArray(self.take(), self.oid()),
            2 => Of::TakeProved(self.list(Self::token), self.take(), self.oid()),
            3 => Of::RemoveUnused(self.oid()),
            _ => Of::RemoveUnusedEach(self.list(Self::oid)),
        }
    }

    /// A request about several objects or reads.
    fn several(&mut self) -> ContainerRequest<'static> {
        use ContainerRequest as Of;
        match self.0.below(4) {
            0 => Of::LeaseEach(self.list(Self::oid)),
            1 => Of::ReleaseEach(self.list(Self::oid)),
            2 => Of::LeaseReads(self.list(Self::token)),
            _ => Of::QueryEach(self.list(Self::oid), self.query(), self.at()),
        }
    }

    /// A request about an open container, most often a write.
    fn of_container(&mut self) -> ContainerRequest<'static> {
        use ContainerRequest as Of;
        match self.0.below(24) {
            0 => Of::Metadata(self.metadata()),
            1 if self.0.one_in(50) => Of::Close,
            2 => Of::Rename(self.some(|draw| draw.pick(&NAMES))),
            3 => Of::AllocateOids(self.number()),
            4 => Of::NextOid,
            5 => Of::Query(self.oid(), self.query(), self.at()),
            6 => Of::LastEpoch(self.oid(), self.some(Self::key), self.at()),
            7 => Of::CreateSnapshot(self.pick(&NAMES)),
            8 => Of::ListSnapshots,
            9 => Of::DestroySnapshot(Epoch(self.number())),
            10 => Of::Lease(self.oid()),
            11 => Of::Release(self.oid()),
            12 => Of::UnlinkOnLastClose(self.oid()),
            13 | 14 => self.listing(),
            15 | 16 => self.fetch(),
            17 => Of::WriteProved(self.change()),
            18 | 19 => self.removal(),
            20 => self.several(),
            _ => Of::Write(self.change()),
        }
    }

    /// A name of a container.
    fn name(&mut self) -> ContainerRef<'static> {
        match self.0.below(3) {
            0 => ContainerRef::Uuid(Uuid([self.0.below(3) as u8; 16])),
            _ => ContainerRef::Label(self.pick(&NAMES)),
        }
    }

    /// A request about the pool.
    fn of_pool(&mut self) -> PoolRequest<'static> {
        match self.0.below(7) {
            0 => PoolRequest::Capabilities,
            1 => PoolRequest::Info,
            2 => PoolRequest::Metadata(self.metadata()),
            3 => PoolRequest::Open(self.name(), OpenMode::ReadWrite),
            4 => PoolRequest::Open(self.name(), OpenMode::ReadOnly),
            5 if self.0.one_in(30) => PoolRequest::Destroy(self.name(), self.flag()),
            5 => PoolRequest::List,
            _ => PoolRequest::Create {
                label: self.some(|draw| draw.pick(&NAMES)),
                uuid: Uuid([self.0.below(3) as u8; 16]),
                checksum: Checksum::Crc32c,
                metadata: self.list(|draw| (draw.pick(&NAMES), draw.key())),
                first_oid: self.number(),
            },
        }
    }

    /// A request, mostly about the first container that the client has opened.
    pub(crate) fn request(&mut self) -> Vec<u8> {
        let request = match self.0.below(8) {
            0 => Request::Pool(self.of_pool()),
            1 if self.flag() => {
                Request::Container(Handle(self.number() as u32), self.of_container())
            }
            _ => Request::Container(Handle(1), self.of_container()),
        };
        encode(&request).expect("a request")
    }

    /// One of a few commits, which are shared by different requests.
    fn commit(&mut self) -> Commit {
        let coordinator =
            if self.0.one_in(20) { self.number() as u32 } else { self.pick(&[0, 0, 1]) };
        Commit { id: CommitId(Uuid([self.0.below(3) as u8; 16])), coordinator }
    }

    /// An epoch to commit at: mostly one that a clock may show in some years.
    fn commit_epoch(&mut self) -> Epoch {
        match self.0.below(40) {
            0 => Epoch(self.number()),
            1 => Epoch(self.0.below(20)),
            _ => Epoch((1 << 58) + self.0.below(1 << 57)),
        }
    }

    /// A request to the first node of a pool over several: half of them about commits.
    pub(crate) fn request_of_commits(&mut self) -> Vec<u8> {
        let request = match self.0.below(16) {
            0..=2 => Request::Container(
                Handle(1),
                ContainerRequest::PrepareChange(self.commit(), self.change()),
            ),
            3 => Request::Container(
                Handle(1),
                ContainerRequest::PrepareSnapshot(self.commit(), self.pick(&NAMES)),
            ),
            4 | 5 => Request::Pool(PoolRequest::Commit(self.commit(), self.commit_epoch())),
            6 => Request::Pool(PoolRequest::Abort(self.commit())),
            7 => Request::Pool(PoolRequest::Outcome(self.commit(), self.flag())),
            8 => Request::Pool(PoolRequest::Forget(self.commit())),
            9 => Request::Pool(PoolRequest::Prepared),
            10 if self.flag() => Request::Pool(PoolRequest::Decisions(self.number())),
            10 if self.0.one_in(4) => {
                Request::Pool(PoolRequest::Sweep(self.list(|draw| draw.commit().id)))
            }
            _ => return self.request(),
        };
        encode(&request).expect("a request")
    }

    /// The reply for one akey of a fetch.
    fn found(&mut self) -> AkeyReply {
        let filled = self.list(|draw| match draw.flag() {
            true => Extent { start: draw.0.below(10), count: draw.0.below(10) },
            false => Extent { start: draw.number(), count: draw.number() },
        });
        AkeyReply { size: self.number(), filled_bytes: self.number(), filled }
    }

    fn bytes(&mut self) -> Vec<u8> {
        self.key().to_vec()
    }

    /// The content of a removed dkey.
    fn taken(&mut self) -> Taken {
        let bytes = self.bytes();
        Taken { bytes, others: self.list(|draw| (draw.bytes(), draw.bytes())) }
    }

    fn removed(&mut self) -> Removal {
        self.pick(&[Removal::InUse, Removal::Removed, Removal::Striped])
    }

    /// The reply to a removal, or to a request about several objects.
    fn about_several(&mut self) -> Reply {
        let both = |draw: &mut Self| TakenWithArray {
            taken: draw.taken(),
            removal: draw.some(Self::removed),
        };
        match self.0.below(7) {
            0 => Reply::Taken(self.some(Self::taken)),
            1 => Reply::TakenWithArray(self.some(both)),
            2 => Reply::Removal(self.removed()),
            3 => Reply::Removals(self.list(Self::removed)),
            4 => Reply::Flags(self.list(Self::flag)),
            5 => Reply::Leased(self.some(|draw| Duration::from_nanos(draw.number()))),
            _ => Reply::FoundEach(self.list(|_| None)),
        }
    }

    /// A response, mostly to a fetch.
    pub(crate) fn response(&mut self) -> Vec<u8> {
        let keys = |draw: &mut Self| draw.list(Self::key).into_iter().map(<[u8]>::to_vec).collect();
        let reply = match self.0.below(13) {
            10.. => self.about_several(),
            0 => Reply::Done,
            1 => Reply::Number(self.number()),
            2 => Reply::Epoch(Epoch(self.number())),
            3 => {
                let mut keys = KeyBatch::default();
                self.list(Self::key).into_iter().for_each(|key| keys.push(key));
                Reply::Keys(keys, self.anchor())
            }
            4 => Reply::Found(None),
            5 => Reply::Names(vec!["a".repeat(self.0.below(9) as usize)]),
            6 => Reply::Decisions(Decisions {
                clock: Epoch(self.number()),
                is_full: self.flag(),
                oldest: self
                    .list(|draw| Decided { id: draw.commit().id, is_committed: draw.flag() }),
            }),
            _ => Reply::Fetched((0..self.0.within(1..4)).map(|_| self.found()).collect()),
        };
        encode(&Response { reply, tokens: keys(self) }).expect("a response")
    }
}
