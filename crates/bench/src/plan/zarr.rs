//! `esker bench zarr`: compares `esker.zarr.Store` with zarr's store for directories, on the same medium.
use super::lines::{Line, Sample, Summary};
use super::location::Location;
use super::scratch::{OwnPool, Scratch};
use super::{Benchmark, Measurement, Note, check, check_repetitions, parse_size};
use crate::errors::ensure_valid;
use crate::fields::worker::Done;
use crate::job::{Member, WARM_UP};
use crate::metrics::Statistics;
use crate::names::Named;
use crate::pin::Pin;
use crate::processes::Processes;
use crate::report::{Run, RunName};
use crate::table::{new_table, or_dash};
use clap::Args;
use esker_cli::units::Bytes;
use esker_types::{Error, Result};
use serde::Serialize;
use serde_json::json;
use std::path::{Path, PathBuf};

/// Most iterations.
pub const ITERATIONS_MAX: u32 = 255;

/// Most chunks of an array.
pub const CHUNKS_MAX: u64 = 1 << 16;

/// Index entries for each chunk: in the array, and in the commit that replaces it.
const ENTRIES_PER_CHUNK: u64 = 8;

/// The Python program of the processes. Each has an array of its own, and reads that of the next process.
const WORK: &str = include_str!("../zarr/work.py");

/// Chunks that a commit replaces, as in that program.
const COMMIT_CHUNKS: u64 = 16;

/// Names of the stores in reports, and in that program: `esker.zarr.Store` and `zarr.storage.LocalStore`.
const STORES: [&str; 2] = ["esker", "local"];
const ESKER: usize = 0;
const LOCAL: usize = 1;

/// Names of the measured phases, in order. After them, arrays are removed.
const PHASES: [&str; 4] = ["write", "read", "list", "commit"];

/// Measure the zarr store of the Python package beside zarr's own in a directory
#[derive(Clone, Debug, Args)]
#[command(after_long_help = include_str!("../help/zarr.txt").trim_end())]
pub struct ZarrPlan {
    /// Number of processes, or several numbers, separated by commas
    #[arg(long, visible_alias = "np", value_name = "N", default_value = "1")]
    #[arg(value_delimiter = ',')]
    pub procs: Vec<u32>,
    /// Size of a chunk, or several sizes, separated by commas
    #[arg(long = "size", value_name = "SIZE", default_value = "64KiB,1MiB", value_delimiter = ',')]
    #[arg(value_parser = parse_size)]
    pub sizes: Vec<u64>,
    /// Size of the array of a process
    #[arg(long = "total", value_name = "SIZE", default_value = "64MiB")]
    #[arg(value_parser = parse_size)]
    pub array_bytes: u64,
    /// Number of iterations
    #[arg(short = 'i', long, value_name = "N", default_value_t = 5)]
    pub iterations: u32,
    /// Python interpreter that has zarr and esker
    #[arg(long, value_name = "PROGRAM", default_value = "python3")]
    pub python: PathBuf,
    /// The temporary pool.
    #[command(flatten)]
    pub own: OwnPool,
    /// Seed of the data
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "none")]
    pub pin: Pin,
}

impl Benchmark for ZarrPlan {
    fn run(&self, note: Note<'_>) -> Result<Measurement> {
        self.check()?;
        let location = self.own.open(self.needs(), note)?;
        let plain_files = Scratch::for_plain_files(&location.folder)?;
        let (mut runs, mut table) = (Vec::new(), new_table(HEADINGS));
        for &procs in &self.procs {
            for &size_bytes in &self.sizes {
                let case = Case { procs, size_bytes };
                for line in self.measure(&location, plain_files.path(), case, note)? {
                    runs.extend(case.runs(&line));
                    table.row(case.row(&line));
                }
            }
        }
        let options = json!({
            "array_bytes": self.array_bytes, "commit_chunks": COMMIT_CHUNKS, "iterations": self.iterations,
            "pin": self.pin.name(), "verified": true,
        });
        let summary = Summary {
            report: location.report(self.seed, options, runs)?,
            about: String::new(),
            table,
            notes: Vec::new(),
            legend: LEGEND,
        };
        Ok(summary.into())
    }
}

const HEADINGS: &str = "chunks|>procs|phase|>esker|>local|>x local|>least|>most|>MiB/s";

const LEGEND: &str = "\
esker, local: esker.zarr.Store and zarr's LocalStore in a directory on the same medium, median of the iterations: chunks \
written and read per second, keys listed per second, and commits per second; a LocalStore has no commits, its chunks are \
replaced one by one. x local: the median of the ratios of the iterations, the least and the most of them. MiB/s: \
esker.zarr.Store.";

/// The job of one process.
#[derive(Serialize)]
struct Job<'j> {
    #[serde(flatten)]
    member: Member,
    /// The container, as the package opens it.
    url: String,
    /// Its name.
    container: &'j str,
    /// Directory on the same medium, for the other store.
    files: &'j Path,
    size_bytes: u64,
    chunks: u64,
}

/// Next operation of a process.
#[derive(Clone, Copy, Serialize)]
struct Step {
    store: &'static str,
    phase: &'static str,
    round: u32,
}

/// Number of processes, each with an array of its own, and the bytes of a chunk.
#[derive(Clone, Copy)]
struct Case {
    procs: u32,
    size_bytes: u64,
}

impl ZarrPlan {
    /// Checks the options.
    fn check(&self) -> Result<()> {
        check(&self.sizes, &self.procs)?;
        check_repetitions("iterations -i", self.iterations, ITERATIONS_MAX)?;
        self.sizes.iter().try_for_each(|&size| {
            let chunks = self.array_bytes / size;
            ensure_valid((1..=CHUNKS_MAX).contains(&chunks), || {
                let (all, each) = (Bytes(self.array_bytes), Bytes(size));
                format!("--total {all} has {chunks} chunks of --size {each}: 1 to {CHUNKS_MAX} can be measured")
            })
        })
    }

    /// Payload and index entries: arrays, and all chunks once more in commits.
    fn needs(&self) -> (u64, u64) {
        let procs = u64::from(self.procs.iter().copied().max().unwrap_or(1));
        let chunks = self.sizes.iter().map(|size| self.array_bytes / size).max().unwrap_or(1);
        (2 * procs * self.array_bytes, procs * chunks * ENTRIES_PER_CHUNK)
    }

    /// Measures all phases of a case. The stores alternate, so that other load on the machine affects both.
    fn measure(
        &self,
        location: &Location,
        files: &Path,
        case: Case,
        note: Note<'_>,
    ) -> Result<Vec<Line>> {
        location.in_container(|container| {
            note(&format!("starting {} processes of Python", case.procs));
            let mut processes = self.start(location, container, files, case)?;
            let mut lines = PHASES.map(|phase| Line::new(phase, STORES.len())).to_vec();
            for round in WARM_UP..=self.iterations {
                let (size, iterations) = (Bytes(case.size_bytes), self.iterations);
                note(&format!("chunks of {size}: iteration {round} of {iterations}"));
                for (phase, line) in PHASES.into_iter().zip(&mut lines) {
                    for (store, samples) in STORES.into_iter().zip(&mut line.samples) {
                        let sample = take(&mut processes, Step { store, phase, round })?;
                        samples.extend((round != WARM_UP).then_some(sample));
                    }
                }
                for store in STORES {
                    take(&mut processes, Step { store, phase: "remove", round })?;
                }
            }
            Ok(lines)
        })
    }

    /// Starts the Python processes of a case.
    fn start(
        &self,
        location: &Location,
        container: &str,
        files: &Path,
        Case { procs, size_bytes }: Case,
    ) -> Result<Processes<Step, Done>> {
        let url = format!("{}/{container}", location.url);
        let chunks = self.array_bytes / size_bytes;
        let cpus = self.pin.order()?;
        let jobs = Member::all(procs, self.seed, &cpus).map(|member| Job {
            member,
            url: url.clone(),
            container,
            files,
            size_bytes,
            chunks,
        });
        Processes::start(&crate::python::launcher(&self.python, WORK), jobs).map_err(|error| {
            let remedy = "`pip install zarr`, `make wheel` and `pip install` it, and name the Python that has both by --python";
            Error::new(error.kind(), format!("{}: {error} ({remedy})", self.python.display()))
        })
    }
}

/// Runs a step in all processes at once.
fn take(processes: &mut Processes<Step, Done>, step: Step) -> Result<Sample> {
    let done = processes.together(&vec![step; processes.count()])?;
    let measured: Vec<_> = done.into_iter().map(|one| one.measured).collect();
    Ok(Sample::new(step.round, &measured))
}

impl Case {
    /// Runs of the report for one phase: one for each store that was measured.
    fn runs(self, line: &Line) -> Vec<Run> {
        let Self { procs, size_bytes } = self;
        let (store, phase) = ("", line.phase.as_str());
        let name = RunName { store, workload: "zarr", phase, procs, size_bytes };
        line.runs(&STORES, &name, None)
    }

    /// Row of a phase in the table.
    fn row(self, line: &Line) -> [String; 9] {
        let (ratios, tally) = (line.ratios(ESKER, LOCAL), line.tally(ESKER));
        let of_ratios = |one: fn(Statistics) -> f64| {
            or_dash(ratios.map(|ratios| format!("{:.2}", one(ratios))))
        };
        [
            Bytes(self.size_bytes).to_string(),
            self.procs.to_string(),
            line.title.clone(),
            format!("{:.0}", line.median(ESKER)),
            format!("{:.0}", line.median(LOCAL)),
            of_ratios(|ratios| ratios.median),
            of_ratios(|ratios| ratios.min),
            of_ratios(|ratios| ratios.max),
            or_dash((tally.bytes > 0).then(|| format!("{:.0}", tally.bandwidth_mib_s()))),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(sizes: &[u64], array_bytes: u64) -> ZarrPlan {
        ZarrPlan {
            own: OwnPool::default(),
            python: PathBuf::from("python3"),
            procs: vec![1, 2],
            sizes: sizes.to_vec(),
            array_bytes,
            iterations: 1,
            seed: 1,
            pin: Pin::None,
        }
    }

    #[test]
    fn an_array_has_a_chunk_and_not_too_many() {
        assert!(plan(&[1 << 10, 1 << 20], 1 << 20).check().is_ok());
        for sizes in [&[1 << 20, 2 << 20][..], &[1 << 20, 1]] {
            let error = plan(sizes, 1 << 20).check().unwrap_err();
            assert!(error.message().contains("--size"), "{error}");
        }
    }

    #[test]
    fn pool_has_space_for_arrays_of_all_processes_twice() {
        let (bytes, entries) = plan(&[1 << 20, 64 << 10], 64 << 20).needs();
        assert_eq!((bytes, entries), (256 << 20, 2 * 1024 * ENTRIES_PER_CHUNK));
    }

    #[test]
    fn commit_size_matches_python_program() {
        assert!(WORK.contains(&format!("\nCOMMIT_CHUNKS = {COMMIT_CHUNKS}\n")));
    }
}
