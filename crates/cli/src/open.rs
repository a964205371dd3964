//! Names of pools and containers on the command line, and opening them.
use crate::args::{ContainerArg, ObjectArg, PoolArg, SnapshotArg};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, ObjectId, ObjectType, Result};
use esker::{Access, Container, LAYOUTS, Pool, PosixPool, Wait, names};
use std::borrow::Cow;

impl PoolArg {
    /// Opens the pool.
    pub(crate) fn open(&self, mode: OpenMode) -> Result<Pool> {
        Pool::connect(&self.pool, mode).map_err(|error| match as_one(&self.pool) {
            _ if self.pool.starts_with(['/', '.']) => {
                let message =
                    format!("{0} is a path: write esker:{0} for the pool there", self.pool);
                Error::new(ErrorKind::NotFound, message)
            }
            Some((pool, _)) if error.kind() == ErrorKind::NotFound => {
                let message =
                    format!("{} names a container: this takes a pool, such as {pool}", self.pool);
                Error::new(ErrorKind::NotFound, message)
            }
            _ => error,
        })
    }

    /// Opens the pool. The index pages of a pool of this machine are checked first.
    pub(crate) fn open_sound(&self, mode: OpenMode) -> Result<Pool> {
        if let Ok(path) = names::find(&self.pool) {
            esker_store::Pool::check_pages(&path)?;
        }
        self.open(mode)
    }
}

impl ContainerArg {
    /// Opens the container.
    pub(crate) fn open(&self, mode: OpenMode) -> Result<Container> {
        self.pool.open(mode)?.open_container(&self.container, mode).wait()
    }
}

impl ObjectArg {
    /// Opens the container, and finds the object in it. An object given by name is of type `otype`.
    pub(crate) fn open(&self, mode: OpenMode, otype: ObjectType) -> Result<(Container, ObjectId)> {
        let container = self.container.open(mode)?;
        let oid = self.find(&container, otype, Access::Latest)?;
        Ok((container, oid))
    }

    /// Opens the container for reading, and finds the object in the state that `snapshot` names.
    pub(crate) fn open_at(
        &self,
        snapshot: &SnapshotArg,
        otype: ObjectType,
    ) -> Result<(Container, ObjectId, Access<'static>)> {
        let container = self.container.open(OpenMode::ReadOnly)?;
        let access = snapshot.access(&container)?;
        let oid = self.find(&container, otype, access)?;
        Ok((container, oid, access))
    }

    /// Records the name of an object, so that listings show it, unless it is recorded already. It records none in containers of files, fields and
    /// tensors, which have their own names.
    pub(crate) fn record(&self, container: &Container) -> Result<()> {
        let held = container.properties().list().wait()?;
        match LAYOUTS.iter().any(|layout| held.iter().any(|name| name == layout)) {
            true => Ok(()),
            false => container.record_name(&self.object).wait(),
        }
    }

    /// The error that there is no such object; `noun` says what it should be.
    pub(crate) fn not_found_error(&self, noun: &str) -> Error {
        let class = self.class.map_or_else(String::new, |class| format!(" of class {class}"));
        let (pool, container) = (&self.container.pool.pool, &self.container.container);
        let message = format!(
            "container {container} has no {noun} {:?}{class}: `esker object list {pool} {container}` shows its objects",
            self.object
        );
        Error::new(ErrorKind::NotFound, message)
    }

    /// Finds an object by its name or id.
    fn find(
        &self,
        container: &Container,
        otype: ObjectType,
        access: Access<'_>,
    ) -> Result<ObjectId> {
        container.find_named(&self.object, otype, self.class, access).wait()
    }
}

impl SnapshotArg {
    /// The requested snapshot, or the latest state.
    pub(crate) fn access(&self, container: &Container) -> Result<Access<'static>> {
        match &self.snapshot {
            Some(name) => container.find_snapshot(name).wait().map(Access::Snapshot),
            None => Ok(Access::Latest),
        }
    }
}

/// The pool and the container that `POOL/CONT` names.
///
/// POOL may be a URL, which has slashes of its own. The options of a URL are at its end, or between POOL and
/// CONT: `rados:data/run1?conf=/etc/ceph.conf`, `rados:data?conf=/etc/ceph.conf/run1`.
///
/// # Errors
/// [`ErrorKind::Invalid`] for anything else.
pub(crate) fn split(name: &str) -> Result<(Cow<'_, str>, &str)> {
    let plain = without_scheme(name);
    let parts = match plain.split_once('?').filter(|(path, options)| are_last(path, options)) {
        Some((path, options)) => path
            .rsplit_once('/')
            .map(|(pool, container)| (Cow::Owned(format!("{pool}?{options}")), container)),
        None => plain.rsplit_once('/').map(|(pool, container)| (Cow::Borrowed(pool), container)),
    };
    parts.filter(|(pool, container)| !pool.is_empty() && !container.is_empty()).ok_or_else(|| {
        let message =
            format!("{name:?} names no container: write POOL/CONT, for example tank/home");
        Error::new(ErrorKind::Invalid, message)
    })
}

/// `POOL/CONT` of the URLs `daos://POOL/CONT`, which tools of DAOS write, and `esker://POOL/CONT`, which Python writes.
/// A path after `esker://` leads to a pool instead if there is one.
fn without_scheme(name: &str) -> &str {
    if let Some(plain) = name.strip_prefix("daos://") {
        return plain;
    }
    let plain = name.strip_prefix("esker://").filter(|plain| {
        let is_pair = plain.split_once('/').is_some_and(|(pool, container)| {
            !pool.is_empty() && !container.is_empty() && !container.contains('/')
        });
        is_pair && !is_pool(name) && !is_pool(name.rsplit_once('/').unwrap_or_default().0)
    });
    plain.unwrap_or(name)
}

/// True if the options of a URL are at its end, after the container, and not between pool and container. With `rados:`
/// and `daos:`, a slash in the path shows it, since their pool names have none. With other schemes, the options show
/// it: they contain no slash.
fn are_last(path: &str, options: &str) -> bool {
    match path.strip_prefix("rados:").or_else(|| path.strip_prefix("daos:")) {
        Some(pool) => pool.trim_start_matches('/').contains('/'),
        None => path.contains(':') && !options.contains('/'),
    }
}

/// The pool and the container if `name` is both, and `None` if it is a pool.
///
/// Labels and UUIDs have no slash. The URL of a directory may be either: it is both if there is a pool in the directory
/// above, and none in this one.
pub(crate) fn as_one(name: &str) -> Option<(String, &str)> {
    let (pool, container) = split(name).ok()?;
    let is_both = match name.split_once(':') {
        _ if without_scheme(name) != name => true,
        Some(("esker" | "posix", _)) => is_pool(&pool) && !is_pool(name),
        // A map is a file: what seems to be in it is the container.
        Some(("nodes", _)) => names::resolve(&pool).is_ok_and(|named| named.path().is_file()),
        Some(("rados" | "daos", rest)) => {
            rest.split('?').next().is_some_and(|path| path.trim_start_matches('/').contains('/'))
        }
        _ => true,
    };
    is_both.then(|| (pool.into_owned(), container))
}

/// True if there is a pool in the directory of this URL.
fn is_pool(url: &str) -> bool {
    let path = names::resolve(url).map(|named| named.path().to_owned());
    path.is_ok_and(|path| path.join("pool").exists() || PosixPool::is_at(&path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_is_the_last_part_of_the_path() {
        for (name, pool, container) in [
            ("tank/home", "tank", "home"),
            ("daos://tank/home", "tank", "home"),
            ("esker://tank/home", "tank", "home"),
            ("esker:///p/tank/home", "esker:///p/tank", "home"),
            ("esker:/p/tank/home", "esker:/p/tank", "home"),
            ("posix:/p/tank/home?fsync=on", "posix:/p/tank?fsync=on", "home"),
            ("posix:/p/tank?fsync=on/home", "posix:/p/tank?fsync=on", "home"),
            ("rados:data/home", "rados:data", "home"),
            ("rados:data/home?conf=/etc/c.conf&id=me", "rados:data?conf=/etc/c.conf&id=me", "home"),
            ("daos:prod/home", "daos:prod", "home"),
            ("daos:prod/home?timeout=5", "daos:prod?timeout=5", "home"),
            ("daos:prod?timeout=5/home", "daos:prod?timeout=5", "home"),
            ("rados:data?conf=/etc/c.conf/home", "rados:data?conf=/etc/c.conf", "home"),
        ] {
            assert_eq!(split(name).unwrap(), (Cow::Borrowed(pool), container), "{name}");
        }
        for wrong in ["tank", "/home", "tank/", "", "daos://tank"] {
            assert_eq!(split(wrong).unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
        }
    }

    #[test]
    fn a_url_of_a_directory_is_a_pool_or_has_one_above_it() {
        let dir = std::env::temp_dir().join(format!("esker-as-one-{}", std::process::id()));
        PosixPool::create(&dir.join("files"), false).unwrap();
        let url = |scheme: &str, path: &str| format!("{scheme}:{}/{path}", dir.display());
        for scheme in ["posix", "esker"] {
            let both = url(scheme, "files/home");
            assert_eq!(as_one(&both), Some((url(scheme, "files"), "home")));
            assert_eq!(as_one(&url(scheme, "files")), None);
            assert_eq!(as_one(&url(scheme, "none/home")), None);
        }
        std::fs::write(dir.join("tank.map"), "").unwrap();
        let both = url("nodes", "tank.map/home");
        assert_eq!(as_one(&both), Some((url("nodes", "tank.map"), "home")));
        assert_eq!(as_one(&url("nodes", "tank.map")), None);
        std::fs::remove_dir_all(dir).unwrap();
        assert_eq!(as_one("tank/home"), Some(("tank".to_owned(), "home")));
        assert_eq!(as_one("esker://tank/home"), Some(("tank".to_owned(), "home")));
        assert_eq!(as_one("rados:data/home"), Some(("rados:data".to_owned(), "home")));
        assert_eq!(as_one("rados:data?conf=/etc/c.conf"), None);
        assert_eq!(as_one("daos:prod/home"), Some(("daos:prod".to_owned(), "home")));
        assert_eq!(as_one("daos:prod?sys=other"), None);
        assert_eq!(as_one("tank"), None);
    }
}
