//! Fuzz tests of the parsers of bytes from unauthenticated peers: frames, and the messages of the handshake.
use bytes::Bytes;
use esker_testing::fuzz;
use esker_types::{Checksum, Uuid};
use esker_wire::frame::{Frame, Kind, Limits, PREFIX_LEN, Receiver, Sender};
use esker_wire::handshake::{self, Secret, VERSION};
use esker_wire::message::encode;
use std::future::Future;

const POOL: Uuid = Uuid([3; 16]);

/// Capacity of the pipe: longer than every input.
const STREAM: usize = 1 << 16;

/// Runs `work` on this thread until it ends.
fn run<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(work)
}

/// The bytes of frames of a kind with these messages.
fn frames(kind: Kind, messages: &[&[u8]]) -> Vec<u8> {
    run(async {
        let mut bytes = Vec::new();
        let mut sender = Sender::new(&mut bytes);
        for message in messages {
            let (message, bulk) = (Bytes::copy_from_slice(message), Bytes::from_static(b"bulk"));
            let bulk = if kind == Kind::Handshake { Bytes::new() } else { bulk };
            let frame = Frame { kind, call: 7, room: 100, message, bulk };
            sender.send(&frame).await.expect("encoding");
        }
        sender.flush().await.expect("encoding");
        drop(sender);
        bytes
    })
}

/// `bytes` with a correct checksum in their first prefix, so that the reader decodes its fields.
fn summed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    if let Some(prefix) = bytes.get_mut(..PREFIX_LEN) {
        let sum = Checksum::Crc32c.sum(&prefix[..PREFIX_LEN - 4]) as u32;
        prefix[PREFIX_LEN - 4..].copy_from_slice(&sum.to_le_bytes());
    }
    bytes
}

/// Receives frames until the end or the first error. Returns the number of bytes that the received ones took.
async fn receive_all(bytes: &[u8], limits: Limits) -> usize {
    let mut receiver = Receiver::new(bytes);
    let mut received = 0;
    while let Ok(Some(frame)) = receiver.receive(limits).await {
        assert!(frame.message.len() <= limits.message && frame.bulk.len() <= limits.bulk);
        received += PREFIX_LEN + frame.message.len() + frame.bulk.len();
    }
    received
}

/// Damaged frames are refused. No accepted frame is longer than the limits or than the bytes that came.
#[test]
fn fuzz_frames() {
    let known = [
        frames(Kind::Request, &[b"message", b""]),
        frames(Kind::Goodbye, &[b""]),
        frames(Kind::Handshake, &[&[1; 80], &[2; 32]]),
    ];
    fuzz("wire-frame", &known, |bytes| {
        for bytes in [bytes.to_vec(), summed(bytes)] {
            for limits in [Limits::AUTHENTICATED, Limits::UNAUTHENTICATED] {
                assert!(run(receive_all(&bytes, limits)) <= bytes.len());
            }
        }
    });
}

/// A peer that sends `message` as its first one, then nothing.
fn said(message: &[u8]) -> tokio::io::DuplexStream {
    let bytes = frames(Kind::Handshake, &[message]);
    let (mut near, far) = tokio::io::duplex(STREAM);
    run(async {
        tokio::io::AsyncWriteExt::write_all(&mut near, &bytes).await.expect("writing");
    });
    drop(near);
    far
}

/// No message admits a peer that does not know the secret, neither as a client nor as an engine.
#[test]
fn fuzz_handshakes() {
    let secret = Secret::new([5; 32]);
    let hello = (VERSION, VERSION, POOL, [1_u8; 32], 99_u64);
    let prove = (0_u8, VERSION, [1_u8; 32], [2_u8; 32]);
    let refused = (1_u8, 0_u8, VERSION);
    let known =
        [encode(&hello), encode(&prove), encode(&refused)].map(|known| known.expect("a message"));
    fuzz("wire-handshake", &known, |message| {
        if message.len() > Limits::UNAUTHENTICATED.message {
            return;
        }
        let (from, to) = tokio::io::split(said(message));
        let (mut from, mut to) = (Receiver::new(from), Sender::new(to));
        let accepted = run(handshake::accept(&mut from, &mut to, &secret, POOL, [2; 32]));
        accepted.expect_err("a client that has sent no proof");
        let (from, to) = tokio::io::split(said(message));
        let (mut from, mut to) = (Receiver::new(from), Sender::new(to));
        let connected = run(handshake::connect(&mut from, &mut to, &secret, POOL, 1, [3; 32]));
        connected.expect_err("an engine that does not know the secret");
    });
}
