//! Operations that wait in the event queue: an operation owns its event and its arguments until libdaos is done with
//! them.
use crate::binding::layout::RawEvent;
use crate::binding::library::{Ev, Functions};
use std::ffi::c_int;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};
use tokio::sync::OwnedSemaphorePermit;

/// An operation in progress. The event comes first: its address is that of the operation.
#[repr(C)]
pub(crate) struct Operation<T> {
    event: RawEvent,
    /// Ends this operation; it knows the type of `owned`.
    finish: unsafe fn(Ev, &Functions),
    owned: T,
    answer: Arc<Answer<T>>,
    /// Permits for the operation and its bytes, which are released when it ends.
    permits: [OwnedSemaphorePermit; 2],
}

impl<T> Operation<T> {
    /// A call that libdaos has not begun. Until it is done, it keeps the data that its arguments point to, and its
    /// permits.
    pub(crate) fn new(
        owned: T,
        answer: &Arc<Answer<T>>,
        permits: [OwnedSemaphorePermit; 2],
    ) -> Box<Self> {
        let answer = Arc::clone(answer);
        Box::new(Self { event: RawEvent::NEW, finish: finish::<T>, owned, answer, permits })
    }

    /// The arguments of an operation that was not started.
    pub(crate) fn into_owned(self) -> T {
        self.owned
    }

    /// The event and the arguments of an operation that is in progress.
    ///
    /// # Safety
    /// `operation` must be valid, and not used otherwise.
    pub(crate) unsafe fn parts<'a>(operation: *mut Self) -> (Ev, &'a mut T) {
        // SAFETY: the two fields do not overlap, and the caller promises the rest.
        unsafe { (&raw mut (*operation).event, &mut (*operation).owned) }
    }
}

/// Ends an operation: the task that waits for it gets the answer.
///
/// # Safety
/// `event` must belong to an operation of this type that has ended. The operation is freed.
unsafe fn finish<T>(event: Ev, functions: &Functions) {
    // SAFETY: the event is the first field of an operation that was made by `Box::into_raw`.
    let mut operation = unsafe { Box::from_raw(event.cast::<Operation<T>>()) };
    let code = operation.event.error;
    // SAFETY: the event was initialised and is not in the queue any more.
    unsafe { (functions.daos_event_fini)(&raw mut operation.event) };
    let Operation { owned, answer, permits, .. } = *operation;
    drop(permits);
    answer.complete(code, owned);
}

/// Ends the operation of an event that was taken from the queue.
///
/// # Safety
/// `event` must come from the queue, which contains only events of operations.
pub(crate) unsafe fn finish_any(event: Ev, functions: &Functions) {
    // SAFETY: the layout of all operations is the same up to this field.
    let finish = unsafe { (*event.cast::<Operation<()>>()).finish };
    // SAFETY: as the caller promises.
    unsafe { finish(event, functions) }
}

/// The answer of an operation, once it has arrived.
pub(crate) struct Answer<T>(Mutex<Arrival<T>>);

/// The outcome of an operation, and the task that waits for it.
struct Arrival<T> {
    outcome: Option<(c_int, T)>,
    waker: Option<Waker>,
}

impl<T> Default for Answer<T> {
    fn default() -> Self {
        Self(Mutex::new(Arrival { outcome: None, waker: None }))
    }
}

impl<T> Answer<T> {
    fn state(&self) -> MutexGuard<'_, Arrival<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the outcome of a call, and wakes its task.
    pub(crate) fn complete(&self, code: c_int, owned: T) {
        let waker = {
            let mut state = self.state();
            state.outcome = Some((code, owned));
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// The code of the operation and its arguments; `None` if the alarm expires first.
    pub(crate) async fn wait(&self, alarm: &Alarm) -> Option<(c_int, T)> {
        poll_fn(|context| {
            alarm.register(context.waker());
            let mut state = self.state();
            if let Some(outcome) = state.outcome.take() {
                return Poll::Ready(Some(outcome));
            }
            state.waker = Some(context.waker().clone());
            if alarm.is_over() { Poll::Ready(None) } else { Poll::Pending }
        })
        .await
    }
}

/// Alarm that expires when an operation has taken too long.
#[derive(Default)]
pub(crate) struct Alarm {
    is_over: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Alarm {
    fn waker(&self) -> MutexGuard<'_, Option<Waker>> {
        self.waker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True once it has expired.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }

    /// Has this task woken when it expires.
    pub(crate) fn register(&self, waker: &Waker) {
        *self.waker() = Some(waker.clone());
    }

    /// Marks the timeout as passed, and wakes its task.
    pub(crate) fn go_off(&self) {
        self.is_over.store(true, Ordering::Release);
        let waker = self.waker().take();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::Context;

    /// The answer of an operation counts although the alarm has expired before the task continues. The second wait
    /// finds the alarm only, since the first one took the answer.
    #[test]
    fn an_answer_wins_over_a_later_alarm() {
        let (answer, alarm) = (Answer::default(), Alarm::default());
        let mut context = Context::from_waker(Waker::noop());
        {
            let mut waiting = pin!(answer.wait(&alarm));
            assert!(waiting.as_mut().poll(&mut context).is_pending());
            answer.complete(-1005, "arguments");
            alarm.go_off();
            assert_eq!(waiting.poll(&mut context), Poll::Ready(Some((-1005, "arguments"))));
        }
        assert_eq!(pin!(answer.wait(&alarm)).poll(&mut context), Poll::Ready(None));
    }
}
