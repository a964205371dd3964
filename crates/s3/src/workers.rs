//! Threads for operations of the store, which block.
use crate::fault::{Fault, Outcome};
use crate::limits::WORKERS_MAX;
use s3s::S3ErrorCode;
use std::sync::Arc;
use tokio::runtime::Handle;
use tokio::sync::Semaphore;

/// Runs what blocks on threads of the runtime that are there for it, [`WORKERS_MAX`] at a time.
#[derive(Clone)]
pub(crate) struct Workers(Arc<Semaphore>);

impl Workers {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(WORKERS_MAX)))
    }

    /// What `work` returns. If the caller is gone meanwhile, the work is done all the same.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Outcome<T> + Send + 'static,
    ) -> Outcome<T> {
        let place = Arc::clone(&self.0).acquire_owned().await;
        let place = place.map_err(|_| S3ErrorCode::ServiceUnavailable)?;
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(place);
            result
        });
        done.await
            .unwrap_or_else(|error| Err(Fault::new(S3ErrorCode::InternalError, error.to_string())))
    }

    /// Drops something whose end may block, on such a thread.
    pub(crate) fn drop_later(what: impl Send + 'static) {
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || drop(what))),
            Err(_) => drop(what),
        }
    }
}

/// Something whose end may block: if it is dropped, it ends on a thread for that.
pub(crate) struct Later<T: Send + 'static>(Option<T>);

impl<T: Send + 'static> Later<T> {
    pub(crate) fn new(what: T) -> Self {
        Self(Some(what))
    }

    /// Takes it out, where its end may block.
    pub(crate) fn take(&mut self) -> Option<T> {
        self.0.take()
    }
}

impl<T: Send + 'static> Default for Later<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: Send + 'static> Drop for Later<T> {
    fn drop(&mut self) {
        if let Some(what) = self.0.take() {
            Workers::drop_later(what);
        }
    }
}
