//! Calls by which the store makes descriptors and threads for itself. Its descriptors get high numbers, and its threads
//! always count as inside the store ([`threads::inside`]). [`crate::open`] handles the files that it opens.
use crate::edge::{In, Out, export};
use crate::{internal, threads};
use std::ffi::{c_int, c_uint, c_void};

/// Moves a new descriptor to a high number, if the calling thread is inside the store. Returns its number.
pub(crate) fn keep_inside(fd: c_int) -> c_int {
    if threads::is_inside() { internal::keep(fd) } else { fd }
}

export! {
    @inside_too
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int | next {
        keep_inside(next(domain, kind, protocol))
    }
}

export! {
    @inside_too
    fn socketpair(domain: c_int, kind: c_int, protocol: c_int, ends: Out<c_int>) -> c_int | next {
        let result = next(domain, kind, protocol, ends);
        if result == 0 {
            ends.values(2).iter_mut().for_each(|end| *end = keep_inside(*end));
        }
        result
    }
}

export! {
    @inside_too
    fn epoll_create1(flags: c_int) -> c_int | next {
        keep_inside(next(flags))
    }
}

export! {
    @inside_too
    fn eventfd(count: c_uint, flags: c_int) -> c_int | next {
        keep_inside(next(count, flags))
    }
}

type Start = extern "C" fn(*mut c_void) -> *mut c_void;

/// Start function and argument of a thread of the store.
struct Begin {
    start: Start,
    argument: *mut c_void,
}

/// Start of a thread that the store makes: its calls always go to the C library.
extern "C" fn begin(begin: *mut c_void) -> *mut c_void {
    threads::always_inside();
    // SAFETY: `pthread_create` below made it for this thread alone.
    let Begin { start, argument } = *unsafe { Box::from_raw(begin.cast::<Begin>()) };
    start(argument)
}

export! {
    @inside_too
    fn pthread_create(
        thread: Out<libc::pthread_t>, attributes: In<libc::pthread_attr_t>, start: Start, argument: *mut c_void,
    ) -> c_int | next {
        if !threads::is_inside() {
            return next(thread, attributes, start, argument);
        }
        let boxed = Box::into_raw(Box::new(Begin { start, argument }));
        let result = next(thread, attributes, begin, boxed.cast());
        if result != 0 {
            // SAFETY: no thread was made, so it is still ours.
            drop(unsafe { Box::from_raw(boxed) });
        }
        result
    }
}
