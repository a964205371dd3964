//! The process that serves: a pool, once for each kind of ETag, and memory.
use super::{Addresses, ServeJob, memory};
use crate::client_server::{self, listen};
use bytes::Bytes;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_s3::{Etags, Keys, Options, Server};
use esker_types::{Error, Result};
use std::future::pending;
use tokio::runtime::{Builder, Runtime};

/// Servers that run as long as this value.
pub struct Servers {
    addresses: Addresses,
    _runtime: Runtime,
}

impl client_server::Server for Servers {
    type Job = ServeJob;
    type Addresses = Addresses;

    fn start(job: ServeJob) -> Result<Self> {
        esker_os::keep_freed();
        let pool = Pool::connect(&job.pool, OpenMode::ReadWrite)?;
        let runtime = Builder::new_multi_thread().enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::io("starting the threads of a server", &error))?;
        let (listener, memory) = listen(&runtime)?;
        let content = vec![0x5a; job.size_bytes as usize];
        runtime.spawn(memory::serve(listener, Bytes::from(content)));
        let mut doors = Vec::new();
        for etags in &job.etags {
            let options = Options { etags: etags.parse::<Etags>()?, ..Options::default() };
            let server = Server::new(pool.clone(), Keys::read(&job.keys)?, options);
            let (listener, address) = listen(&runtime)?;
            runtime.spawn(async move { server.serve(listener, pending()).await });
            doors.push(address);
        }
        Ok(Self { addresses: Addresses { memory, doors }, _runtime: runtime })
    }

    fn addresses(&self) -> &Addresses {
        &self.addresses
    }
}
