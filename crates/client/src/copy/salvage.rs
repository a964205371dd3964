//! Copies the readable data of a damaged pool to another pool.
use super::batch::{Batch, Kind, Piece};
use super::marks::Marks;
use super::progress::{Progress, Summary, add};
use super::store::Storer;
use crate::array::STRIPE_MARKS;
use crate::container::Container;
use crate::pool::Pool;
use esker_backend::NewContainer;
use esker_os::executor::Wait;
use esker_store::{Salvage, Salvaged, SalvagedContainer, SalvagedValue};
use esker_types::info::{ContainerId, OpenMode};
use esker_types::{ErrorKind, ObjectId, Result};
use std::collections::{BTreeMap, HashMap};

/// Copies everything readable in a damaged pool to the new pool `to`: containers with their ids, labels, attributes,
/// properties and next numbers for object ids, and all their objects. Snapshots are not copied. What is written is
/// read back and compared; losses are listed in [`Salvage::losses`]. `report` is called with the number of entries
/// done and the total.
///
/// A container whose metadata is lost gets the label `lost-` and its number. Labels are set last, so that the
/// incomplete result of a killed salvage is not mistaken for a complete one.
///
/// # Errors
/// [`ErrorKind::Busy`] if a process has the damaged pool open; errors of `to`.
pub fn salvage(
    from: &mut Salvage,
    to: &Pool,
    progress: &Progress,
    report: &mut dyn FnMut(u64, u64),
) -> Result<Summary> {
    let metadata = from.metadata();
    let all: Vec<_> =
        metadata.iter().map(|(name, value)| (name.as_str(), Some(value.as_slice()))).collect();
    if !all.is_empty() {
        to.backend().set_metadata(&all).wait()?;
    }
    let mut containers = BTreeMap::new();
    for found in from.containers() {
        if let Some(id) = found.info.as_ref().map(|info| info.id) {
            containers.insert(id, Rescued::make(to, id, &found)?);
        }
    }
    let nameless = from.nameless();
    let mut writer = Writer {
        to,
        containers,
        nameless,
        progress,
        current: None,
        batch: Batch::default(),
        scratch: Vec::new(),
    };
    from.visit(&mut |found| writer.take(&found), report)?;
    writer.finish()?;
    Ok(progress.summary())
}

/// A container being salvaged.
struct Rescued {
    container: Container,
    label: String,
    /// The first number for new object ids is unknown.
    numbers_lost: bool,
    /// One more than the largest number of an object id found.
    next_oid: u64,
}

impl Rescued {
    /// Creates the container in the new pool.
    fn make(to: &Pool, id: ContainerId, found: &SalvagedContainer) -> Result<Self> {
        let lost = || format!("lost-{}", id.0);
        let label = found.info.as_ref().map_or_else(lost, |info| info.label.clone());
        // This property promises stripe marks, which may be among the lost data.
        let kept =
            found.metadata.iter().filter(|(name, _)| *name != format!("prop:{STRIPE_MARKS}"));
        let metadata: Vec<_> =
            kept.map(|(name, value)| (name.as_str(), value.as_slice())).collect();
        let mut new = NewContainer::nameless()
            .with_uuid(found.info.as_ref().map(|info| info.uuid))
            .with_metadata(&metadata)
            .with_first_oid(found.next_oid.unwrap_or(0));
        if let Some(info) = &found.info {
            new.checksum = info.checksum;
        }
        let made = to.create_container(&new).wait()?;
        let container = to.open_container(&made.uuid.to_string(), OpenMode::ReadWrite).wait()?;
        Ok(Self { container, label, numbers_lost: found.next_oid.is_none(), next_oid: 0 })
    }

    /// Completes the new container. If the counter of object ids is lost, allocates ids past all existing ones, so that
    /// new objects do not get an existing id. If another container has the same label, this one stays without a label.
    fn finish(self) -> Result<()> {
        if self.numbers_lost && self.next_oid > 0 {
            self.container.allocate_oids(self.next_oid).wait()?;
        }
        let label = Some(self.label.as_str()).filter(|label| !label.is_empty());
        match self.container.rename(label).wait() {
            Err(error) if error.kind() != ErrorKind::Exists => Err(error),
            _ => self.container.close().wait(),
        }
    }
}

/// Writes the batches it is given.
struct Writer<'w> {
    to: &'w Pool,
    containers: BTreeMap<ContainerId, Rescued>,
    /// Known data of containers without metadata.
    nameless: HashMap<ContainerId, SalvagedContainer>,
    progress: &'w Progress,
    /// The object that the batch belongs to.
    current: Option<(ContainerId, ObjectId)>,
    batch: Batch,
    scratch: Vec<u8>,
}

impl Writer<'_> {
    /// Adds a value of the damaged pool to the batch. If it belongs to another object than the batch, or the batch is
    /// full, writes the batch first.
    fn take(&mut self, found: &Salvaged<'_>) -> Result<()> {
        let current = Some((found.container, found.oid));
        if self.current != current || self.batch.is_full() {
            self.flush()?;
        }
        if self.current != current {
            self.enter(found.container, found.oid)?;
        }
        let (kind, bytes) = match found.value {
            SalvagedValue::Single(bytes) => (Kind::Single, bytes),
            SalvagedValue::Array { record_size, extent, bytes } => {
                (Kind::Array { record_size, extents: vec![extent] }, bytes)
            }
        };
        let room = self.batch.room(bytes.len());
        self.batch.bytes[room.clone()].copy_from_slice(bytes);
        if self.batch.add(found.dkey, Piece { akey: found.akey.to_vec(), kind, range: room }) {
            add(&self.progress.keys, 1);
        }
        Ok(())
    }

    /// Continues with another object. If it is the first one of its container, creates the container in the new pool.
    fn enter(&mut self, id: ContainerId, oid: ObjectId) -> Result<()> {
        self.current = Some((id, oid));
        add(&self.progress.objects, 1);
        if !self.containers.contains_key(&id) {
            let known = self.nameless.remove(&id).unwrap_or_default();
            self.containers.insert(id, Rescued::make(self.to, id, &known)?);
        }
        if let Some(rescued) = self.containers.get_mut(&id) {
            rescued.next_oid = rescued.next_oid.max(oid.lo.saturating_add(1));
        }
        Ok(())
    }

    /// Writes the batch to the new pool.
    fn flush(&mut self) -> Result<()> {
        let Some((id, oid)) = self.current else { return Ok(()) };
        let Some(rescued) = self.containers.get(&id) else { return Ok(()) };
        let (to, progress, marks) = (&rescued.container, self.progress, Marks::default());
        let storer = Storer { to, oid, verify: true, progress, marks };
        storer.store(&mut self.batch, &mut self.scratch)
    }

    /// Writes the last batch, and completes all containers.
    fn finish(mut self) -> Result<()> {
        self.flush()?;
        self.containers.into_values().try_for_each(Rescued::finish)
    }
}
