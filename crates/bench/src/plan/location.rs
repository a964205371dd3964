//! The pool that is measured, or the folder of plain files it is compared with.
use super::scratch::{Scratch, memory_or_temporary};
use crate::host::Host;
use crate::job::{Job, StoreJob, Workload};
use crate::load::files::{self, FilesUrl};
use crate::report::{Report, Run, Settings};
use esker::backend::NewContainer;
use esker::types::info::{Durability, OpenMode};
use esker::{Pool, Wait};
use esker_types::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// The location of a benchmark's data.
pub(super) struct Location {
    kind: Kind,
    /// The URL that workers open.
    pub(super) url: String,
    /// A directory on its medium.
    pub(super) folder: PathBuf,
    /// Every write waits for the medium (durability `commit`).
    pub(super) durable: bool,
    /// Dropped last.
    _scratch: Option<Scratch>,
}

enum Kind {
    Pool(Pool),
    Files(FilesUrl),
}

impl Location {
    /// A pool of the user, or `files:/path`.
    pub(super) fn named(name: &str) -> Result<Self> {
        let Some(files) = FilesUrl::parse(name) else {
            return Self::open(name, None, None);
        };
        files::check(&files)?;
        let (url, folder, durable) = (name.to_owned(), files.folder.clone(), files.fsync);
        Ok(Self { url, folder, durable, kind: Kind::Files(files), _scratch: None })
    }

    /// Opens a pool, with a directory on its medium: `folder`, or that of its URL. `scratch` is removed with the
    /// result.
    pub(super) fn open(
        name: &str,
        folder: Option<PathBuf>,
        scratch: Option<Scratch>,
    ) -> Result<Self> {
        let pool = Pool::connect(name, OpenMode::ReadWrite)?;
        let info = pool.info().wait()?;
        let durable = info.durability == Durability::Commit;
        let folder = folder.map_or_else(|| folder_of(&info.url), Ok)?;
        Ok(Self { kind: Kind::Pool(pool), url: info.url, folder, durable, _scratch: scratch })
    }

    /// Name in reports: the scheme of its URL.
    pub(super) fn store(&self) -> &str {
        self.url.split_once(':').map_or("esker", |(scheme, _)| scheme)
    }

    /// Number of targets; none for plain files.
    pub(super) fn targets(&self) -> Result<Option<usize>> {
        match &self.kind {
            Kind::Pool(pool) => pool.info().wait().map(|info| Some(info.targets.len())),
            Kind::Files(_) => Ok(None),
        }
    }

    /// Number of nodes of a pool over nodes; none of others.
    pub(super) fn nodes(&self) -> Result<Option<u32>> {
        let Some(map) = self.url.strip_prefix(NODES) else { return Ok(None) };
        Ok(Some(esker_nodes::Map::read(Path::new(map))?.nodes.len() as u32))
    }

    /// The pool that is measured. Fails for a location of plain files.
    pub(super) fn pool(&self) -> Result<&Pool> {
        match &self.kind {
            Kind::Pool(pool) => Ok(pool),
            Kind::Files(_) => {
                let text = "is not a pool: plain files are measured beside the pool";
                Err(Error::new(ErrorKind::Invalid, format!("{} {text}", self.url)))
            }
        }
    }

    /// Does `work` in a new container, and removes it.
    pub(super) fn in_container<T>(&self, work: impl FnOnce(&str) -> Result<T>) -> Result<T> {
        let label = container_label();
        self.create_container(&label)?;
        let done = work(&label);
        self.destroy_container(&label).and(done)
    }

    /// A job on a container of this pool. The caller sets the process, the sizes and the operations.
    pub(super) fn job(&self, container: &str, class: &str, workload: Workload) -> Job {
        let store = StoreJob {
            pool: self.url.clone(),
            container: container.to_owned(),
            class: class.to_owned(),
            workload,
        };
        Job { folder: self.folder.clone(), store: Some(store), ..Job::default() }
    }

    /// The report of runs on this pool: with the machine, the options and the properties of the pool.
    pub(super) fn report(&self, seed: u64, options: Value, runs: Vec<Run>) -> Result<Report> {
        Ok(Report::new(Host::for_folder(&self.folder)?, self.settings(seed, options)?, runs))
    }

    /// Settings with these options and the properties of the pool.
    pub(super) fn settings(&self, seed: u64, options: Value) -> Result<Settings> {
        let mut settings = Settings::new(seed, options);
        let durability = if self.durable { "commit" } else { "process" };
        let properties = [
            ("targets", json!(self.targets()?)),
            ("durability", json!(durability)),
            ("huge_pages", json!(huge_pages(&self.url)?)),
            ("write_buffer", json!(write_buffer(&self.url)?)),
        ];
        settings.options.extend(properties.map(|(name, value)| (name.to_owned(), value)));
        Ok(settings)
    }

    pub(super) fn create_container(&self, label: &str) -> Result<()> {
        match &self.kind {
            Kind::Pool(pool) => pool.create_container(&NewContainer::named(label)).wait().map(drop),
            Kind::Files(url) => files::create_container(url, label),
        }
    }

    pub(super) fn destroy_container(&self, label: &str) -> Result<()> {
        match &self.kind {
            Kind::Pool(pool) => pool.destroy_container(label, true).wait().map(drop),
            Kind::Files(url) => files::destroy_container(url, label),
        }
    }
}

/// Label of a temporary container.
pub(super) fn container_label() -> String {
    format!("esker-bench-{}", std::process::id())
}

/// Opens a native pool of this machine; `None` for the URL of another kind of pool.
fn local_pool(url: &str) -> Result<Option<esker_store::Pool>> {
    url.strip_prefix("esker:").map(|path| esker_store::Pool::open(Path::new(path))).transpose()
}

/// Share of a pool's data that is in huge pages; none if the pool is not local.
fn huge_pages(url: &str) -> Result<Option<f64>> {
    let Some(pool) = local_pool(url)? else { return Ok(None) };
    let pages = pool.opened()?.huge_pages()?;
    Ok((pages.total > 0).then(|| pages.bytes as f64 / pages.total as f64))
}

/// True if a pool has a write buffer; none if the pool is not local.
pub(super) fn write_buffer(url: &str) -> Result<Option<bool>> {
    let Some(pool) = local_pool(url)? else { return Ok(None) };
    Ok(Some(pool.opened()?.superblock.has_write_buffer()))
}

/// Scheme of the URLs of pools over nodes, whose path is that of the map.
const NODES: &str = "nodes:";

/// The directory on the medium of a pool: the path in its URL. A pool on Ceph or of DAOS is compared with files of this
/// machine, a pool over nodes with this machine's memory.
fn folder_of(url: &str) -> Result<PathBuf> {
    if url.starts_with("rados:") || url.starts_with("daos:") {
        return Ok(std::env::temp_dir());
    }
    if url.starts_with(NODES) {
        return Ok(memory_or_temporary());
    }
    let path = url.split_once(':').map(|(_, path)| Path::new(path)).filter(|path| path.is_dir());
    path.map(Path::to_owned).ok_or_else(|| {
        let message =
            format!("other processes cannot open {url}: name a pool in a directory or on Ceph");
        Error::new(ErrorKind::NotSupported, message)
    })
}
