//! Event queues and events (`daos_event.h`): calls whose operations other threads poll.
mod blocking;
mod callbacks;
mod private;
mod queue;
mod queues;
#[cfg(test)]
mod tests;
mod texts;
mod workers;

pub(crate) use blocking::{blocking, drop_blocking};
pub use callbacks::{CompletionCallback, daos_event_register_comp_cb};
pub use queue::Queue;
pub use queues::{daos_eq_create, daos_eq_destroy, daos_eq_poll, daos_eq_query};
pub(crate) use workers::is_own_thread;

use crate::abi::{Event, Handle, Ptr};
use crate::boundary::{self, guard};
use crate::code::{self, Code, Result};
use crate::handles::{self, Entry};
use private::{Ev, EventStatus};
use std::ffi::c_int;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

/// Waits for the operations in progress and ends the threads of events.
pub(crate) fn stop() {
    workers::stop();
    blocking::stop();
}

/// Wakes the threads that poll event queues. The queues are then closed.
pub(crate) fn close_queues() {
    for entry in handles::open_entries() {
        if let Entry::Queue(queue) = &*entry {
            queue.close();
        }
    }
}

/// The end of a time-out in microseconds; `None` if it is negative, which means for ever.
pub(crate) fn deadline(timeout_us: i64) -> Option<Instant> {
    let timeout = Duration::from_micros(u64::try_from(timeout_us).ok()?);
    Instant::now().checked_add(timeout)
}

/// Hands the operation that `prepare` returns to the threads for events. The event completes with its result, or at
/// once if `prepare` fails.
pub(crate) fn launch<F>(ev: Ptr<Event>, prepare: impl FnOnce() -> Result<F>) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let ev = Ev::initialized(ev)?;
    let queue = queue::find_for_event(ev)?;
    queue.start_job(ev)?;
    match prepare() {
        Err(Code(code)) => queue.end_job(ev, code),
        Ok(operation) => workers::submit(async move {
            let code = code::from_result(caught(operation).await);
            queue.end_job(ev, code);
        }),
    }
    Ok(())
}

/// Keeps the text of the failure with which the operation of an event ends. `code` is that of the failure.
pub(crate) fn keep_text(ev: Ptr<Event>, code: c_int, text: String) {
    if let Ok(ev) = Ev::initialized(ev) {
        texts::keep(ev, code, text);
    }
}

/// The code that a completed event ended with, and the text of its failure, if there is one.
///
/// # Errors
/// [`Code::INVAL`] for an event that is not initialized.
pub(crate) fn failure_of(ev: Ptr<Event>) -> Result<(c_int, Option<String>)> {
    let ev = Ev::initialized(ev)?;
    let code = ev.error();
    Ok((code, texts::text_of(ev, code)))
}

/// The result of an operation; a panic in it is an error.
async fn caught(operation: impl Future<Output = Result<()>>) -> Result<()> {
    let mut operation = pin!(operation);
    poll_fn(|context| guard(Poll::Ready(Err(Code::MISC)), || operation.as_mut().poll(context)))
        .await
}

/// Does the work at once and completes the event.
pub(crate) fn completed(ev: Ptr<Event>, work: impl FnOnce() -> Result<()>) -> Result<()> {
    let ev = Ev::initialized(ev)?;
    let queue = queue::find_for_event(ev)?;
    queue.start_job(ev)?;
    queue.end_job(ev, code::from_result(work()));
    Ok(())
}

/// Initializes an event for the queue `eqh`, or as a child of `parent` for the queue of that.
#[unsafe(no_mangle)]
pub extern "C" fn daos_event_init(ev: Ptr<Event>, eqh: Handle, parent: Ptr<Event>) -> c_int {
    boundary::now(|| {
        ev.needed()?;
        let parent = if parent.is_null() { None } else { Some(Ev::initialized(parent)?) };
        let cookie = parent.map_or(eqh.cookie, Ev::queue);
        let queue = queue::find(cookie)?;
        let ev = Ev::fresh(ev, cookie);
        texts::forget(ev);
        parent.map_or(Ok(()), |parent| queue.adopt(parent, ev))
    })
}

/// Finalizes an event. It can be used again, as an event without a parent.
#[unsafe(no_mangle)]
pub extern "C" fn daos_event_fini(ev: Ptr<Event>) -> c_int {
    boundary::now(|| {
        let ev = Ev::initialized(ev)?;
        queue::find_for_event(ev)?.finalize(ev)
    })
}

/// The child after `child`; the first one if `child` is null.
#[unsafe(no_mangle)]
pub extern "C" fn daos_event_next(parent: Ptr<Event>, child: Ptr<Event>) -> Ptr<Event> {
    guard(Ptr::null(), || {
        let after = || -> Result<Option<Ev>> {
            let parent = Ev::initialized(parent)?;
            let child = if child.is_null() { None } else { Some(Ev::initialized(child)?) };
            Ok(queue::find_for_event(parent)?.child_after(parent, child))
        };
        Ev::pointer(after().unwrap_or(None))
    })
}

/// Waits up to `timeout` microseconds for an event, forever if negative. `flag` becomes 1 if the event is not running
/// any more, otherwise 0.
#[unsafe(no_mangle)]
pub extern "C" fn daos_event_test(ev: Ptr<Event>, timeout: i64, flag: Ptr<u8>) -> c_int {
    boundary::now(|| {
        let ev = Ev::initialized(ev)?;
        flag.needed()?;
        let done = queue::find_for_event(ev)?.wait_for(ev, deadline(timeout))?;
        flag.set(u8::from(done));
        Ok(())
    })
}

/// Launches a parent: it completes with the last of its children.
#[unsafe(no_mangle)]
pub extern "C" fn daos_event_parent_barrier(ev: Ptr<Event>) -> c_int {
    boundary::now(|| {
        let ev = Ev::initialized(ev)?;
        let queue: Arc<Queue> = queue::find_for_event(ev)?;
        if queue.child_after(ev, None).is_none() {
            return Err(Code::INVAL);
        }
        queue.start(ev)?;
        // The parent has no operation of its own, only its children.
        queue.end_operation(ev, 0);
        Ok(())
    })
}

/// Accepts a running event, whose operation nevertheless runs to its end, so that no write is left incomplete.
#[unsafe(no_mangle)]
pub extern "C" fn daos_event_abort(ev: Ptr<Event>) -> c_int {
    boundary::now(|| {
        let ev = Ev::initialized(ev)?;
        match queue::find_for_event(ev)?.status_of(ev) {
            EventStatus::Running => Ok(()),
            _ => Err(Code::NO_PERM),
        }
    })
}
