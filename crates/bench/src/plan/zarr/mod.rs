//! `esker bench zarr`: compares `esker.zarr.Store` with zarr's store for directories, on the same medium.
mod outcome;

use super::location::Location;
use super::scratch::{OwnPool, Scratch};
use super::summary::Summary;
use super::{Benchmark, Measurement, Note, check, check_repetitions, parse_size, together};
use crate::fields::worker::Done;
use crate::host::Host;
use crate::job::WARM_UP;
use crate::names::Named;
use crate::pin::{Pin, cpu_of};
use crate::plan::posix::{Line, Sample};
use crate::processes::Processes;
use crate::report::Settings;
use crate::table::new_table;
use crate::zarr::{COMMIT_CHUNKS, Job, Phase, Step, WORK};
use clap::Args;
use esker_cli::units::Bytes;
use esker_types::{Error, ErrorKind, Result};
use outcome::{Case, HEADINGS, LEGEND, SYSTEMS};
use serde_json::json;
use std::path::{Path, PathBuf};

/// Most iterations.
pub const ITERATIONS_MAX: u32 = 255;

/// Most chunks of an array.
pub const CHUNKS_MAX: u64 = 1 << 16;

/// Index entries for each chunk: in the array, and in the commit that replaces it.
const ENTRIES_PER_CHUNK: u64 = 8;

const ABOUT: &str = "\
Processes of Python keep arrays in `esker.zarr.Store`, in a container of a temporary pool, and in zarr's LocalStore, in a \
directory on the same medium. Both stores alternate. Each process has an array of bytes without compression, and

  write    makes the array and writes it as a whole
  read     opens the array of the next process, reads it as a whole, and compares it (the comparison is not measured)
  list     lists the keys of that array
  commit   replaces 16 chunks in a transaction, and commits it, until all chunks are replaced; a LocalStore has no
           commits, there the same chunks are replaced one by one

zarr does the same with both stores: it divides an array into chunks, and reads and writes several of them at once. The time \
of a phase runs from the first start to the last end. One iteration warms up the memory of the pool; files of a LocalStore \
are new each time, as in other programs. A version is kept for each commit of an iteration.

The Python that --python names must have the packages zarr and esker.

Examples:
  esker bench zarr --python ~/venv/bin/python
  esker bench zarr --procs 1,2 --size 64KiB,1MiB --total 256MiB -i 9 --json zarr.json";

/// Measure the zarr store of the Python package beside zarr's own in a directory
#[derive(Clone, Debug, Args)]
#[command(after_long_help = ABOUT)]
pub struct ZarrPlan {
    /// Number of processes, or several numbers, separated by commas
    #[arg(
        long,
        visible_alias = "np",
        value_name = "N",
        default_value = "1",
        value_delimiter = ','
    )]
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
        let pairs =
            self.procs.iter().flat_map(|&procs| self.sizes.iter().map(move |&s| (procs, s)));
        let (mut runs, mut table) = (Vec::new(), new_table(HEADINGS));
        for (procs, size_bytes) in pairs {
            let lines = self.measure(&location, plain_files.path(), procs, size_bytes, note)?;
            let case = Case { procs, size_bytes, lines };
            runs.extend(case.runs());
            case.lines.iter().for_each(|line| table.row(case.row(line)));
        }
        let summary = Summary {
            host: Host::for_folder(&location.folder)?,
            settings: self.settings(&location)?,
            about: String::new(),
            runs,
            table,
            notes: Vec::new(),
            legend: LEGEND,
        };
        Ok(summary.into())
    }
}

/// The state of a measurement with one number of processes and one size.
struct Run<'p> {
    plan: &'p ZarrPlan,
    processes: Processes,
    lines: Vec<Line>,
}

impl ZarrPlan {
    fn check(&self) -> Result<()> {
        check(&self.sizes, &self.procs)?;
        let refuse = |text: String| Err(Error::new(ErrorKind::Invalid, text));
        check_repetitions("iterations -i", self.iterations, ITERATIONS_MAX)?;
        let chunks = |size: &u64| self.array_bytes / size;
        match self.sizes.iter().find(|size| !(1..=CHUNKS_MAX).contains(&chunks(size))) {
            None => Ok(()),
            Some(&size) => refuse(format!(
                "--total {} has {} chunks of --size {}: 1 to {CHUNKS_MAX} can be measured",
                Bytes(self.array_bytes),
                chunks(&size),
                Bytes(size)
            )),
        }
    }

    /// Payload and index entries: arrays, and all chunks once more in commits.
    fn needs(&self) -> (u64, u64) {
        let procs = u64::from(self.procs.iter().copied().max().unwrap_or(1));
        let chunks = self.sizes.iter().map(|size| self.array_bytes / size).max().unwrap_or(1);
        (2 * procs * self.array_bytes, procs * chunks * ENTRIES_PER_CHUNK)
    }

    fn measure(
        &self,
        location: &Location,
        files: &Path,
        procs: u32,
        size_bytes: u64,
        note: Note<'_>,
    ) -> Result<Vec<Line>> {
        location.in_container(|container| {
            let job = self.job(location, container, files, (procs, size_bytes));
            self.start(&job, note)?.all(size_bytes, note)
        })
    }

    fn job(
        &self,
        location: &Location,
        container: &str,
        files: &Path,
        (procs, size_bytes): (u32, u64),
    ) -> Job {
        Job {
            rank: 0,
            procs,
            cpu: None,
            url: format!("{}/{container}", location.url),
            container: container.to_owned(),
            files: files.to_owned(),
            size_bytes,
            chunks: self.array_bytes / size_bytes,
            seed: self.seed,
        }
    }

    fn start(&self, job: &Job, note: Note<'_>) -> Result<Run<'_>> {
        note(&format!("starting {} processes of Python", job.procs));
        let cpus = self.pin.order()?;
        let one = |rank| Job { rank, cpu: cpu_of(&cpus, rank), ..job.clone() };
        let launcher = crate::python::launcher(&self.python, WORK);
        let processes = Processes::start_ranks(&launcher, job.procs, one).map_err(|error| {
            let remedy = "`pip install zarr`, `make wheel` and `pip install` it, and name the Python that has both by --python";
            Error::new(error.kind(), format!("{}: {error} ({remedy})", self.python.display()))
        })?;
        let line = |phase: Phase| Line::new(phase.name(), phase.name(), SYSTEMS.len());
        let lines = Phase::MEASURED.map(line).to_vec();
        Ok(Run { plan: self, processes, lines })
    }

    fn settings(&self, location: &Location) -> Result<Settings> {
        let options = json!({
            "array_bytes": self.array_bytes, "commit_chunks": COMMIT_CHUNKS, "iterations": self.iterations,
            "pin": self.pin.name(), "verified": true,
        });
        location.settings(self.seed, options)
    }
}

impl Run<'_> {
    fn all(&mut self, size_bytes: u64, note: Note<'_>) -> Result<Vec<Line>> {
        for round in WARM_UP..=self.plan.iterations {
            let of = self.plan.iterations;
            note(&format!("chunks of {}: iteration {round} of {of}", Bytes(size_bytes)));
            self.round(round)?;
        }
        Ok(std::mem::take(&mut self.lines))
    }

    /// The stores alternate, so that other load on the machine affects both.
    fn round(&mut self, round: u32) -> Result<()> {
        for (at, phase) in Phase::MEASURED.into_iter().enumerate() {
            for (system, store) in SYSTEMS.into_iter().enumerate() {
                let sample = self.take(Step { store, phase, round })?;
                let line = self.lines.get_mut(at).filter(|_| round != WARM_UP);
                if let Some(samples) = line.and_then(|line| line.samples.get_mut(system)) {
                    samples.push(sample);
                }
            }
        }
        let remove = |store| Step { store, phase: Phase::Remove, round };
        SYSTEMS.into_iter().try_for_each(|store| self.take(remove(store)).map(drop))
    }

    fn take(&mut self, step: Step) -> Result<Sample> {
        let steps = vec![step; self.processes.count()];
        let done: Vec<Done> = together(&mut self.processes, &steps)?;
        let measured = done.into_iter().map(|one| one.measured).collect();
        Ok(Sample::from_rounds(step.round, &[measured]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(sizes: &[u64], array_bytes: u64) -> ZarrPlan {
        ZarrPlan {
            own: OwnPool {
                folder: PathBuf::new(),
                targets: None,
                durability: None,
                huge_pages: false,
                no_write_buffer: false,
            },
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
