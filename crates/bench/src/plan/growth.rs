//! `esker bench growth`: compares a store as it grows with a file of the same values.
//!
//! Entries are small values under keys of a Key-Value, or Arrays of one piece. Their keys and ids are spread over the
//! whole range, so an index has no favourable order. The limit is a file of the same values, which grows with the
//! store.
use super::location::Location;
use super::scratch::targets_or_most;
use super::store::BenchPool;
use super::{Benchmark, Measurement, Note, Tallies, parse_size};
use crate::buffer::Buffer;
use crate::errors::{Doing, ensure_valid};
use crate::job::{Index, Job, Kind, Member, Slot, Workload};
use crate::limit::nameless_file;
use crate::load::{self, Load, missing_store};
use crate::measure::{Measured, Tally, Until, measure};
use crate::payload::Payload;
use crate::processes::{Processes, WorkerKind};
use crate::report::{Run, RunName};
use crate::worker::Work;
use clap::Args;
use esker_types::Result;
use fastrand::Rng;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Measure what an operation costs while a store grows, and how long it takes to open then
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../help/growth.txt").trim_end())]
pub struct GrowthPlan {
    /// The pool.
    #[command(flatten)]
    pub pool: BenchPool,
    /// Kind of entries, or both, separated by a comma
    #[arg(long = "kind", value_name = "KIND", default_value = "kv,array", value_delimiter = ',')]
    pub kinds: Vec<Kind>,
    /// Numbers of entries at which to measure, separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',')]
    #[arg(default_value = "10000,30000,100000,300000,1000000")]
    pub entries: Vec<u64>,
    /// Size of a value
    #[arg(long = "value", value_name = "SIZE", default_value = "64")]
    #[arg(value_parser = parse_size)]
    pub value_bytes: u64,
    /// Operations of each phase at each size
    #[arg(long, value_name = "N", default_value_t = 50_000)]
    pub ops: u64,
    /// Object class: S1 (one target), S2, SX (all targets) ...
    #[arg(long, value_name = "CLASS", default_value = "SX")]
    pub class: String,
    /// Seed of the values and of the choice of entries
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

impl Benchmark for GrowthPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        self.check()?;
        let location = self.pool.open_or_create(|| self.needs(), note)?;
        let mut runs = Vec::new();
        for &kind in &self.kinds {
            location.in_container(|container| {
                self.grow(&location, kind, container, note, &mut runs)?;
                note("removing what was stored");
                Ok(())
            })?;
        }
        let options = json!({"ops": self.ops, "class": self.class});
        location.report(self.seed, options, runs).map(Measurement::from)
    }
}

/// How often the store is opened at each size, each time by a new process.
const OPENINGS: u32 = 5;
/// Index entries of an Array, at most.
const ENTRIES_PER_ARRAY: u64 = 4;

/// Workload that writes entries of this kind.
fn workload(kind: Kind) -> Workload {
    match kind {
        Kind::Kv => Workload::Kv,
        Kind::Array => Workload::Array(Index::None),
    }
}

impl GrowthPlan {
    /// Fails if the object class is unknown, if a size or number is zero, or if a list is empty. Also fails if the
    /// numbers of entries do not increase, or exceed [`ENTRIES_MAX`].
    fn check(&self) -> Result<()> {
        esker_cli::class_of(&self.class)?;
        let is_empty = self.value_bytes == 0 || self.ops == 0 || self.kinds.is_empty();
        ensure_valid(!is_empty, || "sizes of values and operations must be at least 1")?;
        let increase = self.entries.is_sorted_by(|one, next| one < next);
        ensure_valid(increase && !self.entries.is_empty(), || "numbers of entries must increase")?;
        ensure_valid(self.entries.iter().all(|entries| (1..=ENTRIES_MAX).contains(entries)), || {
            format!("a number of entries must be 1 to {ENTRIES_MAX}")
        })
    }

    /// Returns the bytes of all values, and the number of index entries on each target. Entries are spread over all
    /// targets, so a target needs space for its share only.
    fn needs(&self) -> (u64, u64) {
        let most = self.entries.last().copied().unwrap_or(0);
        let shards = targets_or_most(self.pool.own.targets);
        let indexed = most.saturating_mul(ENTRIES_PER_ARRAY).div_ceil(shards);
        (most.saturating_mul(self.value_bytes), indexed)
    }

    /// Grows a container to each number of entries, and measures operations there.
    fn grow(
        &self,
        location: &Location,
        kind: Kind,
        container: &str,
        note: Note<'_>,
        runs: &mut Vec<Run>,
    ) -> Result<()> {
        let job = self.job(location, kind, container);
        let mut process = start(&job)?;
        let mut stored = 0;
        for &entries in &self.entries {
            note(&format!("growing to {entries} entries"));
            // Entries up to `from` only fill the store. The puts after them are measured: `ops`, or half of the growth.
            let from = entries - self.ops.min((entries - stored).div_ceil(2));
            process.all(GrowthStep::Append(stored..from))?;
            process.all(GrowthStep::Put(stored..from))?;
            note(&format!("measuring {entries} entries"));
            let (found, open) = self.measure(&mut process, &job, from, entries)?;
            let (store, workload, size_bytes) =
                (location.store(), workload(kind).name(), self.value_bytes);
            let name = RunName { store, workload, phase: "open", procs: 1, size_bytes };
            let found = found.runs(name, ["pwrite", "put", "pread", "get"]).into_iter();
            let found = found.chain([Run::new(&name, &open, None)]);
            runs.extend(found.map(|run| Run { entries: Some(entries), ..run }));
            stored = entries;
        }
        Ok(())
    }

    /// Puts the entries `from..entries`, gets some of all entries, and measures with new processes how long the pool
    /// takes to open. Puts and gets each follow the same phase on a plain file, which is their limit.
    fn measure(
        &self,
        process: &mut Process,
        job: &GrowthJob,
        from: u64,
        entries: u64,
    ) -> Result<(Tallies, Tally)> {
        let mut phase = |step| process.all(step).map(|round| Tally::of_round(&round));
        let found = Tallies {
            write_limit: phase(GrowthStep::Append(from..entries))?,
            write: phase(GrowthStep::Put(from..entries))?,
            read_limit: phase(GrowthStep::Pread(entries, self.ops))?,
            read: phase(GrowthStep::Get(entries, self.ops))?,
        };
        let mut open = Tally::default();
        for opening in 1..=OPENINGS {
            open.add_round(&start(job)?.all(GrowthStep::Open(entries, opening))?);
        }
        Ok((found, open))
    }

    /// Job of the process that writes and measures.
    fn job(&self, location: &Location, kind: Kind, container: &str) -> GrowthJob {
        let job = Job {
            member: Member { procs: 1, seed: self.seed, ..Member::default() },
            size_bytes: self.value_bytes,
            ops: self.ops,
            ..location.job(container, &self.class, workload(kind))
        };
        GrowthJob { job, durable: location.durable }
    }
}

/// The only process on the store.
type Process = Processes<GrowthStep, Measured>;

fn start(job: &GrowthJob) -> Result<Process> {
    Process::launch(WorkerKind::Growth, [job])
}

/// Job of the process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GrowthJob {
    /// The store, its values, and the folder of the file.
    pub job: Job,
    /// Writes to the file wait for the medium.
    pub durable: bool,
}

/// A phase of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum GrowthStep {
    /// Open the pool and read one entry at random, as a program does after a restart: the number of entries, then that of
    /// the opening, which determines the entry.
    Open(u64, u32),
    /// Append the values of these entries to the file.
    Append(Range<u64>),
    /// Store these entries.
    Put(Range<u64>),
    /// Read values of the file at random: the number of values in it, then the number of reads.
    Pread(u64, u64),
    /// Read entries at random, then compare them with what was stored, unmeasured: the number of entries, then that of
    /// reads.
    Get(u64, u64),
}

/// Maximum number of distinct entries.
pub const ENTRIES_MAX: u64 = 1 << NUMBER_BITS;
/// Bits of [`Slot::number`] for the number of an operation.
const NUMBER_BITS: u32 = 40;
/// An odd number close to the golden section of that range: multiples of it are spread evenly.
const SPREAD: u64 = 0x9e_3779_b97f;

/// The slot of an entry. No two have the same.
fn slot(entry: u64) -> Slot {
    Slot { rank: 0, round: 0, op: entry.wrapping_mul(SPREAD) % ENTRIES_MAX }
}

/// One process of `growth`.
pub struct Worker {
    job: Job,
    /// None until the store is opened.
    load: Option<Box<dyn Load>>,
    payload: Payload,
    /// A file without a name, which disappears with this process.
    file: File,
    durable: bool,
    random: Rng,
    value: Buffer,
}

impl Work for Worker {
    type Job = GrowthJob;
    type Step = GrowthStep;
    type Done = Measured;

    fn begin(GrowthJob { job, durable }: GrowthJob) -> Result<Self> {
        Ok(Self {
            load: None,
            payload: Payload::new(job.member.seed, job.size_bytes)?,
            file: nameless_file(&job.folder)?,
            durable,
            random: Rng::with_seed(job.member.seed),
            value: Buffer::new(job.size_bytes)?,
            job,
        })
    }

    fn take(&mut self, step: GrowthStep) -> Result<Measured> {
        // The store is opened by `Open` within the measurement, for the others before it.
        if matches!(step, GrowthStep::Put(_) | GrowthStep::Get(..)) {
            self.load()?;
        }
        if let GrowthStep::Open(_, opening) = step {
            self.random = Rng::with_seed(self.job.member.seed.wrapping_add(opening.into()));
        }
        let drawn = self.random.clone();
        let ops = match &step {
            GrowthStep::Open(..) => 1,
            GrowthStep::Append(entries) | GrowthStep::Put(entries) => entries.end - entries.start,
            GrowthStep::Pread(_, ops) | GrowthStep::Get(_, ops) => *ops,
        };
        let measured = measure(Until::ops(ops), self.job.size_bytes, |op| match &step {
            GrowthStep::Append(entries) => self.append(entries.start + op),
            GrowthStep::Put(entries) => self.put(entries.start + op),
            GrowthStep::Pread(entries, _) => self.read_value(*entries),
            GrowthStep::Open(entries, _) | GrowthStep::Get(entries, _) => {
                self.get(*entries).map(drop)
            }
        })?;
        if let GrowthStep::Open(entries, _) | GrowthStep::Get(entries, _) = step {
            self.random = drawn;
            (0..ops).try_for_each(|_| self.compare(entries))?;
        }
        Ok(measured)
    }
}

impl Worker {
    /// The store, which is opened at its first use.
    fn load(&mut self) -> Result<&mut Box<dyn Load>> {
        let opened = match self.load.take() {
            Some(opened) => opened,
            None => load::open(&self.job, self.job.store.as_ref().ok_or_else(missing_store)?)?,
        };
        Ok(self.load.insert(opened))
    }

    fn put(&mut self, entry: u64) -> Result<()> {
        let slot = slot(entry);
        self.load.as_mut().ok_or_else(missing_store)?.write(slot, self.payload.block(slot))
    }

    /// Gets the value of one of the first `entries` entries at random. Returns its slot.
    fn get(&mut self, entries: u64) -> Result<Slot> {
        let slot = slot(self.random.u64(..entries.max(1)));
        self.load()?;
        self.load.as_mut().ok_or_else(missing_store)?.read(slot, &mut self.value)?;
        Ok(slot)
    }

    /// Gets a value like [`Self::get`], and compares it with what was stored. It is not measured, because the limit
    /// compares nothing.
    fn compare(&mut self, entries: u64) -> Result<()> {
        let slot = self.get(entries)?;
        self.payload.check(slot, &self.value)
    }

    /// Appends a value to the file that measures the medium.
    fn append(&mut self, entry: u64) -> Result<()> {
        let written = self.file.write_all_at(&self.value, entry * self.job.size_bytes);
        let synced =
            written.and_then(|()| if self.durable { self.file.sync_data() } else { Ok(()) });
        synced.doing(|| "pwrite of the file that measures the medium's limit")
    }

    /// Reads one of the first `entries` values at random from the plain file, which measures the limit of the medium.
    fn read_value(&mut self, entries: u64) -> Result<()> {
        let entry = self.random.u64(..entries.max(1));
        let read = self.file.read_exact_at(&mut self.value, entry * self.job.size_bytes);
        read.doing(|| "pread of the file that measures the medium's limit")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker::backend::NewContainer;
    use esker::backend::memory::Memory;
    use esker::types::info::OpenMode;
    use esker::{Pool, Wait};
    use esker_types::ErrorKind;
    use std::collections::HashSet;
    use std::sync::Arc;

    #[test]
    fn entries_are_spread_and_distinct() {
        let numbers: HashSet<_> = (0..10_000).map(|entry| slot(entry).op).collect();
        assert_eq!(numbers.len(), 10_000);
        let low = numbers.iter().filter(|number| **number < ENTRIES_MAX / 4).count();
        assert!((2400..2600).contains(&low), "{low}");
    }

    /// A worker on entries of 1000 bytes in a pool in memory.
    fn worker() -> Worker {
        let pool = Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite);
        pool.create_container(&NewContainer::named("bench")).wait().unwrap();
        let job = Job::for_test(Member { procs: 1, seed: 1, ..Member::default() }, Workload::Kv);
        let job = Job { size_bytes: 1000, ..job };
        let load = load::load_in(&pool, &job, job.store.as_ref().unwrap()).unwrap();
        Worker { load: Some(load), ..Worker::begin(GrowthJob { job, durable: false }).unwrap() }
    }

    #[test]
    fn values_are_compared_after_they_were_read() {
        let mut worker = worker();
        worker.take(GrowthStep::Put(0..10)).unwrap();
        let read = worker.take(GrowthStep::Get(10, 30)).unwrap();
        assert_eq!((read.ops, read.bytes), (30, 30_000));
        worker.load().unwrap().write(slot(3), &[0; 1000]).unwrap();
        let error = worker.take(GrowthStep::Get(10, 200)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
    }

    #[test]
    fn each_opening_reads_another_entry() {
        let mut worker = worker();
        worker.take(GrowthStep::Put(0..1000)).unwrap();
        let mut values = HashSet::new();
        for opening in 1..=OPENINGS {
            worker.take(GrowthStep::Open(1000, opening)).unwrap();
            values.insert(worker.value.to_vec());
        }
        assert_eq!(values.len(), OPENINGS as usize);
    }
}
