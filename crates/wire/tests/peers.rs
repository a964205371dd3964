//! Frames are received as they were sent. Frames that break the rules are refused with an error that says why.
use bytes::Bytes;
use esker_testing::Random;
use esker_types::{ErrorKind, Result};
use esker_wire::frame::{BULK_MAX, Frame, Kind, Limits, PREFIX_LEN, Receiver, Sender};
use esker_wire::message::{self, Reply, Request};
use std::future::Future;

/// Runs `work` on this thread until it ends.
fn run<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(work)
}

/// A request of the call with this number.
fn frame(call: u64, message: &[u8], bulk: &[u8]) -> Frame {
    let (message, bulk) = (Bytes::copy_from_slice(message), Bytes::copy_from_slice(bulk));
    Frame { kind: Kind::Request, call, room: 0, message, bulk }
}

/// The bytes that a sender makes of frames.
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

/// Number of frames in `bytes` before the first that is refused, and its error.
fn received(bytes: &[u8]) -> (usize, Result<()>) {
    run(async {
        let mut receiver = Receiver::new(bytes);
        let mut count = 0;
        loop {
            match receiver.receive(Limits::AUTHENTICATED).await {
                Ok(Some(_)) => count += 1,
                Ok(None) => return (count, Ok(())),
                Err(error) => return (count, Err(error)),
            }
        }
    })
}

/// Frames are received with the content that was sent. The first bytes tell the protocol and its version.
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
            let found =
                receiver.receive(Limits::AUTHENTICATED).await.expect("a frame").expect("a frame");
            assert_eq!((found.kind, found.call), (expected.kind, expected.call));
            assert_eq!(
                (found.message, found.bulk),
                (expected.message.clone(), expected.bulk.clone())
            );
        }
        assert!(receiver.receive(Limits::AUTHENTICATED).await.expect("the end").is_none());
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
        let refused = Receiver::new(&bytes[..]).receive(Limits::UNAUTHENTICATED).await;
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
        // Noise may decode to a message by chance, else it is refused. Neither ends the process.
        let _ = message::decode::<Request<'_>>(&noise);
        let _ = message::decode::<Reply>(&noise);
    }
}
