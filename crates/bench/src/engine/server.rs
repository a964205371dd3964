//! The process that serves the pool.
use super::{Addresses, Shared, raw};
use crate::runtime;
use crate::worker::Work;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_engine::{Engine, Threads};
use esker_types::Result;
use esker_wire::handshake::Secret;
use std::sync::Arc;
use tokio::runtime::Runtime;

/// An engine that runs as long as this value.
pub struct Server {
    _runtime: Runtime,
    addresses: Addresses,
}

impl Work for Server {
    type Job = Shared;
    type Step = ();
    type Done = Addresses;

    /// Serves the pool `shared` on loopback.
    fn begin(shared: Shared) -> Result<Self> {
        let pool = Pool::connect(&shared.pool, OpenMode::ReadWrite)?;
        let engine = || Engine::new(Arc::clone(pool.backend()), shared.uuid, secret(&shared));
        let (plain, secured) = (engine(), engine());
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = Arc::new(Threads::start(threads)?);
        plain.serve_on(Arc::clone(&threads));
        secured.serve_on(threads);
        secured.require_tls()?;
        let runtime = runtime::start(Some(1))?;
        let engine = listen(&runtime, plain)?;
        let engine_tls = listen(&runtime, secured)?;
        let addresses = Addresses { engine, engine_tls, raw: raw::listen()? };
        Ok(Self { _runtime: runtime, addresses })
    }

    /// Returns the addresses.
    fn take(&mut self, (): ()) -> Result<Addresses> {
        Ok(self.addresses.clone())
    }
}

/// Lets an engine serve on loopback. Returns its address.
fn listen(runtime: &Runtime, engine: Engine) -> Result<String> {
    let (listener, address) = runtime::listen(runtime)?;
    runtime.spawn(async move { engine.listen(listener).await });
    Ok(address)
}

pub(super) fn secret(shared: &Shared) -> Secret {
    Secret::new(shared.secret)
}
