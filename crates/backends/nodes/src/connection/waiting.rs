//! Callers that wait for their replies.
use crate::connection::{REQUEST_TIMEOUT, Received, timeout_error};
use esker_types::{Error, Result};
use std::collections::HashMap;
use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// The callers of a connection.
#[derive(Default)]
pub(super) struct Waiting(Mutex<Calls>);

#[derive(Default)]
struct Calls {
    /// The calls that wait for a reply.
    by_number: HashMap<u64, Call>,
    /// Error of the connection, once no reply will come any more.
    over: Option<Error>,
    /// Callers that wait for the end of the connection.
    until_over: Vec<oneshot::Sender<()>>,
}

/// Limits of the reply to a call.
#[derive(Clone, Copy)]
pub(crate) struct ReplyLimits {
    /// Most bytes of its data.
    pub(crate) room: u64,
    /// Time that it may take. [`Duration::MAX`] if the caller has a limit of its own.
    pub(crate) timeout: Duration,
}

impl ReplyLimits {
    /// A reply with at most `room` bytes of data, within [`REQUEST_TIMEOUT`].
    pub(crate) fn with_room(room: u64) -> Self {
        Self { room, timeout: REQUEST_TIMEOUT }
    }
}

/// A call without a reply.
pub(super) struct Call {
    limits: ReplyLimits,
    /// End of the time that the reply may take, if there is one.
    deadline: Option<Instant>,
    reply: oneshot::Sender<Result<Received>>,
    /// Set if the caller receives long data itself.
    data_waker: Option<DataWaker>,
}

/// Waker of a caller that receives the data of its reply itself.
struct DataWaker {
    waker: Waker,
    /// The caller was woken because data has arrived, and has not polled since.
    is_woken: bool,
}

impl Call {
    /// Passes the reply on. The caller may be gone.
    pub(super) fn reply(self, received: Result<Received>) {
        let _ = self.reply.send(received);
    }
}

impl Waiting {
    fn calls(&self) -> MutexGuard<'_, Calls> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call, and returns the receiver of its reply. Fails if the connection has ended.
    pub(super) fn add(
        &self,
        number: u64,
        limits: ReplyLimits,
    ) -> Result<oneshot::Receiver<Result<Received>>> {
        let (reply, receiver) = oneshot::channel();
        let mut calls = self.calls();
        if let Some(why) = &calls.over {
            return Err(why.clone());
        }
        let deadline = Instant::now().checked_add(limits.timeout);
        calls.by_number.insert(number, Call { limits, deadline, reply, data_waker: None });
        Ok(receiver)
    }

    /// Removes a call and returns it; `None` if it does not wait any more.
    pub(super) fn take(&self, number: u64) -> Option<Call> {
        self.calls().by_number.remove(&number)
    }

    /// Most bytes of data that the reply to a call may have; `None` if the call does not wait any more.
    pub(super) fn room(&self, number: u64) -> Option<u64> {
        self.calls().by_number.get(&number).map(|call| call.limits.room)
    }

    /// Returns the number of calls that wait for a reply.
    pub(super) fn count(&self) -> usize {
        self.calls().by_number.len()
    }

    /// Records that the caller receives long data itself when it is woken; without a waker, that it does not. True if
    /// data has arrived for it.
    pub(super) fn expect_data(&self, number: u64, waker: Option<&Waker>) -> bool {
        let mut calls = self.calls();
        let Some(call) = calls.by_number.get_mut(&number) else { return false };
        let is_woken = call.data_waker.as_ref().is_some_and(|data| data.is_woken);
        call.data_waker = waker.map(|waker| DataWaker { waker: waker.clone(), is_woken: false });
        is_woken
    }

    /// True if the caller receives long data itself.
    pub(super) fn receives_data(&self, number: u64) -> bool {
        self.calls().by_number.get(&number).is_some_and(|call| call.data_waker.is_some())
    }

    /// Wakes a caller that receives long data itself. False if it was woken already and has not polled since.
    pub(super) fn wake_for_data(&self, number: u64) -> bool {
        let waker = {
            let mut calls = self.calls();
            let call = calls.by_number.get_mut(&number);
            let data = call.and_then(|call| call.data_waker.as_mut());
            let Some(data) = data.filter(|data| !data.is_woken) else { return false };
            data.is_woken = true;
            data.waker.clone()
        };
        waker.wake();
        true
    }

    /// Error of the connection, once no reply will come any more.
    pub(super) fn over(&self) -> Option<Error> {
        self.calls().over.clone()
    }

    /// Waits until no reply will come any more.
    pub(super) fn until_over(&self) -> impl Future<Output = ()> + Send + 'static {
        let (sender, receiver) = oneshot::channel();
        let mut calls = self.calls();
        if calls.over.is_none() {
            calls.until_over.retain(|waiting| !waiting.is_closed());
            calls.until_over.push(sender);
        }
        drop(calls);
        async move {
            // If the sender was dropped, the connection is over, too.
            let _ = receiver.await;
        }
    }

    /// Fails all requests in progress and all later ones.
    pub(super) fn end(&self, why: &Error) {
        let mut calls = self.calls();
        calls.over.get_or_insert_with(|| why.clone());
        for (_, call) in calls.by_number.drain() {
            call.reply(Err(why.clone()));
        }
        for waiting in calls.until_over.drain(..) {
            let _ = waiting.send(());
        }
    }

    /// Fails the requests whose deadline has passed.
    pub(super) fn expire(&self, name: &str) {
        let now = Instant::now();
        let mut calls = self.calls();
        let is_late = |call: &Call| call.deadline.is_some_and(|deadline| deadline <= now);
        for (_, call) in calls.by_number.extract_if(|_, call| is_late(call)) {
            let error = timeout_error(name, call.limits.timeout);
            call.reply(Err(error));
        }
    }
}
