//! Answers to operations: futures that a callback of librados completes, or, where the thread has nothing else to do,
//! that wait in place. The callback comes from another thread of librados, which takes as long as a small
//! operation.
use crate::api::{Functions, RawCompletion};
use esker_os::executor::may_block;
use std::ffi::{c_int, c_void};
use std::future::Future;
use std::pin::Pin;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// An operation under way, with what it owns until librados is done with it.
struct Shared<T> {
    functions: &'static Functions,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// Code and version, once it is over.
    outcome: Option<(c_int, u64)>,
    /// Taken by whoever gets the answer.
    owned: Option<T>,
    waker: Option<Waker>,
}

impl<T> Shared<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

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

/// Counts an operation for as long as its answer is not taken.
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

/// An operation that its thread waits for.
struct Awaited<T> {
    functions: &'static Functions,
    completion: *mut RawCompletion,
    owned: Option<T>,
}

// SAFETY: librados does not care which thread waits.
unsafe impl<T: Send> Send for Awaited<T> {}

impl<T> Awaited<T> {
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

impl<T> Drop for Awaited<T> {
    fn drop(&mut self) {
        // What librados fills must stay until it is done, even if nobody asks any more.
        self.wait();
        // SAFETY: the completion is used no more.
        unsafe { (self.functions.rados_aio_release)(self.completion) };
    }
}

/// Begins an operation that this thread waits for.
fn begin_awaited<T>(
    functions: &'static Functions,
    owned: T,
    operate: impl FnOnce(*mut RawCompletion) -> c_int,
) -> Result<Awaited<T>, c_int> {
    let mut completion = ptr::null_mut();
    let create = functions.rados_aio_create_completion2;
    // SAFETY: nobody is called; the call sets `completion`.
    let code = unsafe { create(ptr::null_mut(), None, &raw mut completion) };
    let code = if code < 0 { code } else { operate(completion) };
    match code < 0 {
        false => Ok(Awaited { functions, completion, owned: Some(owned) }),
        true => {
            if !completion.is_null() {
                // SAFETY: nothing was begun with it.
                unsafe { (functions.rados_aio_release)(completion) };
            }
            Err(code)
        }
    }
}

/// Begins an operation: `operate` hands the completion to librados and returns its code.
///
/// `owned` is kept, at least, until librados says that the operation is over.
fn begin_told<T: Send + 'static>(
    functions: &'static Functions,
    owned: T,
    operate: impl FnOnce(*mut RawCompletion) -> c_int,
) -> Arc<Shared<T>> {
    let state = State { outcome: None, owned: Some(owned), waker: None };
    let shared = Arc::new(Shared { functions, state: Mutex::new(state) });
    let argument = Arc::into_raw(Arc::clone(&shared));
    let mut completion = ptr::null_mut();
    // SAFETY: `done` takes the argument back, once.
    let code = unsafe {
        let create = functions.rados_aio_create_completion2;
        create(argument.cast_mut().cast::<c_void>(), Some(done::<T>), &raw mut completion)
    };
    let code = if code < 0 { code } else { operate(completion) };
    if code < 0 {
        // SAFETY: nothing was begun, so `done` is not called.
        drop(unsafe { Arc::from_raw(argument) });
        shared.complete(code, 0);
    }
    if !completion.is_null() {
        // SAFETY: librados keeps the completion until it is over.
        unsafe { (functions.rados_aio_release)(completion) };
    }
    shared
}

/// Called by librados when an operation is over.
///
/// # Safety
/// `argument` is what [`begin`] made of an `Arc`, and comes once.
unsafe extern "C" fn done<T: Send + 'static>(
    completion: *mut RawCompletion,
    argument: *mut c_void,
) {
    // SAFETY: the argument is the pointer that `begin` made of an `Arc`, and comes back once.
    let shared = unsafe { Arc::from_raw(argument.cast::<Shared<T>>()) };
    let functions = shared.functions;
    // SAFETY: the completion is valid during its callback.
    let (code, version) = unsafe {
        (
            (functions.rados_aio_get_return_value)(completion),
            (functions.rados_aio_get_version)(completion),
        )
    };
    // A waker is the caller's code; nothing may unwind into librados.
    let wake = std::panic::AssertUnwindSafe(|| shared.complete(code, version));
    let _ = std::panic::catch_unwind(wake);
}

/// Something that takes its answer from an operation that is over; `None` before.
trait Ask<T>: Send + Sync {
    fn ask(&self, context: &Context<'_>) -> Option<Result<T, i32>>;
}

struct Asked<O, F> {
    shared: Arc<Shared<O>>,
    finish: F,
}

impl<O: Send, T, F: Fn(u64, O) -> T + Send + Sync> Ask<T> for Asked<O, F> {
    fn ask(&self, context: &Context<'_>) -> Option<Result<T, i32>> {
        let mut state = self.shared.state();
        let Some((code, version)) = state.outcome else {
            state.waker = Some(context.waker().clone());
            return None;
        };
        let owned = state.owned.take();
        drop(state);
        Some(match owned {
            Some(owned) if code >= 0 => Ok((self.finish)(version, owned)),
            _ => Err(code.min(-1)),
        })
    }
}

impl<O: Send, T, F: Fn(u64, O) -> T + Send> Ask<T> for (Mutex<Awaited<O>>, F)
where
    F: Sync,
{
    fn ask(&self, _: &Context<'_>) -> Option<Result<T, i32>> {
        let mut awaited = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (code, version) = awaited.wait();
        Some(match awaited.owned.take() {
            Some(owned) if code >= 0 => Ok((self.1)(version, owned)),
            _ => Err(code.min(-1)),
        })
    }
}

/// One that failed before it began.
struct Refused(c_int);

impl<T> Ask<T> for Refused {
    fn ask(&self, _: &Context<'_>) -> Option<Result<T, i32>> {
        Some(Err(self.0))
    }
}

/// The answer to an operation, or the code of librados for its failure: a negative errno.
///
/// The operation goes on when this is dropped.
pub struct Answer<T>(Box<dyn Ask<T>>);

impl<T: 'static> Answer<T> {
    /// Begins an operation: `operate` hands the completion to librados and returns its code. What is `owned` is
    /// kept until the operation is over.
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
            return Self(Box::new(Asked { shared: begin_told(functions, owned, operate), finish }));
        }
        match begin_awaited(functions, owned, operate) {
            Ok(awaited) => Self(Box::new((Mutex::new(awaited), finish))),
            Err(code) => Self(Box::new(Refused(code))),
        }
    }
}

impl<T> Future for Answer<T> {
    type Output = Result<T, i32>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.ask(context).map_or(Poll::Pending, Poll::Ready)
    }
}
