//! A backend with one injected fault, to verify that tests detect it. It also counts what it lists.
#![expect(clippy::panic, reason = "some faults are panics")]

use crate::between::{Interceptor, PoolBetween};
use esker::types::ops::{Anchor, Change, DkeyFetch, FetchReply, ReadAt, Sink, View};
use esker::types::{Epoch, ErrorKind, ObjectId};
use esker_backend::memory::Memory;
use esker_backend::{Capabilities, OpenContainer, Pool, Reply};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

/// The fault, which occurs now and then.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Fault {
    /// No fault.
    #[default]
    None,
    /// A write is acknowledged but not applied.
    LostWrite,
    /// A write takes effect, and fails as if its reply were lost. Its replies take a while.
    LostReply,
    /// Repeated changes are applied again.
    ForgottenIds,
    /// A fetch returns a wrong byte.
    FlippedBit,
    /// Snapshots show the latest state.
    MovingSnapshots,
    /// Commits do not verify reads.
    MissedConflicts,
    /// Transactions always fail with a request to restart.
    NeedlessRestarts,
    /// Listings of keys end too early.
    ShortListings,
    /// A write fails as if the pool were full.
    Full,
    /// No commit decision is removed, as if each client died before that.
    NeverForgets,
    /// Writes never complete.
    NoAnswer,
    /// Writes block their thread until [`Faulty::let_go`].
    Waits,
    /// Writes panic at once.
    Panics,
    /// Writes panic after they have waited for a moment.
    PanicsLater,
    /// Writes panic on threads that may wait.
    PanicsApart,
}

/// The reference backend, or another, with a fault.
pub type Faulty = PoolBetween<Faults>;

/// The fault, and the number of its opportunities.
#[derive(Default)]
pub struct Faults {
    fault: Fault,
    calls: AtomicU64,
    listed: AtomicU64,
    waiting: AtomicU64,
    let_go: AtomicBool,
}

impl Faults {
    /// Panics now or later, if that is the fault.
    fn panic<'a>(&self) -> Option<Reply<'a, Epoch>> {
        match self.fault {
            Fault::Panics => panic!("a planned panic"),
            // `Busy` lets the caller repeat the write on another thread, which then panics.
            Fault::PanicsApart if esker_os::executor::must_not_wait() => {
                Some(Reply::Ready(Err(ErrorKind::Busy.into())))
            }
            Fault::PanicsApart => panic!("a planned panic"),
            Fault::PanicsLater => Some(Reply::Pending(Box::pin(async {
                later().await;
                panic!("a planned panic")
            }))),
            _ => None,
        }
    }

    /// Counts the operation as a waiting one, and waits until the test lets it go. Returns false, without waiting, on a
    /// thread that must not block.
    fn wait(&self) -> bool {
        let mut noted = false;
        while !self.let_go.load(Ordering::Acquire) {
            if esker_os::executor::must_not_wait() {
                return false;
            }
            if !std::mem::replace(&mut noted, true) {
                self.waiting.fetch_add(1, Ordering::Relaxed);
            }
            esker_testing::pause(100);
        }
        true
    }
}

/// Is pending at the first poll, and ready at the second.
async fn later() {
    let mut is_later = false;
    std::future::poll_fn(|context| {
        context.waker().wake_by_ref();
        if std::mem::replace(&mut is_later, true) { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

impl Faulty {
    /// The reference backend with a fault.
    #[must_use]
    pub fn new(fault: Fault) -> Self {
        Self::on(Arc::new(Memory::new(2)), fault)
    }

    /// Another backend with a fault.
    #[must_use]
    pub fn on(inner: Arc<dyn Pool>, fault: Fault) -> Self {
        let faults = Faults { fault, calls: AtomicU64::new(1), ..Faults::default() };
        Self { inner, interceptor: Arc::new(faults) }
    }

    /// Number of writes that wait on their thread.
    #[must_use]
    pub fn waiting(&self) -> u64 {
        self.interceptor.waiting.load(Ordering::Relaxed)
    }

    /// Lets all writes continue.
    pub fn let_go(&self) {
        self.interceptor.let_go.store(true, Ordering::Release);
    }

    /// Number of calls that list or search keys and extents, and of the entries they returned, since the last call of
    /// this function.
    pub fn listed(&self) -> u64 {
        self.interceptor.listed.swap(0, Ordering::Relaxed)
    }
}

impl Faults {
    /// True at every 50th opportunity of the fault.
    fn strikes(&self, fault: Fault) -> bool {
        self.fault == fault && self.calls.fetch_add(1, Ordering::Relaxed).is_multiple_of(50)
    }

    /// Flips a bit in the last byte of a reply, if that is the fault and it strikes now.
    fn flip(&self, reply: &mut FetchReply<'_>) {
        if reply.filled_bytes == 0 {
            return;
        }
        if let (Sink::One(buffer), true) = (&mut reply.sink, self.strikes(Fault::FlippedBit)) {
            buffer[reply.filled_bytes as usize - 1] ^= 1;
        }
    }
}

impl Interceptor for Faults {
    /// Makes a call without a fault. Calls that a fault may affect have functions below, which override those of the
    /// trait.
    fn capabilities(&self, of: Capabilities) -> Capabilities {
        Capabilities { asynchronous: of.asynchronous || self.fault == Fault::LostReply, ..of }
    }

    fn forgets(&self) -> bool {
        self.fault != Fault::NeverForgets
    }

    fn at<'a>(&self, at: ReadAt<'a>) -> ReadAt<'a> {
        match self.fault {
            Fault::MovingSnapshots => ReadAt { view: View::Latest, ..at },
            _ => at,
        }
    }

    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        if self.strikes(Fault::LostWrite) {
            return Reply::Ready(Ok(Epoch::now()));
        }
        if self.strikes(Fault::Full) {
            return Reply::Ready(Err(ErrorKind::NoSpace.into()));
        }
        if self.fault == Fault::Waits && !self.wait() {
            return Reply::Ready(Err(ErrorKind::Busy.into()));
        }
        if let Some(reply) = self.panic() {
            return reply;
        }
        if self.fault == Fault::NoAnswer {
            return Reply::Pending(Box::pin(std::future::pending()));
        }
        if change.tokens.is_some() && self.fault == Fault::NeedlessRestarts {
            return Reply::Ready(Err(ErrorKind::TxRestart.into()));
        }
        let tokens = change.tokens.filter(|_| self.fault != Fault::MissedConflicts);
        let id = change.id.filter(|_| self.fault != Fault::ForgottenIds);
        let written = to.write(Change { tokens, id, ..change });
        if self.strikes(Fault::LostReply) {
            return Reply::Ready(written.wait().and(Err(ErrorKind::TimedOut.into())));
        }
        written
    }

    fn fetch<'a, 'f, 'b>(
        &'a self,
        from: &'a dyn OpenContainer,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        let result = from.fetch(oid, dkeys, at).wait();
        let replies = dkeys.iter_mut().flat_map(|dkey| dkey.akeys.iter_mut());
        replies.for_each(|fetch| self.flip(&mut fetch.reply));
        Reply::Ready(result)
    }

    fn before_keys(&self, anchor: &mut Anchor) {
        if *anchor != Anchor::Start && self.strikes(Fault::ShortListings) {
            *anchor = Anchor::End;
        }
    }

    fn list<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
        len: fn(&T) -> usize,
    ) -> Reply<'a, T> {
        let result = call().wait();
        let given = result.as_ref().map_or(0, len) as u64;
        self.listed.fetch_add(1 + given, Ordering::Relaxed);
        Reply::Ready(result)
    }
}
