//! What peers that break the rules get: nothing, and an error that says why.
use bytes::Bytes;
use esker_testing::Random;
use esker_types::{ErrorKind, Result, Uuid};
use esker_wire::frame::{BULK_MAX, Frame, Kind, Limits, PREFIX_LEN, Receiver, Sender};
use esker_wire::handshake::{self, Secret};
use esker_wire::message::{self, Reply, Request};
use std::future::Future;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

const POOL: Uuid = Uuid([3; 16]);

fn run<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(work)
}

fn frame(call: u64, message: &[u8], bulk: &[u8]) -> Frame {
    let (message, bulk) = (Bytes::copy_from_slice(message), Bytes::copy_from_slice(bulk));
    Frame { kind: Kind::Request, call, room: 0, message, bulk }
}

/// The bytes of frames.
fn sent(frames: &[Frame]) -> Vec<u8> {
    run(async {
        let mut bytes = Vec::new();
        let mut sender = Sender::new(&mut bytes);
        for frame in frames {
            sender.send(frame).await.expect("sending");
        }
        sender.flush().await.expect("sending");
        drop(sender);
        bytes
    })
}

/// The frames in bytes, up to the first that is refused.
fn received(bytes: &[u8]) -> (usize, Result<()>) {
    run(async {
        let mut receiver = Receiver::new(bytes);
        let mut count = 0;
        loop {
            match receiver.receive(Limits::KNOWN).await {
                Ok(Some(_)) => count += 1,
                Ok(None) => return (count, Ok(())),
                Err(error) => return (count, Err(error)),
            }
        }
    })
}

#[test]
fn frames_come_back() {
    let frames =
        [frame(1, b"", b""), frame(u64::MAX, b"message", &[7; 100_000]), frame(0, b"m", b"")];
    let bytes = sent(&frames);
    assert_eq!(&bytes[..3], b"EK\x02");
    assert_eq!(bytes.len(), 3 * PREFIX_LEN + 8 + 100_000);
    run(async {
        let mut receiver = Receiver::new(&bytes[..]);
        for expected in &frames {
            let found = receiver.receive(Limits::KNOWN).await.expect("a frame").expect("a frame");
            assert_eq!((found.kind, found.call), (expected.kind, expected.call));
            assert_eq!(
                (found.message, found.bulk),
                (expected.message.clone(), expected.bulk.clone())
            );
        }
        assert!(receiver.receive(Limits::KNOWN).await.expect("the end").is_none());
    });
}

#[test]
fn a_frame_that_was_changed_cut_or_repeated_is_refused() {
    let (first, second) =
        (sent(&[frame(1, b"first", b"bulk")]), sent(&[frame(1, b"", b""), frame(2, b"m", b"b")]));
    for bit in 0..first.len() * 8 {
        let mut bytes = first.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let (count, end) = received(&bytes);
        assert!(count == 0 && end.is_err(), "bit {bit} was changed");
    }
    for len in 1..first.len() {
        let (count, end) = received(&first[..len]);
        assert_eq!(
            (count, end.map_err(|error| error.kind())),
            (0, Err(ErrorKind::Io)),
            "{len} bytes"
        );
    }
    let repeated = [&first[..], &first].concat();
    assert_eq!(received(&repeated).1.map_err(|error| error.kind()), Err(ErrorKind::Corrupt));
    let without_first = &second[PREFIX_LEN..];
    let (count, end) = received(without_first);
    assert_eq!((count, end.map_err(|error| error.kind())), (0, Err(ErrorKind::Corrupt)));
}

#[test]
fn a_frame_that_is_too_long_is_refused_on_both_sides() {
    let too_long = Frame { bulk: vec![0; BULK_MAX + 1].into(), ..frame(1, b"", b"") };
    let refused = run(async { Sender::new(tokio::io::sink()).send(&too_long).await });
    assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::Overflow));
    let bytes = sent(&[frame(1, &[0; 2000], b"")]);
    run(async {
        let refused = Receiver::new(&bytes[..]).receive(Limits::STRANGER).await;
        assert_eq!(refused.map_err(|error| error.kind()).map(drop), Err(ErrorKind::Corrupt));
    });
}

#[test]
fn noise_is_refused() {
    let mut random = Random::new(esker_testing::seed(), 1);
    for _ in 0..2000 {
        let len = random.below(300) as usize;
        let noise = random.bytes(len);
        let (count, end) = received(&noise);
        assert!(count == 0 && (end.is_err() || noise.is_empty()));
        // What decodes by chance is a message; what does not is refused. Neither ends the process.
        let _ = message::decode::<Request<'_>>(&noise);
        let _ = message::decode::<Reply>(&noise);
    }
}

/// How a client and an engine with these secrets and pools get on.
fn meet(client: (&Secret, Uuid), engine: (&Secret, Uuid)) -> (Result<()>, Result<u64>) {
    let (near, far) = duplex(64);
    run(async {
        // Each side closes its end when it is done.
        let connect = async {
            let (mut from, mut to) = halves(near);
            handshake::connect(&mut from, &mut to, client.0, client.1, 99, [1; 32]).await
        };
        let accept = async {
            let (mut from, mut to) = halves(far);
            handshake::accept(&mut from, &mut to, engine.0, engine.1, [2; 32]).await
        };
        tokio::join!(connect, accept)
    })
}

type Halves =
    (Receiver<tokio::io::ReadHalf<DuplexStream>>, Sender<tokio::io::WriteHalf<DuplexStream>>);

fn halves(stream: DuplexStream) -> Halves {
    let (from, to) = tokio::io::split(stream);
    (Receiver::new(from), Sender::new(to))
}

#[test]
fn those_that_know_the_secret_meet() {
    let secret = Secret::new([5; 32]);
    let (connected, accepted) = meet((&secret, POOL), (&secret, POOL));
    connected.expect("the client");
    assert_eq!(accepted.expect("the engine"), 99);
}

#[test]
fn a_stranger_gets_nothing() {
    let (secret, other) = (Secret::new([5; 32]), Secret::new([6; 32]));
    // The engine proves itself first: a client with another secret goes away without a proof of its own.
    let (connected, accepted) = meet((&other, POOL), (&secret, POOL));
    assert_eq!(connected.map_err(|error| error.kind()), Err(ErrorKind::NoPermission));
    accepted.expect_err("the engine");
    let (connected, accepted) = meet((&secret, Uuid([4; 16])), (&secret, POOL));
    assert_eq!(connected.map_err(|error| error.kind()), Err(ErrorKind::NotFound));
    assert_eq!(accepted.map_err(|error| error.kind()).map(drop), Err(ErrorKind::NotFound));
}

#[test]
fn a_client_that_replays_a_handshake_is_refused() {
    let secret = Secret::new([5; 32]);
    // What a client said in one connection, word for word, in another one, where the engine draws another nonce.
    let (near, far) = duplex(1 << 16);
    let (tapped, wire) = (halves(near), far);
    let mut said = Vec::new();
    run(async {
        let (mut from, mut to) = tapped;
        let (engine_side, tap) = duplex(1 << 16);
        let (mut engine_from, mut engine_to) = halves(engine_side);
        let connect = handshake::connect(&mut from, &mut to, &secret, POOL, 1, [1; 32]);
        let accept = handshake::accept(&mut engine_from, &mut engine_to, &secret, POOL, [2; 32]);
        let (mut up_from, mut down_to) = tokio::io::split(wire);
        let (mut down_from, mut up_to) = tokio::io::split(tap);
        let up = async {
            let mut bytes = [0; 4096];
            while let Ok(count) = up_from.read(&mut bytes).await {
                said.extend_from_slice(&bytes[..count]);
                up_to.write_all(&bytes[..count]).await.expect("to the engine");
            }
        };
        let down = tokio::io::copy(&mut down_from, &mut down_to);
        let met = async { tokio::join!(connect, accept) };
        let (connected, accepted) = tokio::select! {
            met = met => met,
            _ = async { tokio::join!(up, down) } => panic!("the relay ended"),
        };
        connected.expect("the client");
        accepted.expect("the engine");
    });
    let refused = run(async {
        let (mut replay, engine_side) = duplex(1 << 16);
        let (mut from, mut to) = halves(engine_side);
        replay.write_all(&said).await.expect("replaying");
        handshake::accept(&mut from, &mut to, &secret, POOL, [3; 32]).await
    });
    assert_eq!(refused.map_err(|error| error.kind()).map(drop), Err(ErrorKind::NoPermission));
}
