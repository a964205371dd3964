//! Containers.
use crate::NewContainer;
use crate::leases::Leases;
use crate::object::history::Snapshots;
use crate::object::tree::Tree;
use esker_types::info::{ContainerId, ContainerInfo, ContainerRef, OpenMode, SnapshotInfo};
use esker_types::limits::SNAPSHOTS_MAX;
use esker_types::ops::View;
use esker_types::{Epoch, Error, ErrorKind, Result, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names and values of metadata.
pub(super) type Metadata = BTreeMap<String, Vec<u8>>;

pub(super) struct Container {
    pub(super) info: ContainerInfo,
    exclusive: bool,
    pub(super) metadata: Metadata,
    pub(super) next_oid: u64,
    pub(super) snapshots: Snapshots,
    pub(super) tree: Tree,
    pub(super) leases: Arc<Leases>,
}

impl Container {
    pub(super) fn new(id: ContainerId, uuid: Uuid, new: &NewContainer<'_>, now: Epoch) -> Self {
        let info = ContainerInfo {
            id,
            uuid,
            label: new.label.unwrap_or_default().to_owned(),
            checksum: new.checksum,
            created: now,
            handles: 0,
        };
        let metadata = new.metadata.iter().map(|(n, v)| ((*n).to_owned(), v.to_vec())).collect();
        Self {
            info,
            exclusive: false,
            metadata,
            next_oid: new.first_oid,
            snapshots: Snapshots::new(),
            tree: Tree::default(),
            leases: Arc::default(),
        }
    }

    pub(super) fn is(&self, name: ContainerRef<'_>) -> bool {
        match name {
            ContainerRef::Label(label) => !label.is_empty() && self.info.label == label,
            ContainerRef::Uuid(uuid) => self.info.uuid == uuid,
        }
    }

    pub(super) fn open(&mut self, mode: OpenMode) -> Result<ContainerInfo> {
        let wants_alone = mode == OpenMode::Exclusive;
        if self.exclusive || wants_alone && self.info.handles > 0 {
            return Err(self.busy());
        }
        self.exclusive = wants_alone;
        self.info.handles += 1;
        Ok(self.info.clone())
    }

    pub(super) fn close(&mut self) {
        self.info.handles = self.info.handles.saturating_sub(1);
        self.exclusive &= self.info.handles > 0;
    }

    pub(super) fn check_unused(&self) -> Result<()> {
        match self.info.handles {
            0 => Ok(()),
            _ => Err(self.busy()),
        }
    }

    fn busy(&self) -> Error {
        Error::new(ErrorKind::Busy, format!("container {:?} is in use", self.info.label))
    }

    pub(super) fn allocate_oids(&mut self, count: u64) -> Result<u64> {
        let first = self.next_oid;
        let next = first.checked_add(count);
        self.next_oid =
            next.ok_or_else(|| Error::new(ErrorKind::Overflow, "no object ids are left"))?;
        Ok(first)
    }

    /// The epoch that a reader sees.
    pub(super) fn epoch_of(&self, view: View) -> Result<Epoch> {
        match view {
            View::Latest => Ok(Epoch::MAX),
            View::Snapshot(epoch) if self.snapshots.contains_key(&epoch) => Ok(epoch),
            View::Snapshot(epoch) => Err(no_snapshot(epoch)),
        }
    }

    /// Fails if there is no room for another snapshot.
    pub(super) fn check_snapshots(&self) -> Result<()> {
        if self.snapshots.len() < SNAPSHOTS_MAX {
            return Ok(());
        }
        let message = format!("a container has at most {SNAPSHOTS_MAX} snapshots (SNAPSHOTS_MAX)");
        Err(Error::new(ErrorKind::Overflow, message))
    }

    pub(super) fn create_snapshot(&mut self, name: &str, epoch: Epoch) -> Result<()> {
        self.check_snapshots()?;
        self.snapshots.insert(epoch, name.to_owned());
        Ok(())
    }

    pub(super) fn list_snapshots(&self) -> Vec<SnapshotInfo> {
        let snapshots = self.snapshots.iter();
        snapshots.map(|(epoch, name)| SnapshotInfo { epoch: *epoch, name: name.clone() }).collect()
    }

    pub(super) fn destroy_snapshot(&mut self, epoch: Epoch) -> Result<()> {
        self.snapshots.remove(&epoch).ok_or_else(|| no_snapshot(epoch))?;
        self.tree.prune(&self.snapshots);
        Ok(())
    }
}

fn no_snapshot(epoch: Epoch) -> Error {
    Error::new(ErrorKind::NotFound, format!("no snapshot at epoch {}", epoch.0))
}
