//! Frames that wait to be sent. Short ones lie one behind the other; long data is sent from where it is.
use crate::frame::{BULK_MAX, Bulk, Frame, Kind, MESSAGE_MAX, PREFIX_LEN, Prefix, lost, sum};
use crate::message::encode_to;
use bytes::{Buf, Bytes};
use esker_types::{Error, ErrorKind, Result};
use serde::Serialize;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::AsyncWrite;

/// Data up to this length is copied behind its message.
const SHORT_BULK: usize = 16 << 10;

/// Pieces of memory that are handed to the network at a time.
const SLICES: usize = 32;

/// Memory for short frames that is kept while there are none.
const KEPT_BYTES: usize = 256 << 10;

/// Frames in order, and how much of them was sent.
#[derive(Debug, Default)]
pub struct Outbox {
    /// Prefixes, messages and short data.
    packed: Vec<u8>,
    /// Bytes of `packed` that were sent.
    sent: usize,
    /// Long data, and the length of `packed` that comes before it.
    bulks: VecDeque<(usize, Bytes)>,
    /// Number of the next frame.
    sequence: u32,
    /// Bytes to send.
    left: usize,
}

impl Outbox {
    /// Bytes that were not sent yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.left
    }

    /// True if everything was sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Adds a frame. Returns its length in bytes.
    ///
    /// # Errors
    /// `Overflow` if it is too long, in which case nothing was added.
    pub fn add(&mut self, frame: &Frame) -> Result<usize> {
        let Frame { kind, call, room, message, bulk } = frame;
        self.add_with((*kind, *call, *room), bulk.clone().into(), |packed| {
            packed.extend_from_slice(message);
            Ok(())
        })
    }

    /// Adds a frame of a message that is encoded in place. Returns its length in bytes.
    ///
    /// # Errors
    /// As [`Outbox::add`].
    pub fn add_message(
        &mut self,
        (kind, call, room): (Kind, u64, u32),
        message: &impl Serialize,
        bulk: Bulk,
    ) -> Result<usize> {
        self.add_with((kind, call, room), bulk, |packed| encode_to(message, packed))
    }

    fn add_with(
        &mut self,
        (kind, call, room): (Kind, u64, u32),
        bulk: Bulk,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<usize> {
        self.compact();
        let begin = self.packed.len();
        self.packed.resize(begin + PREFIX_LEN, 0);
        let encoded = encode(&mut self.packed);
        let message = self.packed.get(begin + PREFIX_LEN..).unwrap_or_default();
        let lens = encoded.and_then(|()| {
            Ok((checked_len(message, MESSAGE_MAX)?, checked_len(&bulk.bytes, BULK_MAX)?))
        });
        let (message_len, bulk_len) = match lens {
            Ok(lens) => lens,
            Err(error) => {
                self.packed.truncate(begin);
                return Err(error);
            }
        };
        let (sequence, message_sum, bulk_sum) = (self.sequence, sum(message), bulk.sum);
        let prefix =
            Prefix { kind, sequence, call, room, message_len, bulk_len, message_sum, bulk_sum };
        self.packed[begin..begin + PREFIX_LEN].copy_from_slice(&prefix.encode());
        self.sequence = sequence.wrapping_add(1);
        let len = PREFIX_LEN + message_len as usize + bulk.bytes.len();
        self.left += len;
        self.add_bulk(bulk.bytes);
        Ok(len)
    }

    fn add_bulk(&mut self, bulk: Bytes) {
        match bulk.len() {
            ..=SHORT_BULK => self.packed.extend_from_slice(&bulk),
            _ => self.bulks.push_back((self.packed.len(), bulk)),
        }
    }

    /// Moves all frames to `other`, which must be empty; the numbers go on.
    pub fn move_to(&mut self, other: &mut Self) {
        std::mem::swap(self, other);
        self.sequence = other.sequence;
    }

    /// Sends everything.
    ///
    /// # Errors
    /// `Io` if the connection is lost.
    pub fn poll_send(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        let mut to = Pin::new(to);
        while self.left > 0 {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let count = self.slices(&mut slices);
            let sent = ready!(to.as_mut().poll_write_vectored(context, &slices[..count]));
            match sent.map_err(|error| lost(&error))? {
                0 => return Poll::Ready(Err(lost(&std::io::ErrorKind::WriteZero.into()))),
                sent => self.advance(sent),
            }
        }
        to.poll_flush(context).map_err(|error| lost(&error))
    }

    /// What comes next. Returns the number of slices.
    fn slices<'s>(&'s self, slices: &mut [IoSlice<'s>; SLICES]) -> usize {
        let (mut at, mut count) = (self.sent, 0);
        let mut add = |piece: &'s [u8]| {
            if let Some(slice) = slices.get_mut(count).filter(|_| !piece.is_empty()) {
                *slice = IoSlice::new(piece);
                count += 1;
            }
        };
        for (before, bulk) in self.bulks.iter().take(SLICES / 2) {
            add(&self.packed[at..*before]);
            add(bulk);
            at = *before;
        }
        if self.bulks.len() <= SLICES / 2 {
            add(&self.packed[at..]);
        }
        count
    }

    /// Notes that the next `count` bytes were sent.
    fn advance(&mut self, mut count: usize) {
        self.left -= count;
        while count > 0 {
            let before = self.bulks.front().map_or(self.packed.len(), |(before, _)| *before);
            let packed = count.min(before - self.sent);
            self.sent += packed;
            count -= packed;
            if let Some((_, bulk)) = self.bulks.front_mut().filter(|_| count > 0) {
                let part = count.min(bulk.len());
                bulk.advance(part);
                count -= part;
                if bulk.is_empty() {
                    self.bulks.pop_front();
                }
            }
        }
        if self.left == 0 {
            self.reset();
        }
    }

    /// Forgets what was sent, once it is most of the memory.
    fn compact(&mut self) {
        if self.sent > KEPT_BYTES && self.sent > self.packed.len() / 2 {
            self.packed.drain(..self.sent);
            self.bulks.iter_mut().for_each(|(before, _)| *before -= self.sent);
            self.sent = 0;
        }
    }

    fn reset(&mut self) {
        self.sent = 0;
        self.packed.clear();
        self.packed.shrink_to(KEPT_BYTES);
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
