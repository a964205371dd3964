//! Pools of DAOS: opening them, and the containers that this process has opened or listed.
use super::JOIN_MAX;
use super::names::{CREATED, shown_label};
use super::oids::Numbers;
use super::url::DaosUrl;
use crate::binding::{Container, ContainerMode, Listed, Pool as Connection, PoolState};
use esker_backend::handles::{Handled, Handles, Table};
use esker_backend::leases::Leases;
use esker_os::ForkLock;
use esker_os::executor::{block_on, side_by_side, task};
use esker_types::info::{
    ContainerId, ContainerInfo, Durability, Medium, OpenMode, PoolInfo, Space,
};
use esker_types::{Checksum, Epoch, Error, ErrorKind, Result, Uuid};
use std::sync::Arc;

/// A pool of a DAOS system.
pub struct Daos(pub(super) Arc<Shared>);

/// Data shared by a pool and its open containers.
pub(super) struct Shared {
    pub(super) connection: Connection,
    pub(super) url: DaosUrl,
    /// The mode in which the pool was opened.
    mode: OpenMode,
    pub(super) targets: u32,
    /// Number of fault domains: nodes of the DAOS system, at most one for each target.
    pub(super) domains: u32,
    table: Table<Known>,
}

/// A container that this process has opened or listed.
pub(super) struct Known {
    pub(super) id: ContainerId,
    /// Checksum and time of creation; unset until it was opened.
    pub(super) about: ForkLock<Option<(Checksum, Epoch)>>,
    pub(super) numbers: Numbers,
    pub(super) leases: Leases,
    handles: Handles,
}

impl Handled for Known {
    fn handles(&self) -> &Handles {
        &self.handles
    }
}

impl Daos {
    /// Connects to the pool at a URL.
    ///
    /// # Errors
    /// `NotSupported` if libdaos is not there or is Esker's own; `NotFound` if the pool does not exist; `NoPermission`;
    /// `TimedOut` if the system does not answer; `Busy` if exclusive use conflicts.
    pub fn open(url: &DaosUrl, mode: OpenMode) -> Result<Self> {
        let (name, system) = (url.pool.as_str(), url.system.as_deref());
        let connection = block_on(Connection::connect(name, system, mode, url.timeout))?;
        let PoolState { targets, nodes, .. } = block_on(connection.query())?;
        let (targets, domains) = (targets.max(1), nodes.clamp(1, targets.max(1)));
        let (url, table) = (url.clone(), Table::default());
        Ok(Self(Arc::new(Shared { connection, url, mode, targets, domains, table })))
    }
}

impl Shared {
    /// A connection for writing, for reads by the user that require writes to DAOS.
    pub(super) async fn writable(&self) -> Result<Connection> {
        let (name, system) = (self.url.pool.as_str(), self.url.system.as_deref());
        match self.mode {
            OpenMode::ReadOnly => {
                Connection::connect(name, system, OpenMode::ReadWrite, self.url.timeout).await
            }
            _ => Ok(self.connection.clone()),
        }
    }

    /// Refuses writes through a pool that was opened for reading. DAOS would open its containers for writing
    /// nevertheless.
    ///
    /// # Errors
    /// `NoPermission`.
    pub(super) fn check_mode(&self, wanted: OpenMode) -> Result<()> {
        if self.mode != OpenMode::ReadOnly || wanted == OpenMode::ReadOnly {
            return Ok(());
        }
        let message = format!("pool {} is open for reading only: open it for writing", self.url);
        Err(Error::new(ErrorKind::NoPermission, message))
    }

    /// The state of the pool. DAOS reports space per medium only, so each target is shown with an equal share.
    pub(super) async fn info(&self) -> Result<PoolInfo> {
        let state = self.connection.query().await?;
        let share = |bytes: u64| bytes / u64::from(self.targets);
        let (data_total, data_free) = (share(state.total), share(state.free));
        let space = Space { data_total, data_free, is_shared: true, ..Space::default() };
        let label = if state.label.is_empty() { self.url.pool.clone() } else { state.label };
        Ok(PoolInfo {
            uuid: state.uuid,
            label,
            url: self.url.to_string(),
            targets: vec![space; self.targets as usize],
            medium: Medium::Other,
            durability: Durability::Commit,
        })
    }

    /// The container with this UUID, which is added to the table.
    pub(super) fn note(&self, uuid: Uuid) -> Arc<Known> {
        self.table.note(uuid, |id| Known {
            id,
            about: ForkLock::default(),
            numbers: Numbers::default(),
            leases: Leases::default(),
            handles: Handles::default(),
        })
    }

    /// Returns descriptions of the listed containers, in the same order.
    pub(super) async fn describe(&self, listed: &[Listed]) -> Vec<ContainerInfo> {
        let each = listed.iter().map(|listed| task(self.described(listed)));
        side_by_side(each.collect(), JOIN_MAX).await
    }

    /// Description of a container in a listing. Its checksum and its time of creation are read once. They stay unknown
    /// if the container cannot be opened, because this user has no permission or another client uses it exclusively.
    async fn described(&self, listed: &Listed) -> ContainerInfo {
        let known = self.note(listed.uuid);
        let about = *known.about.lock();
        let about = match about {
            Some(about) => Some(about),
            None => self.read_about(listed.uuid, &known).await.ok(),
        };
        let (checksum, created) = about.unwrap_or_default();
        ContainerInfo {
            id: known.id,
            uuid: listed.uuid,
            label: shown_label(&listed.label).to_owned(),
            checksum,
            created,
            handles: listed.handles,
        }
    }

    /// Opens a container to read its checksum and its time of creation, and keeps both in `known`.
    async fn read_about(&self, uuid: Uuid, known: &Known) -> Result<(Checksum, Epoch)> {
        let container = self.connection.open(&uuid.to_string(), ContainerMode::Look).await?;
        let about = (checksum_of(container.query().await?.checksum), created(&container).await?);
        container.close().await?;
        *known.about.lock() = Some(about);
        Ok(about)
    }
}

/// Creation time of a container. DAOS does not record it, so it is zero for a container that Esker did not create.
pub(super) async fn created(container: &Container) -> Result<Epoch> {
    let stored = container.attributes().get(CREATED).await?;
    let number = stored.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    Ok(number.map(Epoch).unwrap_or_default())
}

/// Numbers of checksums (`DAOS_PROP_CO_CSUM_*`).
const OFF: u64 = 0;
const CRC32: u64 = 2;
const CRC64: u64 = 3;

/// Returns DAOS's number of a checksum.
pub(super) fn checksum_number(checksum: Checksum) -> u64 {
    match checksum {
        Checksum::Off => OFF,
        Checksum::Crc32c => CRC32,
        Checksum::Crc64 => CRC64,
    }
}

/// The checksum with a number. All other checksums of DAOS are at least as strong as the default, which stands for
/// them.
pub(super) fn checksum_of(number: u64) -> Checksum {
    match number {
        OFF => Checksum::Off,
        CRC64 => Checksum::Crc64,
        _ => Checksum::Crc32c,
    }
}
