//! The handshake admits clients that know the secret, and no others, whatever they repeat, reflect or change.
use bytes::Bytes;
use esker_testing::Random;
use esker_types::{ErrorKind, Result, Uuid};
use esker_wire::frame::{Frame, Kind, Limits, Receiver, Sender};
use esker_wire::handshake::{self, Refusal, Secret, VERSION};
use esker_wire::message::{decode, encode};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::future::Future;
use tokio::io::{AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf, duplex, split};

const POOL: Uuid = Uuid([3; 16]);
const SESSION: u64 = 99;

/// A hello as it is encoded: the oldest and the newest version, the pool, the nonce, and the session.
type Hello = (u16, u16, Uuid, [u8; 32], u64);
/// A proof as it is encoded.
type Proof = [u8; 32];

/// Runs `work` on this thread until it ends.
fn run<F: Future>(work: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(work)
}

/// A secret whose bytes all have this value.
fn secret(byte: u8) -> Secret {
    Secret::new([byte; 32])
}

/// One end of a connection.
struct End {
    from: Receiver<ReadHalf<DuplexStream>>,
    to: Sender<WriteHalf<DuplexStream>>,
}

impl End {
    fn from_stream(stream: DuplexStream) -> Self {
        let (from, to) = split(stream);
        Self { from: Receiver::new(from), to: Sender::new(to) }
    }

    /// Both ends of a connection that cuts frames.
    fn pair() -> (Self, Self) {
        let (near, far) = duplex(64);
        (Self::from_stream(near), Self::from_stream(far))
    }

    async fn connect(mut self, secret: &Secret, pool: Uuid) -> Result<()> {
        let (from, to) = (&mut self.from, &mut self.to);
        handshake::connect(from, to, secret, pool, SESSION, [1; 32]).await
    }

    async fn accept(mut self, secret: &Secret, nonce: u8) -> Result<u64> {
        handshake::accept(&mut self.from, &mut self.to, secret, POOL, [nonce; 32]).await
    }

    async fn send(&mut self, message: &[u8]) {
        let message = Bytes::copy_from_slice(message);
        let frame = Frame { kind: Kind::Handshake, call: 0, room: 0, message, bulk: Bytes::new() };
        // The peer may have closed its end already.
        let _ = self.to.send(&frame).await;
        let _ = self.to.flush().await;
    }

    async fn receive(&mut self) -> Option<Bytes> {
        let frame = self.from.receive(Limits::UNAUTHENTICATED).await.ok().flatten();
        frame.map(|frame| frame.message)
    }
}

/// Kind of the error, if the result is one.
fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// Results of a handshake between a client and an engine with these secrets. The client asks for `pool`; the engine
/// serves [`POOL`]. The engine's result is the session of the client.
fn meet(client: &Secret, pool: Uuid, engine: &Secret) -> (Result<()>, Result<u64>) {
    let (near, far) = End::pair();
    run(async { tokio::join!(near.connect(client, pool), far.accept(engine, 2)) })
}

/// Results of a handshake through an attacker in between, who sees all four messages and may change them. `change` gets
/// the number of the message, from 0 on, and its bytes.
fn meet_through(change: impl Fn(usize, &mut Vec<u8>)) -> (Result<()>, Result<u64>) {
    let ((client, mut near), (mut far, engine)) = (End::pair(), End::pair());
    let relay = async {
        for number in 0..4 {
            let (from, to) =
                if number % 2 == 0 { (&mut near, &mut far) } else { (&mut far, &mut near) };
            let Some(message) = from.receive().await else { break };
            let mut message = message.to_vec();
            change(number, &mut message);
            to.send(&message).await;
        }
        drop((near, far));
    };
    let secret = secret(5);
    let meeting =
        async { tokio::join!(client.connect(&secret, POOL), engine.accept(&secret, 2), relay) };
    let (connected, accepted, ()) = run(meeting);
    (connected, accepted)
}

#[test]
fn sides_with_the_same_secret_agree() {
    let (connected, accepted) = meet(&secret(5), POOL, &secret(5));
    connected.expect("the client");
    assert_eq!(accepted.expect("the engine"), SESSION);
    let (connected, accepted) = meet_through(|_, _| {});
    connected.expect("the client");
    assert_eq!(accepted.expect("the engine"), SESSION);
}

#[test]
fn client_without_the_secret_is_refused() {
    // The engine sends its proof first: a client with another secret disconnects without a proof of its own.
    let (connected, accepted) = meet(&secret(6), POOL, &secret(5));
    assert_eq!(kind(connected), Some(ErrorKind::NoPermission));
    accepted.expect_err("the engine");
    let (connected, accepted) = meet(&secret(5), Uuid([4; 16]), &secret(5));
    assert_eq!(kind(connected), Some(ErrorKind::BadPath));
    assert_eq!(kind(accepted), Some(ErrorKind::BadPath));
}

/// Each bit of each of the four messages is flipped once. The client then fails; the engine also, except after the last
/// message, which it sends itself.
#[test]
fn flipped_bit_in_the_handshake_is_detected() {
    for number in 0..4 {
        // No message is longer than this.
        for bit in 0..80 * 8 {
            let change = |at: usize, message: &mut Vec<u8>| {
                if at == number && bit / 8 < message.len() {
                    message[bit / 8] ^= 1 << (bit % 8);
                }
            };
            let changed = std::cell::Cell::new(false);
            let (connected, accepted) = meet_through(|at, message| {
                changed.set(changed.get() || at == number && bit / 8 < message.len());
                change(at, message);
            });
            assert_eq!(connected.is_err(), changed.get(), "message {number}, bit {bit}");
            assert_eq!(
                accepted.is_err(),
                changed.get() && number < 3,
                "message {number}, bit {bit}"
            );
        }
    }
}

/// The proof of one side, as docs/wire.md defines it. It covers the hello, the version, and the engine's nonce.
fn proof(side: &[u8], hello: &[u8], version: u16, nonce: [u8; 32]) -> Proof {
    let mut mac = Hmac::<Sha256>::new_from_slice(&[5; 32]).expect("a key");
    mac.update(side);
    for part in [hello, &version.to_le_bytes(), &nonce] {
        mac.update(&(part.len() as u64).to_le_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

/// Result of a client whose engine knows the secret but chooses `version`, although the client offered only
/// [`VERSION`].
fn meet_version(version: u16) -> Result<()> {
    let (near, mut far) = End::pair();
    let secret = secret(5);
    let engine = async {
        let hello = far.receive().await.expect("a hello");
        let proof = proof(b"esker engine", &hello, version, [7; 32]);
        far.send(&encode(&(0_u8, version, [7_u8; 32], proof)).expect("a welcome")).await;
        if far.receive().await.is_some() {
            far.send(&[0]).await;
        }
    };
    run(async { tokio::join!(near.connect(&secret, POOL), engine) }).0
}

#[test]
fn a_version_that_was_not_offered_is_refused() {
    meet_version(VERSION).expect("the version that was offered");
    for version in [0, VERSION + 1, u16::MAX] {
        let refused = meet_version(version).expect_err("a version that was not offered");
        assert_eq!(refused.kind(), ErrorKind::Incompatible);
        assert!(refused.message().contains(&version.to_string()), "{refused}");
    }
}

/// The engine chooses the newest version that both know. Without one, its refusal names its own newest version.
#[test]
fn an_engine_serves_the_newest_common_version() {
    let welcome = |oldest: u16, newest: u16| {
        let (mut near, far) = End::pair();
        let secret = secret(5);
        let client = async {
            let hello: Hello = (oldest, newest, POOL, [1; 32], SESSION);
            near.send(&encode(&hello).expect("a hello")).await;
            let received = near.receive().await.expect("a welcome");
            drop(near);
            received
        };
        let (welcome, accepted) = run(async { tokio::join!(client, far.accept(&secret, 2)) });
        (welcome, kind(accepted))
    };
    let (chosen, _) = welcome(0, VERSION + 5);
    assert_eq!(chosen[..2], encode(&(0_u8, VERSION)).expect("a version"));
    for (oldest, newest) in [(VERSION + 1, VERSION + 5), (0, 0), (VERSION + 1, VERSION - 1)] {
        let (refused, error) = welcome(oldest, newest);
        assert_eq!(error, Some(ErrorKind::Incompatible), "{oldest} to {newest}");
        let (variant, why): (u8, Refusal) = decode(&refused).expect("a refusal");
        assert_eq!((variant, why), (1, Refusal::Version { newest: VERSION }));
    }
}

/// The engine's result for a client that sends `hello`, and then the proof that `prove` makes of the engine's welcome.
fn forge(hello: &[u8], prove: impl FnOnce(&[u8]) -> Proof) -> Result<u64> {
    let (mut near, far) = End::pair();
    let secret = secret(5);
    let client = async {
        near.send(hello).await;
        let welcome = near.receive().await.expect("a welcome");
        near.send(&prove(&welcome)).await;
        let refused: (u8, Refusal) = decode(&near.receive().await?).ok()?;
        Some(refused)
    };
    let (received, accepted) = run(async { tokio::join!(client, far.accept(&secret, 2)) });
    assert_eq!(
        received.is_some_and(|received| received == (1, Refusal::Secret)),
        accepted.is_err()
    );
    accepted
}

/// The hello of a client that speaks only this version.
fn hello() -> Vec<u8> {
    let hello: Hello = (VERSION, VERSION, POOL, [1; 32], SESSION);
    encode(&hello).expect("a hello")
}

/// A client that does not know the secret cannot use the engine's own proof.
#[test]
fn a_client_that_sends_a_proof_back_is_refused() {
    let reflected = forge(&hello(), |welcome| {
        let (_, _, _, proof): (u8, u16, [u8; 32], Proof) = decode(welcome).expect("a welcome");
        proof
    });
    assert_eq!(kind(reflected), Some(ErrorKind::NoPermission));
    // The same client with the right proof is admitted.
    let known = forge(&hello(), |_| proof(b"esker client", &hello(), VERSION, [2; 32]));
    assert_eq!(known.expect("a known client"), SESSION);
}

/// The proof of another connection does not admit a client, because it covers the engine's nonce.
#[test]
fn a_client_that_replays_a_handshake_is_refused() {
    // The proof of another connection, where the engine drew another nonce.
    let replayed = forge(&hello(), |_| proof(b"esker client", &hello(), VERSION, [3; 32]));
    assert_eq!(kind(replayed), Some(ErrorKind::NoPermission));
    // The proof for another version, and for another hello.
    let other = forge(&hello(), |_| proof(b"esker client", &hello(), VERSION + 1, [2; 32]));
    assert_eq!(kind(other), Some(ErrorKind::NoPermission));
    let other = forge(&hello(), |_| proof(b"esker client", b"", VERSION, [2; 32]));
    assert_eq!(kind(other), Some(ErrorKind::NoPermission));
}

#[test]
fn noise_is_refused_in_the_handshake() {
    let mut random = Random::new(esker_testing::seed(), 2);
    for _ in 0..500 {
        let len = random.below(2000) as usize;
        let noise = random.bytes(len);
        let (mut stream, far) = duplex(1 << 16);
        let accepted = run(async {
            stream.write_all(&noise).await.expect("sending");
            drop(stream);
            End::from_stream(far).accept(&secret(5), 2).await
        });
        accepted.expect_err("noise");
    }
}
