//! Setup of the fabric: over the authenticated connection, each side tells the other the address of its endpoint and
//! the identity of its pieces.
use crate::fabric::driver;
use crate::fabric::flow::Flow;
use crate::fabric::libfabric::{Endpoint, Settings};
use crate::fabric::stream::{Reading, Shared, Writing};
use crate::fabric::window::{Size, Window};
use crate::frame::{Frame, Kind, Limits, Receiver, Sender};
use crate::message::{decode, encode};
use esker_types::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncWrite};

/// Random bits of a tag. Providers leave at least 48 to programs.
const TAG_BITS: u32 = 40;

/// Longest description of an endpoint, in bytes.
const OFFER_MAX: usize = 4096;

/// Frames that travel over the fabric, in both directions.
pub type Frames = (Receiver<Reading>, Sender<Writing>);

/// Tag and key of the pieces for one side. No third party can guess them.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// Common part of the tags of all pieces.
    pub(crate) tag: u64,
    /// Key in the header of each piece.
    pub(crate) key: u64,
}

impl Identity {
    fn random() -> Result<Self> {
        let number = || esker_os::random_bytes().map(u64::from_le_bytes);
        Ok(Self { tag: number()? >> (u64::BITS - TAG_BITS), key: number()? })
    }

    /// The libfabric tag of messages for pieces of this size. The lowest bit is the size, so that slots receive only
    /// messages that fit.
    pub(crate) fn tag(&self, size: Size) -> u64 {
        self.tag << 1 | size as u64
    }
}

/// Address and properties of an endpoint.
#[derive(Debug, Serialize, Deserialize)]
struct Offer {
    provider: String,
    address: Vec<u8>,
    identity: Identity,
    window: Window,
    /// True if the peer must ring for each piece, because the provider has no descriptor to wait for.
    rings: bool,
}

/// The engine's answer to the offer of a client: its own offer, or the reason of its refusal.
#[derive(Debug, Serialize, Deserialize)]
enum Welcome {
    Accepted(Offer),
    Refused(String),
}

/// Provider and network interface of an endpoint.
#[derive(Clone, Debug, Default)]
pub struct EndpointOptions {
    /// The provider, or `None` for the first that libfabric offers (FI_PROVIDER selects it).
    pub provider: Option<String>,
    /// Address of the network interface, for providers that use internet addresses.
    pub local: Option<IpAddr>,
}

/// An endpoint that waits for its peer.
struct Ready {
    flow: Flow,
    offer: Offer,
}

/// Opens an endpoint, on a thread that may block.
async fn prepare(options: EndpointOptions) -> Result<Ready> {
    let prepared = tokio::task::spawn_blocking(move || Ready::new(options)).await;
    prepared.unwrap_or_else(|error| Err(Error::new(ErrorKind::Canceled, error.to_string())))
}

impl Ready {
    /// Opens an endpoint of the fabric, at the address `local` if one is given.
    fn new(EndpointOptions { provider, local }: EndpointOptions) -> Result<Self> {
        // A socket of both families has `::ffff:10.0.0.1` for 10.0.0.1, and both ends must have the same family.
        let local = local.map(|local| local.to_canonical());
        let endpoint = Endpoint::open(&Settings { provider, local, slots: Window::slot_lens() })?;
        let identity = Identity::random()?;
        let offer = Offer {
            provider: endpoint.provider(),
            address: endpoint.address()?,
            identity,
            window: Window::OWN,
            rings: !endpoint.has_descriptor(),
        };
        let flow = Flow::new(endpoint, identity)?;
        Ok(Self { flow, offer })
    }
}

/// Moves a connection to an authenticated engine to the fabric.
///
/// # Errors
/// `NotSupported` if this node or the engine's cannot use it: the message says what to install or set; `Io` and
/// `Corrupt` as for frames.
pub async fn connect(
    mut from: Receiver<impl AsyncRead + Unpin + Send + 'static>,
    mut to: Sender<impl AsyncWrite + Unpin + Send + 'static>,
    options: EndpointOptions,
) -> Result<Frames> {
    let Ready { flow, offer } = prepare(options).await?;
    send_message(&mut to, &offer).await?;
    let limits = Limits { message: OFFER_MAX, bulk: 0 };
    let answer = match from.receive(limits).await? {
        Some(frame) if frame.kind == Kind::Fabric => frame,
        Some(frame) => return Err(unexpected_frame_error(frame.kind)),
        None => return Err(no_fabric_error()),
    };
    match decode(&answer.message)? {
        Welcome::Refused(why) => Err(Error::new(ErrorKind::NotSupported, why)),
        Welcome::Accepted(peer) => switch(meet(flow, &peer)?, from, to),
    }
}

/// Answers the client that has sent `frame`, and moves the connection to the fabric.
///
/// # Errors
/// The errors of [`connect`].
pub async fn accept(
    frame: &Frame,
    from: Receiver<impl AsyncRead + Unpin + Send + 'static>,
    mut to: Sender<impl AsyncWrite + Unpin + Send + 'static>,
    local: Option<IpAddr>,
) -> Result<Frames> {
    match welcome(&frame.message, local).await {
        Ok((shared, offer)) => {
            send_message(&mut to, &Welcome::Accepted(offer)).await?;
            switch(shared, from, to)
        }
        Err(error) => {
            let why = format!("the engine cannot use the fabric: {}", error.message());
            send_message(&mut to, &Welcome::Refused(why)).await?;
            Err(error)
        }
    }
}

/// Answers a client that wants to use the fabric: opens an endpoint with the client's provider, and connects it.
async fn welcome(message: &[u8], local: Option<IpAddr>) -> Result<(Arc<Shared>, Offer)> {
    let peer: Offer = decode(message)?;
    let provider = Some(peer.provider.clone());
    let Ready { flow, offer } = prepare(EndpointOptions { provider, local }).await?;
    Ok((meet(flow, &peer)?, offer))
}

/// Connects the stream to the endpoint of a peer, which has made the offer `peer`.
fn meet(mut flow: Flow, peer: &Offer) -> Result<Arc<Shared>> {
    flow.set_peer(&peer.address, peer.identity, peer.window.validate()?)?;
    Ok(Shared::new(flow, peer.rings))
}

/// Returns frames over the fabric. The TCP connection then serves only for rings and to notice the peer's end.
fn switch(
    shared: Arc<Shared>,
    from: Receiver<impl AsyncRead + Unpin + Send + 'static>,
    to: Sender<impl AsyncWrite + Unpin + Send + 'static>,
) -> Result<Frames> {
    let (watched, from) = from.replace(Reading(Arc::clone(&shared)))?;
    let (told, to) = to.replace(Writing(Arc::clone(&shared)));
    driver::start(shared, watched, told)?;
    Ok((from, to))
}

/// Sends one message of the set-up, and waits until it has left.
async fn send_message<W: AsyncWrite + Unpin>(
    to: &mut Sender<W>,
    said: &impl Serialize,
) -> Result<()> {
    let (message, bulk) = (encode(said)?.into(), Default::default());
    to.send(&Frame { kind: Kind::Fabric, call: 0, room: 0, message, bulk }).await?;
    to.flush().await
}

#[cold]
fn no_fabric_error() -> Error {
    let message = "the engine closed the connection when it was asked for the fabric: use the same release of Esker \
                   on all nodes";
    Error::new(ErrorKind::Io, message)
}

#[cold]
fn unexpected_frame_error(kind: Kind) -> Error {
    let message =
        format!("the engine sent a frame of kind {kind:?} when it was asked for the fabric");
    Error::new(ErrorKind::Corrupt, message)
}
