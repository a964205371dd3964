//! Frames that wait to be sent. Short ones are packed into one buffer; long data is sent without a copy.
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

pub use crate::borrowed::Borrowed;

/// Data up to this length is copied behind its message.
const SHORT_BULK: usize = 16 << 10;

/// Slices of memory per vectored write.
const SLICES: usize = 32;

/// Capacity for short frames that is kept while there are none.
const KEPT_BYTES: usize = 256 << 10;

/// Frames in order, and the position up to which they were sent.
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
    /// `Overflow` if it is too long; nothing was added then.
    pub fn add(&mut self, frame: &Frame) -> Result<usize> {
        let Frame { kind, call, room, message, bulk } = frame;
        self.add_with((*kind, *call, *room), bulk.clone().into(), |packed| {
            packed.extend_from_slice(message);
            Ok(())
        })
    }

    /// Adds a frame of a message that is encoded in place. `head` is the kind of the frame, its call, and the room for
    /// the data of the reply. Returns the length of the frame in bytes.
    ///
    /// # Errors
    /// The errors of [`Outbox::add`].
    pub fn add_message(
        &mut self,
        head: (Kind, u64, u32),
        message: &impl Serialize,
        bulk: Bulk,
    ) -> Result<usize> {
        self.add_with(head, bulk, |packed| encode_to(message, packed))
    }

    /// Adds a frame without its data, but with the length and the checksum of `data`. The data must be sent next. It
    /// does not count as bytes to send of this outbox.
    ///
    /// # Errors
    /// The errors of [`Outbox::add`].
    pub fn add_before(
        &mut self,
        head: (Kind, u64, u32),
        message: &impl Serialize,
        data: (&Borrowed<'_>, u32),
    ) -> Result<()> {
        let (len, sum) = (data.0.len(), data.1);
        let frame = self.add_head(head, (len, sum), |packed| encode_to(message, packed))?;
        self.left += frame - len;
        Ok(())
    }

    /// Adds data of the frame that was added last.
    pub fn add_rest(&mut self, data: Bytes) {
        self.left += data.len();
        self.add_bulk(data);
    }

    /// Adds a frame whose message `encode` writes. Returns the length of the frame.
    fn add_with(
        &mut self,
        head: (Kind, u64, u32),
        bulk: Bulk,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<usize> {
        let len = self.add_head(head, (bulk.bytes.len(), bulk.sum()), encode)?;
        self.left += len;
        self.add_bulk(bulk.bytes);
        Ok(len)
    }

    /// Adds the prefix and the message of a frame, which `encode` writes. Returns the length of the frame with its
    /// data. If it fails, nothing was added.
    fn add_head(
        &mut self,
        (kind, call, room): (Kind, u64, u32),
        (bulk_len, bulk_sum): (usize, u32),
        encode: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<usize> {
        self.compact();
        let begin = self.packed.len();
        self.packed.resize(begin + PREFIX_LEN, 0);
        let encoded = encode(&mut self.packed);
        let message = self.packed.get(begin + PREFIX_LEN..).unwrap_or_default();
        let lens = encoded.and_then(|()| {
            let message = checked_len(message.len(), (MESSAGE_MAX, "MESSAGE_MAX"))?;
            Ok((message, checked_len(bulk_len, (BULK_MAX, "BULK_MAX"))?))
        });
        let (message_len, bulk_len) = match lens {
            Ok(lens) => lens,
            Err(error) => {
                self.packed.truncate(begin);
                return Err(error);
            }
        };
        let (sequence, message_sum) = (self.sequence, sum(message));
        let prefix =
            Prefix { kind, sequence, call, room, message_len, bulk_len, message_sum, bulk_sum };
        self.packed[begin..begin + PREFIX_LEN].copy_from_slice(&prefix.encode());
        self.sequence = sequence.wrapping_add(1);
        Ok(PREFIX_LEN + message_len as usize + bulk_len as usize)
    }

    /// Adds the bulk of a frame: a short one is copied to the other short parts, a long one is sent from where it is.
    fn add_bulk(&mut self, bulk: Bytes) {
        match bulk.len() {
            ..=SHORT_BULK => self.packed.extend_from_slice(&bulk),
            _ => self.bulks.push_back((self.packed.len(), bulk)),
        }
    }

    /// Moves all frames to `other`, which must be empty. The next frame of either outbox gets the same number: only one
    /// of them may be used from then on.
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
        self.poll_send_with(to, context, &mut Borrowed::default())
    }

    /// Sends everything, and then `data`, which belongs to the last frame.
    ///
    /// # Errors
    /// The errors of [`Outbox::poll_send`].
    pub fn poll_send_with(
        &mut self,
        to: &mut (impl AsyncWrite + Unpin),
        context: &mut Context<'_>,
        data: &mut Borrowed<'_>,
    ) -> Poll<Result<()>> {
        let mut to = Pin::new(to);
        while self.left > 0 || !data.is_empty() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut count = self.slices(&mut slices);
            if self.bulks.len() <= SLICES / 2 {
                count += fill(&mut slices[count..], data.pieces());
            }
            let sent = ready!(to.as_mut().poll_write_vectored(context, &slices[..count]));
            match sent.map_err(|error| lost(&error))? {
                0 => return Poll::Ready(Err(lost(&std::io::ErrorKind::WriteZero.into()))),
                sent => {
                    let own = sent.min(self.left);
                    self.advance(own);
                    data.advance(sent - own);
                }
            }
        }
        to.poll_flush(context).map_err(|error| lost(&error))
    }

    /// Collects the next slices to send. Returns their number.
    fn slices<'s>(&'s self, slices: &mut [IoSlice<'s>; SLICES]) -> usize {
        let (mut at, mut count) = (self.sent, 0);
        let mut add = |piece: &'s [u8]| {
            if let Some(slice) = slices.get_mut(count).filter(|_| !piece.is_empty()) {
                *slice = IoSlice::new(piece);
                count += 1;
            }
        };
        // Each bulk takes two slices: its own, and the packed bytes before it.
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

    /// Records that the next `count` bytes were sent.
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

    /// Removes bytes that were sent from the buffer, once they are most of it. Shorter buffers stay, since moving the
    /// rest takes time.
    fn compact(&mut self) {
        if self.sent > KEPT_BYTES && self.sent > self.packed.len() / 2 {
            self.packed.drain(..self.sent);
            self.bulks.iter_mut().for_each(|(before, _)| *before -= self.sent);
            self.sent = 0;
        }
    }

    /// Empties the outbox after all was sent. Only little memory is kept.
    fn reset(&mut self) {
        self.sent = 0;
        self.packed.clear();
        self.packed.shrink_to(KEPT_BYTES);
    }
}

/// Fills slices with pieces, as far as there is room. Returns their number.
fn fill<'d>(slices: &mut [IoSlice<'d>], pieces: impl Iterator<Item = &'d [u8]>) -> usize {
    let pairs = slices.iter_mut().zip(pieces);
    pairs.map(|(slice, piece)| *slice = IoSlice::new(piece)).count()
}

/// Checks that the length of a part of a frame is at most `most`, the limit `name`.
fn checked_len(len: usize, (most, name): (usize, &str)) -> Result<u32> {
    let checked = u32::try_from(len).ok().filter(|len| *len as usize <= most);
    checked.ok_or_else(|| {
        let message = format!(
            "a request or reply has {len} bytes, but at most {most} are possible ({name}): split it"
        );
        Error::new(ErrorKind::Overflow, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Waker;

    /// Accepts few bytes at a time, and nothing every third time.
    #[derive(Default)]
    struct Narrow {
        taken: Vec<u8>,
        calls: usize,
    }

    impl AsyncWrite for Narrow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<std::io::Result<usize>> {
            self.calls += 1;
            let count = bytes.len().min(1000 + self.calls);
            if self.calls.is_multiple_of(3) {
                return Poll::Pending;
            }
            self.taken.extend_from_slice(&bytes[..count]);
            Poll::Ready(Ok(count))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Kind, call and room of all frames.
    const HEAD: (Kind, u64, u32) = (Kind::Request, 7, 0);

    /// Polls the outbox once. True if it has sent all frames and `data`, the rest of the last one.
    fn send(outbox: &mut Outbox, to: &mut Narrow, data: &mut Borrowed<'_>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        outbox.poll_send_with(to, &mut context, data).is_ready()
    }

    /// Sends frames whose data is `pieces`, with short frames between them, and returns the bytes sent. The data is
    /// borrowed for `attempts` polls, and the rest is copied then.
    fn sent(pieces: &[&[u8]], attempts: usize) -> Vec<u8> {
        let (mut outbox, mut to) = (Outbox::default(), Narrow::default());
        let whole = pieces.concat();
        for round in 0..3_u32 {
            outbox.add_message(HEAD, &round, Bytes::from_static(b"short").into()).unwrap();
            let mut data = Borrowed::new(pieces.to_vec());
            outbox.add_before(HEAD, &"long", (&data, sum(&whole))).unwrap();
            let done = (0..attempts).any(|_| send(&mut outbox, &mut to, &mut data));
            assert_eq!(done, data.is_empty() && outbox.is_empty());
            if !done {
                outbox.add_rest(data.pieces().collect::<Vec<_>>().concat().into());
            }
        }
        while !send(&mut outbox, &mut to, &mut Borrowed::default()) {}
        assert!(outbox.is_empty());
        to.taken
    }

    /// The same bytes are sent whether data is borrowed or copied, also if it is copied after some polls.
    #[test]
    fn borrowed_data_is_sent_like_copied_data() {
        let long: Vec<u8> = (0..70_000).map(|at| (at % 251) as u8).collect();
        for pieces in [vec![&long[..]], vec![&long[..3], &[], &long[3..40_000], &long[40_000..]]] {
            let (mut outbox, mut to) = (Outbox::default(), Narrow::default());
            for round in 0..3_u32 {
                outbox.add_message(HEAD, &round, Bytes::from_static(b"short").into()).unwrap();
                let bulk = Bytes::from(pieces.concat()).into();
                outbox.add_message(HEAD, &"long", bulk).unwrap();
            }
            while !send(&mut outbox, &mut to, &mut Borrowed::default()) {}
            for attempts in [0, 1, 2, 5, 1000] {
                assert!(sent(&pieces, attempts) == to.taken, "{attempts} attempts");
            }
        }
    }
}
