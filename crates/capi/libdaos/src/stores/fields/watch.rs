//! Watches: they yield fields as they are flushed.
use super::{OpenFields, Selected};
use crate::abi::{Event, Handle, Ptr};
use crate::code::Code;
use crate::event;
use crate::stores::arguments::{self, Pair};
use crate::stores::call::{self, opened};
use crate::stores::failure::{Failure, Result};
use esker_fields::{Field, Watch};
use std::ffi::{c_int, c_uint};
use std::sync::{Mutex, TryLockError};
use std::time::{Duration, Instant};

/// `ESKER_EXISTING`: yield the existing fields first.
const EXISTING: c_uint = 8;

/// Longest wait on a watch at a time. Afterwards another thread may wait, and a closed handle is noticed.
const TURN: Duration = Duration::from_millis(200);

/// Interval at which a thread tries to use a watch on which another thread waits.
const PAUSE: Duration = Duration::from_millis(1);

/// An open watch, which one thread uses at a time.
pub(crate) struct OpenWatch(Mutex<Watch>);

impl OpenWatch {
    /// Waits up to `timeout` for new fields, and returns all that are there. `None` if none arrives, or another thread
    /// uses the watch.
    fn next(&self, timeout: Duration) -> Result<Option<Vec<Field>>> {
        let mut watch = match self.0.try_lock() {
            Ok(watch) => watch,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            // Another thread waits on this watch: the caller tries again soon.
            Err(TryLockError::WouldBlock) => {
                std::thread::sleep(timeout.min(PAUSE));
                return Ok(None);
            }
        };
        let Some(first) = watch.next(timeout)? else { return Ok(None) };
        let others = std::iter::from_fn(|| watch.next_ready());
        Ok(Some(std::iter::once(first).chain(others).collect()))
    }
}

/// Watches the fields of a request.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_watch(
    fsh: Handle,
    request: Ptr<Pair>,
    pairs: u32,
    flags: c_uint,
    watch: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        arguments::flags(flags, EXISTING)?;
        let fields = opened::<OpenFields>(fsh)?;
        let selection = fields.selection(request, pairs)?;
        arguments::needed(watch, "watch")?;
        Ok(move || {
            let begun = fields.store.watch(&selection, flags & EXISTING != 0)?;
            call::open(OpenWatch(Mutex::new(begun)), watch)
        })
    })
}

/// Waits for new fields of a watch, `timeout` microseconds at most. Stores a selection of them in `sel`.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_watch_next(
    watch: Handle,
    timeout: i64,
    sel: Ptr<Handle>,
    count: Ptr<u64>,
) -> c_int {
    call::now(|| {
        arguments::needed(sel, "sel")?;
        let found = wait_for_fields(watch, timeout)?;
        let number = found.len() as u64;
        call::open(Selected(found), sel)?;
        count.set(number);
        Ok(())
    })
}

/// Waits for fields of a watch for `timeout` microseconds, or forever if that is negative. The wait ends early if the
/// handle is closed.
fn wait_for_fields(watch: Handle, timeout: i64) -> Result<Vec<Field>> {
    let deadline = event::deadline(timeout);
    loop {
        let left = deadline
            .map_or(TURN, |deadline| deadline.saturating_duration_since(Instant::now()).min(TURN));
        if let Some(found) = opened::<OpenWatch>(watch)?.next(left)? {
            return Ok(found);
        }
        if left.is_zero() {
            let text = format!("no field of the watch was flushed within {timeout} microseconds");
            return Err(Failure::new(Code::TIMEDOUT, text));
        }
    }
}

/// Closes a watch.
#[unsafe(no_mangle)]
pub extern "C" fn esker_field_watch_close(watch: Handle, ev: Ptr<Event>) -> c_int {
    call::close::<OpenWatch>(watch, ev)
}
