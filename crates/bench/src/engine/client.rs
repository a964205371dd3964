//! A process that works on the pool through its engine, with several operations under way at a time.
use super::data::Object;
use super::raw::{self, Flow};
use super::server::secret;
use super::{Addresses, ClientJob, Step};
use crate::buffer::Buffer;
use crate::client_server;
use crate::job::Slot;
use crate::measure::{Measured, Meter};
use crate::payload::Payload;
use esker::types::info::OpenMode;
use esker::{Container, Pool, Wait, side_by_side, task};
use esker_nodes::{Connection, Endpoint, EndpointOptions, RemotePool};
use esker_types::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::{Builder, Runtime};

/// A client.
pub struct Client {
    job: ClientJob,
    container: Container,
    payload: Payload,
    buffers: Vec<Buffer>,
    /// Dropped last, because it drives the connection.
    _runtime: Runtime,
}

/// Operation on each block.
#[derive(Clone, Copy)]
enum Operation {
    Write,
    Read,
    Verify,
}

impl client_server::Client for Client {
    type Job = ClientJob;
    type Step = Step;

    fn start(job: ClientJob) -> Result<Self> {
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime =
            runtime.map_err(|error| Error::io("starting the thread of a client", &error))?;
        let remote = runtime.block_on(async { RemotePool::open(connect(&job).await?).await })?;
        let pool = Pool::from_backend(Arc::new(remote), OpenMode::ReadWrite);
        let container = pool.open_container(&job.container, OpenMode::ReadWrite).wait()?;
        let payload = Payload::new(job.seed, job.size_bytes)?;
        let buffers = (0..job.in_flight).map(|_| Buffer::new(job.size_bytes));
        let buffers = buffers.collect::<Result<_>>()?;
        Ok(Self { job, container, payload, buffers, _runtime: runtime })
    }

    fn take(&mut self, step: Step) -> Result<Measured> {
        let neighbour = (self.job.rank + 1) % self.job.procs.max(1);
        match step {
            Step::Send => self.raw(Flow::Send),
            Step::Receive => self.raw(Flow::Receive),
            Step::Echo => self.raw(Flow::Echo),
            Step::Write(round) => self.each(self.job.rank, round, Operation::Write),
            Step::Read(round) => self.each(neighbour, round, Operation::Read),
            Step::Verify(round) => self.each(neighbour, round, Operation::Verify),
            Step::Remove(round) => {
                let object = Object::for_round(&self.container, &self.job, self.job.rank, round)?;
                object.destroy().wait().map(|()| Measured::default())
            }
        }
    }
}

impl Client {
    fn raw(&self, flow: Flow) -> Result<Measured> {
        let (block_bytes, blocks) = (self.job.size_bytes, self.job.ops);
        raw::measure(
            &self.job.addresses.raw,
            raw::Order { flow, block_bytes, blocks },
            self.job.in_flight,
        )
    }

    fn each(&mut self, rank: u32, round: u32, operation: Operation) -> Result<Measured> {
        let object = Object::for_round(&self.container, &self.job, rank, round)?;
        let (next, ops) = (AtomicU64::new(0), self.job.ops);
        let (payload, object, next) = (&self.payload, &object, &next);
        let lanes = self.buffers.iter_mut().map(|buffer| {
            task(async move {
                let mut meter = Meter::start();
                loop {
                    let op = next.fetch_add(1, Ordering::Relaxed);
                    if op >= ops {
                        return Ok(meter.finish());
                    }
                    do_one(object, payload, Slot { rank, round, op }, buffer, operation).await?;
                    meter.tick(1, buffer.len() as u64)?;
                }
            })
        });
        let lanes: Vec<_> = lanes.collect();
        let most = lanes.len();
        let done: Result<Vec<Measured>> = side_by_side(lanes, most).wait().into_iter().collect();
        done.map(|lanes| sum(&lanes))
    }
}

async fn connect(job: &ClientJob) -> Result<Connection> {
    let (secret, uuid, session) = (secret(&job.shared), job.shared.uuid, u64::from(job.rank));
    let Addresses { engine, engine_tls, .. } = &job.addresses;
    let address = if job.tls { engine_tls } else { engine };
    let to = Endpoint { name: "engine", address, secret: &secret, pool: uuid, session };
    match job.tls {
        false => {
            let fabric = job.fabric.then(EndpointOptions::default);
            Connection::connect_by(fabric, to).await
        }
        true => Connection::connect_tls(to).await,
    }
}

async fn do_one(
    object: &Object,
    payload: &Payload,
    slot: Slot,
    buffer: &mut Buffer,
    operation: Operation,
) -> Result<()> {
    match operation {
        Operation::Write => object.write(slot, payload.block(slot)).await,
        Operation::Read => object.read(slot, buffer).await,
        Operation::Verify => {
            buffer.fill(0);
            object.read(slot, buffer).await?;
            match **buffer == *payload.block(slot) {
                true => Ok(()),
                false => Err(Error::new(
                    ErrorKind::Corrupt,
                    format!("the data read for {slot:?} is not the data written"),
                )),
            }
        }
    }
}

/// Measurements of one process from those of the operations that ran side by side.
fn sum(lanes: &[Measured]) -> Measured {
    let start_s = lanes.iter().map(|lane| lane.start_s).fold(f64::INFINITY, f64::min);
    let mut sum = Measured { start_s, ..Measured::default() };
    for lane in lanes {
        sum.ops += lane.ops;
        sum.bytes += lane.bytes;
        sum.end_s = sum.end_s.max(lane.end_s);
        sum.latency.merge(&lane.latency);
    }
    sum
}
