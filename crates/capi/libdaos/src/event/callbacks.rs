//! Callbacks that run when an event completes.
use super::private::{Ev, EventStatus};
use super::queue::{self, Events};
use crate::abi::{Bytes, Event, Ptr};
use crate::boundary;
use crate::code::Code;
use std::ffi::{c_int, c_void};

/// `daos_event_comp_cb_t`.
pub type CompletionCallback =
    unsafe extern "C" fn(arg: *mut c_void, ev: *mut Event, rc: c_int) -> c_int;

/// A callback, linked to the one registered before it.
pub(super) struct Callback {
    function: CompletionCallback,
    arg: Bytes,
    next: *mut Callback,
}

/// Registers a callback for the completion of an event, which must not run yet.
#[unsafe(no_mangle)]
pub extern "C" fn daos_event_register_comp_cb(
    ev: Ptr<Event>,
    cb: Option<CompletionCallback>,
    arg: Bytes,
) -> c_int {
    boundary::now(|| {
        let ev = Ev::initialized(ev)?;
        let function = cb.ok_or(Code::INVAL)?;
        queue::find_for_event(ev)?.locked(|held| {
            if ev.get(held).status != EventStatus::Ready {
                return Err(Code::NO_PERM);
            }
            let next = ev.get(held).callback;
            let callback = Box::into_raw(Box::new(Callback { function, arg, next }));
            ev.change(held, |private| private.callback = callback);
            Ok(())
        })
    })
}

/// Removes the callbacks of an event and returns them, the first registered first.
pub(super) fn take(held: &Events, ev: Ev) -> Vec<Callback> {
    let mut next = ev.get(held).callback;
    ev.change(held, |private| private.callback = std::ptr::null_mut());
    let mut callbacks = Vec::new();
    while !next.is_null() {
        // SAFETY: it was made by `Box::into_raw`, and the event has just lost it.
        let callback = *unsafe { Box::from_raw(next) };
        next = callback.next;
        callbacks.push(callback);
    }
    callbacks.reverse();
    callbacks
}

/// Calls the callbacks of an event. If the operation succeeded, the first error of a callback becomes the result of the
/// event.
pub(super) fn call(callbacks: Vec<Callback>, ev: Ev) {
    for callback in callbacks {
        let event = Ev::pointer(Some(ev)).raw();
        // SAFETY: the caller registered the function to be called so.
        let code = unsafe { (callback.function)(callback.arg.raw(), event, ev.error()) };
        if ev.error() == 0 {
            ev.set_error(code);
        }
    }
}
