//! Use of DAOS by a process: the loaded library, one event queue, and the thread that polls it.
//!
//! When the process ends, libraries that libdaos uses free their memory. A thread that still polled the queue would use
//! the freed memory. So the thread is stopped first, after the calls that close handles. Then the queue and the library
//! are closed. If a connection is still open or a call in progress, the queue and the library stay open, since other
//! threads may be in the library. The agent closes the connections of ended processes.
use crate::binding::failure::{self, Request};
use crate::binding::layout::RawHandle;
use crate::binding::library::Functions;
use crate::binding::limits::{BLOCKING_MAX, BYTES_MAX, END_SECONDS, EVENTS, OPERATIONS_MAX};
use crate::binding::queue::{Alarm, finish_any};
use crate::binding::start::{THREAD, check_process};
use esker_types::Result;
use std::collections::VecDeque;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Bytes that one permit stands for.
const UNIT: usize = 1024;

/// Microseconds that one call waits for events. Alarms are checked after each call.
const WAIT_US: i64 = 20_000;

/// Time that the end of the process waits for calls in progress.
const END: Duration = Duration::from_secs(END_SECONDS);

/// The system of this process, once it is started.
static STARTED: OnceLock<&'static System> = OnceLock::new();

/// The system of a process.
pub(crate) struct System {
    pub(crate) functions: &'static Functions,
    pub(crate) queue: RawHandle,
    /// Permits for operations in progress.
    pub(crate) operations: Arc<Semaphore>,
    /// Permits for calls that may block until the agent answers. They have permits of their own, since each attempt to a
    /// silent agent holds one.
    pub(crate) blocking: Arc<Semaphore>,
    /// Permits for the bytes of their buffers, in units of [`UNIT`].
    pub(crate) bytes: Arc<Semaphore>,
    /// Connections to pools that are open.
    pub(crate) connections: AtomicUsize,
    work: Mutex<Work>,
    /// Notified when `work` changes.
    changed: Condvar,
}

/// State that the thread of the event queue reads.
#[derive(Default)]
struct Work {
    phase: Phase,
    /// Number of calls in progress.
    under_way: usize,
    /// Alarms, in the order of their times, except that connections with different time-outs may be out of order.
    alarms: VecDeque<(Instant, Weak<Alarm>)>,
}

/// State of the thread of the event queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Running,
    /// No call may begin. Until this time, the thread polls for the calls in progress.
    Ending(Instant),
    /// The thread has ended.
    Stopped,
}

/// Runs at the end of the process, before the exit handlers of libdaos and its libraries.
extern "C" fn end() {
    // A child does not use the library, and lacks the thread.
    if check_process().is_ok()
        && let Some(system) = STARTED.get()
        && std::thread::current().name() != Some(THREAD)
    {
        system.end();
    }
}

impl System {
    /// Creates the event queue of an initialised library.
    pub(crate) fn start(functions: &'static Functions) -> Result<&'static Self> {
        let mut queue = RawHandle::NONE;
        // SAFETY: the call sets `queue`.
        let code = unsafe { (functions.daos_eq_create)(&raw mut queue) };
        failure::check(code, Request::Start.doing("making an event queue of libdaos"))?;
        let system: &'static Self = Box::leak(Box::new(Self {
            functions,
            queue,
            operations: Arc::new(Semaphore::new(OPERATIONS_MAX)),
            blocking: Arc::new(Semaphore::new(BLOCKING_MAX)),
            bytes: Arc::new(Semaphore::new(BYTES_MAX / UNIT)),
            connections: AtomicUsize::new(0),
            work: Mutex::default(),
            changed: Condvar::new(),
        }));
        // SAFETY: the function may run at any time, and does not unwind.
        unsafe { libc::atexit(end) };
        Ok(STARTED.get_or_init(|| system))
    }

    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Number of permits for the bytes of an operation, at most all permits.
    pub(crate) fn units(bytes: usize) -> u32 {
        bytes.div_ceil(UNIT).clamp(1, BYTES_MAX / UNIT) as u32
    }

    /// Starts an alarm that expires after `time`. It is cancelled when the returned value is dropped.
    pub(crate) fn alarm(&self, time: Duration) -> Arc<Alarm> {
        let alarm = Arc::new(Alarm::default());
        self.work().alarms.push_back((Instant::now() + time, Arc::downgrade(&alarm)));
        self.changed.notify_all();
        alarm
    }

    /// Counts a call as in progress. False if no call may begin, since the process ends.
    pub(crate) fn begins(&self) -> bool {
        let mut work = self.work();
        let runs = work.phase == Phase::Running;
        work.under_way += usize::from(runs);
        self.changed.notify_all();
        runs
    }

    /// Counts `count` calls as ended.
    pub(crate) fn ends(&self, count: usize) {
        let mut work = self.work();
        work.under_way = work.under_way.saturating_sub(count);
    }

    /// Wakes tasks whose alarms have expired, then sleeps while no call is in progress. False if the thread is to end,
    /// because the process ends.
    fn wait_for_work(&self) -> bool {
        self.ring();
        let mut work = self.work();
        while work.phase == Phase::Running && work.under_way == 0 && !work.has_due() {
            work = match work.next_alarm() {
                None => self.changed.wait(work).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let waited = self.changed.wait_timeout(work, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
        match work.phase {
            Phase::Running => true,
            Phase::Ending(last) => work.under_way > 0 && Instant::now() < last,
            Phase::Stopped => false,
        }
    }

    /// Stops the thread, and closes the library if nothing uses it.
    fn end(&self) {
        let mut work = self.work();
        work.phase = Phase::Ending(Instant::now() + END);
        self.changed.notify_all();
        let is_running = |work: &mut Work| work.phase != Phase::Stopped;
        let stopped = self.changed.wait_timeout_while(work, 2 * END, is_running);
        let (work, late) = stopped.unwrap_or_else(PoisonError::into_inner);
        let is_used = work.under_way > 0 || self.connections.load(Ordering::Acquire) > 0;
        drop(work);
        if !late.timed_out() && !is_used {
            // SAFETY: no call is in progress, and none begins. No connection is open through which another one could
            // begin.
            unsafe {
                (self.functions.daos_eq_destroy)(self.queue, 0);
                (self.functions.daos_fini)();
            }
        }
    }

    /// Wakes the tasks whose alarms have expired.
    fn ring(&self) {
        let due = self.work().take_due();
        for alarm in due {
            // A waker runs the caller's code, which may panic.
            let go_off = std::panic::AssertUnwindSafe(|| alarm.go_off());
            let _ = std::panic::catch_unwind(go_off);
        }
    }

    /// Takes events from the queue until the process ends.
    pub(crate) fn take_events(&self) {
        let mut events = [ptr::null_mut(); EVENTS];
        while self.wait_for_work() {
            // SAFETY: the array has room for as many events; nobody else polls this queue.
            let count: c_int = unsafe {
                let poll = self.functions.daos_eq_poll;
                poll(self.queue, 0, WAIT_US, EVENTS as u32, events.as_mut_ptr())
            };
            let count = usize::try_from(count).unwrap_or(0);
            for event in events.iter().copied().take(count) {
                // A waker runs the caller's code, which may panic.
                let end = std::panic::AssertUnwindSafe(|| {
                    // SAFETY: the event was taken from the queue, where only operations put theirs.
                    unsafe { finish_any(event, self.functions) }
                });
                let _ = std::panic::catch_unwind(end);
            }
            self.ends(count);
        }
        self.work().phase = Phase::Stopped;
        self.changed.notify_all();
    }
}

impl Work {
    /// Removes and returns the expired alarms. Alarms for which no task waits are dropped.
    fn take_due(&mut self) -> Vec<Arc<Alarm>> {
        let (now, mut due) = (Instant::now(), Vec::new());
        self.alarms.retain(|(at, alarm)| match alarm.upgrade() {
            Some(alarm) if *at <= now => {
                due.push(alarm);
                false
            }
            waiting => waiting.is_some(),
        });
        due
    }

    /// True if an alarm has expired.
    fn has_due(&self) -> bool {
        self.next_alarm().is_some_and(|time| time.is_zero())
    }

    /// Returns the time until the next alarm, zero if one is due. None if no alarm is set.
    fn next_alarm(&self) -> Option<Duration> {
        let next = self.alarms.iter().map(|(at, _)| *at).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}
