//! Replies of a backend: futures, which are ready at once if the work was done by the calling thread.
use esker_os::executor::block_on;
use esker_types::Result;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// The reply to an operation. Local targets answer at once ([`Reply::Ready`], no allocation, no runtime); remote ones
/// return a future.
#[must_use = "an operation whose reply is dropped may not have been executed"]
pub enum Reply<'a, T> {
    /// The work is done.
    Ready(Result<T>),
    /// The work is in progress; the future borrows the buffers of the operation.
    Pending(Pin<Box<dyn Future<Output = Result<T>> + Send + 'a>>),
    /// The result was taken already. Waiting for it again fails with `Already`.
    Taken,
}

impl<T> Reply<'_, T> {
    /// Waits for the result on the calling thread. A ready reply costs nothing.
    pub fn wait(self) -> Result<T> {
        match self {
            Self::Ready(result) => result,
            Self::Pending(future) => block_on(future),
            Self::Taken => Err(esker_types::ErrorKind::Already.into()),
        }
    }
}

impl<T> From<Result<T>> for Reply<'_, T> {
    fn from(result: Result<T>) -> Self {
        Self::Ready(result)
    }
}

/// A reply can be moved: its future is boxed and pinned there.
impl<T> Unpin for Reply<'_, T> {}

impl<T> Future for Reply<'_, T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Self::Pending(future) = &mut *self {
            return future.as_mut().poll(context);
        }
        match std::mem::replace(&mut *self, Self::Taken) {
            Self::Ready(result) => Poll::Ready(result),
            other => Poll::Ready(other.wait()),
        }
    }
}
