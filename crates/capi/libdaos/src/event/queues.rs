//! Functions on event queues.
use super::private::Ev;
use super::queue::Queue;
use crate::abi::{Event, Handle, Ptr};
use crate::boundary;
use crate::code::{Code, Result};
use crate::handles::{self, Entry, kind};
use std::ffi::c_int;
use std::sync::Arc;

/// `DAOS_EQ_DESTROY_FORCE`.
const FORCE: c_int = 1;
/// `DAOS_EQR_COMPLETED`.
const COMPLETED: u32 = 1;
/// `DAOS_EQR_WAITING`.
const WAITING: u32 = 2;

/// Creates an event queue.
#[unsafe(no_mangle)]
pub extern "C" fn daos_eq_create(eqh: Ptr<Handle>) -> c_int {
    boundary::now(|| {
        eqh.needed()?.set(handles::open(Entry::Queue(Arc::<Queue>::default()))?);
        Ok(())
    })
}

/// Destroys an event queue. By force, it first waits for the operations in progress; otherwise it must have no events.
#[unsafe(no_mangle)]
pub extern "C" fn daos_eq_destroy(eqh: Handle, flags: c_int) -> c_int {
    boundary::now(|| {
        let queue = handles::queue(eqh)?;
        if flags & FORCE == 0 && !queue.list(true, true).is_empty() {
            return Err(Code::BUSY);
        }
        let closed = handles::close(eqh.cookie, &[kind::QUEUE]).map_err(|_| Code::NONEXIST)?;
        queue.end();
        drop(closed);
        Ok(())
    })
}

/// Takes up to `nevents` completed events out of a queue, and returns their number. Waits up to `timeout` microseconds
/// for the first, forever if negative. `NONEXIST` if another thread destroys the queue meanwhile.
#[unsafe(no_mangle)]
pub extern "C" fn daos_eq_poll(
    eqh: Handle,
    wait_running: c_int,
    timeout: i64,
    nevents: u32,
    events: Ptr<Ptr<Event>>,
) -> c_int {
    count(|| {
        if nevents == 0 || events.is_null() {
            return Err(Code::INVAL);
        }
        let queue = handles::queue(eqh)?;
        let most = nevents as usize;
        let found = queue.poll(most, wait_running != 0, super::deadline(timeout))?;
        Ok(put(&found, events, most))
    })
}

/// Counts the events of a queue in the states of `query` (`DAOS_EQR_*`). If `events` has room for any, stores up to
/// `nevents` of them, and returns the number stored.
#[unsafe(no_mangle)]
pub extern "C" fn daos_eq_query(
    eqh: Handle,
    query: u32,
    nevents: u32,
    events: Ptr<Ptr<Event>>,
) -> c_int {
    count(|| {
        let queue = handles::queue(eqh)?;
        let found = queue.list(query & COMPLETED != 0, query & WAITING != 0);
        let most = if events.is_null() { 0 } else { nevents as usize };
        if most == 0 { Ok(found.len()) } else { Ok(put(&found, events, most)) }
    })
}

/// Runs `work`, and returns its count, or the code of its error.
fn count(work: impl FnOnce() -> Result<usize>) -> c_int {
    let mut count = 0;
    let code = boundary::now(|| {
        count = work()?;
        Ok(())
    });
    if code == 0 { c_int::try_from(count).unwrap_or(c_int::MAX) } else { code }
}

/// Stores up to `most` events in the array `events` of the caller. Returns their number.
fn put(found: &[Ev], events: Ptr<Ptr<Event>>, most: usize) -> usize {
    for (index, ev) in found.iter().take(most).enumerate() {
        events.at(index).set(Ev::pointer(Some(*ev)));
    }
    found.len().min(most)
}
