//! The object that lists the containers of a pool, and the metadata of pools and containers.
use super::backend::OWN_CHECKSUM;
use super::names::{CONTAINER, POOL, SUPERBLOCK};
use super::patch::{Base, Guard, Patch};
use super::session::{Namespace, Session};
use super::space::{Outcome, Space, contended_error};
use super::write::may_be_committed;
use crate::join_all;
use crate::librados::Compare;
use esker_backend::NewContainer;
use esker_backend::encoding::{Parts, begin, finish, put_bytes, put_u32, put_u64};
use esker_backend::handles::gone;
use esker_os::executor::{block_on, task};
use esker_types::info::{ContainerId, ContainerInfo, ContainerRef, OpenMode};
use esker_types::limits::RADOS_TRIES_MAX;
use esker_types::{Checksum, Epoch, Error, ErrorKind, Result, Uuid};
use std::sync::Arc;

const POOL_MAGIC: &[u8; 8] = b"ESKRRPOL";
const CONTAINER_MAGIC: &[u8; 8] = b"ESKRRCNT";

/// Number of objects removed concurrently when a container is destroyed.
const REMOVED_TOGETHER: usize = 1024;

/// Prefixes of the omap keys of containers, labels and metadata.
const BY_UUID: u8 = b'u';
const BY_LABEL: u8 = b'l';
const METADATA: u8 = b'm';

/// The containers of a pool.
pub(super) struct Registry {
    pub(super) uuid: Uuid,
    session: Arc<Session>,
    namespace: Namespace,
}

/// A container as it is recorded in the registry.
#[derive(Clone, Debug)]
pub(super) struct Listed {
    pub(super) info: ContainerInfo,
    pub(super) first_oid: u64,
}

impl Registry {
    /// Opens the registry of containers. In a pool that was never used, it is created.
    pub(super) fn open(session: &Arc<Session>, mode: OpenMode) -> Result<Self> {
        let namespace = Namespace::new(session, session.url.namespace.clone());
        let mut registry = Self { uuid: Uuid::default(), session: Arc::clone(session), namespace };
        registry.uuid = block_on(registry.superblock(mode))?;
        Ok(registry)
    }

    /// The UUID of the pool; creates the pool if it does not exist and the mode allows writing.
    async fn superblock(&self, mode: OpenMode) -> Result<Uuid> {
        let space = self.space()?;
        for _ in 0..RADOS_TRIES_MAX {
            match space.value(POOL, SUPERBLOCK).await? {
                Some(record) => return pool_uuid(&record).ok_or_else(incompatible),
                None if mode == OpenMode::ReadOnly => return Err(self.no_pool_error()),
                None => {
                    let uuid = esker_os::random_uuid()?;
                    let mut record = begin(POOL_MAGIC);
                    record.extend_from_slice(&uuid.0);
                    // Another client may be faster: the next round reads the record that was stored.
                    space.exchange(POOL, SUPERBLOCK, None, &finish(record)).await?;
                }
            }
        }
        Err(contended_error(POOL))
    }

    #[cold]
    fn no_pool_error(&self) -> Error {
        let message = format!(
            "no pool at {}: opening it for writing creates it (`esker cont create`)",
            self.session.url
        );
        Error::new(ErrorKind::NotFound, message)
    }

    /// The access to the RADOS objects of the pool itself.
    fn space(&self) -> Result<Space> {
        Ok(Space { io: self.namespace.io_context()?, checksum: OWN_CHECKSUM })
    }

    /// The namespace of a container.
    pub(super) fn namespace_of(&self, uuid: Uuid) -> Namespace {
        Namespace::new(&self.session, format!("{}.{uuid}", self.session.url.namespace))
    }

    /// Creates a container. Nobody else has a random UUID, so its namespace is complete before the container is listed.
    /// With a given UUID, the registry decides first which of several processes creates the container.
    pub(super) async fn create(&self, new: &NewContainer<'_>) -> Result<Listed> {
        let listed = listed(new)?;
        match new.uuid {
            None => {
                self.begin(new, &listed).await?;
                let registered = self.register(&listed).await;
                let may_be_listed = match &registered {
                    Ok(outcome) => *outcome == Outcome::Done,
                    Err(error) => may_be_committed(error),
                };
                if !may_be_listed {
                    // The caller gets the first error.
                    let _ = self.container_space(&listed)?.remove(CONTAINER).await;
                }
                if registered? == Outcome::Conflict {
                    return Err(exists_error(new));
                }
            }
            Some(_) => {
                if self.register(&listed).await? == Outcome::Conflict {
                    return Err(exists_error(new));
                }
                if let Err(error) = self.begin(new, &listed).await {
                    // The caller gets the first error.
                    let _ = self.try_unregister(&listed).await;
                    return Err(error);
                }
            }
        }
        Ok(listed)
    }

    /// Adds a container to the registry, with its label. A conflict if it or the label exists.
    async fn register(&self, listed: &Listed) -> Result<Outcome> {
        let info = &listed.info;
        let label = (!info.label.is_empty()).then(|| label_key(&info.label));
        let (key, mut patch) = (uuid_key(info.uuid), Patch::for_object(POOL));
        patch.guards.push(Guard::new(&key, Compare::Equal, b""));
        patch.guards.extend(label.iter().map(|label| Guard::new(label, Compare::Equal, b"")));
        patch.sets.push((key, encode(listed)));
        patch.sets.extend(label.map(|label| (label, info.uuid.0.to_vec())));
        self.space()?.apply(&patch).await
    }

    /// Writes the superblock and initial metadata of a container.
    async fn begin(&self, new: &NewContainer<'_>, listed: &Listed) -> Result<()> {
        let mut patch = Patch::for_object(CONTAINER);
        patch.sets.push((SUPERBLOCK.to_vec(), encode(listed)));
        let metadata = new.metadata.iter().map(|(name, value)| (metadata_key(name), filled(value)));
        patch.sets.extend(metadata);
        // Nothing guards the patch, so it has no conflict.
        self.container_space(listed)?.apply(&patch).await.map(drop)
    }

    /// The access to the RADOS objects of a container.
    fn container_space(&self, listed: &Listed) -> Result<Space> {
        let io = self.namespace_of(listed.info.uuid).io_context()?;
        Ok(Space { io, checksum: listed.info.checksum })
    }

    /// Finds a container by its UUID or label, for which the registry has an entry each.
    pub(super) async fn find(&self, name: ContainerRef<'_>) -> Result<Listed> {
        let space = self.space()?;
        let uuid = match name {
            ContainerRef::Uuid(uuid) => Some(uuid),
            ContainerRef::Label("") => None,
            ContainerRef::Label(label) => {
                let found = space.value(POOL, &label_key(label)).await?;
                found.and_then(|uuid| uuid.try_into().ok()).map(Uuid)
            }
        };
        let record = match uuid {
            Some(uuid) => space.value(POOL, &uuid_key(uuid)).await?,
            None => None,
        };
        decode(&record.ok_or_else(|| missing_error(name))?).ok_or_else(incompatible)
    }

    /// Lists all containers by label.
    pub(super) async fn all(&self) -> Result<Vec<Listed>> {
        let page = self.space()?.all(POOL, &[BY_UUID]).await?;
        let decoded =
            page.entries.iter().map(|entry| decode(&entry.value).ok_or_else(incompatible));
        let mut all: Vec<Listed> = decoded.collect::<Result<_>>()?;
        all.sort_by(|a, b| (&a.info.label, a.info.uuid).cmp(&(&b.info.label, b.info.uuid)));
        Ok(all)
    }

    /// The current entry of a container that was opened. Fails if it was destroyed, even if another container has its
    /// UUID by now.
    async fn find_opened(&self, opened: &ContainerInfo) -> Result<Listed> {
        let listed = self.find(ContainerRef::Uuid(opened.uuid)).await.map_err(destroyed)?;
        match listed.info.created == opened.created {
            true => Ok(listed),
            false => Err(gone()),
        }
    }

    /// Changes the label of a container that was opened; `None` removes it. Conflicts with other clients are retried.
    pub(super) async fn rename(&self, opened: &ContainerInfo, label: Option<&str>) -> Result<()> {
        let uuid = opened.uuid;
        for _ in 0..RADOS_TRIES_MAX {
            let listed = self.find_opened(opened).await?;
            let old = &listed.info.label;
            let new = label.unwrap_or_default();
            if old == new {
                return Ok(());
            }
            let mut renamed = listed.clone();
            renamed.info.label = new.to_owned();
            let mut patch = Patch::for_object(POOL);
            let key = uuid_key(uuid);
            patch.guards.push(Guard::new(&key, Compare::Equal, &encode(&listed)));
            patch.sets.push((key, encode(&renamed)));
            if !old.is_empty() {
                patch.unsets.push(label_key(old));
            }
            if !new.is_empty() {
                if self.space()?.value(POOL, &label_key(new)).await?.is_some() {
                    let message = format!("container {new} already exists");
                    return Err(Error::new(ErrorKind::Exists, message));
                }
                patch.guards.push(Guard::new(&label_key(new), Compare::Equal, b""));
                patch.sets.push((label_key(new), uuid.0.to_vec()));
            }
            if self.space()?.apply(&patch).await? == Outcome::Done {
                return Ok(());
            }
        }
        Err(contended_error(POOL))
    }

    /// Removes a container from the registry, so that it cannot be opened any more. If another client renames it at the
    /// same time, this is tried again, unless `name` is the label that the container had.
    pub(super) async fn unregister(&self, listed: &Listed, name: ContainerRef<'_>) -> Result<()> {
        let mut listed = listed.clone();
        for _ in 0..RADOS_TRIES_MAX {
            if self.try_unregister(&listed).await? == Outcome::Done {
                return Ok(());
            }
            listed = self.find_opened(&listed.info).await?;
            if matches!(name, ContainerRef::Label(label) if label != listed.info.label) {
                return Err(missing_error(name));
            }
        }
        Err(contended_error(POOL))
    }

    /// Removes the entry of a container from the registry. A conflict if the entry is not `listed` any more.
    async fn try_unregister(&self, listed: &Listed) -> Result<Outcome> {
        let mut patch = Patch::for_object(POOL);
        let key = uuid_key(listed.info.uuid);
        patch.guards.push(Guard::new(&key, Compare::Equal, &encode(listed)));
        patch.unsets.push(key);
        if !listed.info.label.is_empty() {
            patch.unsets.push(label_key(&listed.info.label));
        }
        self.space()?.apply(&patch).await
    }

    /// Removes the objects of a container that is not in the registry any more. Continues after errors other than
    /// time-outs, because nobody can destroy the container again.
    pub(super) async fn remove_objects(&self, listed: &Listed) -> Result<()> {
        let space = self.container_space(listed)?;
        let names: Result<Vec<String>> = space.io.objects().and_then(Iterator::collect);
        let mut outcome = names.as_ref().map(drop).map_err(Clone::clone);
        for batch in names.unwrap_or_default().chunks(REMOVED_TOGETHER) {
            let removed = batch.iter().map(|name| task(space.remove(name))).collect();
            outcome = join_all(removed).await.into_iter().fold(outcome, Result::and);
            if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::TimedOut) {
                break;
            }
        }
        outcome.map_err(|cause| self.remaining_error(listed, &cause))
    }

    /// The error of a destruction that has left objects.
    #[cold]
    fn remaining_error(&self, listed: &Listed, cause: &Error) -> Error {
        let (url, uuid) = (&self.session.url, listed.info.uuid);
        let message = format!(
            "container {uuid} is destroyed, but some of its RADOS objects remain and use space ({cause}): \
             `rados -p {} -N {}.{uuid} ls` lists them",
            url.pool, url.namespace
        );
        Error::new(cause.kind(), message)
    }

    /// The metadata of a container, or with `None` of the pool.
    pub(super) fn metadata_of(&self, container: Option<Space>) -> Result<Metadata> {
        match container {
            Some(space) => Ok(Metadata { space, object: CONTAINER }),
            None => Ok(Metadata { space: self.space()?, object: POOL }),
        }
    }
}

/// Metadata of a pool or container.
pub(super) struct Metadata {
    space: Space,
    object: &'static str,
}

impl Metadata {
    /// Value of a metadata name; `None` if it is not set. The byte that [`filled`] has added is removed.
    pub(super) async fn get(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let value = self.space.value(self.object, &metadata_key(name)).await?;
        Ok(value.map(|mut value| {
            value.truncate(value.len().saturating_sub(1));
            value
        }))
    }

    /// Sets and removes metadata names in one operation. Of several changes to a name, the last one counts.
    pub(super) async fn set(&self, changes: &[(&str, Option<&[u8]>)]) -> Result<()> {
        let mut patch = Patch::for_object(self.object);
        for (name, value) in changes {
            let key = metadata_key(name);
            patch.sets.retain(|(other, _)| *other != key);
            patch.unsets.retain(|other| *other != key);
            match value {
                Some(value) => patch.sets.push((key, filled(value))),
                None => patch.unsets.push(key),
            }
        }
        self.space.apply(&patch).await.map(drop)
    }

    /// Lists the metadata names that begin with `prefix`.
    pub(super) async fn list(&self, prefix: &str) -> Result<Vec<String>> {
        let page = self.space.all(self.object, &metadata_key(prefix)).await?;
        let names =
            page.entries.into_iter().map(|entry| String::from_utf8(entry.key[1..].to_vec()));
        names.map(|name| name.map_err(|_| incompatible())).collect()
    }
}

impl Space {
    /// Replaces the value of a key if it still is `old`, or missing with `None`; otherwise returns false.
    pub(super) async fn exchange(
        &self,
        object: &str,
        key: &[u8],
        old: Option<&[u8]>,
        new: &[u8],
    ) -> Result<bool> {
        let mut patch = Patch::for_object(object);
        patch.base = Base::Any;
        patch.guards.push(Guard::new(key, Compare::Equal, old.unwrap_or_default()));
        patch.sets.push((key.to_vec(), new.to_vec()));
        Ok(self.apply(&patch).await? == Outcome::Done)
    }
}

/// The registry entry of a new container.
fn listed(new: &NewContainer<'_>) -> Result<Listed> {
    let info = ContainerInfo {
        id: ContainerId(0),
        uuid: new.uuid_or_random()?,
        label: new.label.unwrap_or_default().to_owned(),
        checksum: new.checksum,
        created: Epoch::now(),
        handles: 0,
    };
    Ok(Listed { info, first_oid: new.first_oid })
}

fn uuid_key(uuid: Uuid) -> Vec<u8> {
    keyed(BY_UUID, uuid.to_string().as_bytes())
}

fn label_key(label: &str) -> Vec<u8> {
    keyed(BY_LABEL, label.as_bytes())
}

fn metadata_key(name: &str) -> Vec<u8> {
    keyed(METADATA, name.as_bytes())
}

/// An omap key: the prefix `sort`, then the name.
fn keyed(sort: u8, name: &[u8]) -> Vec<u8> {
    [&[sort], name].concat()
}

/// A value that is never empty, because guards treat empty values as missing.
fn filled(value: &[u8]) -> Vec<u8> {
    [value, &[1]].concat()
}

/// Encodes the record of a container.
fn encode(listed: &Listed) -> Vec<u8> {
    let mut out = begin(CONTAINER_MAGIC);
    out.extend_from_slice(&listed.info.uuid.0);
    put_bytes(&mut out, listed.info.label.as_bytes());
    put_u32(&mut out, listed.info.checksum as u32);
    put_u64(&mut out, listed.info.created.0);
    put_u64(&mut out, listed.first_oid);
    finish(out)
}

/// Decodes the record of a container; `None` if it is damaged.
fn decode(record: &[u8]) -> Option<Listed> {
    let mut parts = Parts::open(CONTAINER_MAGIC, record)?;
    let info = ContainerInfo {
        id: ContainerId(0),
        uuid: Uuid(parts.take(16)?.try_into().ok()?),
        label: String::from_utf8(parts.bytes()?.to_vec()).ok()?,
        checksum: Checksum::from_code(u8::try_from(parts.u32()?).ok()?)?,
        created: Epoch(parts.u64()?),
        handles: 0,
    };
    Some(Listed { info, first_oid: parts.u64()? })
}

/// Decodes the record of a pool; `None` if it is damaged.
fn pool_uuid(record: &[u8]) -> Option<Uuid> {
    let mut parts = Parts::open(POOL_MAGIC, record)?;
    Some(Uuid(parts.take(16)?.try_into().ok()?))
}

/// The error of an operation on a container whose entry could not be read. A missing one was destroyed.
#[cold]
fn destroyed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => gone(),
        _ => error,
    }
}

#[cold]
fn missing_error(name: ContainerRef<'_>) -> Error {
    Error::new(ErrorKind::NotFound, format!("no container {name:?}"))
}

#[cold]
fn incompatible() -> Error {
    let message = "a rados pool is damaged or its version is not supported by this release: use a newer release";
    Error::new(ErrorKind::Incompatible, message)
}

#[cold]
fn exists_error(new: &NewContainer<'_>) -> Error {
    let name = new.label.map(str::to_owned).or_else(|| new.uuid.map(|uuid| uuid.to_string()));
    Error::new(ErrorKind::Exists, format!("container {} already exists", name.unwrap_or_default()))
}
