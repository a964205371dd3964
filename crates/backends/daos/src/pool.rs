//! The backend trait of pools. Containers are containers of DAOS.
use super::backend::{Daos, Shared, checksum_number};
use super::container::Opened;
use super::names::{CREATED, check_shown, stored_name, stored_value};
use super::{metadata, pending};
use crate::binding;
use crate::binding::ContainerMode;
use esker_backend::handles::Handled;
use esker_backend::{
    Capabilities, Metadata, MetadataChanges, NewContainer, OpenContainer, Pool, Reply,
};
use esker_types::info::{ContainerInfo, ContainerRef, OpenMode, PoolInfo};
use esker_types::{Epoch, Error, ErrorKind, Result, Uuid};
use std::sync::Arc;

impl Metadata for Daos {
    fn get_metadata<'a>(&'a self, name: &'a str) -> Reply<'a, Option<Vec<u8>>> {
        pending(async move { metadata::get(&self.0.connection.attributes(), name).await })
    }

    fn set_metadata<'a>(&'a self, changes: &'a MetadataChanges<'a>) -> Reply<'a, ()> {
        pending(async move { metadata::set(&self.0.connection.attributes(), changes).await })
    }

    fn list_metadata<'a>(&'a self, prefix: &'a str) -> Reply<'a, Vec<String>> {
        pending(async move { metadata::list(&self.0.connection.attributes(), prefix).await })
    }
}

impl Pool for Daos {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            shared_leases: false,
            change_ids: false,
            asynchronous: true,
            assigns_uuids: true,
            proves_by_value: true,
            half_range: true,
            any_akeys: false,
            fitting_classes: true,
            short_lexical_keys: true,
            fixed_layouts: true,
            lasting_kinds: true,
            late_epochs: true,
            domains: self.0.domains,
            ..Capabilities::all(self.0.targets)
        }
    }

    fn info(&self) -> Reply<'_, PoolInfo> {
        pending(self.0.info())
    }

    fn create_container<'a>(&'a self, new: &'a NewContainer<'a>) -> Reply<'a, ContainerInfo> {
        pending(create(&self.0, new))
    }

    fn open_container<'a>(
        &'a self,
        name: ContainerRef<'a>,
        mode: OpenMode,
    ) -> Reply<'a, Box<dyn OpenContainer>> {
        pending(async move {
            let opened = Opened::open(&self.0, &text_of(name), mode).await?;
            Ok(Box::new(opened) as Box<dyn OpenContainer>)
        })
    }

    /// The handles of this process are retired last, because DAOS may refuse the destruction.
    fn destroy_container<'a>(&'a self, name: ContainerRef<'a>, force: bool) -> Reply<'a, ()> {
        pending(async move {
            let uuid = self.find(name).await?;
            // By its UUID, because another container may have the label by now.
            self.0.connection.destroy(&uuid.to_string(), force).await?;
            self.0.note(uuid).handles().retire();
            Ok(())
        })
    }

    fn list_containers(&self) -> Reply<'_, Vec<ContainerInfo>> {
        pending(async move {
            let all = self.0.connection.containers().await?;
            let mut all = self.0.describe(&all).await;
            all.sort_by(|a, b| (&a.label, a.uuid).cmp(&(&b.label, b.uuid)));
            Ok(all)
        })
    }
}

impl Daos {
    /// The UUID of the container `name`. A label is looked up in the list of the containers.
    async fn find(&self, name: ContainerRef<'_>) -> Result<Uuid> {
        let label = match name {
            ContainerRef::Uuid(uuid) => return Ok(uuid),
            ContainerRef::Label(label) => label,
        };
        let all = self.0.connection.containers().await?;
        let found = all.iter().find(|listed| listed.label == label).map(|listed| listed.uuid);
        found.ok_or_else(|| {
            let message = format!("pool {} has no container {label:?}", self.0.url);
            Error::new(ErrorKind::NotFound, message)
        })
    }
}

/// Label or UUID as DAOS takes it.
fn text_of(name: ContainerRef<'_>) -> String {
    match name {
        ContainerRef::Label(label) => label.to_owned(),
        ContainerRef::Uuid(uuid) => uuid.to_string(),
    }
}

/// Creates a container, then sets its metadata. If that fails, the container is removed again. A container with
/// metadata gets its label last. So if the process is killed in between, there is no container with this label that
/// lacks its metadata.
async fn create(pool: &Arc<Shared>, new: &NewContainer<'_>) -> Result<ContainerInfo> {
    if let Some(uuid) = new.uuid {
        let message =
            format!("DAOS gives containers their ids: {uuid} cannot be chosen; leave it out");
        return Err(Error::new(ErrorKind::NotSupported, message));
    }
    check_shown(new.label)?;
    let value = |wanted: &str| {
        new.metadata.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value)
    };
    let wanted = binding::NewContainer {
        label: new.label.filter(|_| new.metadata.is_empty()).map(str::to_owned),
        checksum: checksum_number(new.checksum),
        first_oid: new.first_oid,
        layout: metadata::layout(value),
    };
    let uuid = pool.connection.create(&wanted).await?;
    match describe(pool, uuid, new).await {
        Ok(info) => Ok(info),
        Err(error) => {
            // The caller gets the first error.
            let _ = pool.connection.destroy(&uuid.to_string(), true).await;
            Err(error)
        }
    }
}

/// Stores the metadata of a new container, and describes it. Its label is set last.
async fn describe(pool: &Arc<Shared>, uuid: Uuid, new: &NewContainer<'_>) -> Result<ContainerInfo> {
    let mode = ContainerMode::Use(OpenMode::ReadWrite);
    let container = pool.connection.open(&uuid.to_string(), mode).await?;
    let created = Epoch::now();
    let mut values = vec![(CREATED.to_owned(), created.0.to_le_bytes().to_vec())];
    let given = new.metadata.iter();
    values.extend(given.map(|(name, value)| (stored_name(name), stored_value(value))));
    container.attributes().set(&values).await?;
    if let Some(label) = new.label.filter(|_| !new.metadata.is_empty()) {
        container.set_label(label).await?;
    }
    let known = pool.note(uuid);
    *known.about.lock() = Some((new.checksum, created));
    container.close().await?;
    let label = new.label.unwrap_or_default().to_owned();
    let checksum = new.checksum;
    Ok(ContainerInfo { id: known.id, uuid, label, checksum, created, handles: 0 })
}
