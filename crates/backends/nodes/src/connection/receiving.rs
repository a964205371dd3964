//! Receiving side of a connection to an engine. A thread that waits for a reply polls for it itself, because waking it
//! would take longer than many replies do. For all other callers, a task of the connection receives.
use crate::connection::socket::POLLING;
use esker_os::executor::{Hits, Polled, Spun, spin_on};
use esker_wire::frame::Destination;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::future::poll_fn;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::sync::Notify;

/// Receives replies until the connection is over.
pub(crate) trait Receive: Send {
    /// Receives what has arrived. Data of the reply to a `caller` goes to its memory. Ready at the end of the
    /// connection.
    fn poll_replies(
        &mut self,
        context: &mut Context<'_>,
        caller: Option<Caller<'_, '_>>,
    ) -> Poll<()>;
}

/// A caller that polls, with the number of its call, and memory for the data of its reply.
pub(crate) type Caller<'c, 'd> = (u64, &'c mut Destination<'d>);

/// Longest sleep of a thread before it polls again.
const SLEEP_FOR: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// The receiving side of a connection.
pub(crate) struct Receiving {
    /// Receives the replies; `None` once the connection has ended.
    work: Mutex<Option<Box<dyn Receive>>>,
    /// The connection has ended.
    is_over: AtomicBool,
    /// The socket of replies, if threads may poll it. They poll the work with [`POLLING`], which does not prevent the
    /// task from continuing it.
    socket: Option<Arc<OwnedFd>>,
    /// Number of threads that poll.
    pollers: AtomicUsize,
    /// One of the polling threads sleeps at the socket. With more, each reply would wake all of them.
    has_sleeper: AtomicBool,
    /// The task waits for replies, unless a poll has replaced its waker since.
    is_attended: AtomicBool,
    /// The last poll stopped while more had arrived, perhaps in memory: the socket does not signal that.
    has_rest: Arc<AtomicBool>,
    /// Success rate of polling threads.
    hits: Hits,
    /// Wakes the task.
    wake: Notify,
    /// True if a caller waits for a reply.
    is_awaited: Box<dyn Fn() -> bool + Send + Sync>,
}

impl Receiving {
    /// Receives by `work`, on the task or on any thread that waits for a reply. `work` sets `has_rest` if it leaves
    /// something that has arrived. `is_awaited` is true if a caller waits for a reply.
    pub(crate) fn new(
        work: impl Receive + 'static,
        socket: Option<Arc<OwnedFd>>,
        has_rest: Arc<AtomicBool>,
        is_awaited: impl Fn() -> bool + Send + Sync + 'static,
    ) -> Self {
        Self {
            work: Mutex::new(Some(Box::new(work))),
            is_over: AtomicBool::new(false),
            socket,
            pollers: AtomicUsize::new(0),
            has_sleeper: AtomicBool::new(false),
            is_attended: AtomicBool::new(true),
            has_rest,
            hits: Hits::default(),
            wake: Notify::new(),
            is_awaited: Box::new(is_awaited),
        }
    }

    /// Receives the replies that no thread polls for, until the connection is over.
    pub(crate) async fn run(&self) {
        let mut over = false;
        while !over {
            tokio::select! {
                biased;
                () = poll_fn(|context| self.poll_work(context, None)) => over = true,
                () = self.wake.notified() => {}
            }
        }
    }

    /// Ensures that a reply is received: by this thread if `by_thread` is set and it can poll the connection, otherwise
    /// by the task.
    pub(crate) fn expect(self: &Arc<Self>, by_thread: bool) {
        if !(by_thread && self.socket.is_some() && spin_on(self)) {
            self.attend();
        }
    }

    /// Wakes the task that receives replies, unless it already receives.
    pub(crate) fn attend(&self) {
        if !self.is_attended.swap(true, Ordering::AcqRel) {
            self.wake.notify_one();
        }
    }

    /// Wakes the task for one poll in any case.
    pub(crate) fn poll_once(&self) {
        self.wake.notify_one();
    }

    /// The socket, unless the connection is over: at its end, a socket is always readable.
    fn open_socket(&self) -> Option<&Arc<OwnedFd>> {
        self.socket.as_ref().filter(|_| !self.is_over.load(Ordering::Acquire))
    }

    /// True if threads may poll the connection.
    pub(crate) fn is_pollable(&self) -> bool {
        self.socket.is_some()
    }

    /// Receives on the thread of a caller, if that polls the connection.
    pub(crate) fn poll_for(self: &Arc<Self>, caller: Caller<'_, '_>) {
        if spin_on(self) {
            self.poll_here(Some(caller));
        }
    }

    /// Receives on this thread, which must not wait. The task does not receive any more until it is attended. At the
    /// end of the connection, the task is woken once more, so that it ends.
    fn poll_here(&self, caller: Option<Caller<'_, '_>>) {
        self.is_attended.swap(false, Ordering::AcqRel);
        if self.poll_work(&mut Context::from_waker(&POLLING), caller).is_ready() {
            self.wake.notify_one();
        }
    }

    /// Does what there is to receive, unless another thread does it now.
    fn poll_work(&self, context: &mut Context<'_>, caller: Option<Caller<'_, '_>>) -> Poll<()> {
        // The thread that polls now wakes the task if needed.
        let Ok(mut work) = self.work.try_lock() else { return Poll::Pending };
        let polled =
            work.as_mut().map_or(Poll::Ready(()), |work| work.poll_replies(context, caller));
        if polled.is_ready() {
            *work = None;
            self.is_over.store(true, Ordering::Release);
        }
        polled
    }
}

impl Polled for Receiving {
    /// Counts a thread that polls.
    fn begin(&self) {
        self.pollers.fetch_add(1, Ordering::AcqRel);
    }

    fn is_soon(&self) -> bool {
        self.hits.are_likely()
    }

    fn poll(&self) {
        self.poll_here(None);
    }

    fn note(&self, spun: Spun) {
        self.hits.note(spun);
    }

    /// Sleeps until the socket or `wake_up` is readable, for at most [`SLEEP_FOR`]. True if the thread is to poll
    /// again. False if the connection has ended, or another thread sleeps at the socket.
    fn sleep(&self, wake_up: BorrowedFd<'_>) -> bool {
        let Some(socket) = self.open_socket() else { return false };
        if self.has_rest.load(Ordering::Acquire) {
            return true;
        }
        if self.has_sleeper.swap(true, Ordering::AcqRel) {
            return false;
        }
        let mut both = [PollFd::new(socket, PollFlags::IN), PollFd::new(&wake_up, PollFlags::IN)];
        // However this ends, the thread polls again.
        let _ = poll(&mut both, Some(&SLEEP_FOR));
        self.has_sleeper.store(false, Ordering::Release);
        true
    }

    /// Ends the polling of a thread. The last one leaves the connection to the task if a caller waits for a reply.
    fn end(&self) {
        if self.pollers.fetch_sub(1, Ordering::AcqRel) > 1 {
            // Another thread may sleep at the socket already.
            if self.has_rest.load(Ordering::Acquire) {
                self.poll_once();
            }
            return;
        }
        // The task may have found a thread polling, and wait for nothing.
        self.is_attended.swap(false, Ordering::AcqRel);
        if (self.is_awaited)() {
            self.attend();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_os::executor::block_on;
    use std::os::unix::net::UnixStream;

    /// A connection on which a function stands for the receipt of replies.
    struct Polls<F>(F);

    impl<F: FnMut() -> Poll<()> + Send> Receive for Polls<F> {
        fn poll_replies(&mut self, _: &mut Context<'_>, _: Option<Caller<'_, '_>>) -> Poll<()> {
            (self.0)()
        }
    }

    /// Once a poll finds the connection closed, threads have no socket to sleep at, and the task ends.
    #[test]
    fn threads_do_not_sleep_at_a_closed_connection() {
        let (ours, theirs) = UnixStream::pair().expect("two sockets");
        drop(theirs);
        let socket = Some(Arc::new(OwnedFd::from(ours)));
        let work = Polls(|| Poll::Ready(()));
        let receiving = Arc::new(Receiving::new(work, socket, Arc::default(), || false));
        assert!(receiving.open_socket().is_some());
        Polled::poll(&*receiving);
        assert!(receiving.open_socket().is_none());
        // The task ends, too.
        block_on(receiving.run());
    }

    /// Two threads poll, and one of them ends while more replies may have arrived. It wakes the task for them: the
    /// other thread may sleep at the socket, and does not notice replies that were received already.
    #[test]
    fn the_rest_of_many_replies_is_left_to_the_task() {
        let (ours, _theirs) = UnixStream::pair().expect("two sockets");
        let socket = Some(Arc::new(OwnedFd::from(ours)));
        let has_rest = Arc::new(AtomicBool::new(false));
        let left = Arc::clone(&has_rest);
        let work = Polls(move || {
            left.store(true, Ordering::Release);
            Poll::Pending
        });
        let receiving = Receiving::new(work, socket, has_rest, || true);
        receiving.begin();
        receiving.begin();
        Polled::poll(&receiving);
        receiving.end();
        let mut woken = std::pin::pin!(receiving.wake.notified());
        assert!(woken.as_mut().poll(&mut Context::from_waker(std::task::Waker::noop())).is_ready());
    }
}
