//! Containers of a pool, their handles and their metadata. All of it is stored on target 0.
use crate::format::keys::{Key, Table};
use crate::index::entries;
use crate::index::txn::Txn;
use crate::shard::Scope;
use crate::shard::change::Change;
use crate::shard::container::{Container, Uses, container_key};
use crate::shard::open_pool::OpenPool;
use esker_types::info::{ContainerId, ContainerInfo, ContainerRef, OpenMode};
use esker_types::limits::CONTAINERS_MAX;
use esker_types::{Checksum, Epoch, Error, ErrorKind, Result, Uuid, check_label};
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

/// Specification of a container to be created.
#[derive(Clone, Debug, Default)]
pub struct ContainerSpec<'a> {
    /// Label of the container, if any.
    pub label: Option<&'a str>,
    /// UUID of the container; `None` for a random one.
    pub uuid: Option<Uuid>,
    /// Kind of checksums of the data.
    pub checksum: Checksum,
    /// Initial metadata.
    pub metadata: &'a [(&'a str, &'a [u8])],
    /// First object id that is allocated.
    pub first_oid: u64,
}

fn label_key(label: &str) -> Key {
    Key::table(Table::Label).push(label.as_bytes())
}

/// Encodes the value of a container: number, checksum, epoch of creation, label.
fn encode(info: &ContainerInfo) -> Vec<u8> {
    let mut out = info.id.0.to_le_bytes().to_vec();
    out.push(info.checksum as u8);
    out.extend_from_slice(&info.created.0.to_le_bytes());
    out.extend_from_slice(info.label.as_bytes());
    out
}

/// Variant of [`parse_container`] that fails with `Corrupt` for a damaged entry.
fn decode(key: &[u8], value: &[u8]) -> Result<ContainerInfo> {
    parse_container(key, value).ok_or_else(|| {
        Error::new(ErrorKind::Corrupt, "a container's record is damaged: run `esker pool check`")
    })
}

/// Decodes an entry of the table of containers; `None` if it is damaged.
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

#[cold]
fn unknown_error(name: ContainerRef<'_>) -> Error {
    let name = match name {
        ContainerRef::Label(label) => label.to_owned(),
        ContainerRef::Uuid(uuid) => uuid.to_string(),
    };
    Error::new(ErrorKind::NotFound, format!("the pool has no container {name}"))
}

/// Finds a container by its label or UUID.
fn find(txn: &Txn, name: ContainerRef<'_>) -> Result<ContainerInfo> {
    let unknown = || unknown_error(name);
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

impl OpenPool {
    /// Creates a container.
    ///
    /// # Errors
    /// `Exists` if label or UUID are in use.
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
            put_next_oid(change, info.id, spec.first_oid)?;
            for (name, value) in spec.metadata {
                change.put(&metadata_key(info.id, name), value)?;
            }
            Ok(info)
        })
    }

    fn find(&self, name: ContainerRef<'_>) -> Result<ContainerInfo> {
        find(self.targets[0].view_of(Scope::Committed)?.committed(), name)
    }

    /// Opens a container.
    ///
    /// # Errors
    /// `NotFound` if there is not such a container; `Busy` if exclusive use conflicts.
    pub fn open_container(&self, name: ContainerRef<'_>, mode: OpenMode) -> Result<Container> {
        let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = self.control.destroyed_containers().load(Ordering::Acquire);
        let id = self.find(name)?.id;
        let mut info = self.begin_confirmed_use(&mut uses, id, mode, || self.find(name))?;
        info.handles = self.handles(&uses, id);
        Ok(Container::new(info, seen))
    }

    /// Begins the use of container `id`, then calls `confirm`, which must find the same container. If it fails, or
    /// finds another container, ends the use again. The error is that of `confirm`, or `NotFound` for another
    /// container.
    fn begin_confirmed_use(
        &self,
        uses: &mut Uses,
        id: ContainerId,
        mode: OpenMode,
        confirm: impl FnOnce() -> Result<ContainerInfo>,
    ) -> Result<ContainerInfo> {
        self.begin_use(uses, id, mode)?;
        match confirm() {
            Ok(info) if info.id == id => Ok(info),
            other => {
                self.end_use(uses, id)?;
                Err(other.err().unwrap_or_else(|| ErrorKind::NotFound.into()))
            }
        }
    }

    /// Destroys a container with all its objects. Other processes see this at once. Its space is freed before this
    /// returns. If this process dies before, the next process that opens the pool frees it.
    ///
    /// # Errors
    /// `Busy` if a process has it open, unless `force`.
    pub fn destroy_container(&self, name: ContainerRef<'_>, force: bool) -> Result<()> {
        let info = self.find(name)?;
        match force {
            true => self.remove_container(&info)?,
            false => self.remove_unused(&info)?,
        }
        self.targets.iter().try_for_each(|target| target.wait_for_all_leases())?;
        crate::commit::destroyed::retry_later(
            self,
            crate::commit::destroyed::free_container(self, info.id),
        );
        Ok(())
    }

    /// Removes a container that is not open. Exclusive use prevents that a process or a thread opens it meanwhile.
    fn remove_unused(&self, info: &ContainerInfo) -> Result<()> {
        let begin = || {
            let mut uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
            self.begin_use(&mut uses, info.id, OpenMode::Exclusive)
        };
        begin().map_err(|error| match error.kind() {
            ErrorKind::Busy => {
                let message = format!("container {} is open: close it, or use force", info.uuid);
                Error::new(ErrorKind::Busy, message)
            }
            _ => error,
        })?;
        let removed = self.remove_container(info);
        let closed = self.close_container(info.id);
        removed.and(closed)
    }

    /// Removes a container from the catalog. Open handles notice this before leases are checked, so no lease is granted
    /// after that.
    fn remove_container(&self, info: &ContainerInfo) -> Result<()> {
        let removed = self.targets[0].change(|change| {
            // Meanwhile, another process may have renamed the container, or have replaced it by one with the same UUID.
            let name = ContainerRef::Uuid(info.uuid);
            let now = find(change.txn(), name)?;
            if now.id != info.id {
                return Err(unknown_error(name));
            }
            self.begin_removal();
            change.delete(&container_key(info.uuid))?;
            if !now.label.is_empty() {
                change.delete(&label_key(&now.label))?;
            }
            change.put(&Key::container(Table::Destroyed, info.id), &[])
        });
        // After a failure, handles look up their containers in each operation, which is slower but right.
        let _ = self.end_removal();
        removed
    }

    /// All containers, sorted by label.
    pub fn list_containers(&self) -> Result<Vec<ContainerInfo>> {
        let mut found = Vec::new();
        // No read transaction is kept open here: the owner of `uses` may wait for a process that waits for readers to
        // finish.
        entries::each(
            self.targets[0].view_of(Scope::Committed)?.committed(),
            &Key::table(Table::Container),
            |key, value| {
                found.push(decode(key, value)?);
                Ok(())
            },
        )?;
        let uses = self.uses.lock().unwrap_or_else(PoisonError::into_inner);
        for info in &mut found {
            info.handles = self.handles(&uses, info.id);
        }
        found.sort_by(|a, b| (&a.label, a.uuid).cmp(&(&b.label, b.uuid)));
        Ok(found)
    }

    /// Sets the label of an open container; `None` removes it.
    ///
    /// # Errors
    /// `NoHandle` if it was destroyed; `Exists` if the label is in use.
    pub fn rename_container(&self, container: &Container, label: Option<&str>) -> Result<()> {
        label.map_or(Ok(()), check_label)?;
        self.targets[0].change(|change| {
            container.check_alive(self)?;
            let mut info = find(change.txn(), ContainerRef::Uuid(container.info().uuid))?;
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

/// Puts the entry of a new container and, if it has a label, the entry of the label. Fails with `Exists` if either of
/// them exists.
fn insert(change: &mut Change<'_>, info: &ContainerInfo) -> Result<()> {
    let key = container_key(info.uuid);
    let taken =
        |what: &str| Error::new(ErrorKind::Exists, format!("container {what} already exists"));
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

/// Allocates a container number that was never used before.
fn next_id(change: &mut Change<'_>) -> Result<ContainerId> {
    let key = Key::table(Table::Next);
    let last = change
        .txn()
        .get(&key)?
        .and_then(|value| value.try_into().ok())
        .map_or(0, u32::from_le_bytes);
    if last >= CONTAINERS_MAX {
        let message = format!(
            "the pool has had {CONTAINERS_MAX} containers (CONTAINERS_MAX), the maximum over its lifetime: create another pool"
        );
        return Err(Error::new(ErrorKind::Overflow, message));
    }
    change.put(&key, &(last + 1).to_le_bytes())?;
    Ok(ContainerId(last + 1))
}

impl OpenPool {
    /// Allocates `count` consecutive object ids; returns the first one.
    pub fn allocate_oids(&self, container: &Container, count: u64) -> Result<u64> {
        self.targets[0].change(|change| {
            container.check_alive(self)?;
            let first = next_oid(change.txn(), container.id())?;
            let next = first.checked_add(count).ok_or_else(|| {
                Error::new(
                    ErrorKind::Overflow,
                    "the container has no object ids left: create another one",
                )
            })?;
            put_next_oid(change, container.id(), next)?;
            Ok(first)
        })
    }

    /// The first object id of the next allocation.
    pub fn next_oid(&self, container: &Container) -> Result<u64> {
        next_oid(self.targets[0].view_of(Scope::Committed)?.committed(), container.id())
    }

    /// Value of a metadata entry of a container or, for `None`, of the pool.
    pub fn get_metadata(
        &self,
        container: Option<ContainerId>,
        name: &str,
    ) -> Result<Option<Vec<u8>>> {
        let view = self.targets[0].view_of(Scope::Committed)?;
        let txn = view.committed();
        Ok(txn.get(&metadata_key(container.unwrap_or(POOL), name))?.map(<[u8]>::to_vec))
    }

    /// Sets or removes all or none of the metadata entries of the pool.
    pub fn set_metadata(&self, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        self.targets[0].change(|change| change_metadata(change, POOL, changes))
    }

    /// Sets or removes all or none of the metadata entries of an open container.
    ///
    /// # Errors
    /// `NoHandle` if it was destroyed. The removal of its entries may be over, so an entry written now would stay.
    pub fn set_container_metadata(
        &self,
        container: &Container,
        changes: &[(&str, Option<&[u8]>)],
    ) -> Result<()> {
        self.targets[0].change(|change| {
            container.check_alive(self)?;
            change_metadata(change, container.id(), changes)
        })
    }

    /// Names of the metadata entries that begin with `prefix`, sorted.
    pub fn list_metadata(
        &self,
        container: Option<ContainerId>,
        prefix: &str,
    ) -> Result<Vec<String>> {
        let view = self.targets[0].view_of(Scope::Committed)?;
        let txn = view.committed();
        let scope = Key::container(Table::Attribute, container.unwrap_or(POOL));
        let mut names = Vec::new();
        entries::each(txn, &scope.clone().push(prefix.as_bytes()), |key, _| {
            names.push(String::from_utf8_lossy(&key[scope.len()..]).into_owned());
            Ok(())
        })?;
        Ok(names)
    }
}

/// Container number that represents the pool as the owner of metadata.
const POOL: ContainerId = ContainerId(0);

/// Sets or removes metadata entries of a container or of the pool.
fn change_metadata(
    change: &mut Change<'_>,
    owner: ContainerId,
    changes: &[(&str, Option<&[u8]>)],
) -> Result<()> {
    for (name, value) in changes {
        let key = metadata_key(owner, name);
        match value {
            Some(value) => {
                change.check_room()?;
                change.put(&key, value)?;
            }
            None => {
                change.delete(&key)?;
            }
        }
    }
    Ok(())
}

/// Key of a metadata entry.
fn metadata_key(container: ContainerId, name: &str) -> Key {
    Key::container(Table::Attribute, container).push(name.as_bytes())
}

fn oid_key(container: ContainerId) -> Key {
    Key::container(Table::Oid, container)
}

fn next_oid(txn: &Txn, container: ContainerId) -> Result<u64> {
    let Some(value) = txn.get(&oid_key(container))? else { return Ok(0) };
    value.try_into().map(u64::from_le_bytes).map_err(|_| {
        let message = "the next object id of the container is damaged: copy it (`esker cont copy`)";
        Error::new(ErrorKind::Corrupt, message)
    })
}

/// Sets the first object id of the next allocation.
fn put_next_oid(change: &mut Change<'_>, container: ContainerId, next: u64) -> Result<()> {
    change.put(&oid_key(container), &next.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::{Change, ContainerSpec, container_key, oid_key};
    use crate::tests::Scratch;
    use esker_types::info::{ContainerRef, OpenMode};
    use esker_types::{ErrorKind, Uuid};
    use std::sync::Barrier;
    use std::sync::atomic::Ordering;

    /// The catalog cannot be read while another node decides about a commit of its target.
    #[test]
    fn failed_open_leaves_no_handle() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
        let id = state.create_container(&spec).unwrap().id;
        let undecided = || Err(ErrorKind::InDoubt.into());
        let failed = {
            let mut uses = state.uses.lock().unwrap();
            state.begin_confirmed_use(&mut uses, id, OpenMode::ReadWrite, undecided)
        };
        assert_eq!(failed.unwrap_err().kind(), ErrorKind::InDoubt);
        state.open_container(ContainerRef::Label("c"), OpenMode::Exclusive).unwrap();
    }

    /// Ids that were allocated before would be allocated again.
    #[test]
    fn damaged_object_id_allocates_nothing() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let uuid = state.create_container(&ContainerSpec::default()).unwrap().uuid;
        let container =
            state.open_container(ContainerRef::Uuid(uuid), OpenMode::ReadWrite).unwrap();
        assert_eq!(state.allocate_oids(&container, 5).unwrap(), 0);
        let damage = |change: &mut Change<'_>| change.put(&oid_key(container.id()), &[5; 7]);
        state.targets[0].change(damage).unwrap();
        for refused in [state.allocate_oids(&container, 1), state.next_oid(&container)] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Corrupt);
        }
    }

    /// A record written after the space of the container was freed would stay, and salvage would find a container
    /// without a name.
    #[test]
    fn destroyed_container_gets_no_metadata() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
        let id = state.create_container(&spec).unwrap().id;
        let name = ContainerRef::Label("c");
        let open = state.open_container(name, OpenMode::ReadWrite).unwrap();
        state.set_container_metadata(&open, &[("attr:a", Some(b"1"))]).unwrap();
        state.destroy_container(name, true).unwrap();
        let set = state.set_container_metadata(&open, &[("attr:a", Some(b"1"))]);
        assert_eq!(set.unwrap_err().kind(), ErrorKind::NoHandle);
        assert_eq!(state.list_metadata(Some(id), "").unwrap(), [""; 0]);
    }

    /// The destroying process dies right after the commit of the removal. Handles have looked up the container during
    /// the commit.
    #[test]
    fn removal_by_process_that_dies_is_noticed() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let create = || state.create_container(&ContainerSpec::default()).unwrap();
        let (gone, left) = (create(), create());
        let open =
            |uuid| state.open_container(ContainerRef::Uuid(uuid), OpenMode::ReadWrite).unwrap();
        let before = [open(gone.uuid), open(left.uuid)];
        state.begin_removal();
        let during = [open(gone.uuid), open(left.uuid)];
        before.iter().chain(&during).for_each(|handle| handle.check_alive(&state).unwrap());
        let count = state.control.destroyed_containers().load(Ordering::Acquire);
        state.remove_container(&gone).unwrap();
        // The process died before it changed the count.
        state.control.destroyed_containers().store(count, Ordering::Release);
        for [gone, left] in [&before, &during] {
            left.check_alive(&state).unwrap();
            assert_eq!(gone.check_alive(&state).unwrap_err().kind(), ErrorKind::NoHandle);
        }
    }

    /// Another removal ends between the look-up and the commit, and the destroying process dies right after the commit.
    #[test]
    fn end_of_other_removal_does_not_hide_removal() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let gone = state.create_container(&ContainerSpec::default()).unwrap();
        let handle =
            state.open_container(ContainerRef::Uuid(gone.uuid), OpenMode::ReadWrite).unwrap();
        let begin = Barrier::new(2);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                begin.wait();
                state.end_removal().unwrap();
            });
            let removed = state.targets[0].change(|change| {
                state.begin_removal();
                begin.wait();
                // Time for the other thread to end its removal, if it could.
                (0..10_000).for_each(|_| std::thread::yield_now());
                handle.check_alive(&state)?;
                change.delete(&container_key(gone.uuid))
            });
            assert!(removed.unwrap());
            other.join().unwrap();
        });
        assert_eq!(handle.check_alive(&state).unwrap_err().kind(), ErrorKind::NoHandle);
    }

    /// A writer delays the removal of the container. Another thread cannot open the container meanwhile.
    #[test]
    fn container_cannot_be_opened_during_its_removal() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
        let id = state.create_container(&spec).unwrap().id;
        let name = ContainerRef::Label("c");
        let open = || state.open_container(name, OpenMode::ReadWrite).map(drop);
        std::thread::scope(|scope| {
            let writer = state.targets[0].begin_write().unwrap();
            let destroyer = scope.spawn(|| state.destroy_container(name, false));
            esker_testing::wait_for("the exclusive use", || {
                state.handles(&state.uses.lock().unwrap(), id) > 0
            });
            assert_eq!(open().unwrap_err().kind(), ErrorKind::Busy);
            drop(writer);
            destroyer.join().unwrap().unwrap();
        });
        assert_eq!(open().unwrap_err().kind(), ErrorKind::NotFound);
    }

    /// A later container with the same UUID is another container.
    #[test]
    fn handle_of_destroyed_container_does_not_reach_its_successor() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
        let uuid = Some(Uuid::from_random([7; 16]));
        let create = |label| {
            let spec = ContainerSpec { label: Some(label), uuid, ..ContainerSpec::default() };
            state.create_container(&spec).unwrap().id
        };
        let old = create("old");
        let open = state.open_container(ContainerRef::Label("old"), OpenMode::ReadWrite).unwrap();
        state.destroy_container(ContainerRef::Label("old"), true).unwrap();
        assert_ne!(create("new"), old);
        for refused in [
            open.check_alive(&state),
            state.rename_container(&open, Some("renamed")),
            state.set_container_metadata(&open, &[("attr:a", Some(b"1"))]),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::NoHandle);
        }
        assert_eq!(state.list_containers().unwrap()[0].label, "new");
    }

    /// A thread that holds `uses` makes the list wait. Meanwhile, writers must be able to reuse pages.
    #[test]
    fn list_waits_for_lock_without_a_read_transaction() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        let state = pool.opened();
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
                target.index().wait_for_readers().unwrap()
            };
            let stuck = (0..1000).find(|&number| !moves_on(number));
            drop(opening);
            list.join().unwrap().unwrap();
            assert_eq!(stuck, None, "a waiting list keeps its read transaction");
        });
    }
}
