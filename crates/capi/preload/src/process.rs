//! Start and end of the process.
use crate::edge::export;
use crate::{
    close, config, cwd, descriptors, keeper, left_open, libraries, lock_cache, locks, maps,
    mounted, needed, open, report, stdio, store, threads, unshared,
};
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Generation of the process that last used the store. A child that only starts a program does not use it.
static USED: AtomicU64 = AtomicU64::new(0);

/// True once the process is ending: from then on writes are stored immediately.
static ENDING: AtomicBool = AtomicBool::new(false);

#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Prepares the library when it is loaded, before the program's `main` and while the process has one thread. Without a
/// mount point, all calls pass through, and nothing else is done. After an exec, finds the working directory and the
/// open files that the process inherited, unless no process of the run has passed any on.
extern "C" fn start() {
    libraries::look_up();
    needed::forget();
    if !config::load() {
        return;
    }
    keeper::run_if_asked();
    open::learn_umask();
    if config::get().report.is_some() {
        report::enable();
    }
    if !unshared::is_certain() {
        cwd::inherit();
        descriptors::inherit();
    }
    if descriptors::any() {
        stdio::replace_entries();
    }
}

/// Exit handler. Flushes the streams of the C library first, which would flush them only after this handler.
extern "C" fn end() {
    if descriptors::any() {
        stdio::flush_unlocked_streams();
    }
    before_end();
    ENDING.store(true, Ordering::Relaxed);
    release_locks();
}

/// Releases locks at the end of the process. Exec keeps them, because the next program inherits them.
fn release_locks() {
    let _ = threads::inside(|| {
        maps::release_all();
        Ok(())
    });
    if descriptors::any() || lock_cache::any() || left_open::is_needed() {
        start_keeper_for(locks::end);
    }
}

/// Starts a keeper for removed files that other processes have open and that exist only because of leases. `open`
/// returns the files that this process still has open.
fn start_keeper_for(open: impl FnOnce() -> Vec<left_open::LeftOpen>) {
    let files = threads::inside(|| {
        let open = open();
        match left_open::is_needed() {
            true => Ok([open, left_open::take()].concat()),
            false => Ok(Vec::new()),
        }
    });
    keeper::start_for(files.unwrap_or_default());
}

/// Records that this process uses the store.
#[inline]
pub(crate) fn used() {
    let now = threads::generation();
    if USED.load(Ordering::Relaxed) != now {
        USED.store(now, Ordering::Relaxed);
    }
}

/// True once the process ends: pending changes must then be stored immediately.
pub(crate) fn is_ending() -> bool {
    ENDING.load(Ordering::Relaxed)
}

/// Called before a fork: the child will share the open files and their locks.
pub(crate) fn before_fork() {
    lock_cache::close();
    if descriptors::any() {
        threads::alone(descriptors::share_all);
        locks::share();
    }
    if left_open::is_needed() {
        let _ = threads::inside(|| {
            left_open::end_unused_leases();
            Ok(())
        });
    }
}

/// Prepares this process for exec: the next program inherits descriptors and locks of files in the mount point.
pub(crate) fn before_exec() {
    lock_cache::close();
    if descriptors::any() {
        threads::alone(descriptors::share_all);
        locks::share_with_next();
    }
    before_end();
    if left_open::is_needed() {
        start_keeper_for(locks::shared);
    }
}

/// Stores pending changes and writes the report, before the process ends or execs.
pub(crate) fn before_end() {
    let _ = threads::inside(|| {
        // A forked child may have written to mappings of its parent without a call. At the end of the process, no
        // caller is left to receive an error.
        let _ = maps::write_back_all();
        if USED.load(Ordering::Relaxed) == threads::generation() {
            if let Some(fs) = mounted::if_open() {
                let _ = fs.flush();
            }
            if let Some(store) = store::if_loaded() {
                let _ = (store.record_clean_exit)();
            }
        }
        report::write();
        Ok(())
    });
}

export! {
    fn _exit(status: c_int) -> () | next {
        before_end();
        release_locks();
        next(status)
    }

    fn _Exit(status: c_int) -> () | next {
        before_end();
        release_locks();
        next(status)
    }

    fn quick_exit(status: c_int) -> () | next {
        // The functions of `at_quick_exit` run in `next`. Their changes are stored at once.
        before_end();
        ENDING.store(true, Ordering::Relaxed);
        release_locks();
        next(status)
    }

    fn daemon(no_chdir: c_int, no_close: c_int) -> c_int | next {
        // The parent ends inside the C library.
        before_end();
        let result = next(no_chdir, no_close);
        if result == 0 {
            (libc::STDIN_FILENO..=libc::STDERR_FILENO).for_each(close::forget_if_gone);
        }
        if result == 0 && no_chdir == 0 {
            cwd::leave();
        }
        result
    }

    fn vfork() -> c_int | _next {
        // The child of the kernel's `vfork` shares its parent's memory, and runs no handlers of `pthread_atfork`.
        // SAFETY: a full copy of the process is more than `vfork` promises.
        unsafe { libc::fork() }
    }

    fn __vfork() -> c_int | _next {
        // SAFETY: as for `vfork`.
        unsafe { libc::fork() }
    }
}
