//! Containers of a pool: who they are, who uses them, and their metadata. All of it is on target 0.
mod metadata;
mod uses;

pub(crate) use uses::Uses;

use crate::commit::Change;
use crate::io::txn::Txn;
use crate::keys::{Key, Table};
use crate::pool::State;
use esker_types::info::{ContainerId, ContainerInfo, ContainerRef, OpenMode};
use esker_types::limits::CONTAINERS_MAX;
use esker_types::{Checksum, Epoch, Error, ErrorKind, Result, Uuid, check_label};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};

/// A container as a process works with it.
#[derive(Debug)]
pub struct Container {
    info: ContainerInfo,
    /// Destroyed containers when this one was last known to exist.
    seen: AtomicU64,
}

/// A container to be made.
#[derive(Clone, Debug, Default)]
pub struct ContainerSpec<'a> {
    /// Its name; `None` for none.
    pub label: Option<&'a str>,
    /// Its id; `None` draws one.
    pub uuid: Option<Uuid>,
    /// Checksum over its data.
    pub checksum: Checksum,
    /// Metadata it has from the beginning.
    pub metadata: &'a [(&'a str, &'a [u8])],
    /// First object id that is handed out.
    pub first_oid: u64,
}

impl Container {
    /// Its number.
    #[must_use]
    pub fn id(&self) -> ContainerId {
        self.info.id
    }

    /// Checksum over its data.
    #[must_use]
    pub fn checksum(&self) -> Checksum {
        self.info.checksum
    }

    /// What was known of it when it was opened.
    #[must_use]
    pub fn info(&self) -> &ContainerInfo {
        &self.info
    }

    /// Refuses to go on with a container that was destroyed behind its users' back. Nearly free while
    /// no container is destroyed.
    pub fn check_alive(&self, pool: &State) -> Result<()> {
        let destroyed = pool.control.destroyed_containers().load(Ordering::Acquire);
        if destroyed == self.seen.load(Ordering::Relaxed) {
            return Ok(());
        }
        let txn = pool.targets[0].index.read()?;
        match txn.get(&container_key(self.info.uuid))? {
            Some(_) => {
                self.seen.store(destroyed, Ordering::Relaxed);
                Ok(())
            }
            None => Err(Error::new(
                ErrorKind::NoHandle,
                format!("container {} was destroyed while it was open", self.info.uuid),
            )),
        }
    }
}

fn container_key(uuid: Uuid) -> Key {
    Key::table(Table::Container).push(&uuid.0)
}

fn label_key(label: &str) -> Key {
    Key::table(Table::Label).push(label.as_bytes())
}

/// Value of a container: number, checksum, when created, label.
fn encode(info: &ContainerInfo) -> Vec<u8> {
    let mut out = info.id.0.to_le_bytes().to_vec();
    out.push(info.checksum as u8);
    out.extend_from_slice(&info.created.0.to_le_bytes());
    out.extend_from_slice(info.label.as_bytes());
    out
}

fn decode(key: &[u8], value: &[u8]) -> Result<ContainerInfo> {
    parse_container(key, value).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, "a container's record is damaged: run `esker pool check`")
    })
}

/// The container that an entry of its table tells of.
pub(crate) fn parse_container(key: &[u8], value: &[u8]) -> Option<ContainerInfo> {
    let uuid = Uuid(key.get(1..)?.try_into().ok()?);
    let (id, rest) = value.split_first_chunk()?;
    let (&checksum, rest) = rest.split_first()?;
    let (created, label) = rest.split_first_chunk()?;
    Some(ContainerInfo {
        id: ContainerId(u32::from_le_bytes(*id)),
        uuid,
        label: String::from_utf8(label.to_vec()).ok()?,
        checksum: Checksum::from_code(checksum)?,
        created: Epoch(u64::from_le_bytes(*created)),
        handles: 0,
    })
}

fn find(txn: &Txn, name: ContainerRef<'_>) -> Result<ContainerInfo> {
    let unknown = || {
        let name = match name {
            ContainerRef::Label(label) => label.to_owned(),
            ContainerRef::Uuid(uuid) => uuid.to_string(),
        };
        Error::new(ErrorKind::NotFound, format!("the pool has no container {name}"))
    };
    let uuid = match name {
        ContainerRef::Uuid(uuid) => uuid,
        ContainerRef::Label(label) => {
            let value = txn.get(&label_key(label))?.ok_or_else(unknown)?;
            Uuid(value.try_into().map_err(|_| unknown())?)
        }
    };
    let key = container_key(uuid);
    decode(&key, txn.get(&key)?.ok_or_else(unknown)?)
}

impl State {
    /// Makes a container.
    ///
    /// # Errors
    /// `Exists` where label or UUID are taken.
    pub fn create_container(&self, spec: &ContainerSpec<'_>) -> Result<ContainerInfo> {
        spec.label.map_or(Ok(()), check_label)?;
        let uuid = match spec.uuid {
            Some(uuid) => uuid,
            None => esker_os::random_uuid()?,
        };
        self.targets[0].change(|change| {
            change.check_room()?;
            let info = ContainerInfo {
                id: next_id(change)?,
                uuid,
                label: spec.label.unwrap_or_default().to_owned(),
                checksum: spec.checksum,
                created: change.epoch,
                handles: 0,
            };
            insert(change, &info)?;
            metadata::put_next_oid(change, info.id, spec.first_oid)?;
            for (name, value) in spec.metadata {
                change.put(&metadata::key(info.id, name), value)?;
            }
            Ok(info)
        })
    }

    /// Opens a container.
    ///
    /// # Errors
    /// `NotFound`; `Busy` where exclusive use stands against it.
    pub fn open_container(&self, name: ContainerRef<'_>, mode: OpenMode) -> Result<Container> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.control.destroyed_containers().load(Ordering::Acquire);
        let id = find(&*self.targets[0].read()?, name)?.id;
        self.begin_use(&mut uses, id, mode)?;
        match find(&*self.targets[0].read()?, name) {
            Ok(mut info) if info.id == id => {
                info.handles = self.handles(&uses, id);
                Ok(Container { info, seen: AtomicU64::new(seen) })
            }
            other => {
                self.end_use(&mut uses, id)?;
                Err(other.err().unwrap_or_else(|| ErrorKind::NotFound.into()))
            }
        }
    }

    /// Removes a container with all its objects. Others see it gone at once; its space is freed before
    /// this returns, or by the next process that opens the pool if this one dies.
    ///
    /// # Errors
    /// `Busy` where somebody has it open, unless `force`.
    pub fn destroy_container(&self, name: ContainerRef<'_>, force: bool) -> Result<()> {
        let info = find(&*self.targets[0].read()?, name)?;
        {
            let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            let free = || self.control.use_container(info.id, Some(OpenMode::Exclusive));
            if !force && (self.handles(&uses, info.id) > 0 || !free()?) {
                let message = format!("container {} is open: close it, or use force", info.uuid);
                return Err(Error::new(ErrorKind::Busy, message));
            }
        }
        let removed = self.targets[0].change(|change| {
            find(change.txn(), ContainerRef::Uuid(info.uuid))?;
            change.delete(&container_key(info.uuid))?;
            if !info.label.is_empty() {
                change.delete(&label_key(&info.label))?;
            }
            change.put(&Key::container(Table::Doomed, info.id), &[])
        });
        if !force {
            self.control.use_container(info.id, None)?;
        }
        removed?;
        crate::doomed::empty(self, info.id)
    }

    /// All containers, by label.
    pub fn list_containers(&self) -> Result<Vec<ContainerInfo>> {
        let mut found = Vec::new();
        // No view is kept: whoever has `uses` may wait for what waits for views to go.
        each(&*self.targets[0].read()?, &Key::table(Table::Container), |key, value| {
            found.push(decode(key, value)?);
            Ok(())
        })?;
        let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        for info in &mut found {
            info.handles = self.handles(&uses, info.id);
        }
        found.sort_by(|a, b| (&a.label, a.uuid).cmp(&(&b.label, b.uuid)));
        Ok(found)
    }

    /// Gives a container another label; `None` takes it away.
    pub fn rename_container(&self, container: &Container, label: Option<&str>) -> Result<()> {
        label.map_or(Ok(()), check_label)?;
        self.targets[0].change(|change| {
            let mut info = find(change.txn(), ContainerRef::Uuid(container.info.uuid))?;
            if info.label == label.unwrap_or_default() {
                return Ok(());
            }
            if !info.label.is_empty() {
                change.delete(&label_key(&info.label))?;
            }
            change.delete(&container_key(info.uuid))?;
            info.label = label.unwrap_or_default().to_owned();
            insert(change, &info)
        })
    }
}

/// Visits all entries under a prefix.
pub(crate) fn each(
    txn: &Txn,
    prefix: &[u8],
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<()>,
) -> Result<()> {
    let mut cursor = txn.cursor()?;
    let mut entry = cursor.seek(prefix)?;
    while let Some((key, value)) = entry.filter(|(key, _)| key.starts_with(prefix)) {
        visit(key, value)?;
        entry = cursor.next()?;
    }
    Ok(())
}

fn insert(change: &mut Change<'_>, info: &ContainerInfo) -> Result<()> {
    let key = container_key(info.uuid);
    let taken =
        |what: &str| Error::new(ErrorKind::Exists, format!("container {what} exists already"));
    if change.txn().get(&key)?.is_some() {
        return Err(taken(&info.uuid.to_string()));
    }
    if !info.label.is_empty() {
        let label = label_key(&info.label);
        if change.txn().get(&label)?.is_some() {
            return Err(taken(&info.label));
        }
        change.put(&label, &info.uuid.0)?;
    }
    change.put(&key, &encode(info))
}

/// Draws a number no container ever had.
fn next_id(change: &mut Change<'_>) -> Result<ContainerId> {
    let key = Key::table(Table::Next);
    let last = change
        .txn()
        .get(&key)?
        .and_then(|value| value.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    if last >= CONTAINERS_MAX {
        let message = format!(
            "the pool has had {CONTAINERS_MAX} containers, the most one has in its life: make another pool"
        );
        return Err(Error::new(ErrorKind::Overflow, message));
    }
    change.put(&key, &(last + 1).to_le_bytes())?;
    Ok(ContainerId(last + 1))
}

#[cfg(test)]
mod tests {
    use crate::tests::Scratch;
    use std::sync::Barrier;

    #[test]
    fn a_list_waits_for_others_without_a_view() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.state();
        let target = &state.targets[0];
        let begun = Barrier::new(2);
        std::thread::scope(|scope| {
            let opening = state.uses.lock().unwrap();
            let list = scope.spawn(|| {
                begun.wait();
                state.list_containers()
            });
            begun.wait();
            let moves_on = |number: u64| {
                target.change(|change| change.put(b"Tkey", &number.to_le_bytes())).unwrap();
                target.index.outwait_readers().unwrap()
            };
            let stuck = (0..1000).find(|&number| !moves_on(number));
            drop(opening);
            list.join().unwrap().unwrap();
            assert_eq!(stuck, None, "a list that waits keeps its view");
        });
    }
}
