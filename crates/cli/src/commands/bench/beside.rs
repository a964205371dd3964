//! What `esker bench mdtest` and `esker bench ior` share.
use super::parallel::PinArg;
use super::{JsonFile, OwnArgs, launcher};
use crate::output::Answer;
use crate::progress::Bar;
use clap::{Args, ValueEnum};
use dfs::NewDfs;
use esker::types::Result;
use esker_bench::load::class_of;
use esker_bench::plan::Note;
use esker_bench::plan::posix::{Beside, DfsSubject, Outcome, Setting, Sites, Subject};
use esker_bench::units::Bytes;
use serde_json::json;
use std::path::PathBuf;

/// Where the work is done, and beside what.
#[derive(Args)]
pub(super) struct Common {
    /// Interface
    #[arg(short = 'a', value_name = "API", default_value = "POSIX", ignore_case = true)]
    api: ApiArg,
    /// How often all is repeated
    #[arg(short = 'i', value_name = "N", default_value_t = 1)]
    iterations: u32,
    /// Seed of the data
    #[arg(short = 'G', long = "seed", value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Processors that processes are pinned to: sockets in turn, all cores of a socket first, or none
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: PinArg,
    /// Folder in memory for the comparison [default: /dev/shm]
    #[arg(long, value_name = "DIR")]
    tmpfs: Option<PathBuf>,
    /// Folder on a disk for the comparison [default: where temporary files go]
    #[arg(long, value_name = "DIR")]
    disk: Option<PathBuf>,
    /// Compare with nothing
    #[arg(long, conflicts_with_all = ["tmpfs", "disk"])]
    alone: bool,
    #[command(flatten)]
    dfs: DfsArgs,
    #[command(flatten)]
    json: JsonFile,
}

/// The file system of `-a DFS`.
#[derive(Args)]
struct DfsArgs {
    /// Pool of -a DFS [default: one that is made and removed]
    #[arg(long = "dfs.pool", value_name = "POOL", conflicts_with_all = ["path", "targets", "huge_pages"])]
    pool: Option<String>,
    /// Container of -a DFS [default: one that is made and removed]
    #[arg(long = "dfs.cont", value_name = "CONT", requires = "pool")]
    container: Option<String>,
    /// Bytes of a chunk of a file, in a container that is made
    #[arg(long = "dfs.chunk_size", value_name = "SIZE", default_value = "1MiB")]
    chunk_size: Bytes,
    /// Object class of files, in a container that is made [default: as DFS chooses]
    #[arg(long = "dfs.oclass", value_name = "CLASS")]
    class: Option<String>,
    /// Object class of directories, in a container that is made [default: as DFS chooses]
    #[arg(long = "dfs.dir_oclass", value_name = "CLASS")]
    dir_class: Option<String>,
    #[command(flatten)]
    own: OwnArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ApiArg {
    #[value(name = "POSIX")]
    Posix,
    #[value(name = "DFS")]
    Dfs,
}

/// What is measured, and what there must be room for.
pub(super) struct Work {
    /// Where files go.
    pub(super) folder: PathBuf,
    /// Everything is removed at the end.
    pub(super) cleared: bool,
    /// Bytes in the files of all processes.
    pub(super) bytes: u64,
    /// Files and directories of all processes.
    pub(super) entries: u64,
}

impl Common {
    pub(super) fn setting(&self, procs: u32, delay_s: u32, stonewall_s: u32) -> Setting {
        Setting {
            procs,
            iterations: self.iterations,
            delay_s,
            stonewall_s: (stonewall_s > 0).then(|| f64::from(stonewall_s)),
            seed: self.seed,
            pin: self.pin.into(),
        }
    }

    /// Measures and answers.
    pub(super) fn run(
        &self,
        work: Work,
        measure: impl FnOnce(&Sites, Note<'_>) -> Result<Outcome>,
    ) -> Result<Answer> {
        self.json.check()?;
        let bar = Bar::spinner();
        let subject = match self.api {
            ApiArg::Posix => Subject::Posix { folder: work.folder, cleared: work.cleared },
            ApiArg::Dfs => Subject::Dfs(self.dfs.subject(&work)?),
        };
        let beside =
            Beside { nothing: self.alone, memory: self.tmpfs.clone(), disk: self.disk.clone() };
        let note: Note<'_> = &mut |what| bar.say(what);
        let sites = Sites::new(&launcher("posix-worker")?, &subject, &beside, note)?;
        let outcome = measure(&sites, note)?;
        drop(bar);
        self.json.answer_with(json!(outcome.report()), outcome.to_string())
    }
}

impl DfsArgs {
    fn subject(&self, work: &Work) -> Result<DfsSubject> {
        let class = |name: &Option<String>| name.as_deref().map(class_of).transpose();
        let new = NewDfs {
            chunk_size: self.chunk_size.0,
            file_class: class(&self.class)?,
            dir_class: class(&self.dir_class)?,
            ..NewDfs::default()
        };
        Ok(DfsSubject {
            pool: self.pool.clone(),
            container: self.container.clone(),
            folder: work.folder.to_string_lossy().into_owned(),
            new,
            own: self.own.pool(),
            bytes: work.bytes,
            entries: work.entries,
        })
    }
}
