//! The process that serves the pool.
use super::{Addresses, Shared, raw};
use crate::client_server;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_engine::{Engine, Threads};
use esker_types::{Error, Result};
use esker_wire::handshake::Secret;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// An engine that runs as long as this value.
pub struct Server {
    _runtime: Runtime,
    addresses: Addresses,
}

impl client_server::Server for Server {
    type Job = Shared;
    type Addresses = Addresses;

    /// Serves the pool `shared` on loopback.
    fn start(shared: Shared) -> Result<Self> {
        let pool = Pool::connect(&shared.pool, OpenMode::ReadWrite)?;
        let engine = || Engine::new(Arc::clone(pool.backend()), shared.uuid, secret(&shared));
        let (plain, secured) = (engine(), engine());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = Arc::new(Threads::start(threads)?);
        plain.serve_on(Arc::clone(&threads));
        secured.serve_on(threads);
        secured.require_tls()?;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::io("starting the threads of an engine", &error))?;
        let engine = listen(&runtime, plain)?;
        let engine_tls = listen(&runtime, secured)?;
        let addresses = Addresses { engine, engine_tls, raw: raw::listen()? };
        Ok(Self { _runtime: runtime, addresses })
    }

    fn addresses(&self) -> &Addresses {
        &self.addresses
    }
}

/// Lets an engine serve on loopback. Returns its address.
fn listen(runtime: &Runtime, engine: Engine) -> Result<String> {
    let (listener, address) = client_server::listen(runtime)?;
    runtime.spawn(async move { engine.listen(listener).await });
    Ok(address)
}

pub(super) fn secret(shared: &Shared) -> Secret {
    Secret::new(shared.secret)
}
