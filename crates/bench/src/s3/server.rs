//! The process that serves: a pool, once for each kind of ETag, and memory.
use super::{Addresses, ServeJob, memory};
use crate::runtime::{self, listen};
use crate::worker::Work;
use bytes::Bytes;
use esker::Pool;
use esker::types::info::OpenMode;
use esker_s3::{Etags, Keys, Options, Server};
use esker_types::Result;
use std::future::pending;
use tokio::runtime::Runtime;

/// Servers that run as long as this value.
pub struct Servers {
    addresses: Addresses,
    _runtime: Runtime,
}

impl Work for Servers {
    type Job = ServeJob;
    type Step = ();
    type Done = Addresses;

    fn begin(job: ServeJob) -> Result<Self> {
        esker_os::keep_freed();
        let pool = Pool::connect(&job.pool, OpenMode::ReadWrite)?;
        let runtime = runtime::start(None)?;
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

    /// Returns the addresses.
    fn take(&mut self, (): ()) -> Result<Addresses> {
        Ok(self.addresses.clone())
    }
}
