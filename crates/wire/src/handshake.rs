//! The handshake: both sides prove that they know the pool's secret, and agree on a version. An engine serves no
//! request before it.
//!
//! Each side draws a nonce. A proof is HMAC-SHA-256 (RFC 2104) by the secret over the side's name and all messages so
//! far. It is therefore useless in another connection and to the other side. It covers the versions that the client
//! offered and the one that the engine chose: an attacker in between cannot make both use an older version.
use crate::frame::{Frame, Kind, Limits, Receiver, Sender};
use crate::message::{decode, encode};
use crate::tls::Binding;
use bytes::Bytes;
use esker_types::{Error, ErrorKind, Result, Uuid};
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;
use tokio::io::{AsyncRead, AsyncWrite};

/// Newest version of the protocol that this release speaks.
pub const VERSION: u16 = 3;

/// Oldest version of the protocol that this release speaks.
pub const OLDEST_VERSION: u16 = 3;

/// Bytes of a secret, a nonce and a proof.
const LEN: usize = 32;

/// Secret that only the nodes and clients of a pool know.
#[derive(Clone)]
pub struct Secret([u8; LEN]);

impl Secret {
    /// A secret of random bytes.
    #[must_use]
    pub fn new(random: [u8; LEN]) -> Self {
        Self(random)
    }

    /// The bytes of the secret, for the file that stores it.
    #[must_use]
    pub fn bytes(&self) -> &[u8; LEN] {
        &self.0
    }

    /// Derives the secret of one TLS connection. Proofs by it are invalid on every other connection.
    ///
    /// # Errors
    /// `Invalid` if the secret cannot be used as a key.
    pub fn bound_to(&self, channel: &Binding) -> Result<Self> {
        Ok(Self(self.mac(TLS, &[channel])?.finalize().into_bytes().into()))
    }

    /// Starts a MAC of `side` and `input` by the secret. The length of each input is part of it, so that inputs cannot
    /// be shifted.
    fn mac(&self, side: &[u8], input: &[&[u8]]) -> Result<Hmac<Sha256>> {
        let failed =
            |_| Error::new(ErrorKind::Invalid, "the secret of the pool cannot be used as a key");
        let mut mac = Hmac::<Sha256>::new_from_slice(&self.0).map_err(failed)?;
        mac.update(side);
        for part in input {
            mac.update(&(part.len() as u64).to_le_bytes());
            mac.update(part);
        }
        Ok(mac)
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// First message of the handshake, from the client.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    /// Oldest version of the protocol that the client speaks.
    oldest: u16,
    /// Newest version of the protocol that the client speaks.
    newest: u16,
    /// The node's pool that the client wants to use.
    pool: Uuid,
    nonce: [u8; LEN],
    /// Session of the client in the ids of its changes.
    session: u64,
}

/// Second message: the engine proves that it knows the secret, or refuses.
#[derive(Debug, Serialize, Deserialize)]
enum Welcome {
    Prove { version: u16, nonce: [u8; LEN], proof: [u8; LEN] },
    Refused(Refusal),
}

/// Why an engine does not serve a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Refusal {
    /// No version is known to both.
    Version {
        /// The newest that the engine speaks.
        newest: u16,
    },
    /// The engine serves another pool.
    Pool,
    /// The client does not know the secret.
    Secret,
}

impl Refusal {
    /// The error that the client reports for this refusal.
    fn into_error(self) -> Error {
        match self {
            Self::Version { newest } => Error::new(
                ErrorKind::Incompatible,
                format!(
                    "the engine speaks version {newest} of the protocol, the client {VERSION}: use the same release of Esker on all nodes"
                ),
            ),
            // Not `NotFound`: a removal takes that as done.
            Self::Pool => Error::new(
                ErrorKind::BadPath,
                "the engine at this address serves another pool: use the current map of the pool, or start the node's \
                 engine again",
            ),
            Self::Secret => Error::new(
                ErrorKind::NoPermission,
                "the engine and the client do not have the same secret, or a message was changed on its way: use the pool's current map",
            ),
        }
    }
}

/// Third message: the client's proof.
#[derive(Debug, Serialize, Deserialize)]
struct Proof {
    proof: [u8; LEN],
}

/// Last message: the engine accepts the client, or refuses it.
#[derive(Debug, Serialize, Deserialize)]
enum Accepted {
    Yes,
    Refused(Refusal),
}

const CLIENT: &[u8] = b"esker client";
const ENGINE: &[u8] = b"esker engine";
const TLS: &[u8] = b"esker tls";

/// Sends one message of the handshake, and returns its bytes, which the proof covers.
async fn send_message<W: AsyncWrite + Unpin>(
    to: &mut Sender<W>,
    content: &impl Serialize,
) -> Result<Bytes> {
    let message: Bytes = encode(content)?.into();
    let frame = Frame {
        kind: Kind::Handshake,
        call: 0,
        room: 0,
        message: message.clone(),
        bulk: Bytes::new(),
    };
    to.send(&frame).await?;
    to.flush().await?;
    Ok(message)
}

/// Receives one message of the handshake. Any other frame, and the end of the stream, is an error.
async fn receive_message<R: AsyncRead + Unpin>(from: &mut Receiver<R>) -> Result<Bytes> {
    match from.receive(Limits::UNAUTHENTICATED).await? {
        Some(frame) if frame.kind == Kind::Handshake => Ok(frame.message),
        Some(_) => Err(Error::new(ErrorKind::Corrupt, "the peer did not begin with a handshake")),
        None => {
            Err(Error::new(ErrorKind::Io, "the peer closed the connection during the handshake"))
        }
    }
}

/// Input of a proof, in addition to the name of its side.
struct Transcript<'m> {
    /// The client's hello as it was sent.
    hello: &'m [u8],
    /// The version that the engine chose.
    version: u16,
    /// The engine's nonce.
    nonce: [u8; LEN],
}

impl Transcript<'_> {
    /// The MAC of the transcript and the name of a side.
    fn mac(&self, secret: &Secret, side: &[u8]) -> Result<Hmac<Sha256>> {
        secret.mac(side, &[self.hello, &self.version.to_le_bytes(), &self.nonce])
    }

    fn proof(&self, secret: &Secret, side: &[u8]) -> Result<[u8; LEN]> {
        Ok(self.mac(secret, side)?.finalize().into_bytes().into())
    }

    /// Fails unless `proof` is the MAC of the transcript under the secret. The comparison takes constant time, so that
    /// its duration reveals nothing.
    fn verify(&self, secret: &Secret, side: &[u8], proof: &[u8; LEN]) -> Result<()> {
        let verified = self.mac(secret, side)?.verify_slice(proof);
        verified.map_err(|_| Refusal::Secret.into_error())
    }
}

/// Performs the handshake of a client with an engine that serves `pool`. `session` names the client in the ids of its
/// changes. `nonce` must be random.
///
/// # Errors
/// `Incompatible`, `BadPath` or `NoPermission` if the engine refuses; `Incompatible` if it chose a version that was
/// not offered; `NoPermission` if it does not know the secret, or if a message was changed on the way; `Io` and
/// `Corrupt` as for frames.
pub async fn connect<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    from: &mut Receiver<R>,
    to: &mut Sender<W>,
    secret: &Secret,
    pool: Uuid,
    session: u64,
    nonce: [u8; LEN],
) -> Result<()> {
    let hello = Hello { oldest: OLDEST_VERSION, newest: VERSION, pool, nonce, session };
    let hello = send_message(to, &hello).await?;
    let welcome = receive_message(from).await?;
    let (version, theirs, proof) = match decode(&welcome)? {
        Welcome::Refused(why) => return Err(why.into_error()),
        Welcome::Prove { version, nonce, proof } => (version, nonce, proof),
    };
    let transcript = Transcript { hello: &hello, version, nonce: theirs };
    // The proof covers the version, so the version is checked after it.
    transcript.verify(secret, ENGINE, &proof)?;
    if !(OLDEST_VERSION..=VERSION).contains(&version) {
        return Err(Refusal::Version { newest: version }.into_error());
    }
    send_message(to, &Proof { proof: transcript.proof(secret, CLIENT)? }).await?;
    match decode(&receive_message(from).await?)? {
        Accepted::Yes => Ok(()),
        Accepted::Refused(why) => Err(why.into_error()),
    }
}

/// Performs the handshake of an engine with a client of `pool`. `nonce` must be random. Returns the session of the
/// client.
///
/// # Errors
/// The errors of [`connect`]; the client was sent the reason.
pub async fn accept<R: AsyncRead + Unpin, W: AsyncWrite + Unpin>(
    from: &mut Receiver<R>,
    to: &mut Sender<W>,
    secret: &Secret,
    pool: Uuid,
    nonce: [u8; LEN],
) -> Result<u64> {
    let received = receive_message(from).await?;
    let hello: Hello = decode(&received)?;
    let version = match chosen(&hello, pool) {
        Ok(version) => version,
        Err(why) => {
            send_message(to, &Welcome::Refused(why)).await?;
            return Err(why.into_error());
        }
    };
    let transcript = Transcript { hello: &received, version, nonce };
    let proof = transcript.proof(secret, ENGINE)?;
    send_message(to, &Welcome::Prove { version, nonce, proof }).await?;
    let Proof { proof } = decode(&receive_message(from).await?)?;
    if let Err(error) = transcript.verify(secret, CLIENT, &proof) {
        send_message(to, &Accepted::Refused(Refusal::Secret)).await?;
        return Err(error);
    }
    send_message(to, &Accepted::Yes).await?;
    Ok(hello.session)
}

/// The newest version of the protocol that both sides support. Refuses a client that has none in common, or wants
/// another pool.
fn chosen(hello: &Hello, pool: Uuid) -> std::result::Result<u16, Refusal> {
    let version = hello.newest.min(VERSION);
    if version < hello.oldest.max(OLDEST_VERSION) {
        return Err(Refusal::Version { newest: VERSION });
    }
    if hello.pool == pool { Ok(version) } else { Err(Refusal::Pool) }
}
