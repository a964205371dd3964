//! Initialisation of the library, once for the process. `daos_init` waits for the agent of DAOS without a time-out. So
//! it runs on a thread of its own, which later polls the event queue. A caller that has waited too long gets an error,
//! and the next caller waits for the same initialisation.
use crate::binding::failure::{self, Request};
use crate::binding::library::{Functions, load};
use crate::binding::system::System;
use esker_os::{ForkLock, without_signals};
use esker_types::{Error, ErrorKind, Result};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::time::Duration;

/// Name of the thread that initialises the library and polls the event queue.
pub(crate) const THREAD: &str = "esker-daos";

/// Environment variable that names the directory of the agent's socket, and its default.
const SOCKET_VARIABLE: &str = "DAOS_AGENT_DRPC_DIR";
const SOCKET_DIRECTORY: &str = "/var/run/daos_agent";

/// Id of the process that initialises or has initialised the library; 0 if there is none.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The latest initialisation. A child may be forked while another thread loads the library, so it finds the lock free.
static LATEST: ForkLock<Option<Arc<Initialisation>>> = ForkLock::new();

/// True once the process ends: the library must not be used any more.
static ENDS: Mutex<bool> = Mutex::new(false);

/// Runs once, so that the end of the process is noted.
static NOTED: Once = Once::new();

/// An initialisation, which may take long.
#[derive(Default)]
struct Initialisation {
    outcome: Mutex<Option<Result<&'static System>>>,
    is_over: Condvar,
}

/// The system of this process, which the first call starts. Waits at most `time`.
///
/// # Errors
/// `NotSupported` if the library is not there, and in a forked child of a process that uses it; `TimedOut` if
/// the agent of DAOS does not answer within `time`.
pub(crate) fn system(time: Duration) -> Result<&'static System> {
    check_process()?;
    let running = {
        let mut latest = LATEST.lock();
        match latest.as_ref().filter(|running| !running.has_failed()) {
            Some(running) => Arc::clone(running),
            None => Arc::clone(latest.insert(Initialisation::begin()?)),
        }
    };
    running.wait(time)
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

/// Records that the process ends, so that libdaos is not started any more. Registered as an exit handler.
extern "C" fn note_end() {
    if check_process().is_ok() {
        *locked(&ENDS) = true;
    }
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Initialisation {
    /// Starts a thread that initialises libdaos, because that may take very long.
    fn begin() -> Result<Arc<Self>> {
        let functions = load()?;
        // SAFETY: the function may run at any time, and does not unwind.
        NOTED.call_once(|| _ = unsafe { libc::atexit(note_end) });
        PROCESS.store(std::process::id(), Ordering::Release);
        let running = Arc::new(Self::default());
        let (own, thread) = (Arc::clone(&running), std::thread::Builder::new().name(THREAD.into()));
        let spawned = without_signals(|| thread.spawn(move || own.run(functions)));
        match spawned {
            Ok(_) => Ok(running),
            Err(cause) => {
                PROCESS.store(0, Ordering::Release);
                Err(Error::io("starting the thread for events of libdaos", &cause))
            }
        }
    }

    /// Initialises the library, and polls its event queue until the process ends.
    fn run(&self, functions: &'static Functions) {
        let outcome = start(functions);
        if outcome.is_err() {
            PROCESS.store(0, Ordering::Release);
        }
        *locked(&self.outcome) = Some(outcome.clone());
        self.is_over.notify_all();
        if let Ok(system) = outcome {
            system.take_events();
        }
    }

    /// True if it has ended with an error.
    fn has_failed(&self) -> bool {
        locked(&self.outcome).as_ref().is_some_and(Result::is_err)
    }

    /// Waits until libdaos is initialised, at most for `time`.
    fn wait(&self, time: Duration) -> Result<&'static System> {
        let runs = |outcome: &mut Option<_>| outcome.is_none();
        let waited = self.is_over.wait_timeout_while(locked(&self.outcome), time, runs);
        let (outcome, _) = waited.unwrap_or_else(PoisonError::into_inner);
        outcome.clone().unwrap_or_else(|| Err(silent_agent_error("starting libdaos", time)))
    }
}

/// Initialises libdaos. Fails if the process has begun to end meanwhile.
fn start(functions: &'static Functions) -> Result<&'static System> {
    // SAFETY: initialisation takes no argument and may be repeated.
    let code = unsafe { (functions.daos_init)() };
    failure::check(code, Request::Start.doing("starting libdaos"))?;
    let ends = locked(&ENDS);
    match *ends {
        true => Err(Error::new(ErrorKind::TimedOut, "the process ends: libdaos is not started")),
        false => System::start(functions),
    }
}

/// The error for an agent that does not answer.
#[cold]
pub(crate) fn silent_agent_error(doing: &str, time: Duration) -> Error {
    let directory = std::env::var_os(SOCKET_VARIABLE).filter(|directory| !directory.is_empty());
    let directory = directory.map_or_else(|| PathBuf::from(SOCKET_DIRECTORY), PathBuf::from);
    let message = format!(
        "{doing}: the agent of DAOS at {} did not answer within {} s: restart daos_agent, or name the directory of its \
         socket in {SOCKET_VARIABLE}; timeout= in the URL allows more time",
        directory.join("daos_agent.sock").display(),
        time.as_secs()
    );
    Error::new(ErrorKind::TimedOut, message)
}
