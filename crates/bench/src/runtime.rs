//! Threads and sockets of asynchronous servers and clients.
use crate::errors::Doing;
use esker_os::start_with_threads;
use esker_types::Result;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// Starts a runtime with this number of threads, or one for each processor.
pub(crate) fn start(threads: Option<usize>) -> Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    threads.map(|threads| builder.worker_threads(threads));
    start_with_threads(|| builder.enable_all().build())
}

/// A listener on loopback, and its address.
pub(crate) fn listen(runtime: &Runtime) -> Result<(TcpListener, String)> {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0"));
    let listener = listener.doing(|| "listening on loopback")?;
    let address = listener.local_addr().doing(|| "listening on loopback")?.to_string();
    Ok((listener, address))
}
