//! How pools are named: the one place where a label, UUID or URL becomes a pool.
//!
//! | name | what it means |
//! |---|---|
//! | `tank` | the pool of this label, native or of files, in one of the pool directories |
//! | a UUID | the pool of this id there |
//! | `esker:/path/to/tank` | the pool in that directory |
//! | `posix:/path/to/tank` | the pool of files in that directory, on any file system; `?fsync=on` syncs |
//! | `rados:POOL?conf=FILE` | the pool in a pool of Ceph (`RadosUrl`), made when it is first written to |
//! | `memory:name` | a pool in this process's memory, made when first named |
use esker_backend::Pool;
use esker_native::Native;
#[cfg(feature = "posix")]
use esker_posix::{Posix, PosixPool, PosixUrl};
use esker_store::Superblock;
use esker_types::info::OpenMode;
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Variable with the pool directories, separated by colons; a new pool goes into the first.
pub const POOLS_VARIABLE: &str = "ESKER_POOLS";

/// Directories that pools are looked for in: those of [`POOLS_VARIABLE`], else `esker/pools` in the
/// user's data directory (`XDG_DATA_HOME`, `~/.local/share`).
#[must_use]
pub fn pool_directories() -> Vec<PathBuf> {
    let named = env::var_os(POOLS_VARIABLE).unwrap_or_default();
    let named: Vec<PathBuf> =
        env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if !named.is_empty() {
        return named;
    }
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let data = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    data.or_else(home).map(|data| data.join("esker").join("pools")).into_iter().collect()
}

/// Where a new pool goes unless its maker says so: the first of [`pool_directories`].
///
/// # Errors
/// `BadPath` where there is none.
pub fn new_pool_directory() -> Result<PathBuf> {
    pool_directories().into_iter().next().ok_or_else(|| {
        let message =
            format!("there is no place for pools: set {POOLS_VARIABLE} or HOME, or name one");
        Error::new(ErrorKind::BadPath, message)
    })
}

/// What may be pools.
fn candidates() -> impl Iterator<Item = PathBuf> {
    let entries = pool_directories().into_iter().filter_map(|path| path.read_dir().ok()).flatten();
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths.filter(|path| !esker_os::directory::is_unfinished(path))
}

/// All pools in the pool directories, by path. What is no pool, or cannot be read, is left out.
#[must_use]
pub fn list() -> Vec<(PathBuf, Superblock)> {
    let mut pools: Vec<_> = candidates()
        .filter_map(|path| Superblock::read(&path).ok().map(|pool| (path, pool)))
        .collect();
    pools.sort_by(|(a, _), (b, _)| a.cmp(b));
    pools
}

/// All pools of files in the pool directories, by path.
#[cfg(feature = "posix")]
#[must_use]
pub fn list_posix() -> Vec<(PathBuf, PosixPool)> {
    let mut pools: Vec<_> = candidates()
        .filter_map(|path| PosixPool::read(&path).ok().map(|pool| (path, pool)))
        .collect();
    pools.sort_by(|(a, _), (b, _)| a.cmp(b));
    pools
}

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A pool of this machine, by its directory.
    Native(PathBuf),
    /// A pool of files.
    #[cfg(feature = "posix")]
    Posix(PosixUrl),
}

impl Named {
    /// The directory of the pool.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Native(path) => path,
            #[cfg(feature = "posix")]
            Self::Posix(PosixUrl { path, .. }) => path,
        }
    }

    fn at(path: PathBuf) -> Self {
        #[cfg(feature = "posix")]
        if PosixPool::is_at(&path) {
            return Self::Posix(PosixUrl { path, fsync: None });
        }
        Self::Native(path)
    }
}

/// The pool in a directory that has this label, UUID, or `esker:` or `posix:` URL.
///
/// # Errors
/// `NotFound` where there is none; `BadPath` for a URL of another sort.
pub fn resolve(name: &str) -> Result<Named> {
    #[cfg(feature = "posix")]
    if let Some(url) = PosixUrl::parse(name)? {
        return Ok(Named::Posix(url));
    }
    if let Some(path) = name.strip_prefix("esker:") {
        return Ok(Named::at(PathBuf::from(path.strip_prefix("//").unwrap_or(path))));
    }
    if name.starts_with("rados:") {
        let message = "a pool on Ceph lies in no directory: `esker cont destroy` removes what is in it, and Ceph itself \
                       looks for damage (`ceph health detail`)";
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    if let Some((scheme, _)) = name.split_once(':') {
        let message = format!(
            "`{scheme}:` is no URL of a pool in a directory: use `esker:/path` or `posix:/path`"
        );
        return Err(Error::new(ErrorKind::BadPath, message));
    }
    let found = match Uuid::parse(name) {
        Some(uuid) => by_uuid(uuid),
        None => by_label(name),
    };
    found.map(Named::at).ok_or_else(|| unknown(name))
}

/// Directory of the pool of this machine that has this label, UUID or `esker:` URL.
///
/// # Errors
/// As [`resolve`]; `NotSupported` for a pool of files, which has nothing of what this is asked for.
pub fn find(name: &str) -> Result<PathBuf> {
    match resolve(name)? {
        Named::Native(path) => Ok(path),
        #[cfg(feature = "posix")]
        Named::Posix(_) => Err(Error::new(
            ErrorKind::NotSupported,
            format!("{name} is a pool of files (posix): this is for pools of this machine only"),
        )),
    }
}

fn by_uuid(uuid: Uuid) -> Option<PathBuf> {
    let native = list().into_iter().find(|(_, pool)| pool.uuid == uuid).map(|(path, _)| path);
    #[cfg(feature = "posix")]
    let native = native.or_else(|| {
        let posix = list_posix().into_iter().find(|(_, pool)| pool.uuid == uuid);
        posix.map(|(path, _)| path)
    });
    native
}

fn by_label(name: &str) -> Option<PathBuf> {
    let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    let mut places = pool_directories().into_iter().map(|directory| directory.join(name));
    places.find(|path| plain && is_pool(path))
}

fn is_pool(path: &Path) -> bool {
    #[cfg(feature = "posix")]
    if PosixPool::is_at(path) {
        return true;
    }
    path.join("pool").exists()
}

fn unknown(name: &str) -> Error {
    let places: Vec<String> =
        pool_directories().iter().map(|path| path.display().to_string()).collect();
    Error::new(
        ErrorKind::NotFound,
        format!(
            "there is no pool {name} in {}: `esker pool list` shows those there are, {POOLS_VARIABLE} \
             says where to look",
            places.join(":")
        ),
    )
}

/// Opens the pool of this name.
pub(crate) fn connect(name: &str, mode: OpenMode) -> Result<Arc<dyn Pool>> {
    #[cfg(feature = "memory")]
    if let Some(name) = name.strip_prefix("memory:") {
        return Ok(Arc::new(esker_memory::Memory::named(name)));
    }
    #[cfg(feature = "rados")]
    if let Some(url) = crate::RadosUrl::parse(name)? {
        return Ok(Arc::new(crate::Rados::open(&url, mode)?));
    }
    Ok(match resolve(name)? {
        Named::Native(path) => Arc::new(Native::open(&path, mode)?),
        #[cfg(feature = "posix")]
        Named::Posix(url) => Arc::new(Posix::open(&url, mode)?),
    })
}
