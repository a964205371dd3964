//! `esker bench rados`: compares Field I/O on Ceph with direct calls of librados, in the same run.
use super::{Benchmark, Measurement, Note, check, check_rounds, parse_size};
use crate::buffer::Buffer;
use crate::errors::ensure_valid;
use crate::field_io::ENTRY_BYTES;
use crate::host::Host;
use crate::interrupt;
use crate::job::Slot;
use crate::measure::{Measured, Meter, Tally, Until, measure};
use crate::payload::Payload;
use crate::report::{Report, Run, RunName, Settings};
use clap::Args;
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker::types::ops::{Cond, Sink, Source};
use esker::{
    Access, Array, ArrayAttributes, Container, Kv, Pool, RadosUrl, Wait, side_by_side, task,
};
use esker_rados::librados::{Cluster, Plain};
use esker_types::{Error, ErrorKind, Extent, ObjectClass, ObjectType, Result};
use serde_json::json;

/// The index object of the direct calls.
const INDEX: &str = "index";

/// Compare Field I/O on Ceph with a program that calls librados directly
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../help/rados.txt").trim_end())]
pub struct RadosPlan {
    /// Pool: rados:CEPH_POOL?conf=FILE&namespace=NAME
    #[arg(value_name = "POOL")]
    pub pool: String,
    /// Size of a field
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    #[arg(value_parser = parse_size)]
    pub size: u64,
    /// Number of fields written and read in each round
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub ops: u64,
    /// Number of rounds; each measures all three programs
    #[arg(long, value_name = "R", default_value_t = 3)]
    pub rounds: u32,
    /// Number of operations in flight in the third program
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub in_flight: usize,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Benchmark for RadosPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        check(&[self.size], &[1])?;
        check_rounds(self.rounds, Some(self.ops))?;
        ensure_valid(self.in_flight > 0, || "--in-flight must be at least 1")?;
        let variants = self.measure(note)?;
        self.report(&variants).map(Measurement::from)
    }
}

/// A variant of writing and reading, with its measurements.
#[derive(Default)]
struct Variant {
    write: Tally,
    read: Tally,
}

/// A container for the fields of Field I/O without containers of their own.
struct Fields {
    container: Container,
    index: Kv,
}

/// Field I/O and its payload.
struct Work<'a> {
    plan: &'a RadosPlan,
    payload: Payload,
    by_hand: Plain,
    fields: Fields,
}

impl RadosPlan {
    /// Measures direct calls, Field I/O, and Field I/O with several operations in flight, alternating.
    fn measure(&self, note: Note<'_>) -> Result<[Variant; 3]> {
        let url = RadosUrl::parse(&self.pool)?.ok_or_else(|| {
            let text = "is not a pool on Ceph: name one as rados:POOL?conf=FILE";
            Error::new(ErrorKind::BadPath, format!("{} {text}", self.pool))
        })?;
        let cluster = Cluster::connect(&url.settings)?;
        let label = format!("bench-rados-{}", std::process::id());
        // In a namespace of its own, so that two runs do not remove each other's objects.
        let io_context = cluster.io_context(&url.pool, &format!("{}.{label}", url.namespace))?;
        let pool = Pool::connect(&self.pool, OpenMode::ReadWrite)?;
        let new = NewContainer::named(&label);
        pool.create_container(&new).wait()?;
        let container = pool.open_container(&label, OpenMode::ReadWrite).wait()?;
        let outcome = Fields::new(container).and_then(|fields| {
            let payload = Payload::new(self.seed, self.size)?;
            let by_hand = Plain::from_context(&io_context);
            Work { plan: self, payload, by_hand, fields }.rounds(note)
        });
        let destroyed = pool.destroy_container(&label, true).wait();
        // Objects that cannot be removed stay in the namespace: the measurements are valid nevertheless.
        for object in io_context.objects().into_iter().flatten().flatten() {
            io_context.write(&object, removal()?).wait().ok();
        }
        let variants = outcome?;
        destroyed?;
        Ok(variants)
    }

    /// The report: rates by librados alone, and by Esker with one and with several operations in flight.
    fn report(&self, variants: &[Variant; 3]) -> Result<Report> {
        let [by_hand, one, many] = variants;
        let in_flight = format!("esker x{}", self.in_flight);
        let run = |store: &str, phase, tally: &Tally, limit: Option<&Tally>| {
            let name = RunName { store, workload: store, phase, procs: 1, size_bytes: self.size };
            Run::new(&name, tally, limit)
        };
        let runs = vec![
            run("librados", "write", &by_hand.write, None),
            run("esker", "write", &one.write, Some(&by_hand.write)),
            run(&in_flight, "write", &many.write, Some(&by_hand.write)),
            run("librados", "read", &by_hand.read, None),
            run("esker", "read", &one.read, Some(&by_hand.read)),
            run(&in_flight, "read", &many.read, Some(&by_hand.read)),
        ];
        let options = json!({"ops": self.ops, "rounds": self.rounds, "in_flight": self.in_flight});
        let settings = Settings::new(self.seed, options);
        let host = Host::for_folder(&std::env::temp_dir())?;
        Ok(Report::new(host, settings, runs))
    }
}

fn slot(number: u64) -> Slot {
    Slot { rank: 0, round: 0, op: number }
}

/// Operation that removes an object.
fn removal() -> Result<esker_rados::librados::WriteOp> {
    let mut op = esker_rados::librados::WriteOp::new()?;
    op.remove();
    Ok(op)
}

impl Fields {
    fn new(container: Container) -> Result<Self> {
        let class = Some(ObjectClass::S1);
        let index =
            container.kv(container.generate_oid(1, 0, ObjectType::KvHashed, class, 0)?)?;
        Ok(Self { container, index })
    }

    /// The array of a field.
    fn array(&self, number: u64, bytes: u64) -> Result<Array> {
        let class = Some(ObjectClass::S1);
        let oid = self.container.generate_oid(2, number, ObjectType::ArrayByte, class, 0)?;
        let attributes = ArrayAttributes { cell_size: 1, chunk_size: bytes };
        self.container.open_array_with_attributes(oid, attributes)
    }

    /// Writes a field of a known forecast: the Array, then its index entry.
    async fn write(&self, number: u64, data: &[u8]) -> Result<()> {
        let array = self.array(number, data.len() as u64)?;
        let extent = [Extent::new(0, data.len() as u64)];
        array.write(&extent, Source::One(data), Access::Latest).await?;
        let entry = [7; ENTRY_BYTES];
        self.index.put(&number.to_be_bytes(), &entry, Cond::NONE, Access::Latest).await
    }

    /// Looks up the index entry of a field, and reads the Array.
    async fn read(&self, number: u64, buffer: &mut [u8]) -> Result<()> {
        let mut entry = [0; ENTRY_BYTES];
        let key = number.to_be_bytes();
        let found = self.index.get_into(&key, &mut entry, Access::Latest).await?;
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("field {number}")))?;
        let extent = [Extent::new(0, buffer.len() as u64)];
        let array = self.array(number, buffer.len() as u64)?;
        array.read(&extent, Sink::One(buffer), Access::Latest).await.map(drop)
    }
}

impl Work<'_> {
    /// Measures all rounds. The first one is the warm-up. The variants alternate within each round.
    fn rounds(self, note: Note<'_>) -> Result<[Variant; 3]> {
        let mut variants: [Variant; 3] = Default::default();
        for round in 0..=self.plan.rounds {
            note(&format!("round {round} of {}", self.plan.rounds));
            // Two sets of fields: one for the variants with one operation at a time, one for that with several.
            let first = u64::from(round) * self.plan.ops * 2;
            let many = first + self.plan.ops;
            let done = [
                self.each(
                    first,
                    |number, data| self.write_by_hand(number, data),
                    |number, buffer| self.read_by_hand(number, buffer),
                )?,
                self.each(
                    first,
                    |number, data| self.fields.write(number, data).wait(),
                    |number, buffer| self.fields.read(number, buffer).wait(),
                )?,
                (self.write_many(many)?, self.read_many(many)?),
            ];
            for (variant, (write, read)) in variants.iter_mut().zip(done).filter(|_| round > 0) {
                variant.write.add_round(&[write]);
                variant.read.add_round(&[read]);
            }
            self.punch(first)?;
        }
        Ok(variants)
    }

    fn data(&self, number: u64) -> &[u8] {
        self.payload.block(slot(number))
    }

    /// Writes, then reads fields one after the other. All have the same data. Returns the measurements of both.
    fn each(
        &self,
        first: u64,
        write: impl Fn(u64, &[u8]) -> Result<()>,
        read: impl Fn(u64, &mut [u8]) -> Result<()>,
    ) -> Result<(Measured, Measured)> {
        let (ops, size, data) = (Until::ops(self.plan.ops), self.plan.size, self.data(first));
        let written = measure(ops, size, |index| {
            interrupt::check()?;
            write(first + index, data)
        })?;
        let mut buffer = Buffer::new(size)?;
        let found = measure(ops, size, |index| {
            interrupt::check()?;
            read(first + index, &mut buffer)
        })?;
        self.payload.check(slot(first), &buffer)?;
        Ok((written, found))
    }

    /// Writes a field by librados: its object, then an index entry of the same size as that of Field I/O.
    fn write_by_hand(&self, number: u64, data: &[u8]) -> Result<()> {
        self.by_hand.write_full(&format!("f{number}"), data)?;
        self.by_hand.set(INDEX, &number.to_be_bytes(), &[7; ENTRY_BYTES])
    }

    /// Reads a field by librados: its index entry, then its object.
    fn read_by_hand(&self, number: u64, buffer: &mut [u8]) -> Result<()> {
        self.by_hand.get(INDEX, &number.to_be_bytes())?;
        self.by_hand.read(&format!("f{number}"), buffer).map(drop)
    }

    /// Writes all fields of a round from number `first` with several writes in flight.
    fn write_many(&self, first: u64) -> Result<Measured> {
        let (fields, data) = (&self.fields, self.data(first));
        self.in_flight(|number| task(async move { fields.write(first + number, data).await }))
    }

    /// Reads all fields of a round from number `first` with several reads in flight.
    fn read_many(&self, first: u64) -> Result<Measured> {
        let (fields, size) = (&self.fields, self.plan.size as usize);
        let (sender, receiver) = std::sync::mpsc::channel();
        let read = self.in_flight(|number| {
            let sender = sender.clone();
            task(async move {
                let mut buffer = vec![0; size];
                fields.read(first + number, &mut buffer).await?;
                // Only the first field is verified. Its receiver lives until all reads have ended.
                let _ = (number == 0).then(|| sender.send(buffer));
                Ok(())
            })
        })?;
        self.payload.check(slot(first), &receiver.try_recv().unwrap_or_default())?;
        Ok(read)
    }

    /// Runs a bounded number of operations at a time, on one thread. They count as one latency.
    fn in_flight<'a>(
        &'a self,
        op: impl Fn(u64) -> esker::Task<'a, Result<()>>,
    ) -> Result<Measured> {
        let mut meter = Meter::start();
        let tasks = (0..self.plan.ops).map(op).collect();
        let done = side_by_side(tasks, self.plan.in_flight).wait();
        meter.tick(self.plan.ops, self.plan.ops * self.plan.size)?;
        done.into_iter().collect::<Result<()>>()?;
        Ok(meter.finish())
    }

    /// Removes all objects of a round, whose fields are numbered from `first`.
    fn punch(&self, first: u64) -> Result<()> {
        (first..first + 2 * self.plan.ops).try_for_each(|number| {
            let array = self.fields.array(number, self.plan.size)?;
            array.destroy(Access::Latest).wait()?;
            self.by_hand.remove(&format!("f{number}"))
        })
    }
}
