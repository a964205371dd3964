//! `esker bench tensors`: compares arrays that many processes store with parallel HDF5, a plain file and the medium.
//!
//! Each process has some rows of a two-dimensional array of 32-bit integers, whose elements [`element`] computes from
//! the seed, the round and their index. [`Worker`] is one process on the tensor store, on a shared file and on the
//! medium; `parallel_hdf5.c` does the same by parallel HDF5.
mod hdf5;
mod outcome;
mod worker;

pub use hdf5::Hdf5;
pub use worker::{Done, Job, Phase, Step, Worker};

use super::lines::Summary;
use super::location::{Location, container_label};
use super::scratch::Scratch;
use super::{Benchmark, Measurement, Note, OwnPool, check, check_repetitions, parse_size};
use crate::buffer::Buffer;
use crate::errors::{ensure_intact, ensure_valid};
use crate::job::{Member, WARM_UP};
use crate::names::Named;
use crate::pin::Pin;
use crate::processes::{Processes, WorkerKind};
use crate::table::new_table;
use clap::Args;
use esker::Wait;
use esker::types::info::Durability;
use esker_cli::units::Bytes;
use esker_tensors::TensorStore;
use esker_types::Result;
use hdf5::{LAYOUTS, Peer, PeerPhase};
use outcome::{Case, ESKER, FILE, HDF5, HEADINGS, LEGEND, Lines, MEDIUM, Scaling};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::path::Path;

/// Maximum number of iterations.
pub const ITERATIONS_MAX: u32 = 1000;

/// Maximum size of the rows of one process.
pub const PART_BYTES_MAX: u64 = 16 << 30;

/// Iterations that are not measured: the second one finds the memory that the first has freed.
const WARM_UPS: usize = 2;

/// Index entries of a chunk, and of the records of a tensor.
const ENTRIES_PER_CHUNK: u64 = 4;
const ENTRIES: u64 = 1000;

/// Measure the tensor store: arrays that many processes store and read, beside parallel HDF5
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../../help/tensors.txt").trim_end())]
pub struct TensorsPlan {
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, visible_alias = "np", value_name = "N", default_value = "1,2,4")]
    #[arg(value_delimiter = ',')]
    pub procs: Vec<u32>,
    /// Weak scaling: bytes of each process, or several sizes, separated by commas
    #[arg(long = "size", value_name = "SIZE", default_value = "16MiB,64MiB")]
    #[arg(value_delimiter = ',', value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// Strong scaling: bytes of the array, or several sizes, separated by commas
    #[arg(long = "total", value_name = "SIZE", default_value = "64MiB", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    pub totals: Vec<u64>,
    /// Number of iterations
    #[arg(short = 'i', long, value_name = "N", default_value_t = 5)]
    pub iterations: u32,
    /// The peer.
    #[command(flatten)]
    pub hdf5: Hdf5,
    /// The temporary pool.
    #[command(flatten)]
    pub own: OwnPool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u32,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pub pin: Pin,
}

impl Benchmark for TensorsPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        let cases = self.cases()?;
        let own = OwnPool { durability: Some(Durability::Process), ..self.own.clone() };
        let location = own.open(needs(&cases), note)?;
        let plain_files = Scratch::for_plain_files(&location.folder)?;
        note("compiling the program for parallel HDF5");
        let (mut peer, _built) = self.hdf5.peer()?;
        let (mut runs, mut table) = (Vec::new(), new_table(HEADINGS));
        for (scaling, part) in cases {
            let lines = self.measure(&location, plain_files.path(), part, &mut peer, note)?;
            let case = Case { scaling, part, lines };
            runs.extend(case.runs(location.store()));
            case.lines.each().for_each(|line| table.row(case.row(line)));
        }
        let options = json!({
            "iterations": self.iterations, "pin": self.pin.name(), "verified": true,
            "hdf5": {"about": peer.about(), "absent": peer.absent(), "collective": self.hdf5.collective},
        });
        let absent = peer.absent().map(|why| format!("parallel HDF5 is absent: {why}"));
        let summary = Summary {
            report: location.report(self.seed.into(), options, runs)?,
            about: String::new(),
            table,
            notes: absent.into_iter().collect(),
            legend: LEGEND,
        };
        Ok(summary.into())
    }
}

/// The state of a measurement of one array.
struct Run<'p> {
    plan: &'p TensorsPlan,
    part: Part,
    workers: Processes<Step, Done>,
    peer: &'p mut Peer,
    lines: Lines,
}

impl TensorsPlan {
    /// Weak scaling first, then strong scaling, each by the number of processes.
    fn cases(&self) -> Result<Vec<(Scaling, Part)>> {
        let all = [&self.sizes[..], &self.totals[..]].concat();
        check(&all, &self.procs)?;
        check_repetitions("iterations -i", self.iterations, ITERATIONS_MAX)?;
        let weak = self.sizes.iter().flat_map(|&bytes| {
            self.procs.iter().map(move |&procs| (Scaling::Weak(bytes), procs, bytes))
        });
        let strong = self.totals.iter().flat_map(|&bytes| {
            let each = move |procs| bytes / u64::from(procs);
            self.procs.iter().map(move |&procs| (Scaling::Strong(bytes), procs, each(procs)))
        });
        weak.chain(strong).map(|(scaling, procs, each)| Ok((scaling, part(procs, each)?))).collect()
    }

    /// Measures one number of processes.
    fn measure(
        &self,
        location: &Location,
        files: &Path,
        part: Part,
        peer: &mut Peer,
        note: Note<'_>,
    ) -> Result<Lines> {
        let container = container_label();
        let job = Job {
            member: Member { seed: self.seed.into(), ..Member::default() },
            part,
            pool: location.url.clone(),
            container: container.clone(),
            files: files.to_owned(),
        };
        drop(TensorStore::create(location.pool()?, &container)?);
        let measured = self.in_container(&job, peer, note);
        location.pool()?.destroy_container(&container, true).wait().and(measured)
    }

    /// Measures one number of processes in a container of its own.
    fn in_container(&self, job: &Job, peer: &mut Peer, note: Note<'_>) -> Result<Lines> {
        let part = job.part;
        note(&format!("starting processes: {} x {}", part.procs, Bytes(part.bytes())));
        let cpus = self.pin.order()?;
        let members = Member::all(part.procs, self.seed.into(), &cpus);
        let jobs = members.map(|member| Job { member, ..job.clone() });
        let workers = Processes::launch(WorkerKind::Tensors, jobs)?;
        peer.start(job, &cpus)?;
        let mut run = Run { plan: self, part, workers, peer, lines: Lines::default() };
        let mut rounds = [WARM_UP; WARM_UPS].into_iter().chain(1..=self.iterations);
        rounds.try_for_each(|round| run.measure_iteration(round, note))?;
        run.peer.stop();
        Ok(run.lines)
    }
}

/// The rows of each of `procs` processes with `bytes` each, rounded down to complete rows.
fn part(procs: u32, bytes: u64) -> Result<Part> {
    ensure_valid((ROW_BYTES..=PART_BYTES_MAX).contains(&bytes), || {
        let [bytes, least, most] = [bytes, ROW_BYTES, PART_BYTES_MAX].map(Bytes);
        format!(
            "--size and --total give each of {procs} processes {bytes}: {least} to {most} can be measured"
        )
    })?;
    Ok(Part { rows: bytes / ROW_BYTES, procs })
}

/// Payload and index entries of the largest array.
fn needs(cases: &[(Scaling, Part)]) -> (u64, u64) {
    let most = |of: &dyn Fn(Part) -> u64| cases.iter().map(|(_, part)| of(*part)).max();
    let chunks = |part: Part| part.shape()[0] / part.chunk_rows();
    let entries = most(&chunks).unwrap_or(0).saturating_mul(ENTRIES_PER_CHUNK) + ENTRIES;
    (most(&Part::array_bytes).unwrap_or(0), entries)
}

impl Run<'_> {
    /// Measures an iteration. All systems alternate, so that other load on the machine affects each of them.
    fn measure_iteration(&mut self, round: u32, note: Note<'_>) -> Result<()> {
        let Part { procs, .. } = self.part;
        let each = Bytes(self.part.bytes());
        let iterations = self.plan.iterations;
        match round {
            WARM_UP => note(&format!("{procs} x {each}: warming up")),
            _ => note(&format!("{procs} x {each}: iteration {round} of {iterations}")),
        }
        self.all(Phase::Fill, round)?;
        self.measure_medium(round)?;
        self.measure_file(round)?;
        self.measure_tensor(round)?;
        (0..LAYOUTS).try_for_each(|layout| self.measure_hdf5(round, layout))
    }

    /// Makes all processes run a phase at the same time. Returns the earliest start, and the latest of each other time.
    fn all(&mut self, phase: Phase, round: u32) -> Result<Times> {
        let steps = vec![Step { phase, round, token: None }; self.workers.count()];
        self.workers.together(&steps).map(|done| merged(&done))
    }

    fn first(&mut self, phase: Phase, round: u32) -> Result<Done> {
        self.workers.first(Step { phase, round, token: None })
    }

    /// The first process begins a PUT, all write their parts, and the first commits when all are done. Messages pass
    /// the token on and report completion; their time is included.
    fn put(&mut self, round: u32) -> Result<Times> {
        let begun = self.first(Phase::Begin, round)?;
        let written = self.workers.all(Step { phase: Phase::Write, round, token: begun.token })?;
        let committed = self.first(Phase::Commit, round)?;
        // Times are the begin, and the ends of open, transfer and close. The open ends when the first process writes.
        let [first, .., last] = merged(&written);
        Ok([begun.times_s[0], first, last, committed.times_s[3]])
    }

    /// Measures pwrite and pread on the medium, and adds the times to the lines of the report.
    fn measure_medium(&mut self, round: u32) -> Result<()> {
        let put = self.all(Phase::Pwrite, round)?;
        let get = self.all(Phase::Pread, round)?;
        self.lines.add(MEDIUM, round, self.part, [put, get])
    }

    /// Measures a file that all processes share.
    fn measure_file(&mut self, round: u32) -> Result<()> {
        let put = self.all(Phase::FilePut, round)?;
        let get = self.all(Phase::FileGet, round)?;
        self.all(Phase::Verify, round)?;
        self.first(Phase::FileRemove, round)?;
        self.lines.add(FILE, round, self.part, [put, get])
    }

    /// Measures a tensor.
    fn measure_tensor(&mut self, round: u32) -> Result<()> {
        let put = self.put(round)?;
        let get = self.all(Phase::Get, round)?;
        self.all(Phase::Verify, round)?;
        self.first(Phase::Remove, round)?;
        self.lines.add(ESKER, round, self.part, [put, get])
    }

    /// Measures an HDF5 file with the given layout.
    fn measure_hdf5(&mut self, round: u32, layout: u32) -> Result<()> {
        let Some(put) = self.peer.take(PeerPhase::Put, round, layout)? else { return Ok(()) };
        let Some(get) = self.peer.take(PeerPhase::Get, round, layout)? else { return Ok(()) };
        self.peer.take(PeerPhase::Verify, round, layout)?;
        self.peer.take(PeerPhase::Remove, round, layout)?;
        self.lines.add(HDF5 + layout as usize, round, self.part, [put, get])
    }
}

/// Times of a step over all processes: start, end of open, end of transfer and end of close, in seconds.
type Times = [f64; 4];

/// Earliest start, and latest of each of the other times, over all processes.
fn merged(done: &[Done]) -> Times {
    let at = |index: usize| done.iter().map(move |one| one.times_s[index]);
    let last = |index| at(index).fold(f64::NEG_INFINITY, f64::max);
    [at(0).fold(f64::INFINITY, f64::min), last(1), last(2), last(3)]
}

/// Elements of a row.
pub const COLUMNS: u64 = 1024;

/// Bytes of an element.
pub const ELEMENT_BYTES: u64 = 4;

/// Bytes of a row.
pub const ROW_BYTES: u64 = COLUMNS * ELEMENT_BYTES;

/// Most rows of a chunk: 4 MiB.
pub const CHUNK_ROWS_MAX: u64 = 1024;

/// The program that does the same by parallel HDF5, in C.
pub const PEER: &str = include_str!("parallel_hdf5.c");

/// The rows of each process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Rows of each process.
    pub rows: u64,
    /// Number of processes.
    pub procs: u32,
}

impl Part {
    /// Bytes of the rows of one process.
    pub fn bytes(self) -> u64 {
        self.rows.saturating_mul(ROW_BYTES)
    }

    /// Bytes of the array.
    pub fn array_bytes(self) -> u64 {
        self.bytes().saturating_mul(u64::from(self.procs))
    }

    /// The shape of the array.
    pub fn shape(self) -> [u64; 2] {
        [self.rows.saturating_mul(u64::from(self.procs)), COLUMNS]
    }

    /// Rows of a chunk: the most that divide the rows of a process, so that no two processes write to one chunk.
    pub fn chunk_rows(self) -> u64 {
        let divides = |rows: &u64| self.rows.is_multiple_of(*rows);
        (1..=CHUNK_ROWS_MAX.min(self.rows)).rev().find(divides).unwrap_or(1)
    }

    /// The first row of a process.
    pub fn first_row(self, rank: u32) -> u64 {
        self.rows * u64::from(rank)
    }
}

/// The element at `index` of the array of a round, counted in C order. `parallel_hdf5.c` computes the same.
pub fn element(seed: u32, round: u32, index: u64) -> u32 {
    let salt = seed.wrapping_mul(0x27d4_eb2f).wrapping_add(round.wrapping_mul(0x1656_67b1));
    let mut v = (index as u32 ^ salt).wrapping_mul(0x9e37_79b1);
    v ^= v >> 15;
    v = v.wrapping_mul(0x85eb_ca77);
    v ^ v >> 13
}

/// The rows of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rows {
    pub(crate) part: Part,
    pub(crate) rank: u32,
    pub(crate) seed: u32,
    pub(crate) round: u32,
}

impl Rows {
    /// The elements that the process writes in this round, as bytes in the order of the machine.
    fn elements(self) -> impl Iterator<Item = [u8; ELEMENT_BYTES as usize]> {
        let first = self.part.first_row(self.rank) * COLUMNS;
        let elements = first..first + self.part.rows * COLUMNS;
        elements.map(move |index| element(self.seed, self.round, index).to_ne_bytes())
    }

    /// Fills a buffer, which has the size of the process's part, with the elements that the process writes.
    pub(crate) fn fill(self, buffer: &mut Buffer) {
        let places = buffer.chunks_exact_mut(ELEMENT_BYTES as usize);
        places.zip(self.elements()).for_each(|(place, element)| place.copy_from_slice(&element));
    }

    /// Fails unless the elements in `buffer` are those that this process wrote to its rows.
    pub(crate) fn check(self, buffer: &Buffer) -> Result<()> {
        let found = buffer.chunks_exact(ELEMENT_BYTES as usize);
        let differing = found.zip(self.elements()).position(|(found, written)| found != written);
        ensure_intact(differing.is_none(), || {
            let at = differing.unwrap_or(0) as u64;
            let (row, column) = (self.part.first_row(self.rank) + at / COLUMNS, at % COLUMNS);
            format!("element [{row}, {column}]: the data read is not the data written")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_lasts_from_the_first_to_the_last() {
        let done = |times_s| Done { times_s, ..Done::default() };
        let both = [done([2.0, 3.0, 5.0, 6.0]), done([1.0, 4.0, 4.5, 7.0])];
        assert_eq!(merged(&both), [1.0, 4.0, 5.0, 7.0]);
    }

    #[test]
    fn rows_are_rounded_down_to_at_least_one() {
        assert_eq!(part(2, 3 * ROW_BYTES + 1).unwrap(), Part { rows: 3, procs: 2 });
        for bytes in [0, ROW_BYTES - 1, PART_BYTES_MAX + 1] {
            assert!(part(2, bytes).unwrap_err().message().contains("--size"));
        }
    }

    #[test]
    fn pool_has_space_for_largest_array() {
        let case = |rows, procs| (Scaling::Weak(0), Part { rows, procs });
        let (bytes, entries) = needs(&[case(2048, 4), case(1, 16)]);
        assert_eq!((bytes, entries), (32 << 20, 16 * ENTRIES_PER_CHUNK + ENTRIES));
    }

    #[test]
    fn chunks_divide_the_rows_of_a_process() {
        let rows = |rows| Part { rows, procs: 3 }.chunk_rows();
        assert_eq!([1, 7, 1024, 1536, 4096, 1031].map(rows), [1, 7, 1024, 768, 1024, 1]);
        let part = Part { rows: 256, procs: 3 };
        assert_eq!(
            (part.bytes(), part.array_bytes(), part.shape()),
            (1 << 20, 3 << 20, [768, 1024])
        );
    }

    #[test]
    fn error_names_differing_element() {
        let rows = |rank, round| Rows { part: Part { rows: 2, procs: 2 }, rank, seed: 7, round };
        let mut buffer = Buffer::new(2 * ROW_BYTES).unwrap();
        rows(1, 3).fill(&mut buffer);
        rows(1, 3).check(&buffer).unwrap();
        assert!(rows(0, 3).check(&buffer).is_err() && rows(1, 2).check(&buffer).is_err());
        buffer[(ROW_BYTES + 9) as usize] ^= 1;
        assert!(rows(1, 3).check(&buffer).unwrap_err().message().starts_with("element [3, 2]"));
    }
}
