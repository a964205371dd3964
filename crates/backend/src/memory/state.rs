//! The state of a pool: containers, metadata, the clock, and the versions of data that transactions have read.
use super::commits::Commits;
use super::container::Content;
use crate::NewContainer;
use crate::containers::{Containers, Names};
use crate::leases::Leases;
use crate::object::conflicts::{Conflicts, Written};
use crate::object::overlay::Overlay;
use crate::object::read::Reader;
use crate::object::records::Stored;
use crate::object::tree::AkeyPath;
use esker_types::info::{
    ContainerId, ContainerInfo, ContainerRef, Durability, Medium, OpenMode, Part, PoolInfo, Space,
};
use esker_types::limits::CHANGE_IDS_MAX;
use esker_types::ops::{Change, ChangeId, ReadAt, View};
use esker_types::{Epoch, ObjectId, Result, Uuid};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) struct PoolState {
    uuid: Uuid,
    targets: u32,
    clock: Epoch,
    pub(super) metadata: Names,
    pub(super) containers: Containers<Content>,
    conflicts: Conflicts,
    replies: Replies,
    /// Commits over several nodes.
    pub(super) commits: Commits,
}

/// The last change of each slot of each session: its sequence number and epoch.
#[derive(Default)]
struct Replies(BTreeMap<(u64, u16), (u64, Epoch)>);

impl Replies {
    /// The epoch of a change if it was applied before; `None` if it is new or has no id. Fails with `Invalid` for a
    /// delayed copy of an earlier change.
    fn find(&self, id: Option<ChangeId>) -> Result<Option<Epoch>> {
        let Some(id) = id else { return Ok(None) };
        match self.0.get(&(id.session, id.slot)) {
            Some(&(sequence, epoch)) => id.after(sequence, epoch),
            None => Ok(None),
        }
    }

    /// Records the epoch of a change, for the case that it is sent again. If there are too many, the oldest one is
    /// dropped.
    fn remember(&mut self, id: ChangeId, epoch: Epoch) {
        let slot = (id.session, id.slot);
        if !self.0.contains_key(&slot) && self.0.len() >= CHANGE_IDS_MAX {
            self.forget_oldest();
        }
        self.0.insert(slot, (id.sequence, epoch));
    }

    /// Forgets the replies to the oldest quarter of the changes, so that the table does not grow for ever.
    fn forget_oldest(&mut self) {
        let mut epochs: Vec<Epoch> = self.0.values().map(|(_, epoch)| *epoch).collect();
        epochs.sort_unstable();
        let kept = epochs.get(epochs.len() / 4).copied().unwrap_or_default();
        self.0.retain(|_, (_, epoch)| *epoch >= kept);
    }
}

impl PoolState {
    /// An empty pool with a random UUID. `part` is the position of this node in the pool over nodes.
    pub(super) fn new(targets: u32, part: Part) -> Self {
        Self {
            uuid: random_uuid(),
            targets,
            clock: Epoch::default(),
            metadata: Names::default(),
            containers: Containers::default(),
            conflicts: Conflicts::default(),
            replies: Replies::default(),
            commits: Commits::new(part),
        }
    }

    /// Describes the pool. All numbers about space are zero, because this backend reserves none.
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

    /// Returns a new epoch, later than all before.
    pub(super) fn tick(&mut self) -> Epoch {
        self.clock = Epoch::after(self.clock);
        self.clock
    }

    /// Advances the clock, so that epochs given from now on are later than `epoch`.
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

    /// Creates a container. It gets a UUID here if `new` has none, because [`random_uuid`] works without a source of
    /// randomness.
    pub(super) fn create_container(&mut self, new: &NewContainer<'_>) -> Result<ContainerInfo> {
        let now = self.tick();
        let uuid = new.uuid.unwrap_or_else(random_uuid);
        self.containers.create(&new.clone().with_uuid(uuid), now, Content::default())
    }

    /// Adds a handle of a container. Returns its description and the leases on its objects.
    pub(super) fn open_container(
        &mut self,
        name: ContainerRef<'_>,
        mode: OpenMode,
    ) -> Result<(ContainerInfo, Arc<Leases>)> {
        let container = self.containers.open(name, mode)?;
        Ok((container.info().clone(), Arc::clone(&container.content.leases)))
    }

    /// The content of a container; an error if it was destroyed.
    pub(super) fn container(&mut self, id: ContainerId) -> Result<&mut Content> {
        Ok(&mut self.containers.get_mut(id)?.content)
    }

    pub(super) fn create_snapshot(&mut self, id: ContainerId, name: &str) -> Result<Epoch> {
        let epoch = self.resolved()?.tick();
        self.container(id)?.create_snapshot(name, epoch)?;
        Ok(epoch)
    }

    /// A reader of one object at a view. It collects tokens only for reads of the latest state: a snapshot cannot
    /// change. Fails with `InDoubt` if a commit is prepared, and with `NoHandle` if the container was destroyed.
    pub(super) fn reader<'a>(
        &'a mut self,
        id: ContainerId,
        oid: ObjectId,
        at: ReadAt<'a>,
    ) -> Result<Reader<'a>> {
        self.commits.expect_resolved()?;
        let container = &self.containers.get(id)?.content;
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

    /// Makes a change and returns its epoch. If a change with the same id was made before, makes none and returns the
    /// epoch of that one.
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
        let mut overlay = Overlay::new(&self.containers.get(id)?.content.tree, epoch);
        change.writes.iter().try_for_each(|write| overlay.write(write))?;
        let written = change.writes.iter().map(Written::by).collect::<Result<_>>()?;
        Ok(Edits { epoch, values: overlay.finish(), written })
    }

    /// Stores prepared values, and records the conflicts that they cause.
    pub(super) fn apply(&mut self, id: ContainerId, edits: Edits) -> Result<()> {
        let container = self.container(id)?;
        for (path, value) in edits.values {
            container.tree.put(path, edits.epoch, value, &container.snapshots);
        }
        edits.written.into_iter().for_each(|written| self.conflicts.written(id, written));
        Ok(())
    }
}

/// A change that is ready to be applied.
pub(super) struct Edits {
    pub(super) epoch: Epoch,
    /// New values; `None` for removed ones.
    values: BTreeMap<AkeyPath, Option<Stored>>,
    written: Vec<Written>,
}

/// A random UUID. UUIDs of pools in memory need only be unique within the process, so a counter replaces missing
/// randomness.
fn random_uuid() -> Uuid {
    esker_os::random_uuid().unwrap_or_else(|_| {
        static MADE: AtomicU64 = AtomicU64::new(1);
        let number = u128::from(MADE.fetch_add(1, Ordering::Relaxed));
        Uuid::from_random(number.to_be_bytes())
    })
}
