//! Stores of several kinds in one directory, for the duration of a benchmark.
use super::Note;
use super::scratch::Scratch;
use crate::errors::Doing;
use crate::load::files;
use crate::runner::Runner;
use esker::Pool;
use esker::types::info::{Durability, OpenMode};
use esker_store::PoolSpec;
use esker_types::{Error, ErrorKind, Result};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Environment variable with the URL of the store `rados`, and the URL if it is not set.
const RADOS: (&str, &str) = ("ESKER_BENCH_RADOS", "rados:esker");

/// Environment variable with the URL of the store `daos`, and the URL if it is not set.
const DAOS: (&str, &str) = ("ESKER_BENCH_DAOS", "daos:esker");

/// A store to measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Store {
    /// A new native pool.
    Native,
    /// A new pool of files in the layout of the 2022 paper.
    Posix,
    /// Plain files in a new directory.
    Files,
    /// The pool in a Ceph cluster that `ESKER_BENCH_RADOS` names, if there is one.
    Rados,
    /// The pool of a DAOS system that `ESKER_BENCH_DAOS` names, if there is one.
    Daos,
    /// A pool of the user.
    Pool(String),
}

impl FromStr for Store {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "native" => Self::Native,
            "posix" => Self::Posix,
            "files" => Self::Files,
            "rados" => Self::Rados,
            "daos" => Self::Daos,
            "" => return Err(Error::new(ErrorKind::Invalid, "a store has no name")),
            pool => Self::Pool(pool.to_owned()),
        })
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Native => "native",
            Self::Posix => "posix",
            Self::Files => "files",
            Self::Rados => "rados",
            Self::Daos => "daos",
            // The query of the URL has the options to connect to a cluster.
            Self::Pool(pool) => pool.split_once('?').map_or(pool.as_str(), |(name, _)| name),
        })
    }
}

impl Store {
    /// True for plain files, one per object.
    pub fn is_files(&self) -> bool {
        match self {
            Self::Pool(pool) => files::FilesUrl::parse(pool).is_some(),
            store => *store == Self::Files,
        }
    }

    /// Checks that an external store is available.
    pub fn find(&self) -> Result<()> {
        match self.outside() {
            Some(url) => Pool::connect(&url, OpenMode::ReadWrite).map(drop),
            None => Ok(()),
        }
    }

    /// URL of an external store, which a machine may lack; none for other stores.
    fn outside(&self) -> Option<String> {
        let (variable, usual) = match self {
            Self::Rados => RADOS,
            Self::Daos => DAOS,
            _ => return None,
        };
        let named = std::env::var(variable).ok().filter(|url| !url.is_empty());
        Some(named.unwrap_or_else(|| usual.to_owned()))
    }
}

/// A directory with stores. It is removed when this value is dropped or its process dies.
pub struct WorkDir {
    scratch: Scratch,
    fsync: bool,
}

impl WorkDir {
    /// Creates the stores in a new directory below `folder`; `spec` is that of a native pool.
    pub fn new(folder: &Path, stores: &[Store], spec: &PoolSpec, note: Note<'_>) -> Result<Self> {
        let scratch = Scratch::folder(folder)?;
        let work_dir = Self { scratch, fsync: spec.durability == Some(Durability::Commit) };
        if stores.contains(&Store::Native) {
            work_dir.scratch.add_pool(spec, note)?;
        }
        if stores.contains(&Store::Posix) {
            work_dir.runner()?.run(&["pool", "create", &work_dir.bare_url("posix")])?;
        }
        if stores.contains(&Store::Files) {
            let files = work_dir.scratch.path().join("files");
            std::fs::create_dir(&files).doing(|| format!("creating {}", files.display()))?;
        }
        Ok(work_dir)
    }

    /// Returns a runner of benchmarks that writes reports to this directory.
    pub fn runner(&self) -> Result<Runner> {
        Runner::new(self.scratch.path().to_owned(), Vec::new())
    }

    /// The directory.
    pub(crate) fn folder(&self) -> &Path {
        self.scratch.path()
    }

    /// The URL of a store.
    pub fn url(&self, store: &Store) -> String {
        match store {
            Store::Native => self.scratch.url(),
            Store::Posix => self.url_of("posix"),
            Store::Files => self.url_of("files"),
            Store::Pool(pool) => pool.clone(),
            Store::Rados | Store::Daos => store.outside().unwrap_or_default(),
        }
    }

    /// URL of the store in the directory `scheme`, with the option to sync if every write must wait for the medium.
    fn url_of(&self, scheme: &str) -> String {
        let fsync = if self.fsync { "?fsync=on" } else { "" };
        format!("{}{fsync}", self.bare_url(scheme))
    }

    fn bare_url(&self, scheme: &str) -> String {
        format!("{scheme}:{}", self.scratch.path().join(scheme).display())
    }
}
