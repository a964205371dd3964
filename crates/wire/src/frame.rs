//! Frames, the units of a connection: a prefix of 40 bytes with checksums, an encoded message, and raw bulk bytes.
use crate::outbox::Outbox;
use crate::spare::Spare;
use bytes::{Bytes, BytesMut};
use esker_types::checksum::Crc32c;
use esker_types::{Checksum, Error, ErrorKind, Result};
use std::future::poll_fn;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};

/// Longest message of a frame in bytes: a batch of the longest keys.
pub const MESSAGE_MAX: usize = 64 << 20;

/// Most bulk bytes of a frame: those of the largest transaction.
pub const BULK_MAX: usize = 256 << 20;

/// Bytes in front of each message.
pub const PREFIX_LEN: usize = 40;

/// Kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A message of the handshake.
    Handshake = 1,
    /// A request.
    Request = 2,
    /// The reply to a request.
    Reply = 3,
    /// The sender closes the connection; the message says why.
    Goodbye = 4,
    /// The address of an endpoint of the fabric.
    Fabric = 5,
}

impl Kind {
    fn from_code(code: u8) -> Option<Self> {
        [Self::Handshake, Self::Request, Self::Reply, Self::Goodbye, Self::Fabric]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// A frame as it arrived.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Kind of the frame.
    pub kind: Kind,
    /// The call it belongs to: chosen by the client, repeated in the reply.
    pub call: u64,
    /// Most bulk bytes that the reply to this request may have.
    pub room: u32,
    /// The encoded message.
    pub message: Bytes,
    /// Data, in the order of the message.
    pub bulk: Bytes,
}

impl Frame {
    /// Copies the frame out of the memory that it shares with others, so that it may be kept for longer.
    #[must_use]
    pub fn detached(self) -> Self {
        let bulk = match self.bulk.len() {
            ..=SHORT_PART => Bytes::copy_from_slice(&self.bulk),
            _ => self.bulk,
        };
        Self { message: Bytes::copy_from_slice(&self.message), bulk, ..self }
    }
}

/// The error of a frame that cannot be accepted.
fn refused(what: impl std::fmt::Display) -> Error {
    let message =
        format!("the peer sent a frame that is not understood: {what}; the connection is closed");
    Error::new(ErrorKind::Corrupt, message)
}

pub(crate) fn sum(bytes: &[u8]) -> u32 {
    u32::try_from(Checksum::Crc32c.sum(bytes)).unwrap_or(u32::MAX)
}

/// The prefix of a frame.
pub(crate) struct Prefix {
    pub(crate) kind: Kind,
    pub(crate) sequence: u32,
    pub(crate) call: u64,
    pub(crate) room: u32,
    pub(crate) message_len: u32,
    pub(crate) bulk_len: u32,
    pub(crate) message_sum: u32,
    pub(crate) bulk_sum: u32,
}

impl Prefix {
    pub(crate) fn encode(&self) -> [u8; PREFIX_LEN] {
        let mut bytes = [0; PREFIX_LEN];
        bytes[..2].copy_from_slice(b"EK");
        bytes[2] = self.kind as u8;
        bytes[4..8].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.call.to_le_bytes());
        let numbers = [self.room, self.message_len, self.bulk_len, self.message_sum, self.bulk_sum];
        for (field, number) in bytes[16..36].chunks_exact_mut(4).zip(numbers) {
            field.copy_from_slice(&number.to_le_bytes());
        }
        let own = sum(&bytes[..36]);
        bytes[36..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; PREFIX_LEN]) -> Result<Self> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if bytes[..2] != *b"EK" {
            return Err(refused("it does not begin with EK"));
        }
        if sum(&bytes[..36]) != u32_at(36) {
            return Err(refused("its prefix has another checksum"));
        }
        let kind =
            Kind::from_code(bytes[2]).ok_or_else(|| refused(format_args!("kind {}", bytes[2])))?;
        let call = u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32;
        let prefix = Self {
            kind,
            sequence: u32_at(4),
            call,
            room: u32_at(16),
            message_len: u32_at(20),
            bulk_len: u32_at(24),
            message_sum: u32_at(28),
            bulk_sum: u32_at(32),
        };
        let longest = prefix.bulk_len.max(prefix.room) as usize;
        if prefix.message_len as usize > MESSAGE_MAX || longest > BULK_MAX {
            let (message, bulk) = (prefix.message_len, longest);
            return Err(refused(format_args!(
                "{message} and {bulk} bytes exceed MESSAGE_MAX or BULK_MAX"
            )));
        }
        Ok(prefix)
    }
}

/// Data that travels outside of the encoded message, with its checksum.
#[derive(Clone, Debug, Default)]
pub struct Bulk {
    pub(crate) bytes: Bytes,
    pub(crate) sum: u32,
}

impl Bulk {
    /// Bulk with its CRC-32C, if the caller knows it.
    #[must_use]
    pub fn with_sum(bytes: Bytes, sum: u32) -> Self {
        Self { bytes, sum }
    }
}

impl From<Bytes> for Bulk {
    fn from(bytes: Bytes) -> Self {
        Self { sum: sum(&bytes), bytes }
    }
}

/// Bytes that are collected before they are sent, so that small frames travel together.
const SEND_AT: usize = 64 << 10;

/// The sending side of a connection. Each frame has the number after that of the frame before.
pub struct Sender<W> {
    to: W,
    outbox: Outbox,
}

impl<W: AsyncWrite + Unpin> Sender<W> {
    /// Sends frames to `to`.
    pub fn new(to: W) -> Self {
        Self { to, outbox: Outbox::default() }
    }

    /// Sends a frame. It may stay in buffers until [`Sender::flush`].
    ///
    /// # Errors
    /// `Overflow` if it is too long; nothing was sent then. `Io` if the connection is lost.
    pub async fn send(&mut self, frame: &Frame) -> Result<()> {
        self.outbox.add(frame)?;
        match self.outbox.len() >= SEND_AT {
            true => self.flush().await,
            false => Ok(()),
        }
    }

    /// Writes all frames to the network.
    ///
    /// # Errors
    /// `Io` if the connection is lost.
    pub async fn flush(&mut self) -> Result<()> {
        poll_fn(|context| self.outbox.poll_send(&mut self.to, context)).await
    }

    /// Switches to another connection. Returns the present one, which must have been flushed.
    pub fn replace<T: AsyncWrite + Unpin>(self, to: T) -> (W, Sender<T>) {
        (self.to, Sender { to, outbox: self.outbox })
    }

    /// The connection, and the frames that wait for it.
    pub fn into_parts(self) -> (W, Outbox) {
        (self.to, self.outbox)
    }
}

/// Bytes that are received at a time, if they are there.
const RECEIVE_BUFFER: usize = 128 << 10;

/// Parts of frames that are longer are received in place.
const SHORT_PART: usize = 32 << 10;

/// Most bytes that are received before they are added to the checksum, so that they still are in the cache.
const PIECE: usize = 256 << 10;

/// Most bytes of memory per byte of an encoded message once it is decoded: lists of empty keys take most.
pub const DECODED_FACTOR: u64 = 24;

/// A frame of which only the beginning was received.
pub struct Announced(Prefix);

impl Announced {
    /// Kind of the frame.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Bytes of memory that the frame takes, and the reply to it may take.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let message = u64::from(self.0.message_len) * DECODED_FACTOR;
        message + u64::from(self.0.bulk_len) + u64::from(self.0.room)
    }
}

/// The receiving side of a connection.
pub struct Receiver<R> {
    from: R,
    /// Bytes that were received, but not returned yet.
    buffer: BytesMut,
    sequence: u32,
    spare: Spare,
}

impl<R: AsyncRead + Unpin> Receiver<R> {
    /// Receives frames from `from`.
    pub fn new(from: R) -> Self {
        Self::with_spare(from, Spare::default())
    }

    /// Receives frames from `from`. Memory for long parts comes from `spare`, and returns there.
    pub fn with_spare(from: R, spare: Spare) -> Self {
        Self { from, buffer: BytesMut::new(), sequence: 0, spare }
    }

    /// Switches to another connection. Returns the present one.
    ///
    /// # Errors
    /// `Corrupt` if the peer has sent more over this one.
    pub fn replace<T: AsyncRead + Unpin>(self, from: T) -> Result<(R, Receiver<T>)> {
        let Self { from: present, buffer, sequence, spare } = self;
        match buffer.is_empty() {
            true => Ok((present, Receiver { from, buffer, sequence, spare })),
            false => Err(refused("it came after the last one of this connection")),
        }
    }

    /// Receives the next frame; `None` if the peer has closed the connection between two frames. The connection can be
    /// used again only if the future was polled until it was ready.
    ///
    /// # Errors
    /// `Corrupt` for a frame that is damaged, too long or out of order; `Io` if the connection is lost.
    pub async fn receive(&mut self, limits: Limits) -> Result<Option<Frame>> {
        match self.announced(limits).await? {
            Some(announced) => self.rest(announced).await.map(Some),
            None => Ok(None),
        }
    }

    /// Receives the beginning of the next frame, with its length. [`Receiver::rest`] must follow.
    ///
    /// # Errors
    /// The errors of [`Receiver::receive`].
    pub async fn announced(&mut self, limits: Limits) -> Result<Option<Announced>> {
        if !self.gather(PREFIX_LEN).await? {
            return Ok(None);
        }
        let mut bytes = [0; PREFIX_LEN];
        bytes.copy_from_slice(&self.buffer.split_to(PREFIX_LEN));
        let prefix = Prefix::decode(&bytes)?;
        if prefix.sequence != self.sequence {
            let (found, expected) = (prefix.sequence, self.sequence);
            return Err(refused(format_args!("number {found} in place of {expected}")));
        }
        if prefix.message_len as usize > limits.message || prefix.bulk_len as usize > limits.bulk {
            return Err(refused("it is longer than its kind may be"));
        }
        self.sequence = self.sequence.wrapping_add(1);
        Ok(Some(Announced(prefix)))
    }

    /// Receives the rest of a frame after its announcement.
    ///
    /// # Errors
    /// The errors of [`Receiver::receive`].
    pub async fn rest(&mut self, Announced(prefix): Announced) -> Result<Frame> {
        let message = self.part(prefix.message_len as usize, prefix.message_sum).await?;
        let bulk = self.part(prefix.bulk_len as usize, prefix.bulk_sum).await?;
        Ok(Frame { kind: prefix.kind, call: prefix.call, room: prefix.room, message, bulk })
    }

    /// True if the beginning of another frame was received already.
    pub fn has_more(&self) -> bool {
        self.buffer.len() >= PREFIX_LEN
    }

    /// Receives until `len` bytes are in the buffer; false if the peer closed the connection before the first.
    async fn gather(&mut self, len: usize) -> Result<bool> {
        while self.buffer.len() < len {
            if self.buffer.capacity() < len.max(RECEIVE_BUFFER / 2) {
                self.buffer.reserve(RECEIVE_BUFFER - self.buffer.len());
            }
            match self.from.read_buf(&mut self.buffer).await.map_err(|error| lost(&error))? {
                0 if self.buffer.is_empty() => return Ok(false),
                0 => return Err(cut_off_error()),
                _ => {}
            }
        }
        Ok(true)
    }

    async fn part(&mut self, len: usize, expected: u32) -> Result<Bytes> {
        let (bytes, found) = match len {
            ..=SHORT_PART => {
                if !self.gather(len).await? {
                    return Err(cut_off_error());
                }
                let bytes =
                    if len == 0 { Bytes::new() } else { self.buffer.split_to(len).freeze() };
                let found = sum(&bytes);
                (bytes, found)
            }
            _ => self.long_part(len).await?,
        };
        match found == expected {
            true => Ok(bytes),
            false => Err(refused("it was changed on its way: its checksum differs")),
        }
    }

    /// Receives a part and its checksum. Memory is allocated as bytes arrive, so that an announced length alone costs
    /// nothing.
    async fn long_part(&mut self, len: usize) -> Result<(Bytes, u32)> {
        let mut bytes = self.spare.empty(len.min(ROOM_AT_ONCE));
        let begun = self.buffer.split_to(self.buffer.len().min(len));
        bytes.extend_from_slice(&begun);
        let mut found = Crc32c::default();
        found.add(&begun);
        while bytes.len() < len {
            bytes.reserve_exact((len - bytes.len()).min(ROOM_AT_ONCE.max(bytes.len())));
            let room = (bytes.capacity() - bytes.len()).min(len - bytes.len()).min(PIECE);
            let (begin, mut piece) = (bytes.len(), (&mut self.from).take(room as u64));
            if piece.read_buf(&mut bytes).await.map_err(|error| lost(&error))? == 0 {
                return Err(cut_off_error());
            }
            found.add(&bytes[begin..]);
        }
        Ok((self.spare.keep(bytes), found.value()))
    }
}

/// Bytes of memory that are allocated for a frame before any byte of it has arrived.
const ROOM_AT_ONCE: usize = 4 << 20;

/// Length limits of frames at this point of a connection, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The message.
    pub message: usize,
    /// The bulk bytes.
    pub bulk: usize,
}

impl Limits {
    /// Between authenticated peers.
    pub const AUTHENTICATED: Self = Self { message: MESSAGE_MAX, bulk: BULK_MAX };
    /// From a peer that has not authenticated.
    pub const UNAUTHENTICATED: Self = Self { message: 1024, bulk: 0 };
}

#[cold]
fn cut_off_error() -> Error {
    lost(&std::io::ErrorKind::UnexpectedEof.into())
}

#[cold]
pub(crate) fn lost(cause: &std::io::Error) -> Error {
    Error::io("talking to a node", cause)
}
