//! `esker bench paper`: measures tables and figures of five papers on object stores and file systems. All are scaled down
//! to one machine and a few minutes.
mod step;

use crate::plan::posix::second_medium;
use crate::plan::scratch::Served;
use crate::plan::work_dir::{Store, WorkDir};
use crate::plan::{Note, memory_or_temporary, parse_size};
use crate::plots::paper::{PaperStep, Papers, page};
use crate::plots::results::Results;
use crate::runner::Runner;
use clap::Args;
use esker_cli::mounts::{Media, Mount};
use esker_cli::output::Bar;
use esker_cli::units::Bytes;
use esker_store::PoolSpec;
use esker_types::{Error, ErrorKind, Result};
use rustix::fs::statvfs;
use std::path::{Path, PathBuf};
use step::{On, Step, Words, steps};

/// The least space that a run can be fitted to.
const SPACE_MIN_BYTES: u64 = 1 << 30;

/// Space of a run, if the medium has twice as much.
const SPACE_BYTES: u64 = 6 << 30;

/// A run of all benchmarks of the papers.
#[derive(Clone, Debug, Args)]
pub struct PaperPlan {
    /// Directory on the medium [default: /dev/shm, or the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Space that a benchmark may need on the medium, at least 1GiB [default: half of what is free, 6GiB at most]
    #[arg(long, value_name = "SIZE", value_parser = parse_space)]
    pub size: Option<u64>,
    /// Measure only few operations, to check within two minutes that everything works; judge nothing
    #[arg(long)]
    pub quick: bool,
}

/// Parses the space that the benchmarks may use.
fn parse_space(text: &str) -> std::result::Result<u64, String> {
    let bytes = parse_size(text)?;
    match bytes >= SPACE_MIN_BYTES {
        true => Ok(bytes),
        false => Err(format!("the benchmarks need at least {}", Bytes(SPACE_MIN_BYTES))),
    }
}

/// Names of all commands.
#[cfg(test)]
pub(crate) fn step_names() -> impl Iterator<Item = &'static str> {
    steps().map(|step| step.name)
}

/// A pool of files.
struct PosixPool {
    work_dir: WorkDir,
    /// Its name with its medium.
    store: String,
}

/// The directories of pools.
struct WorkDirs {
    /// On the medium to measure.
    folder: PathBuf,
    posix: PosixPool,
    /// On a second medium, if there is one.
    beside: Option<PosixPool>,
}

impl PaperPlan {
    /// Runs all commands, and draws the page of their results.
    ///
    /// # Errors
    /// If there is no space, a command fails, or this process receives a signal to end.
    pub fn run(&self, bar: &Bar) -> Result<Papers> {
        let folder = self.dir.clone().unwrap_or_else(memory_or_temporary);
        let space = self.size.map_or_else(|| space(&folder), Ok)?;
        let dirs = WorkDirs::new(folder, &mut |_| {})?;
        let runner = dirs.posix.work_dir.runner()?;
        let is_possible = |step: &Step| step.on != On::Beside || dirs.beside.is_some();
        let possible: Vec<_> = steps().filter(is_possible).collect();
        let mut steps = Vec::new();
        for step in &possible {
            bar.say(step.name);
            bar.update(steps.len() as u64, possible.len() as u64);
            steps.push(self.measure(*step, &step.words(self.quick, space), &dirs, &runner)?);
        }
        page(&steps, self.quick)
    }

    /// Runs a step in a process of its own, and reads its report.
    fn measure(
        &self,
        step: Step,
        words: &Words,
        dirs: &WorkDirs,
        runner: &Runner,
    ) -> Result<PaperStep> {
        let served = if step.on == On::Nodes { self.served(words, dirs)? } else { Vec::new() };
        let path = || ["--path".to_owned(), dirs.folder.display().to_string()];
        let posix = dirs.posix(step.on);
        let (pool, system) = match (step.on, posix) {
            (On::Nodes, _) => {
                let urls: Vec<_> = served.iter().map(Served::url).collect();
                let counts: Vec<_> = self.nodes().map(|count| count.to_string()).collect();
                let counts = counts.join(", ");
                let system = format!("pools over {counts} nodes, whose engines all run here");
                (["--nodes".to_owned(), urls.join(",")], system)
            }
            (On::Files, _) => {
                let system = "the file system in a container, tmpfs and the file system of a disk";
                (path(), system.to_owned())
            }
            (_, Some(pool)) => {
                (["--pool".to_owned(), pool.work_dir.url(&Store::Posix)], pool.store.clone())
            }
            (_, None) => (path(), "a native pool".to_owned()),
        };
        runner.bench(step.name, &[words.0.as_slice(), &pool].concat())?;
        let command = format!("esker bench {} ({system})", words.0.join(" "));
        let mut results = Results::read(&runner.report_path(step.name))?;
        results.name.clone_from(&command);
        if let Some(pool) = posix {
            // The report calls each pool of files `posix`. The page must say on which file system it is.
            let runs = results.runs.iter_mut().filter(|run| !run.is_limit());
            runs.for_each(|run| run.store.clone_from(&pool.store));
        }
        Ok(PaperStep { name: step.name.to_owned(), command, results })
    }

    /// Numbers of nodes of the pools whose engines all run on this machine.
    fn nodes(&self) -> impl Iterator<Item = u32> + use<> {
        [1, 2, 4].into_iter().take(if self.quick { 2 } else { 3 })
    }

    /// Creates the pools over nodes, one for each number of nodes, and starts their engines on this machine. Each pool
    /// has its own directory.
    fn served(&self, words: &Words, dirs: &WorkDirs) -> Result<Vec<Served>> {
        let pool = |nodes: u32| {
            let folder = dirs.posix.work_dir.folder().join(format!("nodes-{nodes}"));
            std::fs::create_dir_all(&folder)
                .map_err(|error| Error::io(format!("creating {}", folder.display()), &error))?;
            let size = words.pool_of_nodes() / u64::from(nodes);
            let spec = PoolSpec { targets: Some(2), ..PoolSpec::new("nodes", size) };
            Served::new(&folder, &spec, nodes, &mut |_| {})
        };
        self.nodes().map(pool).collect()
    }
}

impl WorkDirs {
    fn new(folder: PathBuf, note: Note<'_>) -> Result<Self> {
        let no_native_pool = PoolSpec::new("unused", 0);
        let mut new = |folder: &Path| -> Result<PosixPool> {
            let work_dir = WorkDir::new(folder, &[Store::Posix], &no_native_pool, note)?;
            Ok(PosixPool {
                work_dir,
                store: format!("posix on {}", Mount::for_path(folder)?.fs_type),
            })
        };
        let posix = new(&folder)?;
        let beside = second_medium(&folder).map(|folder| new(&folder)).transpose()?;
        Ok(Self { folder, posix, beside })
    }

    /// The pool of files that a step measures.
    fn posix(&self, on: On) -> Option<&PosixPool> {
        match on {
            On::Posix => Some(&self.posix),
            On::Beside => self.beside.as_ref(),
            On::Native | On::Nodes | On::Files => None,
        }
    }
}

/// The space that the benchmarks use: half of what the medium has free, but not more than is needed.
fn space(folder: &Path) -> Result<u64> {
    let free = free_bytes(folder)?;
    if free >= SPACE_MIN_BYTES {
        return Ok((free / 2).clamp(SPACE_MIN_BYTES, SPACE_BYTES));
    }
    let message = format!(
        "{} has {} free, and the benchmark needs {}: name another directory with --dir",
        folder.display(),
        Bytes(free),
        Bytes(SPACE_MIN_BYTES)
    );
    Err(Error::new(ErrorKind::NoSpace, message))
}

/// Free bytes of the file system of a directory, and of the memory if it is in memory.
fn free_bytes(folder: &Path) -> Result<u64> {
    let status = statvfs(folder)
        .map_err(|error| Error::io(format!("examining {}", folder.display()), &error.into()))?;
    let free = status.f_bavail.saturating_mul(status.f_frsize);
    match Mount::for_path(folder)?.media() {
        Media::Memory => Ok(free.min(crate::host::available_memory_bytes())),
        _ => Ok(free),
    }
}
