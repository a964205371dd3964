//! fcntl, flock, lockf and ioctl.
use crate::answer::{Answer, refuse, to_c};
use crate::edge::{Out, export};
use crate::open_file::OpenFile;
use crate::threads::is_inside;
use crate::{descriptors, internal, locks, raw, serve, threads};
use std::ffi::{c_int, c_ulong};
use std::sync::Arc;

/// The kernel's `O_LARGEFILE`, which `F_GETFL` returns to 64-bit programs.
const LARGE_FILE: c_int = if cfg!(target_arch = "aarch64") { 0o400_000 } else { 0o100_000 };

/// Serves `fcntl` on a descriptor of ours.
fn control(fd: c_int, command: c_int, argument: usize) -> c_int {
    use libc::{F_GETLK, F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_SETLK, F_SETLKW};
    match command {
        F_GETLK | F_SETLK | F_SETLKW | F_OFD_GETLK | F_OFD_SETLK | F_OFD_SETLKW => {
            record_lock(fd, command, Out::at(argument))
        }
        _ => to_c(serve::serve(|| plain_control(fd, &*descriptors::get(fd)?, command, argument))),
    }
}

/// Serves commands of `fcntl` that are not about locks.
fn plain_control(fd: c_int, file: &OpenFile, command: c_int, argument: usize) -> Answer<c_int> {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => {
            let new = descriptors::check_number(raw::control(fd, command, argument)?)?;
            descriptors::put(new, descriptors::get(fd)?);
            Ok(new)
        }
        // The descriptor is one of `O_PATH`.
        libc::F_GETFL if file.open().is_err() => Ok(file.identity().flags & !libc::O_ACCMODE),
        libc::F_GETFL => Ok(file.position.flags(fd)? | file.identity().flags | LARGE_FILE),
        libc::F_SETFL => file.open()?.position.set_flags(fd, argument as c_int).map(|()| 0),
        libc::F_GETFD | libc::F_SETFD | libc::F_GETOWN | libc::F_SETOWN => {
            raw::control(fd, command, argument)
        }
        _ => refuse(libc::EINVAL),
    }
}

/// Serves the lock commands of `fcntl`, by a lock on the lock file of the object. The call of the kernel is made
/// outside the store: it may block, and forks should not wait for it.
fn record_lock(fd: c_int, command: c_int, lock: Out<libc::flock>) -> c_int {
    let Some(wanted) = lock.get() else { return to_c(refuse(libc::EFAULT)) };
    let asked = serve::serve(|| {
        let file = descriptors::get(fd)?;
        Ok((locks::range(fd, &file, command, wanted)?, file))
    });
    to_c(asked.and_then(|((held, mut range), file)| {
        let answer = raw::lock_range(held, command, &mut range);
        release_after_lock(file);
        if matches!(command, libc::F_GETLK | libc::F_OFD_GETLK) {
            lock.set(locks::shown(range));
        }
        answer
    }))
}

/// Serves `flock`, by a lock on the lock file of the object. The call of the kernel is made outside the store: it may
/// block.
fn whole_lock(fd: c_int, operation: c_int) -> c_int {
    let asked = serve::serve(|| {
        let file = descriptors::get(fd)?;
        Ok((locks::descriptor(fd, file.open()?)?, file))
    });
    to_c(asked.and_then(|(held, file)| {
        let answer = raw::lock_whole(held, operation);
        release_after_lock(file);
        answer
    }))
}

/// Drops the reference to the file that kept it open while a thread waited for the lock. Inside the store, because the
/// last reference closes the file.
fn release_after_lock(file: Arc<OpenFile>) {
    let _ = threads::inside(|| {
        drop(file);
        Ok(())
    });
}

/// Serves `lockf`: locks `length` bytes from the current offset on, as `fcntl` does.
fn lock_from_here(fd: c_int, operation: c_int, length: i64) -> c_int {
    let (command, kind) = match operation {
        libc::F_LOCK => (libc::F_SETLKW, libc::F_WRLCK),
        libc::F_TLOCK => (libc::F_SETLK, libc::F_WRLCK),
        libc::F_ULOCK => (libc::F_SETLK, libc::F_UNLCK),
        libc::F_TEST => (libc::F_GETLK, libc::F_WRLCK),
        _ => return to_c(refuse(libc::EINVAL)),
    };
    let (l_type, l_whence) = (kind as i16, libc::SEEK_CUR as i16);
    let mut lock = libc::flock { l_type, l_whence, l_start: 0, l_len: length, l_pid: 0 };
    let result = record_lock(fd, command, Out::from_mut(&mut lock));
    let is_held = c_int::from(lock.l_type) != libc::F_UNLCK;
    match operation {
        libc::F_TEST if result == 0 && is_held => to_c(refuse(libc::EACCES)),
        _ => result,
    }
}

/// Serves `ioctl` on a descriptor of ours: the requests that Linux answers for any regular file. Others fail with
/// `ENOTTY`.
fn device_control(fd: c_int, request: c_ulong, argument: usize) -> Answer<c_int> {
    match request {
        FIOCLEX => raw::control(fd, libc::F_SETFD, libc::FD_CLOEXEC as usize),
        FIONCLEX => raw::control(fd, libc::F_SETFD, 0),
        FIONBIO => Ok(0),
        FIONREAD => {
            let open = descriptors::get(fd)?;
            let at = open.position.seek(fd, 0, libc::SEEK_CUR)?;
            let left = open.file()?.size()? as i64 - at;
            Out::<c_int>::at(argument).set(left.clamp(0, i64::from(c_int::MAX)) as c_int);
            Ok(0)
        }
        // The store cannot share blocks between files; callers fall back to copying.
        FICLONE | FICLONERANGE => refuse(libc::EOPNOTSUPP),
        _ => refuse(libc::ENOTTY),
    }
}

const FIOCLEX: u64 = 0x5451;
const FIONCLEX: u64 = 0x5450;
const FIONBIO: u64 = 0x5421;
const FIONREAD: u64 = 0x541b;
const FICLONE: u64 = 0x4004_9409;
const FICLONERANGE: u64 = 0x4020_940d;

/// Implements `fcntl`, under each of its names; `theirs` calls the C library. Duplicates that the store makes for
/// itself get high numbers.
fn answer(fd: c_int, command: c_int, argument: usize, theirs: impl Fn() -> c_int) -> c_int {
    match () {
        () if is_inside() && descriptors::is_ours(fd) => serve::refuse_interrupting_call(),
        () if is_inside() && matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC) => {
            internal::keep(theirs())
        }
        () if is_inside() => theirs(),
        () if descriptors::is_ours(fd) => control(fd, command, argument),
        // `on` refuses the store's own descriptors, which do not exist for the program.
        () => serve::on(fd, |_| refuse(libc::EBADF), theirs),
    }
}

export! {
    @inside_too
    fn fcntl(fd: c_int, command: c_int, argument: usize) -> c_int | next {
        answer(fd, command, argument, || next(fd, command, argument))
    }

    fn fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int | next {
        answer(fd, command, argument, || next(fd, command, argument))
    }

    fn __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int | next {
        answer(fd, command, argument, || next(fd, command, argument))
    }
}

export! {
    fn flock(fd: c_int, operation: c_int) -> c_int | next {
        if descriptors::is_ours(fd) { whole_lock(fd, operation) } else { next(fd, operation) }
    }

    fn lockf(fd: c_int, operation: c_int, length: i64) -> c_int | next {
        match descriptors::is_ours(fd) {
            true => lock_from_here(fd, operation, length),
            false => next(fd, operation, length),
        }
    }

    fn lockf64(fd: c_int, operation: c_int, length: i64) -> c_int | next {
        match descriptors::is_ours(fd) {
            true => lock_from_here(fd, operation, length),
            false => next(fd, operation, length),
        }
    }

    fn ioctl(fd: c_int, request: c_ulong, argument: usize) -> c_int | next {
        serve::on(fd, |_| device_control(fd, request, argument), || next(fd, request, argument))
    }

    fn isatty(fd: c_int) -> c_int | next {
        match descriptors::is_ours(fd) {
            true => {
                crate::threads::set_errno(libc::ENOTTY);
                0
            }
            false => next(fd),
        }
    }
}
