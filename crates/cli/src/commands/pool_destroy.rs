//! `esker pool destroy`.
use super::pool_over_nodes;
use crate::args::PoolArg;
use crate::confirm;
use crate::nodes::NodesPool;
use crate::output::Answer;
use crate::shapes;
use clap::Args;
use esker::names::{self, Named};
use esker::types::info::{ContainerInfo, OpenMode, Part};
use esker::types::{Error, ErrorKind, Result};
use esker::{PosixPool, Wait};
use esker_store::Superblock;
use serde_json::json;
use std::path::Path;

/// Labels of containers that a question or an error names.
const NAMED_MAX: usize = 3;

/// Destroy a pool and everything in it
///
/// A pool with containers is destroyed with --recursive only; on a terminal, the command asks. A pool of this machine
/// that a process uses is kept, unless --force is given. So is a pool over nodes that is in use, or that has a node
/// which does not answer. A posix: pool is destroyed even if it is in use, because its users cannot be seen.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker pool destroy tank
  esker pool destroy tank --recursive
  esker pool destroy esker:/dev/shm/fast --force")]
pub(crate) struct Destroy {
    #[command(flatten)]
    pool: PoolArg,
    /// Destroy the containers of the pool too, without a question
    #[arg(long, short)]
    recursive: bool,
    /// Destroy the pool with its containers even if processes use it or nodes do not answer. Processes that use it are
    /// not stopped: what they write afterwards is lost
    #[arg(long, short)]
    force: bool,
}

/// Decides whether a pool may be destroyed with its containers.
pub(super) struct Guard<'a> {
    pool: &'a str,
    is_recursive: bool,
}

impl Destroy {
    pub(super) fn run(self) -> Result<Answer> {
        let guard = Guard { pool: &self.pool.pool, is_recursive: self.recursive || self.force };
        if let Some(pool) = NodesPool::find(&self.pool.pool)? {
            return pool_over_nodes::destroy(pool, self.force, &guard);
        }
        let named = names::resolve(&self.pool.pool)?;
        if !is_node_pool(named.path()) {
            guard.check(|| self.containers())?;
        }
        let url = match named {
            Named::Posix(url) => {
                PosixPool::destroy(&url.path)?;
                format!("posix:{}", url.path.display())
            }
            Named::Native(path) | Named::Nodes(path) => {
                esker_store::Pool::destroy(&path, self.force)?;
                format!("esker:{}", path.display())
            }
        };
        Ok(Answer::confirmation(json!({"url": url}), format!("destroyed pool {url}")))
    }

    /// The containers of the pool.
    fn containers(&self) -> Result<Vec<ContainerInfo>> {
        self.pool.open_sound(OpenMode::ReadOnly)?.containers().wait()
    }
}

/// True for the pool of one node of a pool over nodes. Only the pool over nodes lists containers.
fn is_node_pool(path: &Path) -> bool {
    Superblock::read(path).is_ok_and(|pool| pool.part != Part::WHOLE)
}

impl Guard<'_> {
    /// Refuses a pool with containers, unless they are to be destroyed too. On a terminal, the user decides.
    ///
    /// # Errors
    /// [`ErrorKind::NotEmpty`] if there are containers; [`ErrorKind::Canceled`] if the user refuses; those of `list`.
    pub(super) fn check(&self, list: impl FnOnce() -> Result<Vec<ContainerInfo>>) -> Result<()> {
        if self.is_recursive {
            return Ok(());
        }
        let found = list().map_err(|error| self.unknown_containers_error(error))?;
        match found.len() {
            0 => Ok(()),
            _ if confirm::is_possible() => {
                confirm::ask(&format!("{}: destroy them all?", self.describe(&found)))
            }
            _ => {
                let message = format!(
                    "{}: destroy it with --recursive to destroy them too",
                    self.describe(&found)
                );
                Err(Error::new(ErrorKind::NotEmpty, message))
            }
        }
    }

    /// Names the containers of the pool, for the question and for errors.
    fn describe(&self, found: &[ContainerInfo]) -> String {
        let mut names: Vec<_> = found.iter().take(NAMED_MAX).map(shapes::name).collect();
        if found.len() > NAMED_MAX {
            names.push("...".to_owned());
        }
        let count = shapes::count(found.len() as u32, "container");
        format!("pool {} has {count} ({})", self.pool, names.join(", "))
    }

    #[cold]
    fn unknown_containers_error(&self, error: Error) -> Error {
        use ErrorKind::{BadPath, Busy, NoPermission, NotFound};
        if matches!(error.kind(), NotFound | BadPath | NoPermission | Busy) {
            return error;
        }
        let message = format!(
            "{}; whether pool {} has containers is unknown: --recursive destroys it without a check",
            error.message(),
            self.pool
        );
        Error::new(error.kind(), message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pool_in_exclusive_use_is_not_taken_for_an_empty_one() {
        let guard = Guard { pool: "tank", is_recursive: false };
        let busy = Error::new(ErrorKind::Busy, "another process uses it");
        assert_eq!(guard.check(|| Err(busy.clone())), Err(busy));
    }
}
