//! Many concurrent processes in one directory and in one file of a file system. Each notes its operations and their
//! results. The test compares the notes with the rules of POSIX.
pub(crate) mod dirs;
pub(crate) mod files;
pub(crate) mod kills;
pub(crate) mod races;

use crate::common::{self, Folder, PoolKind, Shape, Worker};
use dfs::{Create, Dfs, MountOptions, NewDfs, Node, Open};
use esker::backend::NewContainer;
use esker_testing::{Random, seed};
use esker_types::{ErrorKind, Result};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Number of concurrent processes.
const WORKERS: u64 = 4;
/// Chunk size of files. It is small, so that writes cross chunk boundaries.
const CHUNK: u64 = 16 << 10;

const LABEL: &str = "tree";
const FILE: Create =
    Create { mode: 0o644, owner: None, exclusive: true, chunk_size: None, class: None, open: true };
const DIRECTORY: Create = Create { mode: 0o755, ..FILE };

/// A pool with a file system, and the notes of its workers.
struct TestTree {
    folder: Folder,
    pool: PathBuf,
    seed: u64,
}

impl TestTree {
    fn new() -> Self {
        let folder = Folder::new(PoolKind::Memory);
        let shape = Shape { segments: 64, index_bytes: 16 << 20, ..Shape::SMALL };
        let pool = common::make(&folder, "pool", PoolKind::Memory, shape);
        let container = NewContainer::named(LABEL);
        let new = NewDfs { chunk_size: CHUNK, ..NewDfs::default() };
        Dfs::create_container(&common::open(&pool), &container, &new).expect("a namespace");
        let seed = seed();
        println!("ESKER_SEED={seed}");
        Self { folder, pool, seed }
    }

    fn mount(&self) -> Dfs {
        mount(&self.pool)
    }

    /// Starts a worker with a task, which makes `rounds` rounds.
    fn start(&self, job: &str, worker: u64, rounds: u64) -> Worker {
        let (pool, folder) = (self.pool.display(), self.folder.path().display());
        let arguments = format!("{pool} {folder} {worker} {rounds} {}", self.seed);
        Worker::start(&format!("namespace-{job}"), &arguments)
    }

    /// Runs a task in all workers until they end.
    fn run(&self, job: &str, rounds: u64) {
        let mut workers: Vec<_> =
            (0..WORKERS).map(|worker| self.start(job, worker, rounds)).collect();
        workers.iter_mut().for_each(|worker| worker.finish_soon());
    }

    /// The notes of a worker, in order; a line that was truncated by a kill is dropped.
    fn history(&self, worker: u64) -> Vec<String> {
        let text = std::fs::read_to_string(history_path(self.folder.path(), worker));
        let text = text.unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        whole.lines().map(str::to_owned).collect()
    }

    fn all_histories(&self) -> Vec<String> {
        (0..WORKERS).flat_map(|worker| self.history(worker)).collect()
    }
}

fn mount(pool: &Path) -> Dfs {
    let name = format!("esker:{}", pool.display());
    Dfs::open(&name, LABEL, MountOptions::default()).expect("mounting")
}

fn history_path(folder: &Path, worker: u64) -> PathBuf {
    folder.join(format!("history-{worker}"))
}

/// Context of a worker process.
struct WorkerContext {
    fs: Dfs,
    root: Node,
    worker: u64,
    rounds: u64,
    random: Random,
    history: File,
}

impl WorkerContext {
    /// Opens the file system and the notes that the arguments of this process name.
    fn from_arguments() -> Self {
        let arguments = common::arguments();
        let number = |at: usize| arguments[at].parse::<u64>().expect("a number");
        let (worker, fs) = (number(2), mount(Path::new(&arguments[0])));
        let path = history_path(Path::new(&arguments[1]), worker);
        let history = File::options().create(true).append(true).open(path).expect("a history");
        let random = Random::new(number(4), worker + 1);
        Self { root: fs.root(), fs, worker, rounds: number(3), random, history }
    }

    /// Notes an operation after it is done.
    fn note(&mut self, what: &str) {
        self.history.write_all(format!("{what}\n").as_bytes()).expect("noting an operation");
    }
}

/// Expects that the call `what` fails with one of these errors.
fn expect_error<T>(result: Result<T>, expected: &[ErrorKind], what: &str) {
    let error = result.err().unwrap_or_else(|| panic!("{what} succeeds"));
    assert!(expected.contains(&error.kind()), "{what}: {error} ({:?})", error.kind());
}

/// Writes a file, which is created if it does not exist.
fn write_file(dir: &Node, name: &str, data: &[u8]) -> Result<()> {
    let file = dir.create(name.as_bytes(), &Create { exclusive: false, ..FILE })?;
    let file = file.open(Open::WRITE)?;
    file.write_at(0, data)?;
    file.close()
}

fn read_file(node: &Node) -> Result<Vec<u8>> {
    let file = node.open(Open::READ)?;
    let mut data = vec![0; file.size()? as usize];
    let len = file.read_at(0, &mut data)?;
    data.truncate(len);
    Ok(data)
}

fn names(dir: &Node) -> Vec<String> {
    let mut stream = dir.entries().expect("listing");
    let entries = std::iter::from_fn(|| stream.read().expect("listing on"));
    entries.map(|entry| String::from_utf8(entry.name).expect("a plain name")).collect()
}
