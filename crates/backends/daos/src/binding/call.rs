//! Calls of libdaos that use the network: launched with an event, limited in number, with a time-out.
use crate::binding::failure::{self, Doing, Request};
use crate::binding::layout::RawHandle;
use crate::binding::library::{Ev, Functions};
use crate::binding::limits;
use crate::binding::queue::{Alarm, Answer, Operation};
use crate::binding::start::{check_process, silent_agent_error, system};
use crate::binding::system::System;
use esker_os::executor::block_on;
use esker_os::without_signals;
use esker_types::{Error, ErrorKind, Result};
use std::ffi::c_int;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Name of a thread that makes one call.
const CALLER: &str = "esker-daos-call";

/// Settings of calls: the system of the process, and the time-out of each call.
#[derive(Clone, Copy)]
pub(crate) struct Calls {
    system: &'static System,
    /// Time-out of a call.
    time: Duration,
    /// The calls may block until the agent answers.
    may_block: bool,
}

impl Calls {
    /// Prepares calls that fail after `seconds` without a reply. `None` is the default, [`limits::TIMEOUT_SECONDS`].
    ///
    /// # Errors
    /// The errors of [`system`], which waits for at most the same time.
    pub(crate) fn new(seconds: Option<u32>) -> Result<Self> {
        let time = Duration::from_secs(seconds.unwrap_or(limits::TIMEOUT_SECONDS).into());
        Ok(Self { system: system(time)?, time, may_block: false })
    }

    pub(crate) fn functions(self) -> &'static Functions {
        self.system.functions
    }

    /// Counts an opened or closed connection to a pool.
    pub(crate) fn counts_connection(self, is_open: bool) {
        let count = &self.system.connections;
        match is_open {
            true => count.fetch_add(1, Ordering::AcqRel),
            false => count.fetch_sub(1, Ordering::AcqRel),
        };
    }

    /// Launches a call with `owned`, which it refers to, and waits for its code. `bytes` is the size of its buffers.
    ///
    /// # Errors
    /// `TimedOut`; `NotSupported` in a forked child. A code that the library returns is not an error here.
    pub(crate) async fn run<T: Send + 'static>(
        self,
        doing: Doing<'_>,
        bytes: usize,
        owned: T,
        launch: impl FnOnce(&Functions, &mut T, Ev) -> c_int,
    ) -> Result<(c_int, T)> {
        check_process()?;
        let alarm = self.system.alarm(self.time);
        let permits = match self.may_block {
            true => &self.system.blocking,
            false => &self.system.operations,
        };
        let operations = acquire(permits, 1, &alarm);
        let operations = operations.await.ok_or_else(|| self.timeout_error(doing))?;
        let bytes = acquire(&self.system.bytes, System::units(bytes), &alarm);
        let bytes = bytes.await.ok_or_else(|| self.timeout_error(doing))?;
        let answer = Arc::new(Answer::default());
        match self.start(owned, &answer, [operations, bytes], launch) {
            Some(refused) => Ok(refused),
            None => answer.wait(&alarm).await.ok_or_else(|| self.timeout_error(doing)),
        }
    }

    /// Runs a call like [`Calls::run`], and turns a negative code into an error.
    ///
    /// # Errors
    /// Errors of [`Calls::run`], and the error of a negative code.
    pub(crate) async fn run_checked<T: Send + 'static>(
        self,
        doing: Doing<'_>,
        owned: T,
        launch: impl FnOnce(&Functions, &mut T, Ev) -> c_int,
    ) -> Result<T> {
        let (code, owned) = self.run(doing, 0, owned, launch).await?;
        failure::check(code, doing).map(|()| owned)
    }

    /// Runs a call like [`Calls::run_checked`], on a thread of its own, because the call may block until the agent
    /// answers. Its kind and text describe it in errors.
    ///
    /// # Errors
    /// `TimedOut` if the agent does not answer, with a message that names the agent.
    pub(crate) async fn run_apart<T: Send + 'static>(
        self,
        (request, text): (Request, &str),
        owned: T,
        launch: impl FnOnce(&Functions, &mut T, Ev) -> c_int + Send + 'static,
    ) -> Result<T> {
        check_process()?;
        let alarm = self.system.alarm(self.time);
        let (answer, is_launched) = (Arc::new(Answer::default()), Arc::new(AtomicBool::new(false)));
        let (own_answer, own_is_launched) = (Arc::clone(&answer), Arc::clone(&is_launched));
        let doing = text.to_owned();
        let work = move || {
            let launch = |functions: &Functions, owned: &mut T, event: Ev| {
                let code = launch(functions, owned, event);
                own_is_launched.store(true, Ordering::Release);
                code
            };
            let calls = Self { may_block: true, ..self };
            let outcome = block_on(calls.run_checked(request.doing(&doing), owned, launch));
            own_answer.complete(0, outcome);
        };
        let thread = std::thread::Builder::new().name(CALLER.into());
        let spawned = without_signals(|| thread.spawn(work));
        spawned.map_err(|cause| Error::io("starting a thread for a call of libdaos", &cause))?;
        match answer.wait(&alarm).await {
            Some((_, outcome)) => outcome,
            // The agent has answered, so the system does not.
            None if is_launched.load(Ordering::Acquire) => {
                Err(self.timeout_error(request.doing(text)))
            }
            None => Err(silent_agent_error(text, self.time)),
        }
    }

    /// Launches a call that closes a handle, and does not wait for it. `parent` is kept until the handle is closed: DAOS
    /// refuses to close it before. If too many operations are in progress, the handle stays open until the process ends.
    pub(crate) fn leave<T: Send + 'static>(
        self,
        handle: RawHandle,
        end: fn(&Functions) -> End,
        parent: T,
    ) {
        if check_process().is_err() {
            return;
        }
        let permits = |of: &Arc<Semaphore>| Arc::clone(of).try_acquire_owned().ok();
        let (operations, bytes) = (permits(&self.system.operations), permits(&self.system.bytes));
        if let (Some(operations), Some(bytes)) = (operations, bytes) {
            let answer = Arc::new(Answer::default());
            // SAFETY: nothing uses the handle any more.
            let launch = |functions: &Functions, _: &mut T, event: Ev| unsafe {
                end(functions)(handle, event)
            };
            self.start(parent, &answer, [operations, bytes], launch);
        }
    }

    /// Starts an operation with `owned`, to which the call refers; `permits` are held until it is complete. If the
    /// library refuses it at once, returns its code and the arguments.
    fn start<T: Send + 'static>(
        self,
        owned: T,
        answer: &Arc<Answer<T>>,
        permits: [OwnedSemaphorePermit; 2],
        launch: impl FnOnce(&Functions, &mut T, Ev) -> c_int,
    ) -> Option<(c_int, T)> {
        let (system, functions) = (self.system, self.system.functions);
        let operation = Box::into_raw(Operation::new(owned, answer, permits));
        // SAFETY: the operation was just made, and lives until its event is taken from the queue.
        let (event, owned) = unsafe { Operation::parts(operation) };
        if !system.begins() {
            // SAFETY: the library does not know the operation.
            let operation = unsafe { Box::from_raw(operation) };
            return Some((UNINITIALISED, operation.into_owned()));
        }
        // SAFETY: the event is new; the queue lives until the process ends, when no operation begins.
        let code = unsafe { (functions.daos_event_init)(event, system.queue, ptr::null_mut()) };
        let code = if code == 0 { launch(functions, owned, event) } else { code };
        if code == 0 {
            return None;
        }
        // SAFETY: the event was made above.
        // Busy: the call was launched nevertheless, and its event will come from the queue.
        if unsafe { (functions.daos_event_fini)(event) } == BUSY {
            return None;
        }
        system.ends(1);
        // SAFETY: the library does not know the event any more.
        let operation = unsafe { Box::from_raw(operation) };
        Some((code, operation.into_owned()))
    }

    /// The error of a call that was not answered in time.
    #[cold]
    fn timeout_error(self, Doing { text, .. }: Doing<'_>) -> Error {
        let message = format!(
            "{text}: the DAOS system did not answer within {} s: `dmg system query` shows engines that are down; \
             timeout= in the URL allows more time",
            self.time.as_secs()
        );
        Error::new(ErrorKind::TimedOut, message)
    }
}

/// Closes a handle.
pub(crate) type End = unsafe extern "C" fn(RawHandle, Ev) -> c_int;

/// A handle that a call opens. It is closed again if nobody takes it: the call may end after its time-out, or after its
/// task was canceled.
pub(crate) struct NewHandle {
    raw: RawHandle,
    calls: Calls,
    end: fn(&Functions) -> End,
}

impl NewHandle {
    /// Place for the handle of a call that was not made yet. `end` closes it.
    pub(crate) fn new(calls: Calls, end: fn(&Functions) -> End) -> Self {
        Self { raw: RawHandle::NONE, calls, end }
    }

    /// The address at which the call stores the handle.
    pub(crate) fn as_mut_ptr(&mut self) -> *mut RawHandle {
        &raw mut self.raw
    }

    /// The open handle. The caller closes it.
    pub(crate) fn take(mut self) -> RawHandle {
        std::mem::replace(&mut self.raw, RawHandle::NONE)
    }
}

impl Drop for NewHandle {
    fn drop(&mut self) {
        if self.raw != RawHandle::NONE {
            self.calls.leave(self.raw, self.end, ());
        }
    }
}

/// `-DER_UNINIT`: the process ends.
const UNINITIALISED: c_int = -1015;

/// `-DER_BUSY`: the operation of the event is in progress.
const BUSY: c_int = -1012;

/// Waits for permits; `None` if the alarm expires first.
async fn acquire(of: &Arc<Semaphore>, count: u32, alarm: &Alarm) -> Option<OwnedSemaphorePermit> {
    let mut asked = pin!(Arc::clone(of).acquire_many_owned(count));
    poll_fn(|context| {
        alarm.register(context.waker());
        match asked.as_mut().poll(context) {
            Poll::Ready(permit) => Poll::Ready(permit.ok()),
            Poll::Pending if alarm.is_over() => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
