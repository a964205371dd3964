//! Streams over the providers that every machine with libfabric has. Skipped without it.
use bytes::Bytes;
use esker_testing::{Random, seed, skip};
use esker_types::{Error, ErrorKind, Result};
use esker_wire::fabric::{
    EndpointOptions, LONG_COUNT, LONG_LEN, Reading, SHORT_COUNT, SHORT_LEN, Writing, accept,
    connect,
};
use esker_wire::frame::{Frame, Kind, Limits, Receiver, Sender};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll, Waker};
use tokio::io::{
    AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split,
};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

/// Both directions of one end of a connection.
type Ends = (Receiver<Reading>, Sender<Writing>);

/// A runtime whose two threads serve both ends at the same time.
fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
}

/// Both directions of a stream of frames, over which the ends of a connection first exchange their offers.
fn split_frames(
    stream: DuplexStream,
) -> (Receiver<ReadHalf<DuplexStream>>, Sender<WriteHalf<DuplexStream>>) {
    let (from, to) = split(stream);
    (Receiver::new(from), Sender::new(to))
}

/// The address of this machine at which both ends are reached.
fn local() -> Option<IpAddr> {
    Some(Ipv4Addr::LOCALHOST.into())
}

/// Both ends of a connection over `provider`.
async fn pair(provider: &str) -> Result<(Ends, Ends)> {
    pair_at(provider, local()).await
}

/// Both ends of a connection; the engine is at this address of the machine.
async fn pair_at(provider: &str, engine_at: Option<IpAddr>) -> Result<(Ends, Ends)> {
    let (client, engine) = duplex(1 << 16);
    let engine = tokio::spawn(async move {
        let (mut from, to) = split_frames(engine);
        let offer = from.receive(Limits::AUTHENTICATED).await?.ok_or(ErrorKind::Io)?;
        accept(&offer, from, to, engine_at).await
    });
    let (from, to) = split_frames(client);
    let place = EndpointOptions { provider: Some(provider.to_owned()), local: local() };
    let client = connect(from, to, place).await?;
    Ok((client, engine.await.expect("no panic")?))
}

/// Runs a test on both ends of a connection.
fn over_tcp<F: Future<Output = ()>>(test: impl Fn(Ends, Ends) -> F) {
    runtime().block_on(async {
        match pair("tcp;ofi_rxm").await {
            Ok((client, engine)) => test(client, engine).await,
            Err(error) => skip_without_library(&error),
        }
    });
}

/// Skips the test if libfabric is not installed. Any other error fails it.
fn skip_without_library(error: &Error) {
    let is_missing = error.message().contains("cannot be loaded");
    assert!(error.kind() == ErrorKind::NotSupported && is_missing, "{error:?}");
    skip(error.message());
}

/// Frames of random lengths and of lengths at which the cutting into pieces changes.
fn frames(stream: u64) -> Vec<Frame> {
    let mut random = Random::new(seed(), stream);
    let edges = [0, 1, 8127, 8128, 8129, 8 << 10, 64 << 10, 262_143, 256 << 10, 3 << 20];
    let drawn: Vec<u64> = (0..200).map(|_| 1 << random.below(20)).collect();
    let frame = |(call, len): (usize, u64)| Frame {
        kind: Kind::Request,
        call: call as u64,
        room: 0,
        message: random.bytes(40).into(),
        bulk: random.bytes(len as usize).into(),
    };
    edges.into_iter().chain(drawn).enumerate().map(frame).collect()
}

/// Sends frames, and flushes them at the end.
async fn send(mut to: Sender<Writing>, frames: Vec<Frame>) {
    for frame in frames {
        to.send(&frame).await.expect("sent");
    }
    to.flush().await.expect("flushed");
}

/// Receives exactly these frames, and then the end of the stream.
async fn expect(mut from: Receiver<Reading>, frames: Vec<Frame>) {
    for frame in frames {
        let found = from.receive(Limits::AUTHENTICATED).await.expect("received").expect("a frame");
        assert_eq!((found.call, &found.message), (frame.call, &frame.message));
        assert!(found.bulk == frame.bulk, "frame {} has other bytes", frame.call);
    }
    assert!(from.receive(Limits::AUTHENTICATED).await.expect("the end").is_none());
}

/// Frames are sent in both directions at the same time. Each end receives all of them, and then the end of the stream.
#[test]
fn both_directions_bring_what_was_sent_and_then_end() {
    over_tcp(|client, engine| async {
        let tasks = [
            tokio::spawn(send(client.1, frames(1))),
            tokio::spawn(expect(engine.0, frames(1))),
            tokio::spawn(send(engine.1, frames(2))),
            tokio::spawn(expect(client.0, frames(2))),
        ];
        for task in tasks {
            task.await.expect("no panic");
        }
    });
}

/// Sends frames back until the connection ends.
async fn send_back((mut from, mut to): Ends) {
    while let Ok(Some(frame)) = from.receive(Limits::AUTHENTICATED).await {
        if to.send(&frame).await.is_err() || to.flush().await.is_err() {
            return;
        }
    }
}

/// Sends a frame that comes back.
async fn ask(from: &mut Receiver<Reading>, to: &mut Sender<Writing>, frame: &Frame) {
    to.send(frame).await.expect("sent");
    to.flush().await.expect("flushed");
    let found = from.receive(Limits::AUTHENTICATED).await.expect("received").expect("a frame");
    assert!(found.bulk == frame.bulk, "frame {} has other bytes", frame.call);
}

/// An engine that listens on all addresses sees the address of an IPv4 connection in the form of IPv6.
#[test]
fn an_engine_on_all_addresses_serves_ipv4_clients() {
    let mapped = Ipv4Addr::LOCALHOST.to_ipv6_mapped();
    runtime().block_on(async {
        match pair_at("tcp;ofi_rxm", Some(mapped.into())).await {
            Ok((mut client, engine)) => {
                let served = tokio::spawn(send_back(engine));
                ask(&mut client.0, &mut client.1, &frames(8)[0]).await;
                drop(client);
                served.await.expect("no panic");
            }
            Err(error) => skip_without_library(&error),
        }
    });
}

#[test]
fn requests_and_replies_alternate() {
    over_tcp(|mut client, engine| async move {
        let served = tokio::spawn(send_back(engine));
        for frame in frames(3).into_iter().cycle().take(1000) {
            ask(&mut client.0, &mut client.1, &frame).await;
        }
        drop(client);
        served.await.expect("no panic");
    });
}

/// A receiver that does not read holds its sender up after one window of bytes. Once it reads, it gets all of them.
#[test]
fn a_sender_is_held_up_by_the_window_of_its_receiver_and_nothing_is_lost() {
    const WINDOW: usize =
        SHORT_COUNT as usize * SHORT_LEN as usize + LONG_COUNT as usize * LONG_LEN as usize;
    over_tcp(|client, engine| async {
        let (mut to, _) = client.1.into_parts();
        let data = Random::new(seed(), 4).bytes(4 * WINDOW);
        let mut sent = 0;
        for _ in 0..10_000 {
            let mut context = Context::from_waker(Waker::noop());
            if let Poll::Ready(count) = Pin::new(&mut to).poll_write(&mut context, &data[sent..]) {
                sent += count.expect("sent");
            }
            tokio::task::yield_now().await;
        }
        assert!((1..=WINDOW).contains(&sent), "{sent} bytes were sent without a reader");
        let rest = data[sent..].to_vec();
        let writer = tokio::spawn(async move { to.write_all(&rest).await });
        let (mut from, _) = engine.0.replace(tokio::io::empty()).expect("nothing was read");
        let mut found = vec![0; data.len()];
        from.read_exact(&mut found).await.expect("all of it");
        assert!(found == data);
        writer.await.expect("no panic").expect("sent");
        drop((client.0, engine.1));
    });
}

#[test]
fn lost_connection_ends_reads_and_fails_writes() {
    over_tcp(|client, engine| async {
        drop(engine);
        let (mut from, mut to) = client;
        assert!(from.receive(Limits::AUTHENTICATED).await.expect("the end").is_none());
        // The peer may have closed only its stream; once it is gone, nothing can be sent.
        loop {
            let sent = to.send(&frames(5)[3]).await;
            if sent.is_err() || to.flush().await.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    });
}

/// Environment variable: address at which a test waits for a process that serves it.
const PARENT: &str = "ESKER_TEST_FABRIC_PARENT";

/// Not a test of its own: the child process of the tests below.
#[test]
fn a_child_sends_back_what_it_receives() {
    let Ok(parent) = std::env::var(PARENT) else { return };
    runtime().block_on(async {
        let (from, to) = TcpStream::connect(parent).await.expect("the parent").into_split();
        let mut from = Receiver::new(from);
        let Ok(Some(offer)) = from.receive(Limits::AUTHENTICATED).await else { return };
        let Ok((from, to)) = accept(&offer, from, Sender::new(to), local()).await else { return };
        send_back((from, to)).await;
    });
}

/// A process that is killed in the end.
struct Other(Child);

impl Drop for Other {
    fn drop(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("ended");
        // The provider of shared memory leaves this file of a process that was killed.
        let _ = std::fs::remove_file(format!("/dev/shm/{}:0:0", self.0.id()));
    }
}

/// Starts a child process that sends frames back, and connects to it by `provider`. Returns this end and the child.
async fn apart(provider: &str) -> Result<(Ends, Other)> {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let this = std::env::current_exe().expect("this program");
    let spawned = Command::new(this)
        .args(["--exact", "a_child_sends_back_what_it_receives"])
        .env(PARENT, listener.local_addr().expect("its address").to_string())
        .stdout(Stdio::null())
        .spawn();
    let child = Other(spawned.expect("a child"));
    let (from, to) = listener.accept().await.expect("the child").0.into_split();
    let place = EndpointOptions { provider: Some(provider.to_owned()), local: local() };
    let ends = connect(Receiver::new(from), Sender::new(to), place).await;
    Ok((ends?, child))
}

#[test]
fn two_processes_talk_until_one_is_killed() {
    for provider in ["tcp;ofi_rxm", "shm"] {
        runtime().block_on(async {
            match apart(provider).await {
                Ok((ends, child)) => talk_until_killed(ends, child).await,
                Err(error) => skip_without_library(&error),
            }
        });
    }
}

/// Exchanges frames with the child, and kills it. The stream must then end, also without a goodbye.
async fn talk_until_killed((mut from, mut to): Ends, child: Other) {
    for frame in frames(6) {
        ask(&mut from, &mut to, &frame).await;
    }
    drop(child);
    // The end of its process ends the stream.
    assert!(!matches!(from.receive(Limits::AUTHENTICATED).await, Ok(Some(_))));
}

/// Shared memory connects only different processes. The error says so.
#[test]
fn shared_memory_is_refused_within_a_process() {
    runtime().block_on(async {
        let error = pair("shm").await.err().expect("an error");
        let message = error.message();
        match message.contains("cannot be loaded") {
            true => skip(message),
            false => assert!(message.contains("different processes"), "{message}"),
        }
    });
}

/// The engine refuses an offer that cannot be decoded, and sends the reason to the client.
#[test]
fn an_offer_that_makes_no_sense_is_refused_with_a_reason() {
    runtime().block_on(async {
        for message in [&b""[..], b"noise", &[0xff; 200]] {
            let (client, engine) = duplex(1 << 16);
            let ((mut from, mut to), (mut heard, said)) =
                (split_frames(client), split_frames(engine));
            let message = message.to_vec().into();
            let offer = Frame { kind: Kind::Fabric, call: 0, room: 0, message, bulk: Bytes::new() };
            to.send(&offer).await.expect("sent");
            to.flush().await.expect("flushed");
            let offer =
                heard.receive(Limits::AUTHENTICATED).await.expect("received").expect("a frame");
            assert!(accept(&offer, heard, said, local()).await.is_err());
            let answer =
                from.receive(Limits::AUTHENTICATED).await.expect("received").expect("an answer");
            assert!(String::from_utf8_lossy(&answer.message).contains("cannot use the fabric"));
        }
    });
}
