//! Closing and duplicating descriptors.
use crate::answer::{Answer, fail, refuse, to_c};
use crate::edge::export;
use crate::serve::{refuse_interrupting_call, serve};
use crate::{descriptors, internal, locks, maps, raw, report, threads};
use std::ffi::{c_int, c_uint};

/// Removes a descriptor of ours from the table, and writes changes in mappings of its file back. Also drops the record
/// locks of the file, as POSIX requires at a close. The caller closes `fd` in the kernel.
pub(crate) fn forget(fd: c_int) {
    let _ = threads::inside(|| {
        let file = descriptors::take(fd);
        if let Some(file) = file {
            // After an error, the changes stay in the mapping, which outlives the descriptor.
            let _ = maps::write_back_of(file.identity().oid);
            locks::drop_records(file.identity().oid);
        }
        Ok(())
    });
}

/// Forgets a descriptor of ours if the C library has closed or reused its number by a call that is not intercepted.
pub(crate) fn forget_if_gone(fd: c_int) {
    if descriptors::is_ours(fd) && !descriptors::is_still(fd) {
        forget(fd);
    }
}

/// Closes a descriptor of ours, in the table and in the kernel. Fails in a signal handler that interrupted the store.
pub(crate) fn close_ours(fd: c_int) -> c_int {
    if threads::is_inside() {
        return refuse_interrupting_call();
    }
    report::served();
    forget(fd);
    raw::close(fd);
    0
}

/// Serves `close`: `fd` may be of a file of ours, of this library, or of the program. `theirs` closes it in the kernel.
fn close_any(fd: c_int, theirs: impl FnOnce() -> c_int) -> c_int {
    match (descriptors::is_ours(fd), threads::is_inside()) {
        (true, _) => close_ours(fd),
        // The caller is the store, which closes a descriptor of its own.
        (false, true) => {
            internal::forget(fd);
            theirs()
        }
        (false, false) if internal::has(fd) => fail(libc::EBADF),
        (false, false) => theirs(),
    }
}

/// Makes `to` the same open file as `from`, or a new descriptor if `to` is -1. `next` duplicates the kernel's
/// descriptor and returns its number; then the table gets the open file, too.
fn duplicate(from: c_int, to: c_int, next: impl FnOnce() -> c_int) -> c_int {
    if internal::has(from) || internal::has(to) {
        return fail(libc::EBADF);
    }
    if !descriptors::is_ours(from) && !descriptors::is_ours(to) {
        return next();
    }
    // Inside the store, because the kernel's copy and ours must be made before the open file is shared, or after it.
    to_c(serve(|| {
        let file = descriptors::get(from).ok();
        // Like a number that the limit of the process does not allow.
        if file.is_some() && to >= 0 && !descriptors::is_possible(to) {
            return refuse(libc::EBADF);
        }
        let made = next();
        if made < 0 {
            return refuse(threads::errno());
        }
        if file.is_some() {
            descriptors::check_number(made)?;
        }
        if made != from {
            forget(made);
            file.into_iter().for_each(|file| descriptors::put(made, file));
        }
        Ok(made)
    }))
}

/// Serves `close_range` from `first` to `last`, except for the descriptors of the store. With `CLOSE_RANGE_CLOEXEC` it
/// closes none: the kernel only marks them.
fn close_between(first: c_uint, last: c_uint, flags: c_uint) -> Answer<c_int> {
    if first > last {
        return refuse(libc::EINVAL);
    }
    // The kernel may refuse the flags, or the call altogether. Then all descriptors must stay open: asks for a range
    // without any.
    raw::close_range(c_uint::MAX, c_uint::MAX, flags & !libc::CLOSE_RANGE_UNSHARE)?;
    let only_cloexec = flags & libc::CLOSE_RANGE_CLOEXEC != 0;
    if !only_cloexec {
        let ours: Vec<_> = descriptors::within(first, last).collect();
        ours.into_iter().for_each(forget);
    }
    internal::between(first, last, |first, last| raw::close_range(first, last, flags).map(drop))?;
    Ok(0)
}

export! {
    @inside_too
    fn close(fd: c_int) -> c_int | next {
        close_any(fd, || next(fd))
    }

    fn __close(fd: c_int) -> c_int | next {
        close_any(fd, || next(fd))
    }
}

export! {
    fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int | _next {
        to_c(threads::inside(|| close_between(first, last, flags)))
    }

    fn closefrom(first: c_int) -> () | _next {
        let _ = threads::inside(|| close_between(first.max(0) as c_uint, c_uint::MAX, 0));
    }

    fn dup(fd: c_int) -> c_int | next {
        duplicate(fd, -1, || next(fd))
    }

    fn dup2(from: c_int, to: c_int) -> c_int | next {
        duplicate(from, to, || next(from, to))
    }

    fn __dup2(from: c_int, to: c_int) -> c_int | next {
        duplicate(from, to, || next(from, to))
    }

    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int | next {
        duplicate(from, to, || next(from, to, flags))
    }
}
