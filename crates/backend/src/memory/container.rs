//! Containers.
use crate::leases::Leases;
use crate::object::history::Snapshots;
use crate::object::tree::Tree;
use esker_types::info::SnapshotInfo;
use esker_types::limits::SNAPSHOTS_MAX;
use esker_types::ops::View;
use esker_types::{Epoch, Error, ErrorKind, Result};
use std::sync::Arc;

/// The content of a container.
#[derive(Default)]
pub(super) struct Content {
    pub(super) snapshots: Snapshots,
    pub(super) tree: Tree,
    pub(super) leases: Arc<Leases>,
}

impl Content {
    /// Returns the epoch up to which a reader of this view sees changes. Fails if the snapshot does not exist.
    pub(super) fn epoch_of(&self, view: View) -> Result<Epoch> {
        match view {
            View::Latest => Ok(Epoch::MAX),
            View::Snapshot(epoch) if self.snapshots.contains_key(&epoch) => Ok(epoch),
            View::Snapshot(epoch) => Err(no_snapshot(epoch)),
        }
    }

    /// Fails if the container already has [`SNAPSHOTS_MAX`] snapshots.
    pub(super) fn check_snapshot_limit(&self) -> Result<()> {
        if self.snapshots.len() < SNAPSHOTS_MAX {
            return Ok(());
        }
        let message = format!("a container has at most {SNAPSHOTS_MAX} snapshots (SNAPSHOTS_MAX)");
        Err(Error::new(ErrorKind::Overflow, message))
    }

    /// Names the state at `epoch`. Fails if the container already has [`SNAPSHOTS_MAX`] snapshots.
    pub(super) fn create_snapshot(&mut self, name: &str, epoch: Epoch) -> Result<()> {
        self.check_snapshot_limit()?;
        self.snapshots.insert(epoch, name.to_owned());
        Ok(())
    }

    pub(super) fn list_snapshots(&self) -> Vec<SnapshotInfo> {
        let snapshots = self.snapshots.iter();
        snapshots.map(|(epoch, name)| SnapshotInfo { epoch: *epoch, name: name.clone() }).collect()
    }

    /// Destroys a snapshot, and drops the versions that only it could see.
    pub(super) fn destroy_snapshot(&mut self, epoch: Epoch) -> Result<()> {
        self.snapshots.remove(&epoch).ok_or_else(|| no_snapshot(epoch))?;
        self.tree.prune(&self.snapshots);
        Ok(())
    }
}

fn no_snapshot(epoch: Epoch) -> Error {
    Error::new(ErrorKind::NotFound, format!("no snapshot at epoch {}", epoch.0))
}
