//! Fuzz test of a client: an authenticated engine sends it arbitrary responses.
use super::draw::Draw;
use bytes::Bytes;
use esker::backend::memory::Memory;
use esker_backend::{OpenContainer, Pool};
use esker_nodes::{Connection, Endpoint, RemotePool};
use esker_testing::{Random, fuzz, seed};
use esker_types::info::{ContainerId, ContainerInfo, ContainerRef, OpenMode};
use esker_types::ops::{
    AkeyRef, Anchor, Cond, DkeyFetch, Fetch, KeyQuery, KeyScope, ListLimit, ReadAt, ReadTokens,
    Sink, Take, View,
};
use esker_types::{Checksum, Epoch, Extent, ObjectClass, ObjectId, ObjectType, Result, Uuid};
use esker_wire::frame::{Frame, Kind, Limits, Receiver, Sender};
use esker_wire::handshake::{self, Secret};
use esker_wire::message::{Handle, Reply, Response, encode};
use std::sync::{Arc, Mutex};
use tokio::io::{DuplexStream, duplex, split};

const POOL: Uuid = Uuid([6; 16]);

/// Well-formed responses that are fed as they are, and then changed.
const RESPONSES: u64 = 5000;

/// The data of a response, as far as there is room for it.
const BULK: &[u8] = &[5; 30];

/// The response that the engine sends to any request.
type Script = Arc<Mutex<Bytes>>;

/// An engine that sends the responses of its script.
async fn pretend(stream: DuplexStream, script: Script) -> Result<()> {
    let (from, to) = split(stream);
    let (mut from, mut to) = (Receiver::new(from), Sender::new(to));
    handshake::accept(&mut from, &mut to, &Secret::new([1; 32]), POOL, [2; 32]).await?;
    while let Some(request) = from.receive(Limits::AUTHENTICATED).await? {
        let message = script.lock().expect("the script").clone();
        let bulk = Bytes::from_static(&BULK[..BULK.len().min(request.room as usize)]);
        to.send(&Frame { kind: Kind::Reply, call: request.call, room: 0, message, bulk }).await?;
        to.flush().await?;
    }
    Ok(())
}

/// A response with this reply, encoded.
fn message(reply: Reply) -> Bytes {
    encode(&Response { reply, tokens: Vec::new() }).expect("a response").into()
}

fn capabilities() -> Reply {
    Reply::Capabilities(Memory::new(4).capabilities())
}

fn opened() -> Reply {
    let info = ContainerInfo {
        id: ContainerId(1),
        uuid: Uuid([9; 16]),
        label: "c".to_owned(),
        checksum: Checksum::Crc32c,
        created: Epoch(1),
        handles: 1,
    };
    Reply::Opened(Handle(1), info)
}

/// A container on the simulated engine.
async fn connect(script: &Script) -> Result<Box<dyn OpenContainer>> {
    let (client, server) = duplex(1 << 16);
    tokio::spawn(pretend(server, Arc::clone(script)));
    let (from, to) = split(client);
    let secret = Secret::new([1; 32]);
    let to_engine = Endpoint { name: "n1", address: "", secret: &secret, pool: POOL, session: 1 };
    let link = Connection::open(to_engine, from, to).await?;
    *script.lock().expect("the script") = message(capabilities());
    let pool = RemotePool::open(link).await?;
    *script.lock().expect("the script") = message(opened());
    pool.open_container(ContainerRef::Label("c"), OpenMode::ReadWrite).await
}

/// Fetches a single value and an array with holes, with all kinds of buffers.
async fn fetch(container: &dyn OpenContainer, at: ReadAt<'_>) -> Result<()> {
    let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
    let (mut value, mut records, mut none) = ([0; 10], [0; 20], [0; 0]);
    let extents = [Extent::new(0, 3), Extent::new(5, 5), Extent::new(u64::MAX - 2, 2)];
    let mut akeys = [
        Fetch::single(b"a", Sink::One(&mut value)),
        Fetch::array(b"b", 2, &extents, Sink::One(&mut records)),
        Fetch::array(b"c", 0, &extents, Sink::One(&mut none)),
        Fetch::single(b"d", Sink::None),
    ];
    for count in 1..=akeys.len() {
        let akeys = &mut akeys[..count];
        let mut dkeys = [DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys }];
        let _ = container.fetch(oid, &mut dkeys, at).await;
    }
    Ok(())
}

/// Lists dkeys and extents. Returns the number of extents.
async fn list(container: &dyn OpenContainer, at: ReadAt<'_>) -> Result<usize> {
    let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
    let limit = ListLimit::entries(10);
    let keys = container.list_keys(oid, KeyScope::Dkeys, &mut Anchor::Start, limit, at).await?;
    assert_eq!(keys.iter().count(), keys.len());
    let key = AkeyRef { dkey: b"d", akey: b"a" };
    Ok(container.list_extents(oid, key, &mut Anchor::Start, 10, at).await?.len())
}

/// Removals, and requests about several objects.
async fn remove(container: &dyn OpenContainer, reads: &ReadTokens) -> Result<()> {
    let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
    let (extent, oids) = (Extent::new(0, 9), [oid; 2]);
    let take = Take { oid, dkey: b"d", akey: b"a", extent, at: 4, expected: b"e" };
    let _ = container.take(take).await;
    let _ = container.take_with_array(take, oid, None).await;
    let _ = container.take_with_array(take, oid, Some(reads)).await;
    let _ = container.remove_unused(oid).await;
    if let Ok(removals) = container.remove_unused_each(&oids).await {
        assert_eq!(removals.len(), oids.len());
    }
    if let Ok(last) = container.release_each(&oids).await {
        assert_eq!(last.len(), oids.len());
    }
    if let Ok(found) = container.query_keys(&oids, KeyQuery::FIRST_DKEY, ReadAt::LATEST).await {
        assert_eq!(found.len(), oids.len());
    }
    container.lease_reads(reads).await.map(drop)
}

#[test]
fn fuzz_responses() {
    let mut random = Random::new(seed(), 0xe1);
    let responses: Vec<_> = (0..RESPONSES).map(|_| Draw(&mut random).response()).collect();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime = builder.enable_time().build().expect("a runtime");
    let script = Script::default();
    let container = runtime.block_on(connect(&script)).expect("a container");
    fuzz("wire-response", &responses, |response| {
        *script.lock().expect("the script") = Bytes::copy_from_slice(response);
        let tokens = ReadTokens::default();
        let at = ReadAt { view: View::Latest, tokens: Some(&tokens) };
        // A reply that does not fit its request is refused.
        let _ = runtime.block_on(fetch(&*container, at));
        let _ = runtime.block_on(list(&*container, at));
        let _ = runtime.block_on(remove(&*container, &tokens));
        let _ = runtime.block_on(container.list_metadata(""));
    });
}
