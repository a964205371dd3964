//! The pool that is measured, or the folder of plain files it is compared with.
use super::scratch::Scratch;
use crate::load::files::{self, FilesUrl};
use esker::backend::NewContainer;
use esker::types::info::{Durability, OpenMode};
use esker::{Pool, Wait};
use esker_types::Result;
use std::path::{Path, PathBuf};

/// Where data of a benchmark goes.
pub(super) struct Site {
    kind: Kind,
    /// What workers open.
    pub(super) url: String,
    /// A folder on its medium.
    pub(super) folder: PathBuf,
    /// Every write waits for the medium.
    pub(super) durable: bool,
    /// Dropped last.
    _scratch: Option<Scratch>,
}

enum Kind {
    Pool(Pool),
    Files(FilesUrl),
}

impl Site {
    /// A pool of the user's, or `files:/path`.
    pub(super) fn named(name: &str) -> Result<Self> {
        let Some(url) = FilesUrl::parse(name) else {
            let folder = esker::names::resolve(name)?.path().to_owned();
            return Self::open(name, folder, None);
        };
        files::check(&url)?;
        Ok(Self {
            url: name.to_owned(),
            folder: url.folder.clone(),
            durable: url.fsync,
            kind: Kind::Files(url),
            _scratch: None,
        })
    }

    /// A pool with a folder on its medium.
    pub(super) fn open(name: &str, folder: PathBuf, scratch: Option<Scratch>) -> Result<Self> {
        let pool = Pool::connect(name, OpenMode::ReadWrite)?;
        let info = pool.info().wait()?;
        let durable = info.durability == Durability::Commit;
        Ok(Self { kind: Kind::Pool(pool), url: info.url, folder, durable, _scratch: scratch })
    }

    /// Its name in reports: the scheme of its URL.
    pub(super) fn store(&self) -> &str {
        self.url.split_once(':').map_or("esker", |(scheme, _)| scheme)
    }

    /// How many targets it has; none where there is no such thing.
    pub(super) fn targets(&self) -> Result<Option<usize>> {
        match &self.kind {
            Kind::Pool(pool) => pool.info().wait().map(|info| Some(info.targets.len())),
            Kind::Files(_) => Ok(None),
        }
    }

    /// Share of its data that is in huge pages; none where there is no pool of this machine.
    pub(super) fn huge_pages(&self) -> Result<Option<f64>> {
        huge_pages(&self.url)
    }

    /// The pool; none where there are plain files.
    pub(super) fn pool(&self) -> Option<&Pool> {
        match &self.kind {
            Kind::Pool(pool) => Some(pool),
            Kind::Files(_) => None,
        }
    }

    pub(super) fn create_container(&self, label: &str) -> Result<()> {
        match &self.kind {
            Kind::Pool(pool) => {
                let new = NewContainer::named(label);
                pool.create_container(&new).wait().map(|_| ())
            }
            Kind::Files(url) => files::create_container(url, label),
        }
    }

    pub(super) fn destroy_container(&self, label: &str) -> Result<()> {
        match &self.kind {
            Kind::Pool(pool) => pool.destroy_container(label, true).wait().map(|_| ()),
            Kind::Files(url) => files::destroy_container(url, label),
        }
    }
}

/// Share of the data of a pool that is in huge pages; none where it is no pool in the memory of this machine.
pub(super) fn huge_pages(url: &str) -> Result<Option<f64>> {
    let Some(path) = url.strip_prefix("esker:") else { return Ok(None) };
    let pages = esker_store::Pool::open(Path::new(path))?.opened()?.huge_pages()?;
    Ok((pages.total > 0).then(|| pages.bytes as f64 / pages.total as f64))
}
