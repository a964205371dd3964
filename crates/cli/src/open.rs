//! Opening what the command line names.
use crate::args::{ContainerArg, ObjectArg, PoolArg, SnapshotArg};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, ObjectId, ObjectType, Result};
use esker::{Access, Container, Pool, Wait, names};

impl PoolArg {
    pub(crate) fn open(&self, mode: OpenMode) -> Result<Pool> {
        Pool::connect(&self.pool, mode)
    }

    /// The pool, where it is one of this machine once the pages of its indexes are known to be sound.
    pub(crate) fn open_sound(&self, mode: OpenMode) -> Result<Pool> {
        if let Ok(path) = names::find(&self.pool) {
            esker_store::Pool::check_pages(&path)?;
        }
        self.open(mode)
    }
}

impl ContainerArg {
    pub(crate) fn open(&self, mode: OpenMode) -> Result<Container> {
        self.pool.open(mode)?.open_container(&self.container, mode).wait()
    }
}

impl ObjectArg {
    /// The container, and the object in it, which has `otype` where it is named by a name.
    pub(crate) fn open(&self, mode: OpenMode, otype: ObjectType) -> Result<(Container, ObjectId)> {
        let container = self.container.open(mode)?;
        let oid = container.named_oid(&self.object, otype, self.class)?;
        Ok((container, oid))
    }
}

impl SnapshotArg {
    /// The snapshot asked for, else the latest state.
    pub(crate) fn access(&self, container: &Container) -> Result<Access<'static>> {
        match &self.snapshot {
            Some(name) => container.find_snapshot(name).wait().map(Access::Snapshot),
            None => Ok(Access::Latest),
        }
    }
}

/// The pool and the container of `POOL/CONT`; a URL of a pool has slashes of its own.
///
/// # Errors
/// [`ErrorKind::Invalid`] for anything else.
pub(crate) fn split(source: &str) -> Result<(&str, &str)> {
    match source.rsplit_once('/') {
        Some((pool, container)) if !pool.is_empty() && !container.is_empty() => {
            Ok((pool, container))
        }
        _ => Err(Error::new(
            ErrorKind::Invalid,
            format!("{source:?} names no container: give POOL/CONT, as in tank/home"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_is_what_follows_the_last_slash() {
        assert_eq!(split("tank/home").unwrap(), ("tank", "home"));
        assert_eq!(split("esker:/p/tank/home").unwrap(), ("esker:/p/tank", "home"));
        for wrong in ["tank", "/home", "tank/", ""] {
            assert_eq!(split(wrong).unwrap_err().kind(), ErrorKind::Invalid, "{wrong}");
        }
    }
}
