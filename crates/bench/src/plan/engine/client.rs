//! A process that works on the pool through its engine, with several operations under way at a time.
use super::raw::{self, Flow};
use super::{Addresses, CONTAINER, Case, ClientJob, Step, secret};
use crate::buffer::Buffer;
use crate::errors::ensure_intact;
use crate::job::{Kind, Slot};
use crate::measure::{Measured, Meter};
use crate::payload::Payload;
use crate::runtime;
use crate::worker::Work;
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Sink, Source};
use esker::{Access, Array, ArrayAttributes, Container, Kv, Pool, Wait, side_by_side, task};
use esker_nodes::{Connection, Endpoint, EndpointOptions, RemotePool};
use esker_types::{Extent, ObjectClass, ObjectType, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::runtime::Runtime;

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

impl Work for Client {
    type Job = ClientJob;
    type Step = Step;
    type Done = Measured;

    fn begin(job: ClientJob) -> Result<Self> {
        let runtime = runtime::start(Some(1))?;
        let remote = runtime.block_on(async { RemotePool::open(connect(&job).await?).await })?;
        let pool = Pool::from_backend(Arc::new(remote), OpenMode::ReadWrite);
        let container = pool.open_container(CONTAINER, OpenMode::ReadWrite).wait()?;
        let Case { size_bytes, in_flight, .. } = job.case;
        let payload = Payload::new(job.member.seed, size_bytes)?;
        let buffers = (0..in_flight).map(|_| Buffer::new(size_bytes));
        let buffers = buffers.collect::<Result<_>>()?;
        Ok(Self { job, container, payload, buffers, _runtime: runtime })
    }

    fn take(&mut self, step: Step) -> Result<Measured> {
        let (own, neighbour) = (self.job.member.rank, self.job.member.neighbour());
        match step {
            Step::Raw(flow) => self.raw(flow),
            Step::Write(round) => self.each(own, round, Operation::Write),
            Step::Read(round) => self.each(neighbour, round, Operation::Read),
            Step::Verify(round) => self.each(neighbour, round, Operation::Verify),
            Step::Remove(round) => {
                let object = Object::for_round(&self.container, self.job.case, own, round)?;
                object.destroy().wait().map(|()| Measured::default())
            }
        }
    }
}

impl Client {
    /// Sends or receives over a raw connection: the limit of the network.
    fn raw(&self, flow: Flow) -> Result<Measured> {
        let Case { size_bytes: block_bytes, ops: blocks, in_flight, .. } = self.job.case;
        let order = raw::Order { flow, block_bytes, blocks };
        raw::measure(&self.job.addresses.raw, order, in_flight)
    }

    /// Runs all operations of a round, with one in progress for each buffer. Returns the measurement of all together.
    fn each(&mut self, rank: u32, round: u32, operation: Operation) -> Result<Measured> {
        let object = Object::for_round(&self.container, self.job.case, rank, round)?;
        let (next, ops) = (AtomicU64::new(0), self.job.case.ops);
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
        done.map(|lanes| Measured::side_by_side(&lanes))
    }
}

/// Connects to the engine as another node does.
async fn connect(job: &ClientJob) -> Result<Connection> {
    let (secret, uuid, session) =
        (secret(&job.shared), job.shared.uuid, u64::from(job.member.rank));
    let Addresses { engine, engine_tls, .. } = &job.addresses;
    let address = if job.tls { engine_tls } else { engine };
    let to = Endpoint { name: "engine", address, secret: &secret, pool: uuid, session };
    if job.tls {
        return Connection::connect_tls(to).await;
    }
    Connection::connect_by(job.case.fabric.then(EndpointOptions::default), to).await
}

/// Runs one operation on the block of a slot. [`Operation::Verify`] also compares the data read.
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
            payload.check(slot, buffer)
        }
    }
}

/// An object of one process and round: an Array with its chunk size in bytes, or a Key-Value.
enum Object {
    Array(Array, u64),
    Kv(Kv),
}

impl Object {
    /// Handle of the object of process `rank` in a round. The object need not exist.
    fn for_round(container: &Container, case: Case, rank: u32, round: u32) -> Result<Self> {
        let number = Slot { rank, round, op: 0 }.number();
        let oid =
            |upper, otype, class| container.generate_oid(upper, number, otype, Some(class), 0);
        Ok(match case.kind {
            Kind::Array => {
                let chunk_size = case.size_bytes.max(1);
                let attributes = ArrayAttributes { cell_size: 1, chunk_size };
                let oid = oid(1, ObjectType::ArrayByte, ObjectClass::SX)?;
                Self::Array(container.open_array_with_attributes(oid, attributes)?, chunk_size)
            }
            Kind::Kv => Self::Kv(container.kv(oid(0, ObjectType::KvHashed, ObjectClass::SX)?)?),
        })
    }

    /// Writes a block.
    async fn write(&self, slot: Slot, block: &[u8]) -> Result<()> {
        match self {
            Self::Array(array, chunk) => {
                let range = [Extent::new(slot.op * chunk, block.len() as u64)];
                array.write(&range, Source::One(block), Access::Latest).await
            }
            Self::Kv(kv) => kv.put(&slot.key(), block, Cond::NONE, Access::Latest).await,
        }
    }

    /// Reads a block.
    async fn read(&self, slot: Slot, buffer: &mut [u8]) -> Result<()> {
        let len = buffer.len() as u64;
        let found = match self {
            Self::Array(array, chunk) => {
                let range = [Extent::new(slot.op * chunk, len)];
                let read = array.read(&range, Sink::One(buffer), Access::Latest).await?;
                len - read.short_bytes
            }
            Self::Kv(kv) => kv.read(&slot.key(), Sink::One(buffer), Access::Latest).await?,
        };
        ensure_intact(found == len, || {
            format!("the data stored for {slot:?} has {found} bytes of {len}")
        })
    }

    /// Removes the object.
    async fn destroy(&self) -> Result<()> {
        match self {
            Self::Array(array, _) => array.destroy(Access::Latest).await,
            Self::Kv(kv) => kv.destroy(Access::Latest).await,
        }
    }
}
