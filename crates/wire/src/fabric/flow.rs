//! The stream over an endpoint: cuts it into pieces, orders those that arrive, and keeps to the windows of both sides.
//! The caller holds the lock; no function here waits.
use crate::fabric::incoming::{Arrived, Incoming};
use crate::fabric::libfabric::{Done, Endpoint};
use crate::fabric::outgoing::Outgoing;
use crate::fabric::piece::{HEADER_LEN, Header, Kind, invalid_piece_error};
use crate::fabric::setup::Identity;
use crate::fabric::window::{Size, Window, slots};
use esker_types::{Error, ErrorKind, Result};
use std::io::IoSlice;

/// Short pieces that only credits may use, so that both sides can always return some.
const RESERVE: u16 = 2;

/// Operations that are polled before other tasks get their turn.
const POLLS_MAX: usize = 64;

/// Attempts to post all slots to receive, at the start of a stream.
const TRIES_MAX: u32 = 100_000;

/// A stream in both directions.
pub(crate) struct Flow {
    endpoint: Endpoint,
    incoming: Incoming,
    /// The stream to the peer.
    outgoing: Outgoing,
    /// Outer `Some` if the connection has ended; the inner `None` if the peer closed it.
    over: Option<Option<Error>>,
}

impl Flow {
    /// Creates the stream over an endpoint whose peer is not known yet. It is ready to receive a window of pieces.
    ///
    /// # Errors
    /// The errors of libfabric.
    pub(crate) fn new(endpoint: Endpoint, own: Identity) -> Result<Self> {
        let (incoming, outgoing) = (Incoming::new(own), Outgoing::new());
        let mut flow = Self { endpoint, incoming, outgoing, over: None };
        let mut tries = 0;
        while !flow.receive_again()? {
            flow.poll_once()?;
            tries += 1;
            if tries > TRIES_MAX {
                return Err(window_too_small_error());
            }
        }
        // The peer gets the credits for these slots with the window, so none are owed.
        flow.incoming.owed = [0; 2];
        Ok(flow)
    }

    /// Tells the endpoint the address of the peer, and takes the credits that the peer's window gives. `peer` has the
    /// tag and key of pieces for the peer.
    ///
    /// # Errors
    /// `Invalid` if `address` is not an address of the provider.
    pub(crate) fn set_peer(
        &mut self,
        address: &[u8],
        peer: Identity,
        window: Window,
    ) -> Result<()> {
        self.endpoint.set_peer(address)?;
        (self.outgoing.peer, self.outgoing.window) = (peer, window);
        self.outgoing.credits = window.counts;
        Ok(())
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Records that the connection has ended, and the error; `None` if the peer closed it. Later calls change nothing.
    pub(crate) fn end(&mut self, why: Option<Error>) {
        self.over.get_or_insert(why);
    }

    /// `Some` once the connection has ended: with the error, or with `None` if the peer closed it.
    pub(crate) fn over(&self) -> Option<&Option<Error>> {
        self.over.as_ref()
    }

    /// Receives and sends what is possible now. Returns true if anything happened. An error ends the connection.
    pub(crate) fn progress(&mut self) -> bool {
        if self.over.is_some() {
            return false;
        }
        self.try_progress().unwrap_or_else(|error| {
            self.end(Some(error));
            true
        })
    }

    /// Takes what has arrived, and sends what waits. Returns whether anything had happened on the fabric.
    fn try_progress(&mut self) -> Result<bool> {
        let mut polls = 0;
        while polls < POLLS_MAX && self.poll_once()? {
            polls += 1;
        }
        if self.incoming.ignored {
            self.discard();
        }
        self.receive_again()?;
        self.close()?;
        self.give_credits()?;
        self.send_queued()?;
        Ok(polls > 0)
    }

    /// Handles one completed operation of the fabric: accepts the piece that was received, or frees the slot that was
    /// sent. Returns false if no operation has completed.
    fn poll_once(&mut self) -> Result<bool> {
        let Some(done) = self.endpoint.poll()? else { return Ok(false) };
        match slots::is_receiving(done.slot) {
            true => self.accept_piece(done)?,
            false => self.outgoing.free[slots::size(done.slot) as usize].push(done.slot),
        }
        Ok(true)
    }

    /// Checks the header of a piece that has arrived, takes the credits in it, and keeps its data for the reader. Fails
    /// if it gives more credits than the peer's window has.
    fn accept_piece(&mut self, Done { slot, len }: Done) -> Result<()> {
        let bytes = self.endpoint.bytes(slot).unwrap_or_default();
        let header = Header::decode(&bytes[..len.min(bytes.len())], self.incoming.own.key)?;
        self.incoming.count += 1;
        for size in Size::ALL {
            let credits = &mut self.outgoing.credits[size as usize];
            *credits = credits.saturating_add(header.credits[size as usize]);
            if *credits > self.outgoing.window.counts[size as usize] {
                return Err(invalid_piece_error("it gives credits that were never taken"));
            }
        }
        match header.kind {
            Kind::Credit => self.incoming.idle.push_back(slot),
            kind => {
                let arrived = Arrived { kind, slot, begin: HEADER_LEN, end: len };
                self.incoming.add(header.number, arrived)?;
            }
        }
        Ok(())
    }

    /// Posts idle slots to receive. False if the provider does not accept all of them now.
    fn receive_again(&mut self) -> Result<bool> {
        while let Some(slot) = self.incoming.idle.front().copied() {
            let size = slots::size(slot);
            if !self.endpoint.receive(slot, self.incoming.own.tag(size))? {
                return Ok(false);
            }
            self.incoming.idle.pop_front();
            self.incoming.owed[size as usize] += 1;
        }
        Ok(true)
    }

    /// Sends a piece that returns credits to the peer, if it lacks half of its window of a size. Other pieces return
    /// credits, too, but there may be none to send.
    fn give_credits(&mut self) -> Result<()> {
        let is_due =
            |size: Size| self.incoming.owed[size as usize] >= Window::OWN.counts[size as usize] / 2;
        match Size::ALL.into_iter().any(is_due) {
            true => self.add_piece(Kind::Credit, 0).map(drop),
            false => Ok(()),
        }
    }

    /// Tells the peer that the stream has ended.
    fn close(&mut self) -> Result<()> {
        let Outgoing { closing, closed, .. } = self.outgoing;
        if closing && !closed {
            self.outgoing.closed = self.add_piece(Kind::End, 0)?;
        }
        Ok(())
    }

    /// Queues a short piece without data. False if all slots for it are in use; `reserve` short slots are left free.
    fn add_piece(&mut self, kind: Kind, reserve: u16) -> Result<bool> {
        let Some(slot) = self.outgoing.take(Size::Short, reserve) else { return Ok(false) };
        self.compose(slot, kind, &[]).map(|_| true)
    }

    /// Writes a piece into a slot with as much of `data` as fits, and queues it. The header returns all credits that
    /// are owed. Returns the number of bytes of data in it.
    fn compose(&mut self, slot: usize, kind: Kind, data: &[IoSlice<'_>]) -> Result<usize> {
        let owed = std::mem::take(&mut self.incoming.owed);
        let number = self.outgoing.next_number(kind);
        let header = Header { key: self.outgoing.peer.key, number, kind, credits: owed };
        let most = self.outgoing.room(slots::size(slot));
        let bytes = self.endpoint.bytes_mut(slot).unwrap_or_default();
        let (head, body) = bytes
            .split_first_chunk_mut()
            .ok_or_else(|| invalid_piece_error("a slot to send is in use"))?;
        *head = header.encode();
        let len = fill(&mut body[..most], data);
        self.outgoing.queue.push_back((slot, HEADER_LEN + len));
        Ok(len)
    }

    /// Sends the queued pieces until the fabric takes no more.
    fn send_queued(&mut self) -> Result<()> {
        while let Some((slot, len)) = self.outgoing.queue.front().copied() {
            let tag = self.outgoing.peer.tag(slots::size(slot));
            if !self.endpoint.send(slot, len, tag)? {
                break;
            }
            self.outgoing.queue.pop_front();
            self.outgoing.taken += 1;
        }
        Ok(())
    }

    /// Sends as much of `data` as a piece holds. Returns the number of bytes; `None` if there is no slot now.
    ///
    /// # Errors
    /// The reason of the end, if the connection has ended.
    pub(crate) fn write(&mut self, data: &[IoSlice<'_>]) -> Result<Option<usize>> {
        let len: usize = data.iter().map(|slice| slice.len()).sum();
        let short_fits = len <= self.outgoing.room(Size::Short);
        let first = if short_fits { Size::Short } else { Size::Long };
        let mut slot = self.outgoing.take(first, RESERVE);
        // Short data may also use a long slot.
        if slot.is_none() && short_fits {
            slot = self.outgoing.take(Size::Long, 0);
        }
        let Some(slot) = slot else { return Ok(None) };
        let written = self.compose(slot, Kind::Data, data)?;
        self.send_queued()?;
        Ok(Some(written))
    }

    /// Passes bytes that have arrived to `put`, which returns how many it accepts. Stops when it does not accept all
    /// bytes of a piece. Returns the number of accepted bytes; `None` if there are none.
    pub(crate) fn read(&mut self, mut put: impl FnMut(&[u8]) -> usize) -> Option<usize> {
        let mut total = 0;
        while let Some(piece) = self.incoming.arrived.get_mut(&self.incoming.expected) {
            if piece.kind == Kind::End {
                self.incoming.ended = true;
                break;
            }
            let bytes = self.endpoint.bytes(piece.slot).unwrap_or_default();
            let count = put(&bytes[piece.begin..piece.end]);
            piece.begin += count;
            total += count;
            if piece.begin < piece.end {
                break;
            }
            self.incoming.finish_first();
        }
        (total > 0).then_some(total)
    }

    /// Discards pieces that arrive after the reader was dropped.
    fn discard(&mut self) {
        self.read(<[u8]>::len);
    }

    /// Discards everything that arrives from now on.
    pub(crate) fn stop_reading(&mut self) {
        self.incoming.ignored = true;
    }

    /// Ends the stream to the peer.
    pub(crate) fn stop_writing(&mut self) {
        self.outgoing.closing = true;
    }

    /// True if the peer has ended its stream, and everything was read.
    pub(crate) fn has_ended(&self) -> bool {
        self.incoming.ended
    }

    /// True if the reader and the writer were dropped.
    pub(crate) fn is_left(&self) -> bool {
        self.incoming.ignored && self.outgoing.closing
    }

    /// True if the provider has completed all sends.
    pub(crate) fn is_sent(&self) -> bool {
        let free: usize = self.outgoing.free.iter().map(Vec::len).sum();
        let all: usize = Size::ALL.into_iter().map(|size| slots::sending(size).len()).sum();
        free == all
    }

    /// True if the end of the stream was sent to the peer.
    pub(crate) fn is_closed(&self) -> bool {
        self.outgoing.closed && self.is_sent()
    }

    /// True if the provider has not accepted everything yet, and must be polled again.
    pub(crate) fn is_refused(&self) -> bool {
        !self.outgoing.queue.is_empty() || !self.incoming.idle.is_empty()
    }

    /// Pieces that have arrived so far.
    pub(crate) fn pieces(&self) -> u64 {
        self.incoming.count
    }

    /// Pieces that were sent since the last call.
    pub(crate) fn take_sent(&mut self) -> u64 {
        std::mem::take(&mut self.outgoing.taken)
    }

    /// True if it is safe to sleep on the endpoint's descriptor: no completion is pending, and the next makes it
    /// readable.
    pub(crate) fn may_wait(&mut self) -> bool {
        match self.endpoint.may_wait() {
            Ok(may) => may,
            Err(error) => {
                self.end(Some(error));
                false
            }
        }
    }
}

/// Copies data until it or the room ends. Returns the number of bytes.
fn fill(mut room: &mut [u8], data: &[IoSlice<'_>]) -> usize {
    let all = room.len();
    for slice in data {
        let count = slice.len().min(room.len());
        let (now, rest) = room.split_at_mut(count);
        now.copy_from_slice(&slice[..count]);
        room = rest;
    }
    all - room.len()
}

#[cold]
fn window_too_small_error() -> Error {
    let message =
        "the provider takes fewer messages than a connection needs: choose another by FI_PROVIDER";
    Error::new(ErrorKind::NotSupported, message)
}
