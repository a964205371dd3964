//! A long part of a frame that arrives in pieces.
use crate::destination::Destination;
use crate::frame::lost;
use crate::spare::Spare;
use bytes::Bytes;
use esker_types::Result;
use esker_types::checksum::Crc32c;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt};

/// Most bytes that are received before they are added to the checksum, so that they still are in the cache.
const PIECE: usize = 256 << 10;

/// Bytes of memory that are allocated before any byte of a part has arrived.
const ROOM_AT_ONCE: usize = 4 << 20;

/// The bytes of a part that have arrived. The first ones may be in the destination of the caller. Once the caller has
/// stopped waiting, all later bytes are here.
#[derive(Debug, Default)]
pub(crate) struct LongPart {
    /// Number of bytes in the destination.
    in_place: usize,
    /// The bytes after them.
    bytes: Vec<u8>,
    /// Checksum of all bytes so far.
    sum: Crc32c,
}

/// A part that has arrived.
pub(crate) struct Arrived {
    /// Number of first bytes that are in the destination.
    pub(crate) in_place: usize,
    /// The other bytes.
    pub(crate) bytes: Bytes,
    /// Checksum of all bytes.
    pub(crate) sum: u32,
}

impl LongPart {
    /// Number of bytes that have arrived.
    pub(crate) fn len(&self) -> usize {
        self.in_place + self.bytes.len()
    }

    /// Adds bytes of a part of `len` bytes that were received together with others. They go to the caller's buffers
    /// `into`, or else to memory from `spare`.
    pub(crate) fn add(
        &mut self,
        mut bytes: &[u8],
        len: usize,
        (into, spare): (&mut Destination<'_>, &Spare),
    ) {
        self.sum.add(bytes);
        // Once some bytes are not in the destination, the later ones follow them.
        while self.bytes.is_empty() && !bytes.is_empty() {
            let room = into.room(self.in_place);
            if room.is_empty() {
                break;
            }
            let (head, rest) = bytes.split_at(bytes.len().min(room.len()));
            room[..head.len()].copy_from_slice(head);
            self.in_place += head.len();
            bytes = rest;
        }
        if !bytes.is_empty() {
            self.reserve(len, spare);
            self.bytes.extend_from_slice(bytes);
        }
    }

    /// Receives more bytes of a part of `len` bytes. As long as the caller's buffers `into` have room, the bytes go
    /// there. Later bytes go to memory of this part, which `spare` provides. Returns their number; 0 at the end of the
    /// connection.
    ///
    /// Memory is allocated as bytes arrive, so that an announced length alone costs nothing.
    pub(crate) fn poll_more<R: AsyncRead + Unpin>(
        &mut self,
        context: &mut Context<'_>,
        from: &mut R,
        len: usize,
        (into, spare): (&mut Destination<'_>, &Spare),
    ) -> Poll<Result<usize>> {
        let most = (len - self.len()).min(PIECE);
        let room = into.room(self.in_place);
        if self.bytes.is_empty() && !room.is_empty() {
            let most = most.min(room.len());
            let room = &mut room[..most];
            let count =
                ready!(pin!(from.read(room)).poll(context)).map_err(|error| lost(&error))?;
            self.in_place += count;
            self.sum.add(&room[..count]);
            return Poll::Ready(Ok(count));
        }
        self.reserve(len, spare);
        let (begin, room) = (self.bytes.len(), self.bytes.capacity() - self.bytes.len());
        let mut piece = from.take(most.min(room) as u64);
        let read = pin!(piece.read_buf(&mut self.bytes)).poll(context);
        let count = ready!(read).map_err(|error| lost(&error))?;
        self.sum.add(&self.bytes[begin..]);
        Poll::Ready(Ok(count))
    }

    /// Reserves memory for the next bytes: at most as much as has arrived, but at least [`ROOM_AT_ONCE`].
    fn reserve(&mut self, len: usize, spare: &Spare) {
        let left = len - self.len();
        if self.bytes.capacity() == 0 {
            self.bytes = spare.empty(left.min(ROOM_AT_ONCE));
        }
        self.bytes.reserve_exact(left.min(ROOM_AT_ONCE.max(self.bytes.len())));
    }

    /// Ends the part. Its memory returns to `spare` once it is dropped.
    pub(crate) fn finish(self, spare: &Spare) -> Arrived {
        let Self { in_place, bytes, sum } = self;
        let bytes = if bytes.is_empty() { Bytes::new() } else { spare.keep(bytes) };
        Arrived { in_place, bytes, sum: sum.value() }
    }
}
