//! The threads that run the connections to other nodes, for callers on any thread.
use esker_os::{PerProcess, start_with_threads, without_signals};
use esker_types::{Error, ErrorKind, Result};
use std::future::Future;
use std::time::Duration;
use tokio::runtime::{Builder, Handle, Runtime};

/// Number of threads for all connections of a process. They sleep while nothing arrives.
const THREADS: usize = 1;

/// A child made by fork starts its own.
static RUNTIME: PerProcess<Running> = PerProcess::empty();

/// `None` only while it is dropped.
struct Running(Option<Runtime>);

impl Drop for Running {
    /// The caller may be a task itself, and must not wait for other tasks.
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Starts tokio with the threads that serve connections. They block all signals.
fn start() -> Result<Running> {
    let mut builder = Builder::new_multi_thread();
    builder.worker_threads(THREADS).thread_name("esker-nodes").enable_io().enable_time();
    let runtime = without_signals(|| start_with_threads(|| builder.build()));
    runtime.map(|runtime| Running(Some(runtime)))
}

/// The runtime of this process, which is started if needed.
fn handle() -> Result<&'static Handle> {
    let running = RUNTIME.get_or_make(start)?;
    running.0.as_ref().map(Runtime::handle).ok_or_else(|| ErrorKind::Canceled.into())
}

/// Runs a future on these threads, and waits for it on the caller's.
pub(crate) async fn on_runtime<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let ended = handle()?.spawn(work).await;
    ended.unwrap_or_else(|error| {
        Err(Error::new(ErrorKind::Canceled, format!("a task of a connection ended: {error}")))
    })
}

/// Starts a task on these threads. A process that cannot start threads runs none.
pub(crate) fn spawn(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(handle) = handle() {
        drop(handle.spawn(work));
    }
}

/// Waits for `duration` on the runtime of this process.
pub(crate) async fn pause(duration: Duration) -> Result<()> {
    on_runtime(async move {
        tokio::time::sleep(duration).await;
        Ok(())
    })
    .await
}
