//! Frames: what travels in one piece. A prefix of 40 bytes with checksums, a message, and bulk bytes that nobody encodes.
use bytes::Bytes;
use esker_types::{Checksum, Error, ErrorKind, Result};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};

/// Longest message of a frame in bytes: a batch of the longest keys.
pub const MESSAGE_MAX: usize = 64 << 20;

/// Most bulk bytes of a frame: those of the largest transaction.
pub const BULK_MAX: usize = 256 << 20;

/// Bytes in front of each message.
pub const PREFIX_LEN: usize = 40;

/// What a frame is.
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
}

impl Kind {
    fn of(code: u8) -> Option<Self> {
        [Self::Handshake, Self::Request, Self::Reply, Self::Goodbye]
            .into_iter()
            .find(|kind| *kind as u8 == code)
    }
}

/// A frame as it arrived.
#[derive(Clone, Debug)]
pub struct Frame {
    /// What it is.
    pub kind: Kind,
    /// The call it belongs to: chosen by the client, repeated in the reply.
    pub call: u64,
    /// Of a request: most bytes of bulk that its reply may have.
    pub room: u32,
    /// The encoded message.
    pub message: Bytes,
    /// Data, in the order in which the message speaks of it.
    pub bulk: Bytes,
}

/// A frame that cannot be accepted.
fn refused(what: impl std::fmt::Display) -> Error {
    let message =
        format!("the peer sent a frame that is not understood: {what}; the connection is closed");
    Error::new(ErrorKind::Corrupt, message)
}

fn sum(bytes: &[u8]) -> u32 {
    u32::try_from(Checksum::Crc32c.sum(bytes)).unwrap_or(u32::MAX)
}

/// The prefix of a frame.
struct Prefix {
    kind: Kind,
    sequence: u32,
    call: u64,
    room: u32,
    message_len: u32,
    bulk_len: u32,
    message_sum: u32,
    bulk_sum: u32,
}

impl Prefix {
    fn encode(&self) -> [u8; PREFIX_LEN] {
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
        let kind = Kind::of(bytes[2]).ok_or_else(|| refused(format_args!("kind {}", bytes[2])))?;
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

/// Bytes that are collected before they are sent, so that small frames travel together.
const SEND_BUFFER: usize = 64 << 10;

/// The sending half of a connection. Each frame has the number after that of the frame before.
pub struct Sender<W> {
    to: BufWriter<W>,
    sequence: u32,
}

impl<W: AsyncWrite + Unpin> Sender<W> {
    /// Sends frames to `to`.
    pub fn new(to: W) -> Self {
        Self { to: BufWriter::with_capacity(SEND_BUFFER, to), sequence: 0 }
    }

    /// Sends a frame. It may stay in buffers until [`Sender::flush`].
    ///
    /// # Errors
    /// `Overflow` if it is too long, in which case nothing was sent; `Io` if the connection is lost.
    pub async fn send(&mut self, frame: &Frame) -> Result<()> {
        let prefix = Prefix {
            kind: frame.kind,
            sequence: self.sequence,
            call: frame.call,
            room: frame.room,
            message_len: checked_len(&frame.message, MESSAGE_MAX)?,
            bulk_len: checked_len(&frame.bulk, BULK_MAX)?,
            message_sum: sum(&frame.message),
            bulk_sum: sum(&frame.bulk),
        };
        self.sequence = self.sequence.wrapping_add(1);
        for part in [&prefix.encode()[..], &frame.message, &frame.bulk] {
            self.to.write_all(part).await.map_err(|error| lost(&error))?;
        }
        Ok(())
    }

    /// Hands everything to the network.
    ///
    /// # Errors
    /// `Io` if the connection is lost.
    pub async fn flush(&mut self) -> Result<()> {
        self.to.flush().await.map_err(|error| lost(&error))
    }
}

fn checked_len(bytes: &[u8], most: usize) -> Result<u32> {
    let len = u32::try_from(bytes.len()).ok().filter(|len| *len as usize <= most);
    len.ok_or_else(|| {
        let message = format!(
            "a request or reply of {} bytes exceeds the {most} that a frame holds",
            bytes.len()
        );
        Error::new(ErrorKind::Overflow, message)
    })
}

/// Bytes that are received at a time, if they are there. Longer parts of frames are received in place.
const RECEIVE_BUFFER: usize = 64 << 10;

/// Most bytes of memory that a byte of a message takes once it is decoded: lists of empty keys take most.
pub const DECODED_FACTOR: u64 = 24;

/// A frame of which only the beginning was received.
pub struct Announced(Prefix);

impl Announced {
    /// Bytes of memory that the frame takes, and the reply to it may take.
    #[must_use]
    pub fn memory(&self) -> u64 {
        let message = u64::from(self.0.message_len) * DECODED_FACTOR;
        message + u64::from(self.0.bulk_len) + u64::from(self.0.room)
    }
}

/// The receiving half of a connection.
pub struct Receiver<R> {
    from: BufReader<R>,
    sequence: u32,
}

impl<R: AsyncRead + Unpin> Receiver<R> {
    /// Receives frames from `from`.
    pub fn new(from: R) -> Self {
        Self { from: BufReader::with_capacity(RECEIVE_BUFFER, from), sequence: 0 }
    }

    /// The next frame; `None` if the peer has closed the connection between two frames. The future must not be dropped
    /// before it is ready if the connection is to be used again.
    ///
    /// # Errors
    /// `Corrupt` for a frame that is damaged, too long or out of order; `Io` if the connection is lost.
    pub async fn receive(&mut self, limits: Limits) -> Result<Option<Frame>> {
        match self.announced(limits).await? {
            Some(announced) => self.rest(announced).await.map(Some),
            None => Ok(None),
        }
    }

    /// The beginning of the next frame, which says how long it is. [`Receiver::rest`] must follow.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub async fn announced(&mut self, limits: Limits) -> Result<Option<Announced>> {
        let Some(prefix) = self.prefix().await? else { return Ok(None) };
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

    /// The frame that was announced.
    ///
    /// # Errors
    /// As [`Receiver::receive`].
    pub async fn rest(&mut self, Announced(prefix): Announced) -> Result<Frame> {
        let message = self.part(prefix.message_len, prefix.message_sum).await?;
        let bulk = self.part(prefix.bulk_len, prefix.bulk_sum).await?;
        Ok(Frame { kind: prefix.kind, call: prefix.call, room: prefix.room, message, bulk })
    }

    async fn prefix(&mut self) -> Result<Option<Prefix>> {
        let mut bytes = [0; PREFIX_LEN];
        let mut filled = 0;
        while filled < PREFIX_LEN {
            match self.from.read(&mut bytes[filled..]).await.map_err(|error| lost(&error))? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(lost(&std::io::ErrorKind::UnexpectedEof.into())),
                count => filled += count,
            }
        }
        Prefix::decode(&bytes).map(Some)
    }

    /// Memory is taken as bytes arrive, so that a length alone costs nothing.
    async fn part(&mut self, len: u32, expected: u32) -> Result<Bytes> {
        let len = len as usize;
        let mut bytes = Vec::with_capacity(len.min(ROOM_AT_ONCE));
        while bytes.len() < len {
            bytes.reserve_exact((len - bytes.len()).min(ROOM_AT_ONCE.max(bytes.len())));
            let room = (bytes.capacity() - bytes.len()).min(len - bytes.len());
            let mut limited = (&mut self.from).take(room as u64);
            if limited.read_buf(&mut bytes).await.map_err(|error| lost(&error))? == 0 {
                return Err(lost(&std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
        match sum(&bytes) == expected {
            true => Ok(bytes.into()),
            false => Err(refused("it was changed on its way: its checksum differs")),
        }
    }
}

/// Bytes of a frame for which memory is taken before any has arrived.
const ROOM_AT_ONCE: usize = 4 << 20;

/// How long frames may be at this point of a connection, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The message.
    pub message: usize,
    /// The bulk bytes.
    pub bulk: usize,
}

impl Limits {
    /// Between peers that know each other.
    pub const KNOWN: Self = Self { message: MESSAGE_MAX, bulk: BULK_MAX };
    /// From a stranger.
    pub const STRANGER: Self = Self { message: 1024, bulk: 0 };
}

#[cold]
fn lost(cause: &std::io::Error) -> Error {
    Error::io("talking to a node", cause)
}
