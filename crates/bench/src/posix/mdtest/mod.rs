//! The work of `mdtest`: items in a tree of directories are created, examined, read and removed.
mod tree;

pub use tree::Tree;

use crate::errors::{ensure_intact, ensure_valid};
use crate::job::{Member, Slot};
use crate::measure::{Measured, Until, measure};
use crate::plan::parse_size;
use crate::posix::{Done, Job, Process, Use, compare};
use crate::worker::Work;
use esker_types::Result;
use serde::{Deserialize, Serialize};
use tree::{Paths, top};

/// Maximum number of directories of a tree. Their paths are kept in memory.
pub const DIRECTORIES_MAX: u64 = 1 << 20;

/// Maximum number of items of one process.
pub const ITEMS_MAX: u64 = 1 << 32;

/// Maximum size of a file.
pub const FILE_BYTES_MAX: u64 = 1 << 30;

/// The options, the same for all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::Args)]
pub struct Options {
    /// Number of directories and files of each process in the whole tree
    #[arg(short = 'n', value_name = "N", conflicts_with = "items_per_dir")]
    pub items: Option<u64>,
    /// Number of directories and files of each process in each directory of the tree
    #[arg(short = 'I', value_name = "N")]
    pub items_per_dir: Option<u64>,
    /// Use one tree per process
    #[arg(short = 'u')]
    pub unique: bool,
    /// The directories.
    #[command(flatten)]
    pub tree: Tree,
    /// Distance to the process whose items are examined; twice that for reading, three times for
    /// removing
    #[arg(short = 'N', value_name = "N", default_value_t = 0)]
    pub stride: u32,
    /// Bytes written to each new file
    #[arg(short = 'w', value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    pub write_bytes: u64,
    /// Bytes read from each file
    #[arg(short = 'e', value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    pub read_bytes: u64,
    /// Sync each file before closing it
    #[arg(short = 'y')]
    pub sync: bool,
    /// Compare what is read with what was written
    #[arg(short = 'X', long = "verify-read")]
    pub verify: bool,
    /// Examine items in random order
    #[arg(short = 'R')]
    pub random_stat: bool,
}

/// The kind of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
}

/// An operation on items or on the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    /// Create the directory of an iteration.
    TopCreate,
    /// Create the directories of the tree.
    TreeCreate,
    /// Create items.
    Create(Kind),
    /// Examine items.
    Stat(Kind),
    /// List the directories of the tree, each by one process.
    List(Kind),
    /// Open, read and close files.
    Read,
    /// Remove items.
    Remove(Kind),
    /// Remove the directories of the tree.
    TreeRemove,
    /// Remove the directory of an iteration.
    TopRemove,
}

impl Phase {
    /// Name in tables, as in mdtest.
    pub fn title(self) -> &'static str {
        match self {
            Self::Create(Kind::Directory) => "Directory creation",
            Self::Stat(Kind::Directory) => "Directory stat",
            Self::List(Kind::Directory) => "Directory listing",
            Self::Remove(Kind::Directory) => "Directory removal",
            Self::Create(Kind::File) => "File creation",
            Self::Stat(Kind::File) => "File stat",
            Self::List(Kind::File) => "File listing",
            Self::Read => "File read",
            Self::Remove(Kind::File) => "File removal",
            Self::TopCreate | Self::TreeCreate => "Tree creation",
            Self::TopRemove | Self::TreeRemove => "Tree removal",
        }
    }

    /// The kind of its items; directories if it has none.
    pub fn kind(self) -> Kind {
        match self {
            Self::Create(kind) | Self::Stat(kind) | Self::List(kind) | Self::Remove(kind) => kind,
            Self::Read => Kind::File,
            Self::TopCreate | Self::TreeCreate | Self::TreeRemove | Self::TopRemove => {
                Kind::Directory
            }
        }
    }
}

/// A phase of one process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MdtestStep {
    /// Operation of the step.
    pub phase: Phase,
    /// Number of the iteration; 0 warms up.
    pub iteration: u32,
    /// The first item.
    pub first: u64,
    /// The item after the last.
    pub end: u64,
    /// End after this time even if items are left.
    pub seconds: Option<f64>,
}

impl Options {
    /// Items of one process in each directory that has items. Those of -n are divided by the number of directories; as
    /// in mdtest, the remainder is dropped.
    pub fn per_dir(&self) -> u64 {
        let divided = self.items.and_then(|items| items.checked_div(self.item_dirs()));
        self.items_per_dir.or(divided).unwrap_or(0)
    }

    /// Items of one process.
    pub fn items(&self) -> u64 {
        self.per_dir() * self.item_dirs()
    }

    fn item_dirs(&self) -> u64 {
        let directories = self.tree.item_dirs();
        directories.end.saturating_sub(directories.start)
    }

    /// Checks the options.
    pub fn check(&self) -> Result<()> {
        let Tree { depth, branch, .. } = self.tree;
        ensure_valid(
            self.tree.directories().is_some_and(|count| count <= DIRECTORIES_MAX),
            || {
                format!(
                    "a tree of depth -z {depth} and branching factor -b {branch} has more than {DIRECTORIES_MAX} directories: choose smaller values"
                )
            },
        )?;
        ensure_valid((1..=ITEMS_MAX).contains(&self.items()), || {
            format!(
                "each process must have 1 to {ITEMS_MAX} items: give -n or -I (-n is divided by the directories of the tree)"
            )
        })?;
        ensure_valid(self.write_bytes.max(self.read_bytes) <= FILE_BYTES_MAX, || {
            format!("files of -w and -e have at most {FILE_BYTES_MAX} bytes")
        })?;
        ensure_valid(
            !self.verify || self.read_bytes <= self.write_bytes,
            || "-X compares what was written: give -w at least as many bytes as -e",
        )
    }
}

/// The state of a process.
pub struct Worker {
    process: Process,
    options: Options,
    path: String,
    /// The paths of the present iteration.
    paths: Option<(u32, Paths)>,
    /// The order in which items are examined if it is random.
    order: Vec<u64>,
}

impl Work for Worker {
    type Job = Job<Options>;
    type Step = MdtestStep;
    type Done = Done;

    fn begin(job: Job<Options>) -> Result<Self> {
        let process = Process::new(&job, job.options.write_bytes.max(job.options.read_bytes))?;
        let (path, order, paths) = Default::default();
        Ok(Self { process, options: job.options, path, paths, order })
    }

    /// Computes paths and the random order before the time of a step starts.
    fn prepare(&mut self, step: &MdtestStep) -> Result<()> {
        if self.paths.as_ref().is_none_or(|(iteration, _)| *iteration != step.iteration) {
            self.paths = Some((
                step.iteration,
                Paths::new(&self.options, self.process.member.procs, step.iteration),
            ));
        }
        self.order = match (step.phase, self.options.random_stat) {
            (Phase::Stat(_), true) => self.process.shuffled(step.end, self.process.member.rank),
            _ => Vec::new(),
        };
        Ok(())
    }

    fn take(&mut self, step: MdtestStep) -> Result<Done> {
        let Some((_, paths)) = self.paths.take() else { return Ok(Done::default()) };
        let measured = match step.phase {
            Phase::TopCreate | Phase::TopRemove => self.top(&step),
            Phase::TreeCreate | Phase::TreeRemove => self.tree(&step, &paths),
            Phase::List(_) => self.list(&paths),
            _ => self.process_items(&step, &paths),
        };
        self.paths = Some((step.iteration, paths));
        Ok(Done::new(vec![measured?]))
    }
}

impl Worker {
    /// The first process creates and removes the directory of an iteration.
    fn top(&self, step: &MdtestStep) -> Result<Measured> {
        let top = top(step.iteration);
        match (self.process.member.rank, step.phase) {
            (0, Phase::TopCreate) => self.process.files.make_dir(&top)?,
            (0, _) => self.process.files.remove_dir(&top)?,
            _ => {}
        }
        Ok(Measured::default())
    }

    /// Creates or removes the directories of the tree. In a shared tree only the first process does so, and the others
    /// have nothing to do.
    fn tree(&self, step: &MdtestStep, paths: &Paths) -> Result<Measured> {
        let directories = if self.options.unique || self.process.member.rank == 0 {
            paths.directories(self.process.member.rank)
        } else {
            &[]
        };
        // Parents are first in the list: directories are removed in the reverse order.
        measure(until_all(directories), 0, |index| match step.phase {
            Phase::TreeCreate => self.process.files.make_dir(&directories[index as usize]),
            _ => {
                let last = directories.len() - 1;
                self.process.files.remove_dir(&directories[last - index as usize])
            }
        })
    }

    /// Measures listing directories. An operation is a name, not a call.
    fn list(&self, paths: &Paths) -> Result<Measured> {
        let all = paths.directories(self.process.member.rank);
        let Member { rank, procs, .. } = self.process.member;
        let (from, step_by) =
            if self.options.unique { (0, 1) } else { (rank as usize, procs as usize) };
        let listed: Vec<_> = all.iter().skip(from).step_by(step_by).collect();
        let mut names = 0;
        let mut measured = measure(until_all(&listed), 0, |index| {
            names += self.process.files.list(listed[index as usize])?;
            Ok(())
        })?;
        measured.ops = names;
        Ok(measured)
    }

    /// Runs a phase on all items of this process.
    fn process_items(&mut self, step: &MdtestStep, paths: &Paths) -> Result<Measured> {
        let owner = self.owner(step.phase);
        let bytes = match step.phase {
            Phase::Create(Kind::File) => self.options.write_bytes,
            Phase::Read => self.options.read_bytes,
            _ => 0,
        };
        let mut path = std::mem::take(&mut self.path);
        let measured = measure(
            Until::limits(step.end.saturating_sub(step.first), step.seconds),
            bytes,
            |index| {
                let item = self.order.get(index as usize).copied().unwrap_or(step.first + index);
                let slot = Slot { rank: owner, round: step.iteration, op: item };
                paths.item(&mut path, step.phase.kind(), owner, item);
                self.process_item(step.phase, &path, slot)
            },
        );
        self.path = path;
        measured
    }

    /// The process whose items this process accesses. Each phase moves on by a stride.
    fn owner(&self, phase: Phase) -> u32 {
        let strides = match phase {
            Phase::Stat(_) => 1,
            Phase::Read => 2,
            Phase::Remove(_) => 3,
            _ => 0,
        };
        self.process.member.next(u64::from(self.options.stride) * strides)
    }

    /// Runs a phase on one item.
    fn process_item(&mut self, phase: Phase, path: &str, slot: Slot) -> Result<()> {
        match phase {
            Phase::Create(Kind::Directory) => self.process.files.make_dir(path),
            Phase::Create(Kind::File) => self.create(path, slot),
            Phase::Stat(kind) => self.stat(kind, path),
            Phase::Read => self.read(path, slot),
            Phase::Remove(Kind::Directory) => self.process.files.remove_dir(path),
            _ => self.process.files.remove(path),
        }
    }

    /// Creates a file, and writes to it if that was asked for.
    fn create(&self, path: &str, slot: Slot) -> Result<()> {
        let file = self.process.files.open(path, Use::Create)?;
        if self.options.write_bytes > 0 {
            file.write_at(
                0,
                &self.process.payload.block(slot)[..self.options.write_bytes as usize],
            )?;
        }
        if self.options.sync {
            file.sync()?;
        }
        file.close()
    }

    /// Reads the size of an item. With the option to verify, fails if a file does not have the size that was written.
    fn stat(&self, kind: Kind, path: &str) -> Result<()> {
        let size = self.process.files.stat(path)?;
        let written = self.options.write_bytes;
        let is_intact = !self.options.verify || kind == Kind::Directory || size == written;
        ensure_intact(is_intact, || format!("{path} has {size} bytes, but {written} were written"))
    }

    /// Reads a file, and checks the data if that was asked for.
    fn read(&mut self, path: &str, slot: Slot) -> Result<()> {
        let file = self.process.files.open(path, Use::Read)?;
        let wanted = self.options.read_bytes as usize;
        if wanted > 0 {
            file.read_at(0, &mut self.process.buffer[..wanted])?;
        }
        if self.options.verify {
            compare(path, 0, &self.process.buffer[..wanted], self.process.payload.block(slot))?;
        }
        file.close()
    }
}

fn until_all<T>(all: &[T]) -> Until {
    Until::ops(all.len() as u64)
}
