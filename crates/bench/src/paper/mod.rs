//! `esker bench paper`: measures tables and figures of five papers on object stores and file systems. All are scaled down
//! to one machine and a few minutes.
mod step;

use crate::plan::Note;
use crate::plan::posix::second_medium;
use crate::plan::served::Served;
use crate::plan::work_dir::{Capacity, Store, WorkDir};
use crate::runner::Runner;
use esker::types::info::Durability;
use esker_cli::mounts::{Media, Mount};
use esker_cli::output::Bar;
use esker_cli::units::Bytes;
use esker_store::PoolSpec;
use esker_types::{Error, ErrorKind, Result};
use rustix::fs::statvfs;
use std::path::{Path, PathBuf};
use step::{On, Step, Words, steps};

/// The least space that a run can be fitted to.
pub const SPACE_MIN_BYTES: u64 = 1 << 30;

/// Space of a run, if the medium has twice as much.
const SPACE_BYTES: u64 = 6 << 30;

/// A run of all benchmarks of the papers.
#[derive(Clone, Debug)]
pub struct PaperPlan {
    /// Folder on the medium to measure.
    pub folder: PathBuf,
    /// Space that one command may need on it; chosen by the space that is free if not given.
    pub space_bytes: Option<u64>,
    /// Use few operations, to check that everything works. The numbers mean nothing.
    pub quick: bool,
}

/// The reports of all commands, in a directory that is removed when this value is dropped.
pub struct PaperReports {
    /// One report per command, in order.
    pub reports: Vec<PaperReport>,
    _dirs: WorkDirs,
}

/// The report of one command.
#[derive(Clone, Debug)]
pub struct PaperReport {
    /// Name that the findings use.
    pub name: &'static str,
    /// The command as it was run, and the kind of store.
    pub command: String,
    /// Name of the pool of files, if that is what was measured.
    pub store: Option<String>,
    /// Path of the report; its traces are in the same directory.
    pub path: PathBuf,
}

/// Names of all commands.
#[cfg(test)]
pub(crate) fn step_names() -> impl Iterator<Item = &'static str> {
    steps().map(|step| step.name)
}

/// The directories of pools.
struct WorkDirs {
    work_dir: WorkDir,
    /// On a second medium, if there is one.
    beside: Option<(WorkDir, String)>,
    /// Type of the file system of the first.
    file_system: String,
}

impl PaperPlan {
    /// Runs all commands.
    ///
    /// # Errors
    /// If there is no space, a command fails, or this process receives a signal to end.
    pub fn run(&self, bar: &Bar) -> Result<PaperReports> {
        let space = self.space()?;
        let note: Note<'_> = &mut |_| {};
        let dirs = WorkDirs::new(&self.folder, note)?;
        let runner = dirs.work_dir.runner()?;
        let steps: Vec<_> = steps().filter(|step| dirs.has(*step)).collect();
        let mut reports = Vec::new();
        for (done, step) in (0..).zip(&steps) {
            bar.say(step.name);
            bar.update(done, steps.len() as u64);
            reports.push(self.measure(*step, &step.words(self.quick, space), &dirs, &runner)?);
        }
        bar.update(steps.len() as u64, steps.len() as u64);
        Ok(PaperReports { reports, _dirs: dirs })
    }

    /// Half of what the medium has free, but not more than is needed.
    fn space(&self) -> Result<u64> {
        if let Some(space) = self.space_bytes {
            return Ok(space);
        }
        let free = free_bytes(&self.folder)?;
        match free >= SPACE_MIN_BYTES {
            true => Ok((free / 2).clamp(SPACE_MIN_BYTES, SPACE_BYTES)),
            false => Err(Error::new(
                ErrorKind::NoSpace,
                format!(
                    "{} has {} free, and the benchmark needs {}: name another directory with --dir",
                    self.folder.display(),
                    Bytes(free),
                    Bytes(SPACE_MIN_BYTES)
                ),
            )),
        }
    }

    fn measure(
        &self,
        step: Step,
        words: &Words,
        dirs: &WorkDirs,
        runner: &Runner,
    ) -> Result<PaperReport> {
        let served = match step.on {
            On::Nodes => self.served(words, dirs)?,
            _ => Vec::new(),
        };
        let pool = match step.on {
            On::Posix => ["--pool".to_owned(), dirs.work_dir.url(&Store::Posix)],
            On::Beside => ["--pool".to_owned(), dirs.beside_url()],
            On::Native | On::Files => ["--path".to_owned(), self.folder.display().to_string()],
            On::Nodes => {
                let urls: Vec<_> = served.iter().map(Served::url).collect();
                ["--nodes".to_owned(), urls.join(",")]
            }
        };
        runner.bench(step.name, &[words.0.as_slice(), &pool].concat())?;
        let store = dirs.store(step.on);
        let on = match (step.on, &store) {
            (_, Some(store)) => store.clone(),
            (On::Native, _) => "a native pool".to_owned(),
            (On::Nodes, _) => {
                let counts = self.nodes().map(|count| count.to_string()).collect::<Vec<_>>();
                format!("pools over {} nodes, whose engines all run here", counts.join(", "))
            }
            _ => "the file system in a container, tmpfs and the file system of a disk".to_owned(),
        };
        let command = format!("esker bench {} ({on})", words.0.join(" "));
        Ok(PaperReport { name: step.name, command, store, path: runner.report_path(step.name) })
    }

    /// Numbers of nodes of the pools whose engines all run on this machine.
    fn nodes(&self) -> impl Iterator<Item = u32> + use<> {
        [1, 2, 4].into_iter().take(if self.quick { 2 } else { 3 })
    }

    /// Pools over nodes, each in a directory of its own.
    fn served(&self, words: &Words, dirs: &WorkDirs) -> Result<Vec<Served>> {
        let pool = |nodes: u32| {
            let folder = dirs.work_dir.folder().join(format!("nodes-{nodes}"));
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
    fn new(folder: &Path, note: Note<'_>) -> Result<Self> {
        let capacity =
            Capacity { bytes: 0, entries: 0, targets: None, durability: Durability::Process };
        let mut new = |folder: &Path| WorkDir::new(folder, &[Store::Posix], &capacity, note);
        let work_dir = new(folder)?;
        let mut beside = None;
        if let Some(folder) = second_medium(folder) {
            beside = Some((new(&folder)?, Mount::for_path(&folder)?.sort));
        }
        Ok(Self { work_dir, beside, file_system: Mount::for_path(folder)?.sort })
    }

    fn has(&self, step: Step) -> bool {
        step.on != On::Beside || self.beside.is_some()
    }

    fn beside_url(&self) -> String {
        self.beside.as_ref().map_or_else(String::new, |(dir, _)| dir.url(&Store::Posix))
    }

    /// Name of a pool of files, with its medium.
    fn store(&self, on: On) -> Option<String> {
        let file_system = match on {
            On::Posix => &self.file_system,
            On::Beside => &self.beside.as_ref()?.1,
            _ => return None,
        };
        Some(format!("posix on {file_system}"))
    }
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
