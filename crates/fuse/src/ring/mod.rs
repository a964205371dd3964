//! Requests of the kernel through io_uring: FUSE over io_uring, from Linux 6.14.
//!
//! The kernel has a queue per processor, and a program's request goes to the queue of its processor. Each thread here
//! serves one queue on that processor, with one entry. So no request waits for a busy thread while another one is free.
//! Forgotten inodes and notifications still go through the device.
mod entry;
mod operations;
mod reply;
mod request;

use crate::limits::{
    REQUEST_BYTES_MAX, RING_BYTES_MAX, RING_FILES_MAX, RING_PAYLOAD_MIN, RING_THREADS_MAX,
    RING_UNSERVED_MAX,
};
use crate::passing::Passage;
use crate::served::Served;
use entry::{Commands, Entry};
use esker::types::{Error, ErrorKind, Result};
use fuser::Errno;
use operations::{Operations, Threads};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Parameter of the kernel that admits this transport.
const PARAMETER: &str = "/sys/module/fuse/parameters/enable_uring";
/// Processors that this machine can have; the kernel has a queue for each.
const POSSIBLE: &str = "/sys/devices/system/cpu/possible";
/// Processors that run.
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Checks whether the kernel and this process can use FUSE over io_uring.
///
/// # Errors
/// [`ErrorKind::NotSupported`], with the remedy.
pub fn check_ring() -> Result<()> {
    check_parameter(std::fs::read_to_string(PARAMETER).ok().as_deref())?;
    match Commands::new() {
        Ok(_) => Ok(()),
        Err(error) => Err(missing(format!(
            "the kernel refuses io_uring to this process ({error}): see the settings kernel.io_uring_disabled and \
             kernel.io_uring_group, and the container's seccomp profile"
        ))),
    }
}

/// Checks the value of the kernel's parameter; `None` if the kernel has no such parameter.
fn check_parameter(value: Option<&str>) -> Result<()> {
    match value.map(str::trim) {
        Some("Y" | "1") => Ok(()),
        Some(_) => Err(missing(format!(
            "FUSE over io_uring is switched off in the kernel: `echo 1 > {PARAMETER}` as root"
        ))),
        None => Err(missing(
            "this kernel has no FUSE over io_uring, which Linux 6.14 and later have".to_owned(),
        )),
    }
}

/// The error for a system without FUSE over io_uring.
#[cold]
fn missing(message: String) -> Error {
    Error::new(ErrorKind::NotSupported, message)
}

/// Number and size of the entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// For each queue: its threads, each with an entry.
    threads: Vec<usize>,
    /// Largest payload of an entry.
    pub(crate) payload_bytes: u32,
}

impl Layout {
    /// Entries for the queues of this machine: `threads` threads in total, but at least two for each processor. `None`
    /// if the processors are unknown or too many.
    pub(crate) fn of_machine(threads: usize) -> Option<Self> {
        let possible = parse_processors(&std::fs::read_to_string(POSSIBLE).ok()?)?.len();
        let online = parse_processors(&std::fs::read_to_string(ONLINE).ok()?)?;
        Self::new(possible, &online, threads)
    }

    /// Divides `threads` among `queues` queues, at least two for each processor that is online. The more entries, the
    /// smaller each. `None` if that makes them too small for a request.
    fn new(queues: usize, online: &[usize], threads: usize) -> Option<Self> {
        let share = threads.div_ceil(online.len().max(1)).max(2);
        // No program runs on a processor that is offline, but the kernel wants an entry for its queue.
        let of_queue = |queue| if online.contains(&queue) { share } else { 1 };
        let threads: Vec<_> = (0..queues).map(of_queue).collect();
        let entries = threads.iter().sum::<usize>().max(1);
        let room = RING_BYTES_MAX.checked_div(entries)?;
        let power = room.checked_ilog2().map(|bits| 1_u64 << bits)?;
        let payload_bytes = REQUEST_BYTES_MAX.min(power as u32);
        (payload_bytes >= RING_PAYLOAD_MIN).then_some(Self { threads, payload_bytes })
    }
}

/// Parses a list of the kernel such as `0-3,8`. `None` for another form, or a number that no queue can have.
fn parse_processors(list: &str) -> Option<Vec<usize>> {
    let mut processors = Vec::new();
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        if last >= usize::from(u16::MAX) {
            return None;
        }
        processors.extend(first..=last);
    }
    Some(processors)
}

/// The threads that serve the queues of a mount.
pub(crate) struct Rings(Arc<Shared>);

/// State that all threads share.
struct Shared {
    served: Arc<Served>,
    device: Arc<OwnedFd>,
    payload_bytes: usize,
    /// The only user that is served; `None` for all.
    only: Option<u32>,
    queues: Vec<Queue>,
    handles: Mutex<Vec<JoinHandle<()>>>,
}

/// Threads of a queue.
#[derive(Default)]
struct Queue {
    /// Number of all threads.
    threads: AtomicUsize,
    /// Number of threads that are not occupied for long.
    free: AtomicUsize,
}

/// Sends the result of the registration of an entry.
type Registered = SyncSender<io::Result<()>>;

/// Makes the kernel use the device if no entry can be registered. Until one is registered or this is used, all requests
/// wait. It is created before the file system is mounted, because the process may have no descriptor or memory for an
/// io_uring later.
pub(crate) struct Fallback(Commands);

impl Fallback {
    pub(crate) fn new() -> io::Result<Self> {
        Commands::for_any_thread().map(Self)
    }
}

impl Rings {
    /// Serves the kernel from now on. If a queue gets no entry, fails and makes the kernel use the device only. With
    /// `only`, other users are refused.
    pub(crate) fn start(
        served: Arc<Served>,
        device: OwnedFd,
        layout: &Layout,
        only: Option<u32>,
        fallback: Fallback,
    ) -> io::Result<Self> {
        raise_file_limit();
        let shared = Shared::new(served, device, layout, only);
        // Starts the thread for background work here. If one of the threads below started it, it would be bound to the
        // same processor.
        esker_os::later(|| ());
        // The kernel uses io_uring once each queue has an entry. Further entries are optional.
        if let Err(error) = shared.add_threads(layout, 0..1) {
            fallback.0.use_device_only(&shared.device)?;
            return Err(error);
        }
        let most = layout.threads.iter().copied().max().unwrap_or(1);
        let _ = shared.add_threads(layout, 1..most);
        Ok(Self(shared))
    }

    /// Waits until all threads have ended, which they do with the mount.
    pub(crate) fn join(self) {
        loop {
            let handle = self.0.handles().pop();
            let Some(handle) = handle else { return };
            // A thread handles the panics of operations itself.
            let _ = handle.join();
        }
    }
}

impl Shared {
    fn new(served: Arc<Served>, device: OwnedFd, layout: &Layout, only: Option<u32>) -> Arc<Self> {
        Arc::new(Self {
            served,
            device: Arc::new(device),
            payload_bytes: layout.payload_bytes as usize,
            only,
            queues: layout.threads.iter().map(|_| Queue::default()).collect(),
            handles: Mutex::default(),
        })
    }

    /// Starts threads on each queue: of the threads that `layout` gives the queue, counted from 0, those in `numbers`.
    /// Waits until the kernel has registered them.
    fn add_threads(
        self: &Arc<Self>,
        layout: &Layout,
        numbers: std::ops::Range<usize>,
    ) -> io::Result<()> {
        let (registered, results) = sync_channel(layout.threads.len());
        for number in numbers {
            for (queue, _) in layout.threads.iter().enumerate().filter(|(_, of)| number < **of) {
                let thread = self.add_thread(queue, registered.clone())?;
                self.handles().push(thread);
            }
        }
        drop(registered);
        results.into_iter().collect()
    }

    /// Starts a thread for a queue. The thread sends the result of its registration to `registered`.
    fn add_thread(
        self: &Arc<Self>,
        queue: usize,
        registered: Registered,
    ) -> io::Result<JoinHandle<()>> {
        let shared = Arc::clone(self);
        let threads = &self.queues[queue].threads;
        threads.fetch_add(1, Ordering::Relaxed);
        let started = thread::Builder::new()
            .name(format!("ring-{queue}"))
            .spawn(move || Thread { shared: &shared, queue }.run(registered));
        started.inspect_err(|_| {
            threads.fetch_sub(1, Ordering::Relaxed);
        })
    }

    /// Adds a thread to a queue. True if the thread has registered an entry, and so serves the queue.
    fn add_serving_thread(self: &Arc<Self>, queue: usize) -> bool {
        let (registered, result) = sync_channel(1);
        let Ok(thread) = self.add_thread(queue, registered) else { return false };
        let is_registered = matches!(result.recv(), Ok(Ok(())));
        if is_registered {
            self.handles().push(thread);
        }
        is_registered
    }

    fn handles(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The failure of an exchange with the kernel, which ends a thread.
struct Failure {
    error: io::Error,
    /// The thread has had a request before.
    has_served: bool,
}

/// A thread that serves a queue.
struct Thread<'a> {
    shared: &'a Arc<Shared>,
    queue: usize,
}

impl Thread<'_> {
    /// Body of the thread: registers an entry, reports the result to `registered`, and answers requests.
    fn run(&self, registered: Registered) {
        // The program that sends a request to this queue runs on the same processor. So the kernel can wake this thread
        // without an interrupt of another processor.
        esker_os::stay_on_processor(self.queue);
        let mut entry = self.register();
        let copied = |error: &io::Error| io::Error::new(error.kind(), error.to_string());
        let registration = entry.as_ref().map(|_| ()).map_err(copied);
        let counts = self.counts();
        match registration {
            Ok(()) => counts.free.fetch_add(1, Ordering::Relaxed),
            Err(_) => counts.threads.fetch_sub(1, Ordering::Relaxed),
        };
        // This fails if `Rings::start` has failed because of another queue.
        let _ = registered.send(registration);
        drop(registered);
        let served = entry.as_mut().map_or(Ok(()), |entry| self.serve(entry));
        // Its files and memory are free for the entry of another thread.
        drop(entry);
        if let Err(failure) = served {
            self.note_failure(&failure);
        }
    }

    /// Reports the failure that ends this thread, and starts another one in its place. A thread that failed before its
    /// first request is not replaced: the next one would fail, too.
    fn note_failure(&self, failure: &Failure) {
        complain(&format!("a request of the kernel through io_uring failed: {}", failure.error));
        let counts = self.counts();
        counts.free.fetch_sub(1, Ordering::Relaxed);
        let others = counts.threads.fetch_sub(1, Ordering::Relaxed) - 1;
        let is_replaced = failure.has_served && self.shared.add_serving_thread(self.queue);
        if !is_replaced && others == 0 {
            let queue = self.queue;
            complain(&format!(
                "no thread serves the programs on processor {queue} any more, so their calls wait: unmount with \
                 `esker umount --lazy`, and mount with --transport device"
            ));
        }
    }

    /// Makes an entry and registers it with the queue.
    fn register(&self) -> io::Result<Entry> {
        let device = Arc::clone(&self.shared.device);
        let mut entry = Entry::new(device, self.queue as u16, self.shared.payload_bytes)?;
        entry.register()?;
        Ok(entry)
    }

    /// Answers requests until the end of the mount.
    fn serve(&self, entry: &mut Entry) -> std::result::Result<(), Failure> {
        let Shared { served, only, .. } = &**self.shared;
        let operations = Operations { served, only: *only, threads: self };
        let mut has_served = false;
        loop {
            if !entry.exchange().map_err(|error| Failure { error, has_served })? {
                return Ok(());
            }
            has_served = true;
            let Some(mut message) = entry.message() else { return Ok(()) };
            let replied = catch_unwind(AssertUnwindSafe(|| operations.reply_to(&mut message)));
            if replied.is_err() {
                operations.refuse(&mut message, Errno::EIO);
            }
        }
    }

    fn counts(&self) -> &Queue {
        &self.shared.queues[self.queue]
    }

    /// Counts this thread as occupied until the first result is dropped. If no other thread of the queue is free, adds
    /// one, unless the queue has `threads_max` threads. The second result is true if another thread serves the queue.
    fn step_aside(&self, threads_max: usize) -> (Aside<'_>, bool) {
        let counts = self.counts();
        let was_last = counts.free.fetch_sub(1, Ordering::Relaxed) == 1;
        let may_add = || counts.threads.load(Ordering::Relaxed) < threads_max;
        let is_served = !was_last || may_add() && self.shared.add_serving_thread(self.queue);
        (Aside(counts), is_served)
    }
}

impl Thread<'_> {
    /// Ends a bypassing write. If no thread serves the queue meanwhile, waits for at most `unserved_max`.
    fn end_within(&self, passage: Passage, unserved_max: Duration) {
        let (dropped, when_dropped) = sync_channel(1);
        let (_aside, is_served) = self.step_aside(usize::MAX);
        let on_dropped = move || {
            // This fails if the thread does not wait.
            let _ = dropped.send(());
        };
        self.shared.served.dropper.end(passage, on_dropped);
        // Both ways of waiting fail if the mount has ended.
        if is_served {
            let _ = when_dropped.recv();
            return;
        }
        // The kernel may drop the pages only after a request in this queue, which no thread serves now. The data is
        // stored, so the write succeeds, and the pages are dropped later.
        let _ = when_dropped.recv_timeout(unserved_max);
    }
}

impl Threads for Thread<'_> {
    fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        let _aside = self.step_aside(RING_THREADS_MAX);
        work()
    }

    fn end(&self, passage: Passage) {
        self.end_within(passage, RING_UNSERVED_MAX);
    }
}

/// Counts a thread of the queue as occupied until this value is dropped.
struct Aside<'a>(&'a Queue);

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.0.free.fetch_add(1, Ordering::Relaxed);
    }
}

/// Raises the soft limit of open files, up to the hard limit. Each entry is an open file, and there are at least two
/// for each processor. Under a lower limit, fewer entries are registered.
fn raise_file_limit() {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.map_or(RING_FILES_MAX, |hard| hard.min(RING_FILES_MAX));
    if limit.current.is_some_and(|soft| soft < most) {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum });
    }
}

#[cold]
fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "esker: {message}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::ROOT;
    use crate::options::Cache;
    use crate::passing::Dropper;
    use dfs::{Dfs, MountOptions, NewDfs};
    use esker::backend::NewContainer;
    use esker::backend::memory::Memory;
    use esker::types::info::OpenMode;
    use esker::{Pool, Wait};
    use esker_testing::wait_for;
    use std::fs::File;

    /// A file system in a pool in memory.
    fn dfs() -> Dfs {
        let pool = Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite);
        Dfs::create_container(&pool, &NewContainer::named("c"), &NewDfs::default()).unwrap();
        let container = pool.open_container("c", OpenMode::ReadWrite).wait().unwrap();
        Dfs::mount(container, MountOptions::default()).unwrap()
    }

    /// A file in place of the device, for which the kernel refuses all commands.
    fn other_file() -> File {
        File::open(std::env::current_exe().unwrap()).unwrap()
    }

    /// State of a mount with one queue. Its device is another file.
    fn shared(dropper: Dropper) -> Arc<Shared> {
        let served = Arc::new(Served::new(dfs(), Cache::Auto, false, dropper));
        let (device, layout) = (other_file(), Layout::new(1, &[0], 1).unwrap());
        Shared::new(served, device.into(), &layout, None)
    }

    /// A program that got an error would write again, and so append its data twice.
    #[test]
    fn write_whose_pages_are_not_dropped_ends_and_still_holds_off_write_backs() {
        let (dropper, to_drop) = Dropper::new();
        let shared = shared(dropper);
        shared.queues[0].free.store(1, Ordering::Relaxed);
        let inode = shared.served.inode(ROOT).unwrap();
        let thread = Thread { shared: &shared, queue: 0 };
        thread.end_within(Passage::begin(&inode, 0..1), Duration::ZERO);
        let is_written = |range| {
            let mut parts = Vec::new();
            let note = |part: std::ops::Range<u64>| {
                parts.push(part);
                Ok(())
            };
            inode.passing.around(range, note).unwrap();
            !parts.is_empty()
        };
        assert!(!is_written(0..1));
        to_drop.drop_next();
        assert!(is_written(0..1));
    }

    /// Otherwise a last thread would rely on one that has ended.
    #[test]
    fn thread_that_fails_is_not_counted_any_more() {
        let (dropper, _to_drop) = Dropper::new();
        let shared = shared(dropper);
        let queue = &shared.queues[0];
        for has_served in [false, true] {
            queue.threads.store(2, Ordering::Relaxed);
            queue.free.store(2, Ordering::Relaxed);
            let error = io::Error::from(io::ErrorKind::Other);
            // No other thread can register an entry.
            Thread { shared: &shared, queue: 0 }.note_failure(&Failure { error, has_served });
            let counts = [&queue.threads, &queue.free].map(|count| count.load(Ordering::Relaxed));
            assert_eq!(counts, [1, 1]);
        }
    }

    /// A bypassing write is ended by the only thread of a queue, which may have no further thread.
    #[test]
    fn write_waits_although_no_other_thread_serves_the_queue() {
        let (dropper, to_drop) = Dropper::new();
        let shared = shared(dropper);
        let queue = &shared.queues[0];
        queue.threads.store(RING_THREADS_MAX, Ordering::Relaxed);
        queue.free.store(1, Ordering::Relaxed);
        let passage = Passage::begin(&shared.served.inode(ROOT).unwrap(), 0..1);
        thread::scope(|scope| {
            scope.spawn(move || {
                wait_for("the write waits", || queue.free.load(Ordering::Relaxed) == 0);
                to_drop.drop_next();
            });
            Thread { shared: &shared, queue: 0 }.end(passage);
        });
        let counts = [&queue.threads, &queue.free].map(|count| count.load(Ordering::Relaxed));
        assert_eq!(counts, [RING_THREADS_MAX, 1]);
        assert!(shared.handles().is_empty());
    }

    /// The device is not that of FUSE, so no entry can be registered.
    #[test]
    fn start_without_any_entry_fails_and_leaves_no_thread() {
        let Ok(fallback) = Fallback::new() else {
            return esker_testing::skip("this system has no io_uring");
        };
        let (dropper, _to_drop) = Dropper::new();
        let served = Arc::new(Served::new(dfs(), Cache::Auto, false, dropper));
        let (device, layout) = (other_file(), Layout::new(2, &[0], 1).unwrap());
        let weak = Arc::downgrade(&served);
        let started = Rings::start(served, device.into(), &layout, None, fallback);
        assert!(started.is_err());
        wait_for("the end of the threads", || weak.strong_count() == 0);
    }

    #[test]
    fn error_for_kernel_without_ring_names_the_remedy() {
        assert!(check_parameter(Some("Y\n")).is_ok());
        let switched_off = check_parameter(Some("N\n")).unwrap_err();
        assert!(switched_off.to_string().contains("`echo 1 > /sys/"), "{switched_off}");
        assert!(check_parameter(None).unwrap_err().to_string().contains("Linux 6.14"));
    }

    #[test]
    fn processors_are_parsed() {
        assert_eq!(parse_processors("0-3,8,10-11\n"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
        assert_eq!(parse_processors("0\n"), Some(vec![0]));
        assert_eq!(parse_processors("a-b"), None);
        assert_eq!(parse_processors("0-99999999999"), None);
    }

    #[test]
    fn memory_of_all_entries_is_limited() {
        let online: Vec<_> = (0..1024).collect();
        for processors in [1, 2, 128, 512, 1024] {
            for threads in [1, 2, 64] {
                let layout = Layout::new(processors, &online[..processors], threads).unwrap();
                let entries: usize = layout.threads.iter().sum();
                assert!(layout.threads.iter().all(|of_queue| *of_queue >= 2));
                assert!(entries >= threads);
                assert!(entries * layout.payload_bytes as usize <= RING_BYTES_MAX);
                assert!(processors > 64 || layout.payload_bytes == REQUEST_BYTES_MAX);
            }
        }
        assert_eq!(Layout::new(4096, &online, 1), None);
        // Few of the processors are there.
        assert_eq!(Layout::new(4, &[0, 1], 3).unwrap().threads, [2, 2, 1, 1]);
    }
}
