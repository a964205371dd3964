//! Pools that exist for one benchmark only, on this machine or over nodes whose engines all run here.
use super::Note;
use super::location::Location;
use crate::errors::Doing;
use crate::processes::start_janitor;
use crate::runner::Runner;
use clap::Args;
use esker::types::info::Durability;
use esker_cli::units::Bytes;
use esker_store::{Pool, PoolSpec};
use esker_types::Result;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Instant;

/// Name of the pool in its folder.
const LABEL: &str = "bench";

/// A temporary pool of a benchmark.
#[derive(Clone, Debug, Default, Args)]
pub struct OwnPool {
    /// Directory on the medium [default: /dev/shm, or the directory for temporary files]
    #[arg(id = "path", long, value_name = "DIR")]
    #[arg(default_value_os_t = memory_or_temporary(), hide_default_value = true)]
    pub folder: PathBuf,
    /// Number of targets of the temporary pool [default: one per core, 2 to 8]
    #[arg(long, value_name = "T")]
    pub targets: Option<u32>,
    /// Durability; chosen by the medium if not given.
    #[arg(skip)]
    pub durability: Option<Durability>,
    /// Keep the data of the temporary pool in huge pages
    #[arg(long)]
    pub huge_pages: bool,
    /// Create the temporary pool without a write buffer, which stores small puts and new extents first
    #[arg(long)]
    pub no_write_buffer: bool,
}

/// The directory in memory, or that of temporary files on machines without it.
pub fn memory_or_temporary() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() }
}

impl OwnPool {
    /// The specification of a temporary pool, with the user's options. [`spec`] computes its space from the payload in
    /// bytes and the number of index entries.
    pub(super) fn spec(&self, data_bytes: u64, entries: u64) -> PoolSpec {
        PoolSpec {
            durability: self.durability,
            huge_pages: self.huge_pages,
            write_buffer: self.no_write_buffer.then_some(false),
            ..spec(data_bytes, entries, self.targets)
        }
    }

    /// Creates and opens a temporary pool, which is removed when the result is dropped. `needs` are the bytes of data
    /// and the number of index entries.
    pub(super) fn open(&self, needs: (u64, u64), note: Note<'_>) -> Result<Location> {
        let scratch = self.make(needs, note)?;
        Location::open(&scratch.url(), Some(self.folder.clone()), Some(scratch))
    }

    /// Creates a temporary pool with space for `data_bytes` bytes of data and `entries` index entries.
    pub(super) fn make(
        &self,
        (data_bytes, entries): (u64, u64),
        note: Note<'_>,
    ) -> Result<Scratch> {
        Scratch::new(&self.folder, &self.spec(data_bytes, entries), note)
    }
}

/// A directory with a pool. A separate process removes it when this value is dropped or this process dies.
pub(super) struct Scratch {
    folder: PathBuf,
    janitor: Child,
}

impl Scratch {
    /// Makes the directory, and the pool in it.
    pub(super) fn new(within: &Path, spec: &PoolSpec, note: Note<'_>) -> Result<Self> {
        let scratch = Self::folder(within)?;
        scratch.add_pool(spec, note)?;
        Ok(scratch)
    }

    /// Makes the directory without a pool.
    pub(super) fn folder(within: &Path) -> Result<Self> {
        Self::named(within, "bench")
    }

    /// Creates a second temporary directory, for plain files.
    pub(super) fn for_plain_files(within: &Path) -> Result<Self> {
        Self::named(within, "beside")
    }

    /// A third directory, for programs that are compiled.
    pub(super) fn programs() -> Result<Self> {
        Self::named(&std::env::temp_dir(), "programs")
    }

    /// Creates a temporary folder. Another process removes it if this one is killed.
    fn named(within: &Path, name: &str) -> Result<Self> {
        let folder = within.join(format!("esker-{name}-{}", std::process::id()));
        // The janitor is started first: nothing is left even if this process is killed right after creating the
        // directory.
        let janitor = start_janitor(&folder)?;
        let mut scratch = Self { folder, janitor };
        let action = || {
            let within = within.display();
            format!("creating a temporary directory in {within}, which must exist and be writable")
        };
        std::fs::create_dir(&scratch.folder).doing(action).inspect_err(|_| {
            // An existing directory of this name is not this benchmark's, so the janitor must not remove it.
            let _ = scratch.janitor.kill();
        })?;
        Ok(scratch)
    }

    /// Creates a pool with the properties `spec` in the directory.
    pub(super) fn add_pool(&self, spec: &PoolSpec, note: Note<'_>) -> Result<()> {
        let size = Bytes(spec.size_bytes);
        note(&format!("creating a pool of {size} in {}", self.folder.display()));
        Pool::create(&self.folder, spec, &mut |_, _| {}).map(|_| ())
    }

    /// Path of the temporary directory.
    pub(super) fn path(&self) -> &Path {
        &self.folder
    }

    /// URL of the pool.
    pub(super) fn url(&self) -> String {
        format!("esker:{}", self.folder.join(LABEL).display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The janitor removes the directory when its standard input ends.
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

/// The number of targets, or the most that a pool gets if it is not given.
pub(super) fn targets_or_most(targets: Option<u32>) -> u64 {
    u64::from(targets.unwrap_or(8))
}

/// A pool for `data_bytes` of payload in `entries` index entries, with space for data that is being freed. All keys may
/// be on one target.
pub(super) fn spec(data_bytes: u64, entries: u64, targets: Option<u32>) -> PoolSpec {
    const ENTRY_BYTES: u64 = 512;
    const LEAST_BYTES: u64 = 64 << 20;
    let shards = targets_or_most(targets);
    let data = data_bytes.saturating_mul(5) / 2 + shards * LEAST_BYTES;
    let index = entries.saturating_mul(ENTRY_BYTES * shards) + LEAST_BYTES;
    let total = data.saturating_add(index);
    let percent = u128::from(index) * 100 / u128::from(total.max(1)) + 1;
    PoolSpec {
        targets,
        index_percent: Some(percent.clamp(5, 80) as u32),
        ..PoolSpec::new(LABEL, total)
    }
}

/// A pool whose engines all run on this machine. It is destroyed, and its engines end, when this value is dropped. If
/// this process dies, the engines end once the directory with their pools is removed.
pub(crate) struct Served {
    runner: Runner,
    url: String,
    start_s: f64,
}

impl Served {
    /// Creates a pool in `folder` over `nodes` nodes, with the size of `spec` on each, and starts its engines.
    pub(crate) fn new(folder: &Path, spec: &PoolSpec, nodes: u32, note: Note<'_>) -> Result<Self> {
        let folder = folder.display().to_string();
        let size = Bytes(spec.size_bytes);
        note(&format!("creating a pool in {folder}: engines: {nodes}, each with {size}"));
        let runner = Runner::new(PathBuf::new(), Vec::new())?;
        let start = Instant::now();
        runner.run(&words(spec, &folder, nodes))?;
        let url = format!("nodes:{folder}/{}.map", spec.label);
        Ok(Self { runner, url, start_s: start.elapsed().as_secs_f64() })
    }

    /// Time that the command took which created the pool and started its engines, in seconds.
    pub(crate) fn start_s(&self) -> f64 {
        self.start_s
    }

    /// URL of the pool.
    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.runner.undo(&["pool", "destroy", "--force", &self.url]);
    }
}

/// Command line that creates a pool over nodes.
fn words(spec: &PoolSpec, folder: &str, nodes: u32) -> Vec<String> {
    let (size, nodes) = (spec.size_bytes.to_string(), nodes.to_string());
    let fixed = ["pool", "create", &spec.label, "--size", &size, "--dir", folder];
    let over = ["--nodes", &nodes, "--launcher", "local"];
    let durability = spec.durability.map(|level| match level {
        Durability::Process => "process".to_owned(),
        Durability::Commit => "commit".to_owned(),
    });
    let options = [
        ("--targets", spec.targets.map(|targets| targets.to_string())),
        ("--index-percent", spec.index_percent.map(|percent| percent.to_string())),
        ("--durability", durability),
    ];
    let options = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
    let huge_pages = spec.huge_pages.then(|| "--huge-pages".to_owned());
    let fixed = fixed.into_iter().chain(over).map(str::to_owned);
    fixed.chain(options.flatten()).chain(huge_pages).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pool_has_space_for_data_and_index() {
        for (data, entries, targets) in
            [(1 << 30, 1000, None), (64 << 20, 1_000_000, Some(2)), (0, 0, Some(8))]
        {
            let spec = spec(data, entries, targets);
            let percent = u64::from(spec.index_percent.unwrap());
            assert!(spec.size_bytes * (100 - percent) / 100 >= 2 * data);
            assert!(spec.size_bytes * percent / 100 >= entries * 512);
        }
    }
}
