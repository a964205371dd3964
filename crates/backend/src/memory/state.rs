//! The state of a pool: containers, metadata, the clock, and the versions of data that transactions have read.
use super::commits::Commits;
use super::container::{Container, Metadata};
use crate::leases::Leases;
use crate::object::conflicts::{Conflicts, Watched};
use crate::object::overlay::Overlay;
use crate::object::read::Reader;
use crate::object::records::Stored;
use crate::object::tree::{AkeyPath, encode_dkey};
use crate::{MetadataChanges, NewContainer};
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, Durability, Medium, OpenMode, Part, PoolInfo, Space,
};
use esker_types::limits::CHANGE_IDS_MAX;
use esker_types::ops::{Change, ChangeId, ReadAt, View, Write, WriteOp};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Result, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct PoolState {
    uuid: Uuid,
    targets: u32,
    clock: Epoch,
    last_container: u32,
    pub(super) metadata: Metadata,
    containers: BTreeMap<ContainerId, Container>,
    conflicts: Conflicts,
    replies: Replies,
    /// Commits over several nodes.
    pub(super) commits: Commits,
}

/// The last change of each slot of each session: its sequence number and epoch.
#[derive(Default)]
struct Replies(BTreeMap<(u64, u16), (u64, Epoch)>);

impl Replies {
    /// The epoch of a change, if it was applied before.
    fn find(&self, id: Option<ChangeId>) -> Result<Option<Epoch>> {
        let Some(id) = id else { return Ok(None) };
        match self.0.get(&(id.session, id.slot)) {
            Some(&(sequence, epoch)) => id.after(sequence, epoch),
            None => Ok(None),
        }
    }

    fn remember(&mut self, id: ChangeId, epoch: Epoch) {
        let slot = (id.session, id.slot);
        if !self.0.contains_key(&slot) && self.0.len() >= CHANGE_IDS_MAX {
            self.forget_oldest();
        }
        self.0.insert(slot, (id.sequence, epoch));
    }

    fn forget_oldest(&mut self) {
        let mut epochs: Vec<Epoch> = self.0.values().map(|(_, epoch)| *epoch).collect();
        epochs.sort_unstable();
        let kept = epochs.get(epochs.len() / 4).copied().unwrap_or_default();
        self.0.retain(|_, (_, epoch)| *epoch >= kept);
    }
}

impl PoolState {
    pub(super) fn new(targets: u32, part: Part) -> Self {
        Self {
            uuid: random_uuid(),
            targets,
            clock: Epoch::default(),
            last_container: 0,
            metadata: Metadata::new(),
            containers: BTreeMap::new(),
            conflicts: Conflicts::default(),
            replies: Replies::default(),
            commits: Commits::new(part),
        }
    }

    /// This backend reserves no space, so there are no totals.
    pub(super) fn info(&self) -> PoolInfo {
        PoolInfo {
            uuid: self.uuid,
            label: "memory".to_owned(),
            url: "memory:".to_owned(),
            targets: vec![Space::default(); self.targets as usize],
            medium: Medium::Other,
            durability: Durability::Process,
        }
    }

    pub(super) fn tick(&mut self) -> Epoch {
        self.clock = Epoch::after(self.clock);
        self.clock
    }

    /// Ensures that later epochs are later than `epoch`.
    pub(super) fn pass(&mut self, epoch: Epoch) {
        self.clock = self.clock.max(epoch);
    }

    /// The pool, if no commit is in doubt.
    ///
    /// # Errors
    /// `InDoubt`.
    pub(super) fn resolved(&mut self) -> Result<&mut Self> {
        self.commits.expect_resolved()?;
        Ok(self)
    }

    pub(super) fn create_container(&mut self, new: &NewContainer<'_>) -> Result<ContainerInfo> {
        let uuid = new.uuid.unwrap_or_else(random_uuid);
        let label = new.label.map(ContainerRef::Label);
        let taken = [Some(ContainerRef::Uuid(uuid)), label];
        taken.into_iter().flatten().try_for_each(|name| self.check_free(name))?;
        self.last_container += 1;
        let id = ContainerId(self.last_container);
        let container = Container::new(id, uuid, new, self.tick());
        let info = container.info.clone();
        self.containers.insert(id, container);
        Ok(info)
    }

    fn check_free(&self, name: ContainerRef<'_>) -> Result<()> {
        match self.containers.values().any(|container| container.is(name)) {
            true => Err(Error::new(ErrorKind::Exists, format!("container {name:?} exists"))),
            false => Ok(()),
        }
    }

    pub(super) fn open_container(
        &mut self,
        name: ContainerRef<'_>,
        mode: OpenMode,
    ) -> Result<(ContainerInfo, Arc<Leases>)> {
        let container = self.find(name)?;
        Ok((container.open(mode)?, Arc::clone(&container.leases)))
    }

    fn find(&mut self, name: ContainerRef<'_>) -> Result<&mut Container> {
        let found = self.containers.values_mut().find(|container| container.is(name));
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no container {name:?}")))
    }

    /// Closing a destroyed container is not an error.
    pub(super) fn close_container(&mut self, id: ContainerId) {
        if let Some(container) = self.containers.get_mut(&id) {
            container.close();
        }
    }

    pub(super) fn destroy_container(&mut self, name: ContainerRef<'_>, force: bool) -> Result<()> {
        let container = self.find(name)?;
        if !force {
            container.check_unused()?;
        }
        let id = container.info.id;
        self.containers.remove(&id);
        Ok(())
    }

    pub(super) fn list_containers(&self) -> Vec<ContainerInfo> {
        let mut infos: Vec<_> = self.containers.values().map(|c| c.info.clone()).collect();
        infos.sort_by(|a, b| (&a.label, a.id).cmp(&(&b.label, b.id)));
        infos
    }

    pub(super) fn rename_container(&mut self, id: ContainerId, label: Option<&str>) -> Result<()> {
        let same =
            label.is_some_and(|label| self.container_ref(id).is_ok_and(|c| c.info.label == label));
        if let (Some(label), false) = (label, same) {
            self.check_free(ContainerRef::Label(label))?;
        }
        self.container(id)?.info.label = label.unwrap_or_default().to_owned();
        Ok(())
    }

    pub(super) fn container(&mut self, id: ContainerId) -> Result<&mut Container> {
        self.containers.get_mut(&id).ok_or_else(destroyed)
    }

    fn container_ref(&self, id: ContainerId) -> Result<&Container> {
        self.containers.get(&id).ok_or_else(destroyed)
    }

    pub(super) fn create_snapshot(&mut self, id: ContainerId, name: &str) -> Result<Epoch> {
        let epoch = self.resolved()?.tick();
        self.container(id)?.create_snapshot(name, epoch)?;
        Ok(epoch)
    }

    /// A reader of one object.
    pub(super) fn reader<'a>(
        &'a mut self,
        id: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Result<Reader<'a>> {
        self.commits.expect_resolved()?;
        let container = self.containers.get(&id).ok_or_else(destroyed)?;
        Ok(Reader {
            id,
            oid,
            targets: self.targets,
            tree: &container.tree,
            at: container.epoch_of(at.view)?,
            tokens: at.tokens.filter(|_| at.view == View::Latest),
            conflicts: &mut self.conflicts,
        })
    }

    pub(super) fn write(&mut self, id: ContainerId, change: &Change<'_>) -> Result<Epoch> {
        if let Some(epoch) = self.replies.find(change.id)? {
            return Ok(epoch);
        }
        let edits = self.edits(id, change)?;
        let epoch = edits.epoch;
        self.apply(id, edits)?;
        if let Some(id) = change.id {
            self.replies.remember(id, epoch);
        }
        Ok(epoch)
    }

    /// Computes the edits of a change, if the data of its tokens has not changed.
    pub(super) fn edits(&mut self, id: ContainerId, change: &Change<'_>) -> Result<Edits> {
        self.resolved()?;
        change.tokens.map_or(Ok(()), |tokens| self.conflicts.check(tokens))?;
        let epoch = self.tick();
        let mut overlay = Overlay::new(&self.container_ref(id)?.tree, epoch);
        change.writes.iter().try_for_each(|write| overlay.write(write))?;
        let touched = change.writes.iter().map(touched).collect::<Result<_>>()?;
        Ok(Edits { epoch, values: overlay.finish(), touched })
    }

    pub(super) fn apply(&mut self, id: ContainerId, edits: Edits) -> Result<()> {
        let container = self.container(id)?;
        for (path, value) in edits.values {
            container.tree.put(path, edits.epoch, value, &container.snapshots);
        }
        for (oid, dkey) in edits.touched {
            self.conflicts.changed(id, Watched::Objects);
            self.conflicts.changed(id, Watched::Object(oid));
            match dkey {
                None => self.conflicts.punched(id, oid),
                Some(dkey) => self.conflicts.changed(id, Watched::Dkey(oid, dkey)),
            }
        }
        Ok(())
    }
}

/// A change that is ready to be applied.
pub(super) struct Edits {
    pub(super) epoch: Epoch,
    /// New values; `None` for removed ones.
    values: BTreeMap<AkeyPath, Option<Stored>>,
    /// Objects that change, and their changed dkey; `None` for all dkeys.
    touched: Vec<(ObjectId, Option<Vec<u8>>)>,
}

/// The object that a write changes, and the encoded dkey if it changes only one.
fn touched(write: &Write<'_>) -> Result<(ObjectId, Option<Vec<u8>>)> {
    let oid = write.oid;
    let dkey = match write.op {
        WriteOp::PunchObject { .. } => None,
        WriteOp::Update { dkey, .. }
        | WriteOp::PunchDkey { dkey, .. }
        | WriteOp::PunchAkeys { dkey, .. } => Some(encode_dkey(oid, dkey)?),
    };
    Ok((oid, dkey))
}

pub(super) fn change_metadata(metadata: &mut Metadata, changes: &MetadataChanges<'_>) {
    for (name, value) in changes {
        match value {
            Some(value) => metadata.insert((*name).to_owned(), value.to_vec()),
            None => metadata.remove(*name),
        };
    }
}

fn destroyed() -> Error {
    Error::new(ErrorKind::NoHandle, "the container was destroyed")
}

/// The names in `metadata` that start with `prefix`, sorted.
pub(super) fn names(metadata: &Metadata, prefix: &str) -> Vec<String> {
    metadata.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
}

/// UUIDs of pools in memory need only be unique within the process, so a counter replaces missing randomness.
fn random_uuid() -> Uuid {
    esker_os::random_uuid().unwrap_or_else(|_| {
        static MADE: AtomicU64 = AtomicU64::new(1);
        let number = u128::from(MADE.fetch_add(1, Ordering::Relaxed));
        Uuid::from_random(number.to_be_bytes())
    })
}
