//! Frames, the units of a connection: a prefix of 40 bytes with checksums, an encoded message, and raw bulk bytes.
use crate::long_part::{Arrived, LongPart};
use crate::outbox::Outbox;
use crate::spare::Spare;
use bytes::{Bytes, BytesMut};
use esker_types::{Checksum, Error, ErrorKind, Result};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub use crate::destination::Destination;

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
    /// The kind of a frame with this code, or `None` if there is no such kind.
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
    /// Copies the frame out of the memory that it shares with others, so that it may be kept for longer. Long data has
    /// memory of its own already.
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
fn invalid_frame_error(what: impl std::fmt::Display) -> Error {
    let message =
        format!("the peer sent a frame that is not understood: {what}; the connection is closed");
    Error::new(ErrorKind::Corrupt, message)
}

/// The CRC-32C of these bytes.
pub(crate) fn sum(bytes: &[u8]) -> u32 {
    u32::try_from(Checksum::Crc32c.sum(bytes)).unwrap_or(u32::MAX)
}

/// The prefix of a frame.
pub(crate) struct Prefix {
    pub(crate) kind: Kind,
    /// Number of the frame on its connection and in its direction.
    pub(crate) sequence: u32,
    pub(crate) call: u64,
    pub(crate) room: u32,
    pub(crate) message_len: u32,
    pub(crate) bulk_len: u32,
    /// Checksum of the message.
    pub(crate) message_sum: u32,
    /// Checksum of the bulk bytes.
    pub(crate) bulk_sum: u32,
}

impl Prefix {
    /// Encodes the prefix; its last four bytes are its checksum.
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

    /// Decodes a prefix, and checks its checksum and the lengths in it.
    fn decode(bytes: &[u8; PREFIX_LEN]) -> Result<Self> {
        let u32_at = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        if bytes[..2] != *b"EK" {
            return Err(invalid_frame_error("it does not begin with EK"));
        }
        if sum(&bytes[..36]) != u32_at(36) {
            return Err(invalid_frame_error("its prefix has another checksum"));
        }
        let kind = Kind::from_code(bytes[2])
            .ok_or_else(|| invalid_frame_error(format_args!("kind {}", bytes[2])))?;
        let call = u64::from(u32_at(8)) | u64::from(u32_at(12)) << 32;
        if bytes[3] != 0 || kind != Kind::Request && u32_at(16) != 0 {
            return Err(invalid_frame_error("a field that must be zero is not"));
        }
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
            return Err(invalid_frame_error(format_args!(
                "{message} and {bulk} bytes exceed MESSAGE_MAX or BULK_MAX"
            )));
        }
        Ok(prefix)
    }
}

/// Data that travels outside of the encoded message.
#[derive(Clone, Debug, Default)]
pub struct Bulk {
    pub(crate) bytes: Bytes,
    known_sum: Option<u32>,
}

impl Bulk {
    /// Bulk bytes with their CRC-32C, for a caller that knows it already.
    #[must_use]
    pub fn with_sum(bytes: Bytes, sum: u32) -> Self {
        Self { bytes, known_sum: Some(sum) }
    }

    /// The CRC-32C of the bytes.
    pub(crate) fn sum(&self) -> u32 {
        self.known_sum.unwrap_or_else(|| sum(&self.bytes))
    }
}

impl From<Bytes> for Bulk {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, known_sum: None }
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

    /// Writes all frames to the network, and tells the peer that no more will come.
    ///
    /// # Errors
    /// `Io` if the connection is lost.
    pub async fn finish(&mut self) -> Result<()> {
        self.flush().await?;
        self.to.shutdown().await.map_err(|error| lost(&error))
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

/// Parts of frames that are longer are received into memory of their own, or into that of the caller.
pub const SHORT_PART: usize = 32 << 10;

/// Most bytes that are received to find out whether any have arrived.
const FIRST_BYTES: usize = 4 << 10;

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

    /// The call that the frame belongs to.
    #[must_use]
    pub fn call(&self) -> u64 {
        self.0.call
    }

    /// Bytes of its data.
    #[must_use]
    pub fn bulk_len(&self) -> usize {
        self.0.bulk_len as usize
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
    /// Number of the next frame.
    sequence: u32,
    spare: Spare,
    /// Message of the frame whose data arrives.
    message: Option<Bytes>,
    /// The long part that arrives.
    long: Option<LongPart>,
}

impl<R: AsyncRead + Unpin> Receiver<R> {
    /// Receives frames from `from`.
    pub fn new(from: R) -> Self {
        Self::with_spare(from, Spare::default())
    }

    /// Receives frames from `from`. Memory for long parts comes from `spare`, and returns there.
    pub fn with_spare(from: R, spare: Spare) -> Self {
        Self { from, buffer: BytesMut::new(), sequence: 0, spare, message: None, long: None }
    }

    /// Switches to another connection. Returns the present one.
    ///
    /// # Errors
    /// `Corrupt` if the peer has sent more over this one.
    pub fn replace<T: AsyncRead + Unpin>(self, from: T) -> Result<(R, Receiver<T>)> {
        let Self { from: present, buffer, sequence, spare, .. } = self;
        match buffer.is_empty() {
            true => Ok((present, Receiver { sequence, ..Receiver::with_spare(from, spare) })),
            false => Err(invalid_frame_error("it came after the last one of this connection")),
        }
    }

    /// Receives and discards everything until the peer closes the connection or it is lost. A connection that is closed
    /// while bytes of the peer are unread discards what the peer has not received yet.
    pub async fn discard(&mut self) {
        loop {
            self.buffer.clear();
            self.buffer.reserve(RECEIVE_BUFFER / 2);
            if !matches!(self.from.read_buf(&mut self.buffer).await, Ok(1..)) {
                return;
            }
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
        poll_fn(|context| self.poll_announced(context, limits)).await
    }

    /// Receives the rest of a frame after its announcement.
    ///
    /// # Errors
    /// The errors of [`Receiver::receive`].
    pub async fn rest(&mut self, announced: Announced) -> Result<Frame> {
        let mut nowhere = Destination::default();
        let received = poll_fn(|context| self.poll_rest(context, &announced, &mut nowhere)).await;
        received.map(|(frame, _)| frame)
    }

    /// Receives the start of a frame, which announces its parts, and checks it. `None` at the end of the stream.
    pub fn poll_announced(
        &mut self,
        context: &mut Context<'_>,
        limits: Limits,
    ) -> Poll<Result<Option<Announced>>> {
        if !ready!(self.poll_gather(context, PREFIX_LEN))? {
            return Poll::Ready(Ok(None));
        }
        let mut bytes = [0; PREFIX_LEN];
        bytes.copy_from_slice(&self.buffer.split_to(PREFIX_LEN));
        Poll::Ready(self.check(Prefix::decode(&bytes)?, limits).map(Some))
    }

    /// Checks that the frame is the next one, and not longer than `limits` allows.
    fn check(&mut self, prefix: Prefix, limits: Limits) -> Result<Announced> {
        if prefix.sequence != self.sequence {
            let (found, expected) = (prefix.sequence, self.sequence);
            return Err(invalid_frame_error(format_args!("number {found} in place of {expected}")));
        }
        if prefix.message_len as usize > limits.message || prefix.bulk_len as usize > limits.bulk {
            return Err(invalid_frame_error("it is longer than its kind may be"));
        }
        self.sequence = self.sequence.wrapping_add(1);
        Ok(Announced(prefix))
    }

    /// One poll of [`Receiver::rest`]. If `into` has exactly the length of the frame's data, the first bytes are
    /// received there, and their number is returned; the others are in the frame. Each poll needs the same destination
    /// or an empty one. After an empty one, the rest of the data is in the frame.
    ///
    /// # Errors
    /// The errors of [`Receiver::receive`]. The destination's bytes are not defined then.
    pub fn poll_rest(
        &mut self,
        context: &mut Context<'_>,
        Announced(prefix): &Announced,
        into: &mut Destination<'_>,
    ) -> Poll<Result<(Frame, usize)>> {
        if self.message.is_none() {
            let (len, sum) = (prefix.message_len as usize, prefix.message_sum);
            let message = ready!(self.poll_part(context, len, sum, &mut Destination::default()))?;
            self.message = Some(message.bytes);
        }
        let (len, sum) = (prefix.bulk_len as usize, prefix.bulk_sum);
        let Arrived { in_place, bytes: bulk, .. } =
            ready!(self.poll_part(context, len, sum, into))?;
        let message = self.message.take().unwrap_or_default();
        let frame =
            Frame { kind: prefix.kind, call: prefix.call, room: prefix.room, message, bulk };
        Poll::Ready(Ok((frame, in_place)))
    }

    /// True if the prefix of another frame was received already.
    pub fn has_more(&self) -> bool {
        self.buffer.len() >= PREFIX_LEN
    }

    /// Ready once some bytes of the next part have arrived, or at the end of the connection. Receives at most
    /// [`FIRST_BYTES`], so that the rest can go to the caller's memory.
    pub fn poll_arrived(&mut self, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.buffer.is_empty() {
            self.buffer.reserve(FIRST_BYTES);
            let mut first = (&mut self.from).take(FIRST_BYTES as u64);
            let read = pin!(first.read_buf(&mut self.buffer)).poll(context);
            ready!(read).map_err(|error| lost(&error))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Receives until `len` bytes are in the buffer. False if the peer closed the connection before the first byte; an
    /// error if it closed it later.
    fn poll_gather(&mut self, context: &mut Context<'_>, len: usize) -> Poll<Result<bool>> {
        while self.buffer.len() < len {
            if self.buffer.capacity() < len.max(RECEIVE_BUFFER / 2) {
                self.buffer.reserve(RECEIVE_BUFFER - self.buffer.len());
            }
            let read = pin!(self.from.read_buf(&mut self.buffer)).poll(context);
            match ready!(read).map_err(|error| lost(&error))? {
                0 if self.buffer.is_empty() => return Poll::Ready(Ok(false)),
                0 => return Poll::Ready(Err(cut_off_error())),
                _ => {}
            }
        }
        Poll::Ready(Ok(true))
    }

    /// Receives a part of the frame, of `len` bytes, and compares its checksum with `expected`.
    fn poll_part(
        &mut self,
        context: &mut Context<'_>,
        len: usize,
        expected: u32,
        into: &mut Destination<'_>,
    ) -> Poll<Result<Arrived>> {
        let arrived = match len {
            ..=SHORT_PART => ready!(self.poll_short(context, len))?,
            _ => ready!(self.poll_long(context, len, into))?,
        };
        Poll::Ready(match arrived.sum == expected {
            true => Ok(arrived),
            false => Err(invalid_frame_error("it was changed on its way: its checksum differs")),
        })
    }

    /// Receives a short part, by way of the buffer that collects small reads.
    fn poll_short(&mut self, context: &mut Context<'_>, len: usize) -> Poll<Result<Arrived>> {
        if !ready!(self.poll_gather(context, len))? {
            return Poll::Ready(Err(cut_off_error()));
        }
        let bytes = if len == 0 { Bytes::new() } else { self.buffer.split_to(len).freeze() };
        Poll::Ready(Ok(Arrived { in_place: 0, sum: sum(&bytes), bytes }))
    }

    /// Receives a long part: into `into` if that has the same length, otherwise into new memory.
    fn poll_long(
        &mut self,
        context: &mut Context<'_>,
        len: usize,
        into: &mut Destination<'_>,
    ) -> Poll<Result<Arrived>> {
        let Self { from, buffer, spare, long, .. } = self;
        let mut nowhere = Destination::default();
        let into = if into.len() == len { into } else { &mut nowhere };
        let part = long.get_or_insert_default();
        let first = buffer.split_to(buffer.len().min(len - part.len()));
        part.add(&first, len, (into, spare));
        while part.len() < len {
            if ready!(part.poll_more(context, from, len, (into, spare)))? == 0 {
                return Poll::Ready(Err(cut_off_error()));
            }
        }
        Poll::Ready(Ok(long.take().unwrap_or_default().finish(spare)))
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// The prefix of a frame of this kind, with this byte at offset 3. Its checksum is right.
    fn prefix(kind: Kind, room: u32, reserved: u8) -> [u8; PREFIX_LEN] {
        let (sequence, call, message_len, bulk_len, message_sum, bulk_sum) = Default::default();
        let prefix =
            Prefix { kind, sequence, call, room, message_len, bulk_len, message_sum, bulk_sum };
        let mut bytes = prefix.encode();
        bytes[3] = reserved;
        let own = sum(&bytes[..36]);
        bytes[36..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    #[test]
    fn fields_that_must_be_zero_are_checked() {
        assert!(Prefix::decode(&prefix(Kind::Request, 7, 0)).is_ok());
        assert!(Prefix::decode(&prefix(Kind::Request, 7, 1)).is_err());
        for kind in [Kind::Handshake, Kind::Reply, Kind::Goodbye, Kind::Fabric] {
            assert!(Prefix::decode(&prefix(kind, 0, 0)).is_ok());
            assert!(Prefix::decode(&prefix(kind, 7, 0)).is_err(), "{kind:?}");
        }
    }
}
