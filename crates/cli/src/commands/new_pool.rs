//! Making a pool in a directory of pools.
use crate::progress::Bar;
use clap::Args;
use esker::names;
use esker::types::Result;
use esker_store::{Pool, PoolSpec, Superblock};
use std::path::PathBuf;

/// Where a new pool goes.
#[derive(Args)]
pub(super) struct Place {
    /// Directory for the new pool [default: the first of ESKER_POOLS, else the user's data directory]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Place {
    pub(super) fn is_given(&self) -> bool {
        self.dir.is_some()
    }

    /// Makes a pool there, with a bar; answers its path too.
    pub(super) fn create(&self, spec: &PoolSpec) -> Result<(PathBuf, Superblock)> {
        let directory = self.dir.clone().map_or_else(names::new_pool_directory, Ok)?;
        let bar = Bar::bytes("reserving");
        let made = Pool::create(&directory, spec, &mut |done, all| bar.update(done, all))?;
        let directory = directory.canonicalize().unwrap_or(directory);
        Ok((directory.join(&made.label), made))
    }
}
