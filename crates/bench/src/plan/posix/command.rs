//! Options of `esker bench mdtest` and `esker bench ior`, and those of the original programs that are refused.
use super::{Baselines, DfsSubject, FileSystems, Genuine, Outcome, Setting, Subject};
use crate::pin::Pin;
use crate::plan::{Measurement, Note, OwnPool, memory_or_temporary};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use dfs::NewDfs;
use esker_cli::class_of;
use esker_cli::units::Bytes;
use esker_types::{Error, ErrorKind, Result};
use serde_json::json;
use std::marker::PhantomData;
use std::path::PathBuf;

/// The interface, the repetitions, and the file systems to compare with.
#[derive(Args)]
pub(super) struct Common {
    /// Interface: POSIX (any directory) or DFS (a container, by the library)
    #[arg(short = 'a', value_name = "API", default_value = "POSIX", ignore_case = true)]
    api: ApiArg,
    /// Number of iterations
    #[arg(short = 'i', value_name = "N", default_value_t = 1)]
    iterations: u32,
    /// Seed of the data
    #[arg(short = 'G', long = "seed", value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Pin processes to processors: alternate between sockets, fill one socket first, or do not pin
    #[arg(long, value_name = "HOW", default_value = "sockets")]
    pin: Pin,
    #[command(flatten)]
    beside: Baselines,
    /// Do not compare with other file systems
    #[arg(long, conflicts_with_all = ["memory", "disk"])]
    alone: bool,
    /// The genuine ior or mdtest, to do the same work beside ours [default: the one on the PATH]
    #[arg(long, value_name = "PROGRAM")]
    genuine: Option<PathBuf>,
    #[command(flatten)]
    dfs: DfsArgs,
}

/// The file system of `-a DFS`.
#[derive(Args)]
struct DfsArgs {
    /// Pool of -a DFS [default: a temporary pool]
    #[arg(long = "dfs.pool", value_name = "POOL", conflicts_with_all = ["path", "targets", "huge_pages", "no_write_buffer", "nodes"])]
    pool: Option<String>,
    /// Container of -a DFS [default: a temporary container]
    #[arg(long = "dfs.cont", value_name = "CONT", requires = "pool")]
    container: Option<String>,
    /// Chunk size of files in a temporary container [default: 1MiB]
    #[arg(long = "dfs.chunk_size", value_name = "SIZE")]
    chunk_size: Option<Bytes>,
    /// Object class of files in a temporary container [default: as DFS chooses]
    #[arg(long = "dfs.oclass", value_name = "CLASS")]
    class: Option<String>,
    /// Object class of directories in a temporary container [default: as DFS chooses]
    #[arg(long = "dfs.dir_oclass", value_name = "CLASS")]
    dir_class: Option<String>,
    /// Create the temporary pool over this number of nodes, or several numbers, separated by commas: their engines all run
    /// on this machine, and files are accessed through them only, as from another node
    #[arg(long, value_name = "N", value_delimiter = ',', conflicts_with = "no_write_buffer")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=NODES_MAX))]
    nodes: Vec<u32>,
    #[command(flatten)]
    own: OwnPool,
}

/// Most engines of one pool on this machine.
const NODES_MAX: i64 = 64;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ApiArg {
    #[value(name = "POSIX")]
    Posix,
    #[value(name = "DFS")]
    Dfs,
}

/// The work to measure, and the space that it needs.
pub(super) struct Work {
    /// `ior` or `mdtest`, and its options for the same work; none where it cannot do that.
    pub(super) genuine: (&'static str, Option<Vec<String>>),
    /// Directory of the files.
    pub(super) folder: PathBuf,
    /// True if everything is removed at the end.
    pub(super) cleared: bool,
    /// Bytes in the files of all processes.
    pub(super) bytes: u64,
    /// Files and directories of all processes.
    pub(super) entries: u64,
}

impl Common {
    /// Settings of a run, from its options.
    pub(super) fn setting(&self, procs: u32, delay_s: u32, stonewall_s: u32) -> Setting {
        Setting {
            procs,
            iterations: self.iterations,
            delay_s,
            stonewall_s,
            seed: self.seed,
            pin: self.pin,
        }
    }

    /// Measures pools over each of the numbers of nodes, or one pool or directory.
    pub(super) fn run(
        &self,
        work: &Work,
        measure: impl Fn(&FileSystems, Note<'_>) -> Result<Outcome>,
        note: Note<'_>,
    ) -> Result<Measurement> {
        let ignored = self.dfs.given().filter(|_| self.api == ApiArg::Posix);
        ignored.map_or(Ok(()), |option| Err(needs_dfs(option)))?;
        let nodes = match self.dfs.nodes.as_slice() {
            [] => vec![None],
            nodes => nodes.iter().copied().map(Some).collect(),
        };
        let outcomes = nodes
            .into_iter()
            .map(|nodes| Ok((nodes, self.outcome(work, nodes, &measure, note)?)))
            .collect::<Result<Vec<_>>>()?;
        let texts = outcomes.iter().map(|(nodes, outcome)| match nodes {
            Some(nodes) => format!("Pool over {nodes} nodes\n{outcome}"),
            None => outcome.to_string(),
        });
        let text = texts.collect::<Vec<_>>().join("\n\n");
        Ok(Measurement { report: json!(Outcome::report_of_nodes(&outcomes)), text })
    }

    /// Measures a pool over this number of nodes, or a pool of this node if there is none.
    fn outcome(
        &self,
        work: &Work,
        nodes: Option<u32>,
        measure: &impl Fn(&FileSystems, Note<'_>) -> Result<Outcome>,
        note: Note<'_>,
    ) -> Result<Outcome> {
        let subject = match self.api {
            ApiArg::Posix => Subject::Posix { folder: work.folder.clone(), cleared: work.cleared },
            ApiArg::Dfs => Subject::Dfs(DfsSubject { nodes, ..self.dfs.subject(work)? }),
        };
        let beside = Baselines { nothing: self.alone, ..self.beside.clone() };
        let systems = FileSystems::new(&subject, &beside, note)?;
        let mut outcome = measure(&systems, note)?;
        if let (name, Some(options)) = &work.genuine
            && (self.genuine.is_some() || !self.alone)
        {
            match Genuine::find(name, self.genuine.as_deref(), outcome.procs) {
                Ok(genuine) => genuine.compare(&mut outcome, options, note)?,
                Err(why) => outcome.missing.push(why),
            }
        }
        Ok(outcome)
    }
}

impl DfsArgs {
    /// The first of these options that was given.
    fn given(&self) -> Option<&'static str> {
        let OwnPool { folder, targets, huge_pages, no_write_buffer, .. } = &self.own;
        let options = [
            ("--dfs.pool", self.pool.is_some()),
            ("--dfs.cont", self.container.is_some()),
            ("--dfs.chunk_size", self.chunk_size.is_some()),
            ("--dfs.oclass", self.class.is_some()),
            ("--dfs.dir_oclass", self.dir_class.is_some()),
            ("--nodes", !self.nodes.is_empty()),
            ("--path", *folder != memory_or_temporary()),
            ("--targets", targets.is_some()),
            ("--huge-pages", *huge_pages),
            ("--no-write-buffer", *no_write_buffer),
        ];
        options.into_iter().find_map(|(option, is_given)| is_given.then_some(option))
    }

    /// The container, and the directory in it, that is measured by way of DFS.
    fn subject(&self, work: &Work) -> Result<DfsSubject> {
        let class = |name: &Option<String>| name.as_deref().map(class_of).transpose();
        let new = NewDfs::default();
        let new = NewDfs {
            chunk_size: self.chunk_size.map_or(new.chunk_size, |Bytes(bytes)| bytes),
            file_class: class(&self.class)?,
            dir_class: class(&self.dir_class)?,
            ..new
        };
        Ok(DfsSubject {
            nodes: None,
            pool: self.pool.clone(),
            container: self.container.clone(),
            folder: work.folder.to_string_lossy().into_owned(),
            cleared: work.cleared,
            new,
            own: self.own.clone(),
            bytes: work.bytes,
            entries: work.entries,
        })
    }
}

/// Error for an option that has an effect only with `-a DFS`.
fn needs_dfs(option: &str) -> Error {
    let message = format!("{option} has no effect on the directory of -a POSIX: add -a DFS");
    Error::new(ErrorKind::Invalid, message)
}

/// An original program with options that are refused.
pub(super) trait Original {
    /// Name of the program.
    const NAME: &'static str;
    /// A line for each option of one letter: the option, and what to do instead.
    const REFUSED: &'static str;
}

/// Options of the original program that are refused, each with the advice what to use instead.
fn refused<O: Original>() -> impl Iterator<Item = (&'static str, &'static str)> {
    O::REFUSED.lines().filter_map(|line| line.split_once(' '))
}

/// For clap: options of the original program that are known, hidden from the help, and refused by name.
pub(super) struct Refused<O>(PhantomData<O>);

impl<O: Original> Args for Refused<O> {
    /// Adds the refused options, hidden in the help, so that a program's command line gets an error with the remedy.
    fn augment_args(command: Command) -> Command {
        let argument = |(option, _): (&'static str, _)| {
            Arg::new(option).short(option.chars().nth(1)).hide(true).num_args(0..=1)
        };
        command.args(refused::<O>().map(argument))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<O: Original> FromArgMatches for Refused<O> {
    fn from_arg_matches(matches: &ArgMatches) -> std::result::Result<Self, clap::Error> {
        let given = refused::<O>().find(|(option, _)| matches.contains_id(option));
        match given {
            None => Ok(Self(PhantomData)),
            Some((option, instead)) => Err(clap::Error::raw(
                clap::error::ErrorKind::UnknownArgument,
                format!("{option} of {} is not supported: {instead}", O::NAME),
            )),
        }
    }

    fn update_from_arg_matches(
        &mut self,
        matches: &ArgMatches,
    ) -> std::result::Result<(), clap::Error> {
        Self::from_arg_matches(matches).map(|_| ())
    }
}
