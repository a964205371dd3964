//! Names of pools: this module resolves labels, UUIDs and URLs to pools.
//!
//! | name | meaning |
//! |---|---|
//! | `tank` | the native or posix pool with this label in one of the pool directories, or the pool with the map `tank.map` there |
//! | a UUID | the pool with this UUID in one of them |
//! | `esker:/path/to/tank` | the native pool in that directory |
//! | `posix:/path/to/tank` | the posix pool in that directory, on any file system; `?fsync=on` syncs writes |
//! | `rados:POOL?conf=FILE` | the Esker pool in a Ceph pool (`RadosUrl`), created by its first write |
//! | `daos:POOL` | the pool with this label or UUID of a genuine DAOS system (`DaosUrl`) |
//! | `nodes:/path/to/tank.map` | the pool over nodes with this map |
//! | `memory:name` | a pool in this process's memory, created when it is first opened |
use crate::config::{Config, config};
use esker_backend::Pool;
use esker_native::Native;
#[cfg(feature = "nodes")]
use esker_nodes::{Map, ShardedPool};
#[cfg(feature = "posix")]
use esker_posix::{Posix, PosixPool, PosixUrl};
use esker_store::Superblock;
use esker_types::info::{OpenMode, Part};
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::env;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Environment variable with the pool directories, separated by colons. New pools are created in the first.
pub const POOLS_VARIABLE: &str = "ESKER_POOLS";

/// Environment variable with the name of the node on which this process runs, as in the pool's map. The process works
/// directly on the pool of this node only or, for `none`, of no node. By default, it works directly on all nodes' pools
/// that this machine has.
#[cfg(feature = "nodes")]
pub const NODE_VARIABLE: &str = "ESKER_NODE";

/// Directories that are searched for pools: those of [`POOLS_VARIABLE`], otherwise those of the
/// [configuration](crate::config), otherwise `esker/pools` in the user's data directory (`XDG_DATA_HOME`,
/// `~/.local/share`).
#[must_use]
pub fn pool_directories() -> Vec<PathBuf> {
    let named = env::var_os(POOLS_VARIABLE).unwrap_or_default();
    let named: Vec<PathBuf> =
        env::split_paths(&named).filter(|path| !path.as_os_str().is_empty()).collect();
    if !named.is_empty() {
        return named;
    }
    let configured = config().map(Config::pools).unwrap_or_default();
    if !configured.is_empty() {
        return configured;
    }
    let home = || env::var_os("HOME").map(|home| PathBuf::from(home).join(".local/share"));
    let data = env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
    data.or_else(home).map(|data| data.join("esker").join("pools")).into_iter().collect()
}

/// The default directory for new pools: the first of [`pool_directories`].
///
/// # Errors
/// `BadPath` if none is known; those of [`config`].
pub fn new_pool_directory() -> Result<PathBuf> {
    config()?;
    pool_directories().into_iter().next().ok_or_else(|| {
        let message = format!(
            "no directory for pools is known: set {POOLS_VARIABLE} or HOME, or name a directory"
        );
        Error::new(ErrorKind::BadPath, message)
    })
}

/// Returns the paths in the pool directories that may be pools. Skips unfinished pools, and paths that lead through
/// another user's link.
fn candidates() -> impl Iterator<Item = PathBuf> {
    let entries = pool_directories().into_iter().filter_map(|path| path.read_dir().ok()).flatten();
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let is_trusted = |path: &PathBuf| esker_os::resolve_links(path).is_ok();
    paths.filter(|path| !esker_os::directory::is_unfinished(path)).filter(is_trusted)
}

/// All native pools in the pool directories, sorted by path. Entries that are not pools or are not readable are
/// skipped, and so are nodes' pools of pools over nodes.
#[must_use]
pub fn list() -> Vec<(PathBuf, Superblock)> {
    let mut pools: Vec<_> = candidates()
        .filter_map(|path| Superblock::read(&path).ok().map(|pool| (path, pool)))
        .filter(|(_, pool)| pool.part == Part::WHOLE)
        .collect();
    pools.sort_by(|(a, _), (b, _)| a.cmp(b));
    pools
}

/// All posix pools in the pool directories, sorted by path.
#[cfg(feature = "posix")]
#[must_use]
pub fn list_posix() -> Vec<(PathBuf, PosixPool)> {
    let mut pools: Vec<_> = candidates()
        .filter_map(|path| PosixPool::read(&path).ok().map(|pool| (path, pool)))
        .collect();
    pools.sort_by(|(a, _), (b, _)| a.cmp(b));
    pools
}

/// The maps of all pools over nodes in the pool directories, sorted by path. Those that are not readable are skipped.
#[cfg(feature = "nodes")]
#[must_use]
pub fn list_nodes() -> Vec<(PathBuf, Map)> {
    let is_map = |path: &PathBuf| path.to_string_lossy().ends_with(esker_nodes::MAP_SUFFIX);
    let mut maps: Vec<_> = candidates()
        .filter(is_map)
        .filter_map(|path| Map::read(&path).ok().map(|map| (path, map)))
        .collect();
    maps.sort_by(|(a, _), (b, _)| a.cmp(b));
    maps
}

/// Target of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A native pool, by its directory.
    Native(PathBuf),
    /// A posix pool.
    #[cfg(feature = "posix")]
    Posix(PosixUrl),
    /// A pool over nodes, by its map.
    #[cfg(feature = "nodes")]
    Nodes(PathBuf),
}

impl Named {
    /// The directory of the pool, or the map of one over nodes.
    #[must_use]
    pub fn path(&self) -> &Path {
        match self {
            Self::Native(path) => path,
            #[cfg(feature = "posix")]
            Self::Posix(PosixUrl { path, .. }) => path,
            #[cfg(feature = "nodes")]
            Self::Nodes(path) => path,
        }
    }

    /// The kind of the pool at a path: over nodes (a map file), posix, or native if it is neither.
    fn at(path: PathBuf) -> Self {
        #[cfg(feature = "nodes")]
        if path.to_string_lossy().ends_with(esker_nodes::MAP_SUFFIX) && path.is_file() {
            return Self::Nodes(path);
        }
        #[cfg(feature = "posix")]
        if PosixPool::is_at(&path) {
            return Self::Posix(PosixUrl { path, fsync: None });
        }
        Self::Native(path)
    }
}

/// The pool in a directory with this label, UUID, or `esker:`, `posix:` or `nodes:` URL.
///
/// # Errors
/// `NotFound` if there is none; `BadPath` for a URL with another scheme; those of [`config`] for a label or a UUID.
pub fn resolve(name: &str) -> Result<Named> {
    #[cfg(feature = "posix")]
    if let Some(url) = PosixUrl::parse(name)? {
        return Ok(Named::Posix(url));
    }
    #[cfg(feature = "nodes")]
    if let Some(path) = name.strip_prefix("nodes:") {
        return Ok(Named::Nodes(PathBuf::from(path.strip_prefix("//").unwrap_or(path))));
    }
    if let Some(path) = name.strip_prefix("esker:") {
        return Ok(Named::at(PathBuf::from(path.strip_prefix("//").unwrap_or(path))));
    }
    if name.starts_with("rados:") {
        let message = "a pool on Ceph has no directory: `esker cont destroy` removes its containers, and Ceph itself \
                       checks for damage (`ceph health detail`)";
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    if name.starts_with("daos:") && !name.starts_with("daos://") {
        let message = "a pool of a DAOS system has no directory: `dmg pool create` and `dmg pool destroy` make and \
                       remove it, and DAOS itself checks for damage";
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    if let Some((scheme, _)) = name.split_once(':') {
        let message = format!(
            "there is no kind of pool `{scheme}:`: write esker:/path, posix:/path, nodes:/path/POOL.map, \
             rados:CEPH_POOL or daos:POOL"
        );
        return Err(Error::new(ErrorKind::BadPath, message));
    }
    config()?;
    let found = match Uuid::parse(name) {
        Some(uuid) => by_uuid(uuid),
        None => by_label(name),
    };
    found.map(Named::at).ok_or_else(|| unknown_pool_error(name))
}

/// Directory of the native pool with this label, UUID or `esker:` URL.
///
/// # Errors
/// The errors of [`resolve`]; `NotSupported` for a posix pool.
pub fn find(name: &str) -> Result<PathBuf> {
    match resolve(name)? {
        Named::Native(path) => Ok(path),
        #[cfg(feature = "nodes")]
        Named::Nodes(path) => Err(Error::new(
            ErrorKind::NotSupported,
            format!(
                "{name} is a pool over nodes: this works on the pool of one node at a time; {} has their directories",
                path.display()
            ),
        )),
        #[cfg(feature = "posix")]
        Named::Posix(_) => Err(Error::new(
            ErrorKind::NotSupported,
            format!(
                "{name} is a posix pool, of plain files: this works on native pools only, which `esker pool create \
                 LABEL` makes"
            ),
        )),
    }
}

/// The path of the pool with this UUID, of any kind that is found in the directories of pools.
fn by_uuid(uuid: Uuid) -> Option<PathBuf> {
    let native = list().into_iter().find(|(_, pool)| pool.uuid == uuid).map(|(path, _)| path);
    #[cfg(feature = "nodes")]
    let native = native.or_else(|| {
        let map = list_nodes().into_iter().find(|(_, map)| map.uuid == uuid);
        map.map(|(path, _)| path)
    });
    #[cfg(feature = "posix")]
    let native = native.or_else(|| {
        let posix = list_posix().into_iter().find(|(_, pool)| pool.uuid == uuid);
        posix.map(|(path, _)| path)
    });
    native
}

/// The path of the first pool or map with this label in the directories of pools. `None` if there is none, or the name
/// is a path.
fn by_label(name: &str) -> Option<PathBuf> {
    let plain = !name.is_empty() && !name.contains('/') && name != "." && name != "..";
    let in_directory = |directory: PathBuf| {
        let pool = Some(directory.join(name)).filter(|path| is_pool(path));
        #[cfg(feature = "nodes")]
        let pool = pool.or_else(|| Some(Map::path(&directory, name)).filter(|map| map.is_file()));
        pool
    };
    plain.then(|| pool_directories().into_iter().find_map(in_directory)).flatten()
}

/// True for a directory of a pool, or one that only other users may read: opening it then fails with that reason.
fn is_pool(path: &Path) -> bool {
    #[cfg(feature = "posix")]
    if PosixPool::is_at(path) {
        return true;
    }
    let found = path.join("pool").metadata();
    found.map_or_else(|error| error.kind() == std::io::ErrorKind::PermissionDenied, |_| true)
}

/// The error for a label or UUID that no pool in the directories has.
fn unknown_pool_error(name: &str) -> Error {
    let paths: Vec<String> =
        pool_directories().iter().map(|path| path.display().to_string()).collect();
    Error::new(
        ErrorKind::NotFound,
        format!(
            "no pool {name:?} in {}: `esker pool list` lists the pools, {POOLS_VARIABLE} \
             sets the directories to search",
            paths.join(":")
        ),
    )
}

/// Opens the pool with this label, UUID or URL, by the backend that the name belongs to.
pub(crate) fn connect(name: &str, mode: OpenMode) -> Result<Arc<dyn Pool>> {
    #[cfg(feature = "memory")]
    if let Some(name) = name.strip_prefix("memory:") {
        return Ok(Arc::new(esker_backend::memory::Memory::named(name)));
    }
    #[cfg(feature = "rados")]
    if let Some(url) = crate::RadosUrl::parse(name)? {
        return Ok(Arc::new(crate::Rados::open(&url, mode)?));
    }
    #[cfg(feature = "daos")]
    if let Some(url) = crate::DaosUrl::parse(name)? {
        return Ok(Arc::new(crate::Daos::open(&url, mode)?));
    }
    Ok(match resolve(name)? {
        Named::Native(path) => {
            let pool = Native::open(&path, mode)?;
            refuse_part(&path, pool.part())?;
            Arc::new(pool)
        }
        #[cfg(feature = "nodes")]
        Named::Nodes(path) => Arc::new(open_nodes(&path, mode)?),
        #[cfg(feature = "posix")]
        Named::Posix(url) => Arc::new(Posix::open(&url, mode)?),
    })
}

/// Fails if the pool is that of one node of a pool over nodes: on its own, it would show only the keys of that node.
fn refuse_part(path: &Path, part: Part) -> Result<()> {
    if part == Part::WHOLE {
        return Ok(());
    }
    let message = format!(
        "{} is the pool of node {}, part of a pool over nodes: open the pool over nodes by its map",
        path.display(),
        part.node
    );
    Err(Error::new(ErrorKind::BadPath, message))
}

/// The map of a pool over nodes, and its path without symbolic links.
///
/// # Errors
/// Errors of [`esker_os::resolve_links`], and of reading a map.
#[cfg(feature = "nodes")]
pub fn read_map(path: &Path) -> Result<(PathBuf, Map)> {
    let path = match esker_os::resolve_links(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        resolved => resolved?,
    };
    let map = Map::read(&path)?;
    Ok((path, map))
}

/// Opens a pool over nodes by its map, which is at `path`. The pools of nodes that are on this machine are opened
/// directly, without the network; the variable in `NODE_VARIABLE` limits this to one node.
///
/// # Errors
/// `NotSupported` for `OpenMode::Exclusive`, because the engines have the pool open.
#[cfg(feature = "nodes")]
fn open_nodes(path: &Path, mode: OpenMode) -> Result<ShardedPool> {
    if mode == OpenMode::Exclusive {
        let message = "a pool over nodes cannot be opened exclusively: its engines have it open";
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    let (path, map) = read_map(path)?;
    let here = env::var(NODE_VARIABLE).ok();
    let mut own: Vec<(u32, Arc<dyn Pool>)> = Vec::new();
    for (number, node) in map.nodes.iter().enumerate() {
        let is_named = here.as_ref().is_none_or(|here| *here == node.name);
        if is_named && Superblock::read(&node.directory).is_ok_and(|part| part.uuid == node.uuid) {
            own.push((number as u32, Arc::new(Native::open(&node.directory, mode)?)));
        }
    }
    ShardedPool::open(&map, &path, own)
}

#[cfg(test)]
mod tests {
    #[cfg(feature = "posix")]
    #[test]
    fn fuzz_urls() {
        esker_testing::fuzz("url", &[], |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let _ = crate::PosixUrl::parse(&text);
            #[cfg(feature = "rados")]
            let _ = crate::RadosUrl::parse(&text);
            #[cfg(feature = "daos")]
            let _ = crate::DaosUrl::parse(&text);
        });
    }
}
