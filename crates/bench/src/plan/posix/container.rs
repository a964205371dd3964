//! A container with a file system, for the duration of a benchmark.
use super::super::Note;
use super::super::location::write_buffer;
use super::super::scratch::{OwnPool, Scratch, Served};
use crate::posix::FileLocation;
use dfs::{Dfs, Follow, MountOptions, NewDfs};
use esker::backend::NewContainer;
use esker::types::info::{OpenMode, Space};
use esker::{Pool, Wait};
use esker_cli::units::Bytes;
use esker_types::Result;
use std::path::{Path, PathBuf};

/// A file system in a container.
#[derive(Clone, Debug)]
pub struct DfsSubject {
    /// Pool of the user; none for a temporary one.
    pub pool: Option<String>,
    /// Container of the user; none for a temporary one.
    pub container: Option<String>,
    /// Directory of the files in it.
    pub folder: String,
    /// Remove all files, however the benchmark ends. Otherwise they may belong to earlier or later runs.
    pub cleared: bool,
    /// Options of a new container.
    pub new: NewDfs,
    /// Options of a new pool.
    pub own: OwnPool,
    /// Nodes of a temporary pool, which is accessed through engines of this machine only, as from another node.
    pub nodes: Option<u32>,
    /// Bytes in the files of all processes together.
    pub bytes: u64,
    /// Files and directories of all processes together.
    pub entries: u64,
}

/// The pool and container. Temporary ones are removed when this value is dropped.
pub(super) struct OpenContainer {
    pool: Pool,
    url: String,
    medium: PathBuf,
    label: String,
    made: bool,
    folder: String,
    /// The directory is only of this run, in a container of the user.
    is_own_folder: bool,
    /// Dropped last: it destroys the pool.
    served: Option<Served>,
}

/// An index entry is counted for each chunk of a file or, in larger chunks, for each part of this size.
const CHUNK_ENTRIES_MIN_BYTES: u64 = 64 << 10;

impl OpenContainer {
    /// Opens the pool and the container that are named; those that are not named are created for the benchmark. The
    /// temporary directory holds a created pool.
    pub(super) fn new(subject: &DfsSubject, note: Note<'_>) -> Result<(Self, Option<Scratch>)> {
        let (name, served, scratch) = subject.pool(note)?;
        let medium = match &subject.pool {
            Some(name) => esker::names::resolve(name)?.path().to_owned(),
            None => subject.own.folder.clone(),
        };
        let pool = Pool::connect(&name, OpenMode::ReadWrite)?;
        let url = pool.info().wait()?.url;
        let made = subject.container.is_none();
        let own = || format!("esker-bench-{}", std::process::id());
        let label = subject.container.clone().unwrap_or_else(own);
        if made {
            let new = NewContainer::named(&label);
            Dfs::create_container(&pool, &new, &subject.new)?;
        }
        let is_own_folder = subject.cleared && !made;
        let mut folder = subject.folder.clone();
        if is_own_folder {
            folder = format!("{folder}/esker-bench-{}", std::process::id());
        }
        let folder = folder.trim_matches('/').to_owned();
        Ok((Self { pool, url, medium, label, made, folder, is_own_folder, served }, scratch))
    }

    pub(super) fn location(&self) -> FileLocation {
        let (pool, container) = (self.url.clone(), self.label.clone());
        FileLocation::Dfs { pool, container, folder: self.folder.clone() }
    }

    /// Removes the directory of this run, which an interrupted run leaves with files.
    fn remove_folder(&self) -> Result<()> {
        let (parent, name) = self.folder.rsplit_once('/').unwrap_or(("", &self.folder));
        let fs = Dfs::open(&self.url, &self.label, MountOptions::default())?;
        let parent = fs.resolve(&fs.root(), format!("/{parent}").as_bytes(), Follow::All)?;
        parent.remove_tree(name.as_bytes()).map(drop)
    }

    /// Names of the pool and container on command lines.
    pub(super) fn names(&self) -> (&str, &str) {
        (&self.url, &self.label)
    }

    /// Description for the report.
    pub(super) fn about(&self) -> String {
        let targets = self.pool.info().wait().map_or(0, |info| info.targets.len());
        let size: u64 = self.spaces().iter().map(|space| space.data_total).sum();
        let size = Bytes(size);
        let buffer = if self.write_buffer() == Some(true) { ", write buffer" } else { "" };
        let (label, url) = (&self.label, &self.url);
        format!("container {label} in {url} ({targets} targets, {size} for data{buffer})")
    }

    /// True if the pool has a write buffer; none if the pool is not local.
    pub(super) fn write_buffer(&self) -> Option<bool> {
        write_buffer(&self.url).unwrap_or(None)
    }

    /// Time until the engines of a temporary pool had started, in seconds.
    pub(super) fn start_s(&self) -> Option<f64> {
        self.served.as_ref().map(Served::start_s)
    }

    pub(super) fn medium(&self) -> &Path {
        &self.medium
    }

    /// Bytes used of the index; `None` if the pool does not say.
    pub(super) fn index_bytes(&self) -> Option<u64> {
        let spaces = self.spaces();
        let used = |space: &Space| space.index_total.saturating_sub(space.index_free);
        (!spaces.is_empty()).then(|| spaces.iter().map(used).sum())
    }

    fn spaces(&self) -> Vec<Space> {
        self.pool.info().wait().map(|info| info.targets).unwrap_or_default()
    }
}

impl DfsSubject {
    /// Name of the pool; a temporary one is created. With it are returned the engines of a pool over nodes, and the
    /// directory of a temporary pool.
    fn pool(&self, note: Note<'_>) -> Result<(String, Option<Served>, Option<Scratch>)> {
        match (&self.pool, self.nodes) {
            (Some(name), _) => Ok((name.clone(), None, None)),
            (None, None) => {
                let scratch = Scratch::new(&self.own.folder, &self.spec(), note)?;
                Ok((scratch.url(), None, Some(scratch)))
            }
            (None, Some(nodes)) => {
                let scratch = Scratch::folder(&self.own.folder)?;
                let served = Served::new(scratch.path(), &self.spec(), nodes, note)?;
                Ok((served.url(), Some(served), Some(scratch)))
            }
        }
    }

    /// Size and options of the temporary pool, so that it can hold all files. Each file, directory and chunk counts as
    /// two index entries.
    fn spec(&self) -> esker_store::PoolSpec {
        let cores = std::thread::available_parallelism().map_or(2, usize::from);
        let targets = self.own.targets.unwrap_or(cores.clamp(2, 8) as u32);
        let chunks = self.bytes / CHUNK_ENTRIES_MIN_BYTES.min(self.new.chunk_size).max(1);
        let entries = (self.entries + chunks).saturating_mul(2);
        // Nodes do not hold exactly the same share.
        let share = |all: u64| match self.nodes {
            Some(nodes) if nodes > 1 => all.saturating_mul(2) / u64::from(nodes),
            _ => all,
        };
        OwnPool { targets: Some(targets), ..self.own.clone() }
            .spec(share(self.bytes), share(entries))
    }
}

impl Drop for OpenContainer {
    fn drop(&mut self) {
        if self.made {
            let _ = self.pool.destroy_container(&self.label, true).wait();
        }
        if self.is_own_folder {
            let _ = self.remove_folder();
        }
    }
}
