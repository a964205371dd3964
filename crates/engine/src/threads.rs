//! The threads that serve connections. Each has connections of its own, and polls them for a short while before it
//! sleeps, because waking it would take longer than serving many requests does.
use esker_os::executor::{Hits, SPIN_TIME, Spun, yield_core};
use esker_types::{Error, Result};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::thread::JoinHandle;
use std::time::Instant;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Handle};
use tokio::sync::Notify;

/// Threads that serve connections. They and their connections end when this is dropped.
pub struct Threads(Vec<Worker>);

/// One thread with its runtime.
struct Worker {
    runtime: Handle,
    /// Number of connections that it serves.
    connections: Arc<AtomicUsize>,
    /// Notified when the thread is to end.
    end: Arc<Notify>,
    thread: Option<JoinHandle<()>>,
}

/// Counts one connection of a thread, until it is dropped.
struct Served(Arc<AtomicUsize>);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Threads {
    /// Starts `count` threads, at least one.
    ///
    /// # Errors
    /// `Io` if the system starts no more threads.
    pub fn start(count: usize) -> Result<Self> {
        (0..count.max(1)).map(Worker::start).collect::<Result<_>>().map(Self)
    }

    /// Serves a connection on the thread that has the fewest.
    pub(crate) fn spawn<F: Future<Output = ()> + Send>(
        &self,
        stream: TcpStream,
        serve: impl FnOnce(TcpStream) -> F + Send + 'static,
    ) {
        let fewest = self.0.iter().min_by_key(|worker| worker.connections.load(Ordering::Relaxed));
        let Some(worker) = fewest else { return };
        worker.connections.fetch_add(1, Ordering::Relaxed);
        let served = Served(Arc::clone(&worker.connections));
        worker.runtime.spawn(async move {
            let _served = served;
            // The runtime of this thread polls the connection, instead of the one that accepted it.
            match stream.into_std().and_then(TcpStream::from_std) {
                Ok(stream) => serve(stream).await,
                Err(error) => tracing::warn!(%error, "cannot serve a connection"),
            }
        });
    }
}

impl Worker {
    /// Starts a thread with its own runtime.
    fn start(number: usize) -> Result<Self> {
        let failed = |error| Error::io("starting a thread of the engine", &error);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (handle, end) = (runtime.handle().clone(), Arc::new(Notify::new()));
        let ended = Arc::clone(&end);
        let named = std::thread::Builder::new().name(format!("engine-{number}"));
        let thread = named.spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    biased;
                    () = ended.notified() => {}
                    () = poll_for_requests() => {}
                }
            });
        });
        let thread = Some(thread.map_err(failed)?);
        Ok(Self { runtime: handle, connections: Arc::default(), end, thread })
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end.notify_one();
        let here = std::thread::current().id();
        // One of these threads may drop the last reference to them: it cannot join itself, and ends later.
        let other = self.thread.take().filter(|thread| thread.thread().id() != here);
        if let Some(Err(_)) = other.map(JoinHandle::join) {
            tracing::error!("a thread of the engine ended in a defect of the program");
        }
    }
}

thread_local! {
    /// Number of requests that this thread has served. It wraps.
    static REQUESTS: Cell<u64> = const { Cell::new(0) };
    /// Wakes the task that polls, while it waits for the next request.
    static SLEEPER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Records that this thread has served requests, and wakes the task that polls for the next.
pub(crate) fn note_requests() {
    REQUESTS.set(REQUESTS.get().wrapping_add(1));
    if let Some(sleeper) = SLEEPER.take() {
        sleeper.wake();
    }
}

/// Keeps the thread awake for a while after each request, so that it polls for the next.
async fn poll_for_requests() {
    let (hits, mut seen) = (Hits::default(), REQUESTS.get());
    loop {
        sleep_until_requests(seen).await;
        seen = REQUESTS.get();
        if hits.are_likely() {
            hits.note(spin_wait(&mut seen).await);
        }
    }
}

/// Waits until the number of requests is no longer `seen`.
async fn sleep_until_requests(seen: u64) {
    poll_fn(|context| {
        if REQUESTS.get() != seen {
            return Poll::Ready(());
        }
        SLEEPER.set(Some(context.waker().clone()));
        Poll::Pending
    })
    .await;
}

/// Polls until no request has come for [`SPIN_TIME`], or another thread needs the core. `seen` is the number of
/// requests so far, and is updated. Returns whether a request came, and whether the core was crowded.
async fn spin_wait(seen: &mut u64) -> Spun {
    let (mut spun, mut began) = (Spun { in_time: false, crowded: false }, Instant::now());
    while began.elapsed() < SPIN_TIME && !spun.crowded {
        spun.crowded = yield_core();
        // The runtime polls its connections before it continues here.
        tokio::task::yield_now().await;
        if REQUESTS.get() != *seen {
            (*seen, spun.in_time, began) = (REQUESTS.get(), true, Instant::now());
        }
    }
    spun
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::mpsc::channel;
    use tokio::net::TcpListener;
    use tokio::sync::Semaphore;

    /// Two connections are served by two threads. The last connection to end drops the threads from within one of them,
    /// which does not wait for itself.
    #[test]
    fn connections_are_spread_and_the_last_may_end_the_threads() {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let threads = Arc::new(Threads::start(2).expect("threads"));
        let (told, names) = channel();
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
            let address = listener.local_addr().expect("an address");
            let gate = Arc::new(Semaphore::new(0));
            let kept = Arc::new(Mutex::new(Some(threads)));
            let mut clients = Vec::new();
            for _ in 0..2 {
                clients.push(TcpStream::connect(address).await.expect("a connection"));
                let (stream, _) = listener.accept().await.expect("a client");
                let (told, gate, kept) = (told.clone(), Arc::clone(&gate), Arc::clone(&kept));
                let threads = kept.lock().expect("a lock").clone().expect("threads");
                let held = Arc::clone(&threads);
                threads.spawn(stream, move |stream| async move {
                    told.send(std::thread::current().name().map(str::to_owned))
                        .expect("a listener");
                    drop(gate.acquire().await);
                    drop((stream, held));
                    told.send(None).expect("a listener");
                });
            }
            drop(kept.lock().expect("a lock").take());
            let mut served = [names.recv().expect("a name"), names.recv().expect("a name")];
            served.sort();
            assert_eq!(served, ["engine-0", "engine-1"].map(|name| Some(name.to_owned())));
            gate.add_permits(2);
            assert_eq!(names.recv(), Ok(None));
            assert_eq!(names.recv(), Ok(None));
        });
    }
}
