//! Many concurrent readers and processes, up to the limits and beyond.
use crate::common::{self, Folder, PoolKind, Shape, Watchdog, Worker};
use crate::simple;
use esker_testing::{scaled, wait_for};
use esker_types::ErrorKind;
use esker_types::limits::{PROCESSES_MAX, READERS_MAX};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};

const KEYS: u64 = 60;
const LEN: usize = 2000;
const PROCESSES: u64 = 4;
const THREADS_EACH: u64 = 260;
/// Number of reads of each thread. If all threads read until the last one has begun, it takes minutes, because a thread
/// that is woken from a lock waits behind all others.
const READS_EACH: u64 = 500;

/// Starts a thread with a small stack, because there are hundreds of them.
fn spawn_small<'s>(
    scope: &'s std::thread::Scope<'s, '_>,
    work: impl FnOnce() + Send + 's,
) -> std::thread::ScopedJoinHandle<'s, ()> {
    let builder = std::thread::Builder::new().stack_size(128 << 10);
    builder.spawn_scoped(scope, work).expect("starting a thread")
}

/// Arguments: pool, file to append to when all threads have read. They stay until the file is long enough.
pub(crate) fn read() {
    let arguments = common::arguments();
    let pool = common::open(Path::new(&arguments[0]));
    let signal = Path::new(&arguments[1]);
    let together = Barrier::new(THREADS_EACH as usize);
    let (_container, kv) = simple::kv(&pool, "crowd").expect("opening");
    std::thread::scope(|scope| {
        for thread in 0..THREADS_EACH {
            let (kv, together) = (&kv, &together);
            spawn_small(scope, move || {
                together.wait();
                for step in 0..READS_EACH {
                    let there = simple::is_there(kv, (thread + step) % KEYS, LEN);
                    assert!(there.expect("reading"), "a value is missing");
                }
                if together.wait().is_leader() {
                    append(signal);
                    wait_for("all processes have read", || length(signal) >= PROCESSES);
                }
                together.wait();
            });
        }
    });
}

/// Appends a byte to a file, by which a process signals.
fn append(path: &Path) {
    let mut file = File::options().append(true).open(path).expect("opening the signal");
    std::io::Write::write_all(&mut file, b".").expect("signalling");
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).expect("reading the signal file").len()
}

/// More than a thousand threads in four processes read at the same time while two writers overwrite: no read may fail
/// or miss a value.
#[test]
fn a_thousand_readers_and_two_writers() {
    let folder = Folder::new(PoolKind::Memory);
    let _watchdog = Watchdog::new("a thousand readers".to_owned());
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let signal = folder.path().join("signal");
    std::fs::write(&signal, b"").expect("making the signal");
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "crowd").expect("opening");
    (0..KEYS).for_each(|number| simple::put(&kv, number, LEN).expect("writing"));
    let arguments = format!("{} {}", path.display(), signal.display());
    let mut readers: Vec<_> =
        (0..PROCESSES).map(|_| Worker::start("crowd-read", &arguments)).collect();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while length(&signal) < PROCESSES {
                    (0..KEYS).for_each(|number| simple::put(&kv, number, LEN).expect("writing"));
                }
            });
        }
    });
    readers.iter_mut().for_each(Worker::finish);
    drop((_container, kv, pool));
    common::expect_sound(&path, false);
}

/// Arguments: pool, file to append to when no reader slot is left. Holds the slots until it is killed.
pub(crate) fn hold() {
    let arguments = common::arguments();
    let pool = esker_store::Pool::open(Path::new(&arguments[0])).expect("opening");
    let state = pool.opened().expect("state");
    let held = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..u64::from(READERS_MAX) + 8 {
            let (state, held) = (&**state, &held);
            spawn_small(scope, move || {
                // A read transaction stays open while scrub reports its progress.
                let result = state.scrub(&mut |_, _| {
                    held.fetch_add(1, Ordering::Relaxed);
                    loop {
                        std::thread::park();
                    }
                });
                let error = result.expect_err("scrub ended");
                assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                assert!(error.message().contains("READERS_MAX"), "{error}");
                held.fetch_add(1 << 32, Ordering::Relaxed);
            });
            wait_for("a thread has a reader slot or an error", || {
                let held = held.load(Ordering::Relaxed);
                held % (1 << 32) + (held >> 32) > thread
            });
            if held.load(Ordering::Relaxed) >> 32 > 0 {
                let count = held.load(Ordering::Relaxed) % (1 << 32);
                assert!(count >= u64::from(READERS_MAX) - 8, "only {count} readers");
                append(Path::new(&arguments[1]));
                break;
            }
        }
    });
}

/// Arguments: pool, file to append to when it is open. Keeps the pool open until it is killed.
pub(crate) fn keep() {
    let arguments = common::arguments();
    let _pool = common::open(Path::new(&arguments[0]));
    append(Path::new(&arguments[1]));
    loop {
        std::thread::park();
    }
}

/// Another process keeps the pool open, so that the last user does not free the slots of dead processes.
#[test]
fn readers_beyond_the_limit_get_a_clear_error() {
    let folder = Folder::new(PoolKind::Memory);
    let _watchdog = Watchdog::new("holding all reader slots".to_owned());
    let path =
        common::make(&folder, "pool", PoolKind::Memory, Shape { targets: 1, ..Shape::SMALL });
    let signal = folder.path().join("signal");
    std::fs::write(&signal, b"").expect("making the signal");
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "crowd").expect("opening");
    simple::put(&kv, 1, LEN).expect("writing");
    drop((_container, kv, pool));
    let arguments = format!("{} {}", path.display(), signal.display());
    let mut keeper = Worker::start("crowd-keep", &arguments);
    keeper.wait_until("the pool is open", || length(&signal) > 0);
    let mut holder = Worker::start("crowd-hold", &arguments);
    holder.wait_until("all reader slots are held", || length(&signal) > 1);
    let refused = common::try_open(&path).and_then(|pool| simple::kv(&pool, "crowd").map(drop));
    let error = refused.expect_err("a reader beyond the limit");
    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
    assert!(error.message().contains("READERS_MAX"), "{error}");
    holder.kill();
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "crowd").expect("opening");
    assert!(simple::is_there(&kv, 1, LEN).expect("reading"), "the value is missing");
    keeper.kill();
}

/// Argument: pool. Locks all process slots, like the maximum number of processes, until it is killed.
pub(crate) fn lock_all() {
    let arguments = common::arguments();
    let control = Path::new(&arguments[0]).join("control");
    let file = File::options().read(true).write(true).open(control).expect("opening control");
    // SAFETY: `flock` is plain data, for which all zeros is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_start = (1 << 40) + 1024;
    lock.l_len = PROCESSES_MAX as libc::off_t;
    // SAFETY: the descriptor is open and `lock` is a valid flock.
    let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLK, &raw mut lock) };
    assert_eq!(result, 0, "the process slots are not free");
    append(Path::new(&arguments[1]));
    loop {
        std::thread::park();
    }
}

#[test]
fn processes_beyond_the_limit_get_a_clear_error() {
    let folder = Folder::new(PoolKind::Memory);
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    drop(common::open(&path));
    let signal = folder.path().join("signal");
    std::fs::write(&signal, b"").expect("making the signal");
    let mut holder =
        Worker::start("crowd-lock", &format!("{} {}", path.display(), signal.display()));
    holder.wait_until("all process slots are locked", || length(&signal) > 0);
    let error = common::try_open(&path).err().expect("a process beyond the limit");
    assert_eq!(error.kind(), ErrorKind::Overflow, "{error}");
    assert!(error.message().contains("PROCESSES_MAX"), "{error}");
    holder.kill();
    common::open(&path);
}

/// A key that is put and removed repeatedly: readers get the value or none, never other bytes.
#[test]
fn a_value_that_is_put_and_removed_repeatedly() {
    let folder = Folder::new(PoolKind::Memory);
    let path = common::make(&folder, "pool", PoolKind::Memory, Shape::SMALL);
    let pool = common::open(&path);
    let (_container, kv) = simple::kv(&pool, "flicker").expect("opening");
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for _ in 0..scaled(20_000) {
                simple::put(&kv, 1, LEN).expect("writing");
                simple::remove(&kv, 1).expect("removing");
            }
        });
        while !writer.is_finished() {
            let _ = simple::is_there(&kv, 1, LEN).expect("reading");
        }
    });
}
