//! The replies that arrive on a connection. Each is passed on to its caller.
use crate::connection::receiving::{Caller, Receive};
use crate::connection::socket::POLLING;
use crate::connection::waiting::Waiting;
use crate::connection::{Received, unreachable_error};
use esker_types::Result;
use esker_wire::frame::{Announced, Destination, Frame, Kind, Limits, Receiver, SHORT_PART};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::AsyncRead;

/// Replies that a thread receives in a row. A thread that waits for its own reply also receives those of others, but
/// not without a limit.
pub(super) const REPLIES_AT_ONCE: u32 = 32;

/// The replies of a connection.
pub(super) struct Replies<R> {
    from: Receiver<R>,
    waiting: Arc<Waiting>,
    /// Name of the node.
    name: String,
    /// Set if a poll has left something that has arrived.
    has_rest: Arc<AtomicBool>,
    /// The reply whose rest arrives.
    announced: Option<Announced>,
}

impl<R: AsyncRead + Unpin> Replies<R> {
    /// Replies that arrive from `from` for the calls in `waiting`.
    pub(super) fn new(
        from: Receiver<R>,
        waiting: Arc<Waiting>,
        name: String,
        has_rest: Arc<AtomicBool>,
    ) -> Self {
        Self { from, waiting, name, has_rest, announced: None }
    }

    /// Receives one reply, into the memory of `caller` if it is for that caller. An error ends the connection.
    fn poll_one(
        &mut self,
        context: &mut Context<'_>,
        caller: Option<&mut Caller<'_, '_>>,
    ) -> Poll<Result<()>> {
        let announced = match self.announced.take() {
            Some(announced) => announced,
            None => match ready!(self.from.poll_announced(context, Limits::AUTHENTICATED)) {
                Ok(Some(announced)) => self.within_room(announced)?,
                Ok(None) => {
                    return Poll::Ready(Err(unreachable_error(
                        &self.name,
                        &"its engine closed the connection",
                    )));
                }
                Err(error) => return Poll::Ready(Err(unreachable_error(&self.name, &error))),
            },
        };
        let polled = self.poll_rest(context, &announced, caller);
        if polled.is_pending() {
            self.announced = Some(announced);
        }
        polled
    }

    /// Fails if a reply has more data than its call has room for.
    fn within_room(&self, announced: Announced) -> Result<Announced> {
        let len = announced.bulk_len() as u64;
        // Most replies have no data, so that their calls need not be looked up.
        let room = if len > 0 { self.waiting.room(announced.call()) } else { None };
        match room.filter(|room| len > *room) {
            None => Ok(announced),
            Some(room) => Err(unreachable_error(
                &self.name,
                &format_args!("it sent {len} bytes of data in place of at most {room}"),
            )),
        }
    }

    /// Receives the remainder of a frame, whose header has arrived. If it is the reply for which the calling thread
    /// waits, its data goes directly to that caller's buffers.
    fn poll_rest(
        &mut self,
        context: &mut Context<'_>,
        announced: &Announced,
        caller: Option<&mut Caller<'_, '_>>,
    ) -> Poll<Result<()>> {
        let mut nowhere = Destination::default();
        let into = match caller {
            Some((call, into)) if *call == announced.call() => &mut **into,
            _ => {
                ready!(self.poll_without_caller(context, announced))?;
                &mut nowhere
            }
        };
        let received = ready!(self.from.poll_rest(context, announced, into));
        let (frame, in_place) = received.map_err(|error| unreachable_error(&self.name, &error))?;
        Poll::Ready(self.pass_on(frame, in_place))
    }

    /// Leaves long data to a caller that receives it itself: wakes the caller once bytes have arrived. Ready if the
    /// reply has no such caller, or if the caller was woken before and has not polled since.
    fn poll_without_caller(
        &mut self,
        context: &mut Context<'_>,
        announced: &Announced,
    ) -> Poll<Result<()>> {
        let is_task = !context.waker().will_wake(&POLLING);
        if is_task
            || announced.bulk_len() <= SHORT_PART
            || !self.waiting.receives_data(announced.call())
        {
            return Poll::Ready(Ok(()));
        }
        let arrived = ready!(self.from.poll_arrived(context));
        arrived.map_err(|error| unreachable_error(&self.name, &error))?;
        if self.waiting.wake_for_data(announced.call()) {
            self.has_rest.store(true, Ordering::Release);
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    /// Passes a reply to the call that waits for it; drops it if the call is gone. Any other kind of frame ends the
    /// connection.
    fn pass_on(&self, frame: Frame, in_place: usize) -> Result<()> {
        match frame.kind {
            Kind::Reply => {
                // A reply without a call has no caller any more.
                if let Some(call) = self.waiting.take(frame.call) {
                    call.reply(Ok(Received { frame, in_place }));
                }
                Ok(())
            }
            Kind::Goodbye => {
                Err(unreachable_error(&self.name, &String::from_utf8_lossy(&frame.message)))
            }
            kind => Err(unreachable_error(
                &self.name,
                &format_args!("it sent a frame of kind {kind:?}"),
            )),
        }
    }
}

impl<R: AsyncRead + Unpin + Send> Receive for Replies<R> {
    /// Receives at most [`REPLIES_AT_ONCE`] replies. If more may have arrived then, has the waker called at once.
    fn poll_replies(
        &mut self,
        context: &mut Context<'_>,
        mut caller: Option<Caller<'_, '_>>,
    ) -> Poll<()> {
        self.has_rest.store(false, Ordering::Release);
        for _ in 0..REPLIES_AT_ONCE {
            if let Err(why) = ready!(self.poll_one(context, caller.as_mut())) {
                self.waiting.end(&why);
                return Poll::Ready(());
            }
        }
        self.has_rest.store(true, Ordering::Release);
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection::ReplyLimits;
    use bytes::Bytes;
    use esker_testing::{Random, seed};
    use esker_wire::frame::Sender;
    use std::pin::Pin;
    use std::task::Waker;
    use tokio::io::ReadBuf;

    /// The bytes of frames as an engine sends them.
    fn bytes_of(frames: &[Frame]) -> Vec<u8> {
        let mut bytes = Vec::new();
        esker_os::executor::block_on(async {
            let mut to = Sender::new(&mut bytes);
            for frame in frames {
                to.send(frame).await.expect("a frame");
            }
            to.flush().await.expect("memory");
        });
        bytes
    }

    /// A reply to a call, with this data.
    fn reply(call: u64, bulk: Vec<u8>) -> Frame {
        let message = Bytes::from_static(b"message");
        Frame { kind: Kind::Reply, call, room: 0, message, bulk: bulk.into() }
    }

    /// Limits that no test reaches.
    fn limits() -> ReplyLimits {
        ReplyLimits::with_room(u64::MAX)
    }

    #[test]
    fn one_poll_receives_a_limited_number_of_replies() {
        let (count, most) = (u64::from(REPLIES_AT_ONCE) * 4, REPLIES_AT_ONCE as usize);
        let frames: Vec<_> = (0..count).map(|call| reply(call, Vec::new())).collect();
        let bytes = bytes_of(&frames);
        let waiting = Arc::new(Waiting::default());
        let calls: Vec<_> =
            (0..count).map(|number| waiting.add(number, limits()).expect("a call")).collect();
        let from = Receiver::new(&bytes[..]);
        let mut work = Replies::new(from, Arc::clone(&waiting), "one".into(), Arc::default());
        let mut left = calls.len();
        let mut context = Context::from_waker(&POLLING);
        while work.poll_replies(&mut context, None).is_pending() {
            let now = waiting.count();
            assert!(now < left && left - now <= most, "{left} calls, then {now}");
            left = now;
        }
        assert!(left <= most);
        assert!(calls.into_iter().all(|mut call| matches!(call.try_recv(), Ok(Ok(_)))));
    }

    #[test]
    fn reply_with_more_data_than_its_room_ends_the_connection() {
        for (len, is_accepted) in [(10, true), (11, false)] {
            let bytes = bytes_of(&[reply(0, vec![7; len])]);
            let waiting = Arc::new(Waiting::default());
            let mut call = waiting.add(0, ReplyLimits::with_room(10)).expect("a call");
            let from = Receiver::new(&bytes[..]);
            let mut work = Replies::new(from, Arc::clone(&waiting), "one".into(), Arc::default());
            let _ = work.poll_replies(&mut Context::from_waker(&POLLING), None);
            assert_eq!(call.try_recv().expect("a result").is_ok(), is_accepted);
        }
    }

    /// A connection on which `bytes` arrive in pieces of random length. Every third poll on average finds nothing.
    struct Pieces {
        bytes: Vec<u8>,
        at: usize,
        random: Random,
    }

    impl AsyncRead for Pieces {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<std::io::Result<()>> {
            if self.random.one_in(3) {
                return Poll::Pending;
            }
            let (at, most) = (self.at, self.random.within(1..90_000) as usize);
            let len = most.min(buffer.remaining()).min(self.bytes.len() - at);
            buffer.put_slice(&self.bytes[at..at + len]);
            self.at += len;
            Poll::Ready(Ok(()))
        }
    }

    /// Receives `data` as the reply to call 0, three polls in four with the memory of its caller. Returns how many
    /// bytes came directly to that memory; the others are in the frame.
    fn receive(data: &[u8], random: &mut Random) -> usize {
        let bytes = bytes_of(&[reply(0, data.to_vec()), reply(1, Vec::new())]);
        let from = Pieces { bytes, at: 0, random: Random::new(random.draw(), 0) };
        let waiting = Arc::new(Waiting::default());
        let mut reply = waiting.add(0, limits()).expect("a call");
        let from = Receiver::new(from);
        let mut work = Replies::new(from, Arc::clone(&waiting), "one".into(), Arc::default());
        let mut memory = vec![0; data.len()];
        waiting.expect_data(0, Some(Waker::noop()));
        let Received { frame, in_place } = loop {
            let (head, tail) = memory.split_at_mut(data.len() / 3);
            let mut into = Destination::new(vec![head, tail]);
            let comes = !random.one_in(4) && waiting.expect_data(0, Some(Waker::noop()));
            let caller = comes.then_some((0, &mut into));
            let _ = work.poll_replies(&mut Context::from_waker(&POLLING), caller);
            if let Ok(received) = reply.try_recv() {
                break received.expect("a reply");
            }
        };
        assert_eq!(frame.bulk.len(), data.len() - in_place);
        assert!([&memory[..in_place], &frame.bulk[..]].concat() == data);
        in_place
    }

    /// The data is complete whether the caller's memory received all of it, a part or nothing. The first two cases both
    /// occur.
    #[test]
    fn data_arrives_whole_whether_its_caller_comes_or_not() {
        let mut random = Random::new(seed(), 0);
        let (mut whole, mut parts) = (0, 0);
        for _ in 0..300 {
            let len = SHORT_PART + 1 + random.below(300_000) as usize;
            let data = random.bytes(len);
            match receive(&data, &mut random) {
                in_place if in_place == len => whole += 1,
                in_place => parts += u32::from(in_place > 0),
            }
        }
        assert!(whole > 10 && parts > 10, "{whole} and {parts}");
    }
}
