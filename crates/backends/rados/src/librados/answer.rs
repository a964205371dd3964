//! Answers to operations. An answer is a future that a callback of librados completes. If the thread has nothing else
//! to do, the answer blocks it instead: a callback runs on another thread, and that switch costs as much as a small
//! operation.
use crate::librados::library::{Functions, RawCompletion};
use esker_os::executor::may_block;
use std::ffi::{c_int, c_void};
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// A pending operation and the buffers it owns until librados is done with them.
struct Shared<T> {
    functions: &'static Functions,
    state: Mutex<OperationState<T>>,
}

struct OperationState<T> {
    /// Return code and version, after completion.
    outcome: Option<(c_int, u64)>,
    /// Taken with the answer.
    owned: Option<T>,
    /// Wakes the task that waits.
    waker: Option<Waker>,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, OperationState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the outcome of an operation, and wakes its task.
    fn complete(&self, code: c_int, version: u64) {
        let waker = {
            let mut state = self.state();
            state.outcome = Some((code, version));
            state.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Counts an operation until its answer is taken.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(counter: &Arc<AtomicUsize>) -> Self {
        counter.fetch_add(1, Ordering::Relaxed);
        Self(Arc::clone(counter))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An operation whose thread blocks until it is complete.
struct BlockingOperation<T> {
    functions: &'static Functions,
    completion: *mut RawCompletion,
    owned: Option<T>,
}

// SAFETY: any thread may wait for it.
unsafe impl<T: Send> Send for BlockingOperation<T> {}

impl<T> BlockingOperation<T> {
    /// Waits for the operation, and returns its code and version.
    fn wait(&mut self) -> (c_int, u64) {
        let Self { functions, completion, .. } = *self;
        // SAFETY: the completion is valid until `drop`.
        unsafe {
            (functions.rados_aio_wait_for_complete)(completion);
            (
                (functions.rados_aio_get_return_value)(completion),
                (functions.rados_aio_get_version)(completion),
            )
        }
    }
}

impl<T> Drop for BlockingOperation<T> {
    fn drop(&mut self) {
        // The buffers that librados fills must stay until it is done, even if the answer is dropped.
        self.wait();
        // SAFETY: the completion is not used after this.
        unsafe { (self.functions.rados_aio_release)(self.completion) };
    }
}

/// Starts an operation for which this thread will block.
fn begin_blocking<T>(
    functions: &'static Functions,
    owned: T,
    operate: impl FnOnce(*mut RawCompletion) -> c_int,
) -> Result<BlockingOperation<T>, c_int> {
    let mut completion = ptr::null_mut();
    let create = functions.rados_aio_create_completion2;
    // SAFETY: no callback is passed; the call sets `completion`.
    let code = unsafe { create(ptr::null_mut(), None, &raw mut completion) };
    let code = if code < 0 { code } else { operate(completion) };
    match code < 0 {
        false => Ok(BlockingOperation { functions, completion, owned: Some(owned) }),
        true => {
            if !completion.is_null() {
                // SAFETY: no operation was started with it.
                unsafe { (functions.rados_aio_release)(completion) };
            }
            Err(code)
        }
    }
}

/// Starts an operation: `operate` passes the completion to librados and returns its code.
///
/// `owned` is kept at least until librados completes the operation.
fn begin_with_callback<T: Send + 'static>(
    functions: &'static Functions,
    owned: T,
    operate: impl FnOnce(*mut RawCompletion) -> c_int,
) -> Arc<Shared<T>> {
    let state = OperationState { outcome: None, owned: Some(owned), waker: None };
    let shared = Arc::new(Shared { functions, state: Mutex::new(state) });
    let argument = Arc::into_raw(Arc::clone(&shared));
    let mut completion = ptr::null_mut();
    // SAFETY: `on_complete` takes the argument back, once.
    let code = unsafe {
        let create = functions.rados_aio_create_completion2;
        create(argument.cast_mut().cast::<c_void>(), Some(on_complete::<T>), &raw mut completion)
    };
    let code = if code < 0 { code } else { operate(completion) };
    if code < 0 {
        // SAFETY: no operation was started, so `on_complete` is not called.
        drop(unsafe { Arc::from_raw(argument) });
        shared.complete(code, 0);
    }
    if !completion.is_null() {
        // SAFETY: librados keeps the completion until the operation is complete.
        unsafe { (functions.rados_aio_release)(completion) };
    }
    shared
}

/// Called by librados when an operation is complete.
///
/// # Safety
/// `argument` must be the pointer that [`begin_with_callback`] made from an `Arc`; it is passed once.
unsafe extern "C" fn on_complete<T: Send + 'static>(
    completion: *mut RawCompletion,
    argument: *mut c_void,
) {
    // SAFETY: `begin_with_callback` made the argument from an `Arc`, and it is passed once.
    let shared = unsafe { Arc::from_raw(argument.cast::<Shared<T>>()) };
    let functions = shared.functions;
    // SAFETY: the completion is valid during its callback.
    let (code, version) = unsafe {
        (
            (functions.rados_aio_get_return_value)(completion),
            (functions.rados_aio_get_version)(completion),
        )
    };
    // A waker runs the caller's code; a panic must not unwind into librados.
    let wake = std::panic::AssertUnwindSafe(|| shared.complete(code, version));
    let _ = std::panic::catch_unwind(wake);
}

/// Takes the answer of an operation; `None` until it is complete.
trait PollAnswer<T>: Send + Sync {
    /// The result, or the code of librados. Has the task of `context` woken if it is not complete yet.
    fn poll_answer(&self, context: &Context<'_>) -> Option<Result<T, i32>>;
}

/// The answer to an operation that a callback completes. `finish` makes the result from the version and the buffers.
struct CallbackAnswer<O, F> {
    shared: Arc<Shared<O>>,
    finish: F,
}

impl<O: Send, T, F: Fn(u64, O) -> T + Send + Sync> PollAnswer<T> for CallbackAnswer<O, F> {
    fn poll_answer(&self, context: &Context<'_>) -> Option<Result<T, i32>> {
        let mut state = self.shared.state();
        let Some((code, version)) = state.outcome else {
            state.waker = Some(context.waker().clone());
            return None;
        };
        let owned = state.owned.take();
        drop(state);
        Some(match owned {
            Some(owned) if code >= 0 => Ok((self.finish)(version, owned)),
            // A poll after the result was taken is an error, too.
            _ => Err(code.min(-1)),
        })
    }
}

impl<O: Send, T, F: Fn(u64, O) -> T + Send> PollAnswer<T> for (Mutex<BlockingOperation<O>>, F)
where
    F: Sync,
{
    fn poll_answer(&self, _: &Context<'_>) -> Option<Result<T, i32>> {
        let mut operation = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (code, version) = operation.wait();
        Some(match operation.owned.take() {
            Some(owned) if code >= 0 => Ok((self.1)(version, owned)),
            // A poll after the result was taken is an error, too.
            _ => Err(code.min(-1)),
        })
    }
}

/// An operation that failed to start.
struct Refused(c_int);

impl<T> PollAnswer<T> for Refused {
    fn poll_answer(&self, _: &Context<'_>) -> Option<Result<T, i32>> {
        Some(Err(self.0))
    }
}

/// The answer to an operation, or the code of librados for its failure: a negative errno.
///
/// The operation continues if this is dropped.
pub struct Answer<T>(Box<dyn PollAnswer<T>>);

impl<T: 'static> Answer<T> {
    /// Starts an operation: `operate` passes the completion to librados and returns its code. `owned` is kept until the
    /// operation is complete. `under_way` counts it. `finish` makes the result from the object's version and `owned`.
    pub(crate) fn begin<O: Send + 'static>(
        functions: &'static Functions,
        under_way: &Arc<AtomicUsize>,
        owned: O,
        operate: impl FnOnce(*mut RawCompletion) -> c_int,
        finish: impl Fn(u64, O) -> T + Send + Sync + 'static,
    ) -> Self {
        let owned = (owned, Counted::new(under_way));
        let finish = move |version, (owned, _): (O, Counted)| finish(version, owned);
        if !may_block() {
            return Self(Box::new(CallbackAnswer {
                shared: begin_with_callback(functions, owned, operate),
                finish,
            }));
        }
        match begin_blocking(functions, owned, operate) {
            Ok(operation) => Self(Box::new((Mutex::new(operation), finish))),
            Err(code) => Self(Box::new(Refused(code))),
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, i32>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll_answer(context).map_or(Poll::Pending, Poll::Ready)
    }
}
