//! The containers of a pool that one process keeps: their names, their metadata, and who has them open.
use crate::handles::gone;
use crate::pool::{MetadataChanges, NewContainer};
use esker_types::info::{ContainerId, ContainerInfo, ContainerRef, OpenMode};
use esker_types::{Epoch, Error, ErrorKind, Result, Uuid};
use std::collections::BTreeMap;

/// Names and values of metadata.
#[derive(Clone, Debug, Default)]
pub struct Names(BTreeMap<String, Vec<u8>>);

impl Names {
    /// The value of a name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Vec<u8>> {
        self.0.get(name).cloned()
    }

    /// Sets the names that have a value, and removes those with `None`.
    pub fn change(&mut self, changes: &MetadataChanges<'_>) {
        for (name, value) in changes {
            match value {
                Some(value) => self.0.insert((*name).to_owned(), value.to_vec()),
                None => self.0.remove(*name),
            };
        }
    }

    /// The names that begin with `prefix`, sorted.
    #[must_use]
    pub fn list(&self, prefix: &str) -> Vec<String> {
        self.0.keys().filter(|name| name.starts_with(prefix)).cloned().collect()
    }
}

/// The containers of a pool, each with content of type `C`. No number of a container is used twice.
#[derive(Debug)]
pub struct Containers<C> {
    /// Number of the container that was created last.
    last: u32,
    living: BTreeMap<ContainerId, Entry<C>>,
}

/// A container.
#[derive(Debug)]
pub struct Entry<C> {
    info: ContainerInfo,
    is_exclusive: bool,
    /// First number for object ids that is not reserved yet.
    next_oid: u64,
    /// Its metadata.
    pub metadata: Names,
    /// Its content.
    pub content: C,
}

impl<C> Default for Containers<C> {
    fn default() -> Self {
        Self { last: 0, living: BTreeMap::new() }
    }
}

impl<C> Containers<C> {
    /// Adds a container that is created at `now` and has `content`.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if the label or UUID is in use, and those of [`NewContainer::uuid_or_random`].
    pub fn create(
        &mut self,
        new: &NewContainer<'_>,
        now: Epoch,
        content: C,
    ) -> Result<ContainerInfo> {
        let uuid = new.uuid_or_random()?;
        self.check_free(ContainerRef::Uuid(uuid))?;
        new.label.map_or(Ok(()), |label| self.check_free(ContainerRef::Label(label)))?;
        self.last += 1;
        let id = ContainerId(self.last);
        let entry = Entry::new(id, uuid, new, now, content);
        let info = entry.info.clone();
        self.living.insert(id, entry);
        Ok(info)
    }

    /// Fails with `Exists` if a container has this name.
    fn check_free(&self, name: ContainerRef<'_>) -> Result<()> {
        match self.living.values().any(|entry| entry.is(name)) {
            true => Err(Error::new(ErrorKind::Exists, format!("container {name:?} exists"))),
            false => Ok(()),
        }
    }

    fn find(&mut self, name: ContainerRef<'_>) -> Result<&mut Entry<C>> {
        let found = self.living.values_mut().find(|entry| entry.is(name));
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("no container {name:?}")))
    }

    /// Opens a container, and counts a handle until [`Self::close`].
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or [`ErrorKind::Busy`] if exclusive use conflicts.
    pub fn open(&mut self, name: ContainerRef<'_>, mode: OpenMode) -> Result<&Entry<C>> {
        let entry = self.find(name)?;
        let wants_alone = mode == OpenMode::Exclusive;
        if entry.is_exclusive || wants_alone && entry.info.handles > 0 {
            return Err(entry.busy());
        }
        entry.is_exclusive = wants_alone;
        entry.info.handles += 1;
        Ok(entry)
    }

    /// Ends the use of a handle. Closing a destroyed container is not an error.
    pub fn close(&mut self, id: ContainerId) {
        if let Some(entry) = self.living.get_mut(&id) {
            entry.info.handles = entry.info.handles.saturating_sub(1);
            entry.is_exclusive &= entry.info.handles > 0;
        }
    }

    /// Removes a container, with its handles if `force` is set.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`], or [`ErrorKind::Busy`] if it is open.
    pub fn destroy(&mut self, name: ContainerRef<'_>, force: bool) -> Result<()> {
        let entry = self.find(name)?;
        if entry.info.handles > 0 && !force {
            return Err(entry.busy());
        }
        let id = entry.info.id;
        self.living.remove(&id);
        Ok(())
    }

    /// All containers, sorted by label.
    #[must_use]
    pub fn list(&self) -> Vec<ContainerInfo> {
        let mut infos: Vec<_> = self.living.values().map(|entry| entry.info.clone()).collect();
        infos.sort_by(|a, b| (&a.label, a.id).cmp(&(&b.label, b.id)));
        infos
    }

    /// Changes the label of a container; `None` removes it.
    ///
    /// # Errors
    /// [`ErrorKind::Exists`] if another container has the label, [`ErrorKind::NoHandle`] if this one was destroyed.
    pub fn rename(&mut self, id: ContainerId, label: Option<&str>) -> Result<()> {
        let new = label.unwrap_or_default();
        if new != self.get(id)?.info.label {
            label.map_or(Ok(()), |label| self.check_free(ContainerRef::Label(label)))?;
        }
        self.get_mut(id)?.info.label = new.to_owned();
        Ok(())
    }

    /// A container.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it was destroyed.
    pub fn get(&self, id: ContainerId) -> Result<&Entry<C>> {
        self.living.get(&id).ok_or_else(gone)
    }

    /// A container that is to be changed.
    ///
    /// # Errors
    /// [`ErrorKind::NoHandle`] if it was destroyed.
    pub fn get_mut(&mut self, id: ContainerId) -> Result<&mut Entry<C>> {
        self.living.get_mut(&id).ok_or_else(gone)
    }
}

impl<C> Entry<C> {
    /// A container without handles, created at `now`.
    fn new(id: ContainerId, uuid: Uuid, new: &NewContainer<'_>, now: Epoch, content: C) -> Self {
        let info = ContainerInfo {
            id,
            uuid,
            label: new.label.unwrap_or_default().to_owned(),
            checksum: new.checksum,
            created: now,
            handles: 0,
        };
        let metadata = new.metadata.iter().map(|(name, value)| ((*name).into(), value.to_vec()));
        let metadata = Names(metadata.collect());
        Self { info, is_exclusive: false, next_oid: new.first_oid, metadata, content }
    }

    /// The description of the container.
    #[must_use]
    pub fn info(&self) -> &ContainerInfo {
        &self.info
    }

    /// Reserves `count` numbers for object ids, and returns the first.
    ///
    /// # Errors
    /// [`ErrorKind::Overflow`] if fewer numbers are left.
    pub fn allocate_oids(&mut self, count: u64) -> Result<u64> {
        let first = self.next_oid;
        let next = first.checked_add(count);
        self.next_oid =
            next.ok_or_else(|| Error::new(ErrorKind::Overflow, "no object ids are left"))?;
        Ok(first)
    }

    /// True if the container has this label or UUID. The empty label matches none, because it stands for no label.
    fn is(&self, name: ContainerRef<'_>) -> bool {
        match name {
            ContainerRef::Label(label) => !label.is_empty() && self.info.label == label,
            ContainerRef::Uuid(uuid) => self.info.uuid == uuid,
        }
    }

    fn busy(&self) -> Error {
        Error::new(ErrorKind::Busy, format!("container {:?} is in use", self.info.label))
    }
}
