//! Asynchronous I/O of the C library: `aio_read` and its relatives. The C library makes such calls in threads of its
//! own, by system calls that cannot be intercepted. Here, a request on a file of the mount point is complete when the
//! call that makes it returns. `aio_error`, `aio_return`, `aio_suspend` and `aio_cancel` of the C library then find it
//! complete.
use crate::answer::{Answer, Fail, fail, refuse, to_c};
use crate::edge::{In, Out, export};
use crate::serve::serve;
use crate::{descriptors, raw};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// A request (`struct aiocb`), with the members that belong to the C library.
#[repr(C)]
struct Request {
    fd: c_int,
    operation: c_int,
    priority: c_int,
    buffer: usize,
    length: usize,
    notice: Notice,
    internal: [usize; 2],
    /// The return value of `aio_error`.
    error: AtomicI32,
    /// The return value of `aio_return`.
    result: isize,
    offset: i64,
}

/// Notification of the program that requests are complete (`struct sigevent`).
#[derive(Clone, Copy)]
#[repr(C)]
struct Notice {
    value: usize,
    signal: c_int,
    kind: c_int,
    function: Option<extern "C" fn(usize)>,
    attributes: *const libc::pthread_attr_t,
    padding: [usize; 4],
}

#[derive(Clone, Copy)]
enum Operation {
    Read,
    Write,
    Sync,
}

/// Highest number by which a request may lower its priority (glibc: `AIO_PRIO_DELTA_MAX`).
const PRIORITY_MAX: c_int = 20;

/// Cause of a signal (Linux: `SI_ASYNCIO`).
const OF_REQUEST: c_int = -4;

impl Request {
    /// Performs the request, stores its result and notifies the program.
    fn complete(&mut self, operation: Operation) -> Answer<()> {
        let answer = serve(|| self.perform(operation));
        self.end(&answer);
        let told = self.notice.send();
        // The notice was not sent. Its error becomes the result of the request, where the program finds it.
        if told.is_err() {
            self.end(&told);
        }
        answer.map(drop)
    }

    /// Reads, writes or syncs, and returns the number of bytes (0 for a sync).
    fn perform(&self, operation: Operation) -> Answer<isize> {
        let (file, length) = (descriptors::get(self.fd)?, self.length);
        match operation {
            Operation::Read => file.read_at(Out::at(self.buffer).buffer(length)?, self.offset),
            Operation::Write => {
                let data: In<u8> = In::at(self.buffer);
                file.write_at(self.fd, &[data.data(length)?], self.offset)
            }
            Operation::Sync => file.sync().map(|_| 0),
        }
    }

    /// Stores the result. The error is stored last, because other threads wait for it to change.
    fn end(&mut self, answer: &Answer<isize>) {
        self.result = *answer.as_ref().unwrap_or(&-1);
        self.error.store(answer.as_ref().map_or_else(Fail::errno, |_| 0), Ordering::Release);
    }

    /// True if the request is on a file of the mount point.
    fn is_ours(&self) -> bool {
        descriptors::is_ours(self.fd)
    }
}

impl Notice {
    /// Notifies the program that the operation has ended.
    fn send(self) -> Answer<isize> {
        match self.kind {
            libc::SIGEV_SIGNAL => {
                raw::queue_signal(self.signal, OF_REQUEST, self.value).map(|()| 0)
            }
            libc::SIGEV_THREAD => self.start_thread(),
            _ => Ok(0),
        }
    }

    /// Calls the program's function in a new thread, which is detached unless the program has set thread attributes.
    fn start_thread(self) -> Answer<isize> {
        let mut thread = std::mem::MaybeUninit::uninit();
        let boxed = Box::into_raw(Box::new(self)).cast();
        // SAFETY: the attributes are the program's or null, and `notify` takes the notice.
        let errno =
            unsafe { libc::pthread_create(thread.as_mut_ptr(), self.attributes, notify, boxed) };
        if errno != 0 {
            // SAFETY: no thread was made, so it is still ours.
            drop(unsafe { Box::from_raw(boxed.cast::<Self>()) });
            return refuse(errno);
        }
        if self.attributes.is_null() {
            // SAFETY: the thread was made just now, to be joined.
            unsafe { libc::pthread_detach(thread.assume_init()) };
        }
        Ok(0)
    }
}

/// Calls the function that the program wants to be called when its request is done.
extern "C" fn notify(notice: *mut c_void) -> *mut c_void {
    // SAFETY: `start_thread` made it for this thread alone.
    let notice = *unsafe { Box::from_raw(notice.cast::<Notice>()) };
    if let Some(function) = notice.function {
        function(notice.value);
    }
    std::ptr::null_mut()
}

/// Performs a request on a file of the mount point at once, before it returns. `theirs` calls the C library for a
/// request on any other file.
fn start(request: Out<Request>, operation: Operation, theirs: impl FnOnce() -> c_int) -> c_int {
    match request.values(1) {
        [request] if request.is_ours() => {
            if !(0..=PRIORITY_MAX).contains(&request.priority) {
                request.end(&refuse(libc::EINVAL));
                return fail(libc::EINVAL);
            }
            // Returns 0 even if the operation failed: the program gets its error from `aio_error`.
            let _ = request.complete(operation);
            0
        }
        _ => theirs(),
    }
}

/// Serves `aio_fsync`. `how` must be `O_SYNC` or `O_DSYNC`, which do the same here.
fn start_sync(request: Out<Request>, how: c_int, theirs: impl FnOnce() -> c_int) -> c_int {
    match how {
        libc::O_SYNC | libc::O_DSYNC => start(request, Operation::Sync, theirs),
        _ => fail(libc::EINVAL),
    }
}

type List = In<Out<Request>>;

/// Serves `lio_listio`: performs the requests of `list` on files of the mount point. `theirs` starts the others in the
/// C library, which then also sends `notice`.
fn start_list(
    mode: c_int,
    list: List,
    count: c_int,
    notice: In<Notice>,
    theirs: impl FnOnce(List) -> c_int,
) -> c_int {
    let requests = list.values(usize::try_from(count).unwrap_or(0));
    let is_ours =
        |request: &Out<Request>| request.values(1).first().is_some_and(|one| one.is_ours());
    if !requests.iter().any(is_ours) {
        return theirs(list);
    }
    if !matches!(mode, libc::LIO_WAIT | libc::LIO_NOWAIT) {
        return fail(libc::EINVAL);
    }
    // The list for the C library, which ignores null pointers in it.
    let mut others = requests.to_vec();
    let mut done = Ok(());
    for other in others.iter_mut().filter(|request| is_ours(request)) {
        done = done.and(listed(std::mem::replace(other, Out::null())));
    }
    let result = match others.iter().all(|other| other.is_null()) {
        // The list is complete. `LIO_WAIT` does not notify the program, and ignores `notice`.
        true if mode == libc::LIO_NOWAIT => {
            to_c(notice.get().map_or(Ok(0), Notice::send).map(|_| 0))
        }
        true => 0,
        false => theirs(In::from_slice(&others)),
    };
    if done.is_err() && mode == libc::LIO_WAIT { fail(libc::EIO) } else { result }
}

/// Performs one request of a `lio_listio` list by its own operation code. Does nothing for a null pointer.
fn listed(request: Out<Request>) -> Answer<()> {
    let [request] = request.values(1) else { return Ok(()) };
    match request.operation {
        libc::LIO_READ => request.complete(Operation::Read),
        libc::LIO_WRITE => request.complete(Operation::Write),
        libc::LIO_NOP => Ok(()),
        _ => {
            request.end(&refuse(libc::EINVAL));
            refuse(libc::EINVAL)
        }
    }
}

/// Functions of one form under two names.
macro_rules! variants {
    ($($form:ident: $($name:ident)*;)*) => {$($(variants! { @$form $name })*)*};
    (@read $name:ident) => { export! {
        fn $name(request: Out<Request>) -> c_int | next {
            start(request, Operation::Read, || next(request))
        }
    } };
    (@write $name:ident) => { export! {
        fn $name(request: Out<Request>) -> c_int | next {
            start(request, Operation::Write, || next(request))
        }
    } };
    (@sync $name:ident) => { export! {
        fn $name(how: c_int, request: Out<Request>) -> c_int | next {
            start_sync(request, how, || next(how, request))
        }
    } };
    (@list $name:ident) => { export! {
        fn $name(mode: c_int, list: List, count: c_int, notice: In<Notice>) -> c_int | next {
            start_list(mode, list, count, notice, |list| next(mode, list, count, notice))
        }
    } };
}

variants! {
    read: aio_read aio_read64;
    write: aio_write aio_write64;
    sync: aio_fsync aio_fsync64;
    list: lio_listio lio_listio64;
}
