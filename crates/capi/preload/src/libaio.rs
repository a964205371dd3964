//! Asynchronous I/O of the kernel: `io_submit` and `io_getevents`, as functions of libaio and through `syscall`.
//!
//! The library serves a request on a file of the mount point while the program submits it. It then submits a stand-in
//! to the kernel: a write to the anonymous file of the descriptor, which fails (`EPERM`). So the kernel still handles
//! waiting, event descriptors and the limit of a context. When the program takes the event of the stand-in, the library
//! replaces the result and the address by those of the program's request. Programs that read events in the memory of
//! the context, without a call, see the failure.
use crate::answer::{Answer, fail, refuse};
use crate::edge::{In, Out, export};
use crate::serve::serve;
use crate::{descriptors, io, raw, threads};
use std::collections::BTreeMap;
use std::ffi::{c_int, c_long};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// A request (Linux: `struct iocb`).
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Request {
    data: u64,
    key: u32,
    how: c_int,
    operation: u16,
    priority: i16,
    fd: c_int,
    buffer: usize,
    length: usize,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_fd: u32,
}

/// The end of a request (Linux: `struct io_event`).
#[repr(C)]
pub(crate) struct Event {
    data: u64,
    request: usize,
    result: i64,
    more: i64,
}

// Operations (Linux: `IOCB_CMD_*`).
const READ: u16 = 0;
const WRITE: u16 = 1;
const SYNC: u16 = 2;
const SYNC_DATA: u16 = 3;
const READ_VECTOR: u16 = 7;
const WRITE_VECTOR: u16 = 8;

/// Number of the call `io_pgetevents`.
const WAIT_WITH_SIGNALS: c_long = if cfg!(target_arch = "aarch64") { 292 } else { 333 };

/// The byte that a stand-in tries to write.
static FORBIDDEN: [u8; 1] = [0];

/// The request has an event descriptor (Linux: `IOCB_FLAG_RESFD`).
const WITH_EVENT_FD: u32 = 1;

/// A request of ours that was submitted, and whose event was not delivered yet.
struct Pending {
    context: usize,
    /// Address of the program's request.
    request: usize,
    stand_in: Request,
    result: OnceLock<i64>,
}

/// All pending requests, by the address of the stand-in.
static PENDING: Mutex<BTreeMap<usize, Arc<Pending>>> = Mutex::new(BTreeMap::new());
/// Number of pending requests: programs without any need not lock the table.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Runs `work` on the table of pending requests. Inside the store, so that a forked child never inherits the lock.
fn with_pending<T>(work: impl FnOnce(&mut BTreeMap<usize, Arc<Pending>>) -> T) -> Option<T> {
    let done = threads::inside(|| {
        let mut pending = PENDING.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(&mut pending);
        COUNT.store(pending.len(), Ordering::Release);
        Ok(done)
    });
    done.ok()
}

impl Request {
    /// True for a read, write or sync of a file of the mount point.
    fn is_ours(&self) -> bool {
        let is_known =
            matches!(self.operation, READ | WRITE | SYNC | SYNC_DATA | READ_VECTOR | WRITE_VECTOR);
        is_known && descriptors::is_ours(self.fd)
    }

    /// The stand-in for this request: a write of one byte that the kernel refuses, with the same event descriptor.
    fn stand_in(self) -> Self {
        let (how, buffer, length, offset) = (0, FORBIDDEN.as_ptr() as usize, FORBIDDEN.len(), 0);
        let flags = self.flags & WITH_EVENT_FD;
        Self { operation: WRITE, how, buffer, length, offset, flags, ..self }
    }

    /// Performs the operation and returns its number of bytes.
    fn perform(&self) -> Answer<isize> {
        let file = descriptors::get(self.fd)?;
        let one = [libc::iovec { iov_base: self.buffer as *mut _, iov_len: self.length }];
        let (vector, count) = match self.operation {
            READ | WRITE => (In::from_slice(&one), 1),
            _ => (In::at(self.buffer), c_int::try_from(self.length).unwrap_or(c_int::MAX)),
        };
        match self.operation {
            SYNC | SYNC_DATA => file.sync().map(|_| 0),
            _ if self.offset < 0 => refuse(libc::EINVAL),
            READ | READ_VECTOR => {
                io::read_vector2((&file, self.fd), vector, count, self.offset, self.how)
            }
            _ => io::write_vector2((&file, self.fd), vector, count, self.offset, self.how),
        }
    }
}

/// Submits requests; `theirs` submits those of other files to the kernel. Returns the number of accepted requests, or a
/// negative errno if the first one was refused.
pub(crate) fn submit(
    context: usize,
    list: &[In<Request>],
    theirs: impl Fn(&[In<Request>]) -> c_long,
) -> c_long {
    let is_ours = |request: &In<Request>| request.get().is_some_and(|request| request.is_ours());
    let mut done = 0;
    // Each request of ours is a part by itself; others go to the kernel together, in their order.
    for part in list.chunk_by(|one, next| !is_ours(one) && !is_ours(next)) {
        let accepted = match part {
            [request] if is_ours(request) => submit_ours(context, *request),
            _ => theirs(part),
        };
        match accepted {
            ..0 if done == 0 => return accepted,
            _ => done += accepted.max(0),
        }
        if accepted < part.len() as c_long {
            break;
        }
    }
    done
}

/// Submits a request on a file of the mount point: first a stand-in to the kernel, which refuses it if the context is
/// full. Only then does it perform the request. Returns 1, or a negative errno.
fn submit_ours(context: usize, request: In<Request>) -> c_long {
    let Some(wanted) = request.get() else { return -c_long::from(libc::EFAULT) };
    let stand_in = wanted.stand_in();
    let pending =
        Pending { context, request: request.address(), stand_in, result: OnceLock::new() };
    let pending = Arc::new(pending);
    let key = &raw const pending.stand_in as usize;
    with_pending(|all| all.insert(key, pending.clone()));
    // SAFETY: the stand-in is in the table until its event is delivered, and its buffer is static.
    if let Err(error) = unsafe { raw::submit(context, key) } {
        with_pending(|all| all.remove(&key));
        return -c_long::from(error.errno());
    }
    let result = serve(|| wanted.perform());
    let _ = pending
        .result
        .set(result.map_or_else(|error| -i64::from(error.errno()), |done| done as i64));
    1
}

/// Replaces events of stand-ins by those of the program's requests. Waits for a request that another thread is
/// submitting.
pub(crate) fn deliver(events: &mut [Event]) {
    if COUNT.load(Ordering::Acquire) == 0 {
        return;
    }
    for event in events {
        if let Some(Some(pending)) = with_pending(|all| all.remove(&event.request)) {
            event.request = pending.request;
            event.result = *pending.result.wait();
        }
    }
}

/// Forgets the requests that were submitted to a destroyed context.
pub(crate) fn destroyed(context: usize) {
    if COUNT.load(Ordering::Acquire) != 0 {
        with_pending(|all| all.retain(|_, pending| pending.context != context));
    }
}

/// Completes the first `count` of `events`, which a call has returned; see [`deliver`].
pub(crate) fn delivered(count: c_long, events: Out<Event>) {
    deliver(events.values(usize::try_from(count).unwrap_or(0)));
}

/// Serves `syscall` with a call of this group, whose arguments are `a`; `None` for all other numbers. `real` makes
/// system calls.
pub(crate) fn by_number(
    number: c_long,
    a: [usize; 6],
    real: impl Fn(c_long, [usize; 6]) -> c_long,
) -> Option<c_long> {
    let negative = |result: c_long| match result {
        -1 => -c_long::from(threads::errno()),
        _ => result,
    };
    Some(match number {
        libc::SYS_io_submit => {
            let count = usize::try_from(a[1] as c_long).unwrap_or(0);
            let theirs = |part: &[In<Request>]| {
                negative(real(number, [a[0], part.len(), part.as_ptr() as usize, 0, 0, 0]))
            };
            let list: In<In<Request>> = In::at(a[2]);
            match submit(a[0], list.values(count), theirs) {
                errno @ ..0 => fail(-errno as c_int),
                done => done,
            }
        }
        libc::SYS_io_getevents | WAIT_WITH_SIGNALS => {
            let count = real(number, a);
            delivered(count, Out::at(a[3]));
            count
        }
        libc::SYS_io_destroy => {
            let result = real(number, a);
            destroyed(a[0]);
            result
        }
        _ => return None,
    })
}

export! {
    fn io_submit(context: usize, count: c_long, list: In<In<Request>>) -> c_int | next {
        let requests = list.values(usize::try_from(count).unwrap_or(0));
        if requests.is_empty() {
            return next(context, count, list);
        }
        let theirs = |part: &[In<Request>]| next(context, part.len() as c_long, In::from_slice(part)).into();
        submit(context, requests, theirs) as c_int
    }

    fn io_getevents(
        context: usize, least: c_long, count: c_long, events: Out<Event>, limit: In<libc::timespec>,
    ) -> c_int | next {
        let count = next(context, least, count, events, limit);
        delivered(count.into(), events);
        count
    }

    fn io_pgetevents(
        context: usize, least: c_long, count: c_long, events: Out<Event>, limit: In<libc::timespec>,
        signals: usize,
    ) -> c_int | next {
        let count = next(context, least, count, events, limit, signals);
        delivered(count.into(), events);
        count
    }

    fn io_destroy(context: usize) -> c_int | next {
        let result = next(context);
        destroyed(context);
        result
    }
}
