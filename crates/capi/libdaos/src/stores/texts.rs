//! Texts of failures, by thread and by event.
use super::failure::{Failure, Result};
use crate::abi::{Event, Ptr};
use crate::boundary::guard;
use crate::code::Code;
use crate::errors;
use crate::event;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char, c_int};
use std::thread::LocalKey;

type Text = LocalKey<RefCell<CString>>;

thread_local! {
    /// Text of the thread's last failure.
    static LAST: RefCell<CString> = RefCell::default();
    /// Text of the event that the thread asked about last.
    static OF_EVENT: RefCell<CString> = RefCell::default();
}

/// Stores a text in `place` of the thread, and returns its address. A NUL in the text becomes a blank.
fn store(place: &'static Text, text: &str) -> *const c_char {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    let stored = place.try_with(|place| {
        let mut place = place.borrow_mut();
        *place = text;
        place.as_ptr()
    });
    stored.unwrap_or(c"".as_ptr())
}

/// Converts a result to its code, and stores the text of a failure for the thread.
pub(super) fn report(result: Result<()>) -> c_int {
    match result {
        Ok(()) => 0,
        Err(Failure { code: Code(code), text }) => {
            store(&LAST, &text);
            code
        }
    }
}

/// Stores the description of a code as the thread's last failure, unless the code is 0.
pub(super) fn report_code(code: c_int) -> c_int {
    match code {
        0 => 0,
        code => report(Err(Code(code).into())),
    }
}

/// Keeps the text of a failure with an event, and returns its code.
pub(super) fn keep(ev: Ptr<Event>, failure: Failure) -> Code {
    event::keep_text(ev, failure.code.0, failure.text);
    failure.code
}

/// Returns the text of the last failure of this thread.
#[unsafe(no_mangle)]
pub extern "C" fn esker_error_text() -> *const c_char {
    let stored = LAST.try_with(|text| text.borrow().as_ptr());
    stored.unwrap_or(c"".as_ptr())
}

/// Returns the text of the failure that an event completed with.
#[unsafe(no_mangle)]
pub extern "C" fn esker_event_error_text(ev: Ptr<Event>) -> *const c_char {
    const UNKNOWN: &CStr = c"the event is not initialized: call daos_event_init";
    guard(UNKNOWN.as_ptr(), || match event::failure_of(ev) {
        Err(_) => UNKNOWN.as_ptr(),
        Ok((0, _)) => c"".as_ptr(),
        Ok((code, text)) => store(&OF_EVENT, &text.unwrap_or_else(|| errors::describe(code))),
    })
}
