//! Properties of a container, stored with it as metadata.
use super::Time;
use crate::abi::{Prop, PropEntry, Ptr, Roots};
use crate::acl;
use crate::code::{Code, Result};
use crate::handles::OpenContainer;
use crate::property::table::{self, CONTAINER, Change, Property, Sort};
use crate::property::{self, Value};
use esker::Container;
use esker::backend::NewContainer;
use esker::types::{Checksum, ObjectType, Uuid};

/// Prefix under which the client stores properties. Metadata of a new container needs the full name.
pub(super) const PREFIX: &str = "prop:";
/// `DAOS_PROP_CO_CLEAR`, shifted as in a status.
const CLEAR: u64 = 1 << 48;

/// The properties of a container to create.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) label: Option<String>,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) checksum: Checksum,
    /// Number that the first allocation of object ids returns.
    pub(crate) first_oid: u64,
    /// Names and values of the other properties, as they are stored.
    pub(crate) metadata: Vec<(String, Vec<u8>)>,
}

impl Wanted {
    /// Reads a list of properties; a null pointer is an empty list. Without an owner in the list, the user of this
    /// process is the owner.
    pub(crate) fn read(prop: Ptr<Prop>) -> Result<Self> {
        let mut wanted = Self::default();
        for (id, mine) in [(table::CO_OWNER, owner()), (table::CO_OWNER_GROUP, owner_group())] {
            wanted.set(id, &Value::Text(mine))?;
        }
        for (property, value) in read(prop)? {
            if property.change == Change::Never {
                return Err(Code::NO_PERM);
            }
            wanted.take(property, value)?;
        }
        Ok(wanted)
    }

    /// Sets the value of property `id` in the metadata to store. It replaces a value that was set before.
    pub(crate) fn set(&mut self, id: u32, value: &Value) -> Result<()> {
        let name = format!("{PREFIX}{}", by_id(id)?.name);
        self.metadata.retain(|(known, _)| *known != name);
        self.metadata.push((name, value.to_bytes()));
        Ok(())
    }

    /// The metadata to store with the new container, borrowed as [`Wanted::describe`] takes it.
    pub(crate) fn metadata(&self) -> Vec<(&str, &[u8])> {
        self.metadata.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect()
    }

    /// Describes the container to create. `metadata` is the result of [`Wanted::metadata`]. `label` takes precedence
    /// over a label in the list of properties.
    pub(crate) fn describe<'a>(
        &'a self,
        label: Option<&'a str>,
        metadata: &'a [(&'a str, &'a [u8])],
    ) -> NewContainer<'a> {
        NewContainer::nameless()
            .with_label(label.or(self.label.as_deref()))
            .with_uuid(self.uuid)
            .with_checksum(self.checksum)
            .with_metadata(metadata)
            .with_first_oid(self.first_oid)
    }

    /// Stores the value of a property for the new container. `NOTSUPPORTED` for a value that DAOS has and Esker does
    /// not.
    fn take(&mut self, property: &Property, value: Value) -> Result<()> {
        match (property.id, value) {
            (table::CO_LABEL, Value::Text(label)) => self.label = Some(label),
            (table::CO_ALLOCED_OID, Value::Number(first)) => self.first_oid = first,
            (table::CO_CSUM, Value::Number(number)) => self.checksum = checksum(number)?,
            (id, Value::Number(number)) if is_refused(id, number) => {
                return Err(Code::NOTSUPPORTED);
            }
            (id, value) => self.set(id, &value)?,
        }
        Ok(())
    }
}

/// The properties of a list and their values.
fn read(prop: Ptr<Prop>) -> Result<Vec<(&'static Property, Value)>> {
    if prop.is_null() {
        return Ok(Vec::new());
    }
    let read = |entry: PropEntry| {
        let property = CONTAINER.iter().find(|property| property.id == entry.kind);
        let property = property.ok_or(Code::INVAL)?;
        Ok((property, Value::read(property, entry)?))
    };
    property::entries(prop)?.into_iter().map(|at| read(at.get()?)).collect()
}

/// The checksum with this number in DAOS. Esker supports none, CRC-32C and CRC-64.
fn checksum(number: u64) -> Result<Checksum> {
    match number {
        0 => Ok(Checksum::Off),
        2 => Ok(Checksum::Crc32c),
        3 => Ok(Checksum::Crc64),
        _ => Err(Code::NOTSUPPORTED),
    }
}

/// Returns the number by which DAOS's checksum property names this checksum.
fn checksum_number(checksum: Checksum) -> u64 {
    match checksum {
        Checksum::Off => 0,
        Checksum::Crc32c => 2,
        Checksum::Crc64 => 3,
    }
}

/// Compression, encryption and deduplication are refused, because Esker does not perform them. A redundancy factor is
/// accepted: it counts fault domains that may fail, and Esker has one.
fn is_refused(id: u32, number: u64) -> bool {
    let unsupported = [table::CO_COMPRESS, table::CO_ENCRYPT, table::CO_DEDUP];
    unsupported.contains(&id) && number != 0
}

/// Maximum number of snapshots of the container; 0 means no limit.
pub(crate) async fn snapshots_max(container: &Container) -> Result<u64> {
    match get(container, by_id(table::CO_SNAPSHOT_MAX)?).await? {
        Value::Number(most) => Ok(most),
        _ => Ok(0),
    }
}

/// The property of a container with DAOS's number `id`.
pub(super) fn by_id(id: u32) -> Result<&'static Property> {
    CONTAINER.iter().find(|property| property.id == id).ok_or(Code::INVAL)
}

/// The value of a property, or its default.
pub(crate) async fn get(container: &Container, property: &Property) -> Result<Value> {
    match property.id {
        table::CO_LABEL => Ok(Value::Text(container.query().await?.label)),
        table::CO_CSUM => Ok(Value::Number(checksum_number(container.info().checksum))),
        table::CO_ALLOCED_OID => Ok(Value::Number(container.next_oid().await?)),
        _ => {
            let kept = container.properties().get(property.name).await?;
            let kept = kept.and_then(|bytes| Value::from_bytes(property.sort, bytes));
            match (kept, property.sort) {
                (Some(kept), _) => Ok(kept),
                (None, Sort::Roots) => Ok(Value::Roots(default_roots(container)?)),
                (None, _) => default(property),
            }
        }
    }
}

/// The root of a container that was created without one, as DAOS chooses it: the object of number 0 in the class for
/// its type.
fn default_roots(container: &Container) -> Result<Roots> {
    let root = container.generate_oid(0, 0, ObjectType::MultiHashed, None, 0)?;
    let mut roots = Roots::default();
    roots.oids[0] = root.into();
    Ok(roots)
}

/// The value of a property, if the user may read it.
pub(crate) async fn show(open: &OpenContainer, property: &Property) -> Result<Value> {
    open.rights.require_get(property)?;
    get(&open.container, property).await
}

/// The default value of a property.
pub(crate) fn default(property: &Property) -> Result<Value> {
    Ok(match (property.id, property.sort) {
        (_, Sort::Number) => Value::Number(property.default),
        (_, Sort::Acl) => Value::Acl(default_acl(property.id)?),
        (_, Sort::Roots) => Value::Roots(Roots::default()),
        (_, Sort::Ranks) => Value::Ranks(vec![0]),
        (table::PO_OWNER | table::CO_OWNER, _) => Value::Text(owner()),
        (_, Sort::Text) => Value::Text(owner_group()),
    })
}

/// The effective user of this process, as a principal. Pools belong to this user unless a property says otherwise.
fn owner() -> String {
    acl::principal::of_user(acl::accounts::effective_user())
}

/// The effective group of this process, as a principal.
fn owner_group() -> String {
    acl::principal::of_group(acl::accounts::effective_groups()[0])
}

/// By default the owner may do everything, the owner group may read and write.
fn default_acl(id: u32) -> Result<Vec<u8>> {
    let texts = match id {
        table::PO_ACL => ["A::OWNER@:rw", "A:G:GROUP@:rw"],
        _ => ["A::OWNER@:rwdtTaAo", "A:G:GROUP@:rwtT"],
    };
    acl::pack(texts.into_iter().map(acl::ace::parse).collect::<Result<_>>()?)
}

/// The entries of a list, each with the property it requests. An empty list requests all properties, a null pointer
/// none.
pub(crate) fn requested(
    prop: Ptr<Prop>,
    known: &'static [Property],
) -> Result<Vec<(Ptr<PropEntry>, &'static Property)>> {
    if prop.is_null() {
        return Ok(Vec::new());
    }
    if prop.get()?.nr == 0 {
        request_all(prop, known)?;
    }
    let property = |at: Ptr<PropEntry>| {
        let kind = at.get()?.kind;
        let property = known.iter().find(|property| property.id == kind).ok_or(Code::INVAL)?;
        Ok((at, property))
    };
    property::entries(prop)?.into_iter().map(property).collect()
}

/// Makes an empty list of properties one that requests all that are `known`. C frees the entries.
fn request_all(prop: Ptr<Prop>, known: &[Property]) -> Result<()> {
    let ids: Vec<_> = known
        .iter()
        .map(|property| PropEntry { kind: property.id, ..Default::default() })
        .collect();
    let list = prop.get()?;
    prop.set(Prop { nr: ids.len() as u32, entries: crate::memory::copy(&ids)?, ..list });
    Ok(())
}

/// Changes properties, all or none. Only the label is changed separately, before the others.
pub(crate) async fn set(open: &OpenContainer, prop: Ptr<Prop>) -> Result<()> {
    prop.needed()?;
    let wanted = read(prop)?;
    if wanted.is_empty() || wanted.iter().any(|(property, _)| property.change != Change::Always) {
        return Err(if wanted.is_empty() { Code::INVAL } else { Code::NO_PERM });
    }
    wanted.iter().try_for_each(|(property, _)| open.rights.require_set(property.id))?;
    let mut kept = Vec::new();
    for (property, value) in &wanted {
        match (property.id, value) {
            (table::CO_LABEL, Value::Text(label)) => rename(open.described(), label).await?,
            (table::CO_STATUS, Value::Number(status)) => {
                kept.push((property.name, health(*status)?))
            }
            (_, value) => kept.push((property.name, value.to_bytes())),
        }
    }
    store(open, &kept).await
}

/// Renames a container, unless it has this label already.
async fn rename(container: &Container, label: &str) -> Result<()> {
    match container.query().await?.label == label {
        true => Ok(()),
        false => Ok(container.rename(Some(label)).await?),
    }
}

/// The status to store; clearing it makes the container healthy.
fn health(status: u64) -> Result<Vec<u8>> {
    let status = if status & CLEAR == 0 { status } else { 0 };
    Ok(status.to_le_bytes().to_vec())
}

/// Stores properties, and sets the time of the last change.
async fn store(open: &OpenContainer, kept: &[(&str, Vec<u8>)]) -> Result<()> {
    let changes: Vec<_> =
        kept.iter().map(|(name, value)| (*name, Some(value.as_slice()))).collect();
    if !changes.is_empty() {
        open.described().properties().change(&changes).await?;
    }
    Time::Changed.touch(open).await;
    Ok(())
}

/// Sets one property to a value of any sort.
pub(crate) async fn set_one(open: &OpenContainer, id: u32, value: Value) -> Result<()> {
    set_all(open, &[(id, value)]).await
}

/// Sets several properties to values of any sort, all or none.
pub(crate) async fn set_all(open: &OpenContainer, values: &[(u32, Value)]) -> Result<()> {
    values.iter().try_for_each(|(id, _)| open.rights.require_set(*id))?;
    let kept = values.iter().map(|(id, value)| Ok((by_id(*id)?.name, value.to_bytes())));
    store(open, &kept.collect::<Result<Vec<_>>>()?).await
}

/// The entries of the access control list.
pub(crate) async fn acl_of(container: &Container) -> Result<Vec<acl::Ace>> {
    match get(container, by_id(table::CO_ACL)?).await? {
        Value::Acl(bytes) => acl::unpack(&bytes),
        _ => Err(Code::INVAL),
    }
}

/// Sets the status of a container to healthy.
pub(crate) async fn clear_status(open: &OpenContainer) -> Result<()> {
    set_one(open, table::CO_STATUS, Value::Number(0)).await
}
