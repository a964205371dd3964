//! What a process has of DAOS: the loaded library, one event queue, and the thread that takes answers from it.
use crate::failure::{self, Request};
use crate::layout::RawHandle;
use crate::library::{Functions, load};
use crate::limits::{BYTES_MAX, EVENTS, OPERATIONS_MAX};
use crate::queue::{Alarm, finish_any};
use esker_os::without_signals;
use esker_types::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// Bytes that one permit stands for.
const UNIT: usize = 1024;

/// How long one call waits for events, in microseconds: alarms are looked at after each.
const WAIT_US: i64 = 20_000;

/// The process that has initialised the library; 0 if none has.
static PROCESS: AtomicU32 = AtomicU32::new(0);

pub(crate) struct System {
    pub(crate) functions: &'static Functions,
    pub(crate) queue: RawHandle,
    pub(crate) operations: Arc<Semaphore>,
    pub(crate) bytes: Arc<Semaphore>,
    work: Mutex<Work>,
    changed: Condvar,
}

/// What the thread has to look after.
#[derive(Default)]
struct Work {
    under_way: usize,
    /// In the order in which they go off, but for those of other connections with another time.
    alarms: VecDeque<(Instant, Weak<Alarm>)>,
}

/// The system of this process, which the first call starts.
///
/// # Errors
/// `NotSupported` if the library is not there, and in a forked child of a process that uses it; `TimedOut` if no agent
/// of DAOS answers.
pub(crate) fn system() -> Result<&'static System> {
    static STARTED: Mutex<Option<&'static System>> = Mutex::new(None);
    check_process()?;
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(system) = *started {
        return Ok(system);
    }
    let system = start()?;
    *started = Some(system);
    Ok(system)
}

/// Refuses a forked child, which lacks the threads of libdaos.
pub(crate) fn check_process() -> Result<()> {
    match PROCESS.load(Ordering::Acquire) {
        0 => Ok(()),
        process if process == std::process::id() => Ok(()),
        _ => Err(Error::new(
            ErrorKind::NotSupported,
            "a forked child of a process that uses DAOS cannot use it: start a new program (exec), or fork before the \
             pool is opened",
        )),
    }
}

fn start() -> Result<&'static System> {
    let functions = load()?;
    // SAFETY: initialisation takes no argument and may be repeated.
    let code = unsafe { (functions.daos_init)() };
    failure::check(code, Request::Start.doing("starting libdaos"))?;
    let mut queue = RawHandle::NONE;
    // SAFETY: the call sets `queue`.
    let code = unsafe { (functions.daos_eq_create)(&raw mut queue) };
    failure::check(code, Request::Start.doing("making an event queue of libdaos"))?;
    let system: &'static System = Box::leak(Box::new(System {
        functions,
        queue,
        operations: Arc::new(Semaphore::new(OPERATIONS_MAX)),
        bytes: Arc::new(Semaphore::new(BYTES_MAX / UNIT)),
        work: Mutex::default(),
        changed: Condvar::new(),
    }));
    PROCESS.store(std::process::id(), Ordering::Release);
    let thread = std::thread::Builder::new().name("esker-daos".into());
    let spawned = without_signals(|| thread.spawn(|| system.take_events()));
    spawned.map_err(|cause| Error::io("starting the thread for events of libdaos", &cause))?;
    Ok(system)
}

impl System {
    fn work(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Permits that bytes of an operation take. One that is larger than all takes all.
    pub(crate) fn units(bytes: usize) -> u32 {
        bytes.div_ceil(UNIT).clamp(1, BYTES_MAX / UNIT) as u32
    }

    /// An alarm that goes off after `time`.
    pub(crate) fn alarm(&self, time: Duration) -> Arc<Alarm> {
        let alarm = Arc::new(Alarm::default());
        self.work().alarms.push_back((Instant::now() + time, Arc::downgrade(&alarm)));
        self.changed.notify_one();
        alarm
    }

    pub(crate) fn begins(&self) {
        self.work().under_way += 1;
        self.changed.notify_one();
    }

    pub(crate) fn ends(&self, count: usize) {
        let mut work = self.work();
        work.under_way = work.under_way.saturating_sub(count);
    }

    /// Sleeps while nothing is under way.
    fn wait_for_work(&self) {
        self.ring();
        let mut work = self.work();
        while work.under_way == 0 && !work.has_due() {
            work = match work.next_alarm() {
                None => self.changed.wait(work).unwrap_or_else(PoisonError::into_inner),
                Some(time) => {
                    let waited = self.changed.wait_timeout(work, time);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Sets off the alarms whose time has come.
    fn ring(&self) {
        let due = self.work().take_due();
        due.iter().for_each(|alarm| alarm.go_off());
    }

    fn take_events(&self) {
        let mut events = [ptr::null_mut(); EVENTS];
        loop {
            self.wait_for_work();
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
    }
}

impl Work {
    /// Takes the alarms whose time has come, and forgets those that nobody waits for.
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

    fn has_due(&self) -> bool {
        self.next_alarm().is_some_and(|time| time.is_zero())
    }

    /// The time until the next alarm.
    fn next_alarm(&self) -> Option<Duration> {
        let next = self.alarms.iter().map(|(at, _)| *at).min()?;
        Some(next.saturating_duration_since(Instant::now()))
    }
}
