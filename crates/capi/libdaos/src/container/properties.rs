//! Properties of a container, kept with it as metadata.
use super::times::Time;
use crate::abi::{Prop, PropEntry, Ptr, Roots};
use crate::acl;
use crate::code::{Code, Result};
use crate::handles::OpenContainer;
use crate::property::list;
use crate::property::table::{self, CONTAINER, Change, Property, Sort};
use crate::property::value::Value;
use esker::Container;
use esker::backend::NewContainer;
use esker::types::{Checksum, Uuid};

/// The client keeps properties under this prefix; a new container gets them whole.
pub(super) const PREFIX: &str = "prop:";
/// `DAOS_PROP_CO_CLEAR`, in its place in a status.
const CLEAR: u64 = 1 << 48;

/// What a container is created with.
#[derive(Default)]
pub(crate) struct Wanted {
    pub(crate) label: Option<String>,
    pub(crate) uuid: Option<Uuid>,
    pub(crate) checksum: Checksum,
    pub(crate) first_oid: u64,
    pub(crate) metadata: Vec<(String, Vec<u8>)>,
}

impl Wanted {
    /// Reads a list; no list is an empty one.
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

    /// Adds a property to be kept.
    pub(crate) fn set(&mut self, id: u32, value: &Value) -> Result<()> {
        let name = format!("{PREFIX}{}", by_id(id)?.name);
        self.metadata.retain(|(known, _)| *known != name);
        self.metadata.push((name, value.to_bytes()));
        Ok(())
    }

    /// The metadata of the container to be made.
    pub(crate) fn pairs(&self) -> Vec<(&str, &[u8])> {
        self.metadata.iter().map(|(name, value)| (name.as_str(), value.as_slice())).collect()
    }

    /// The container to be made, with [`Wanted::pairs`]. A label given beside the list overrides the one in it.
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

/// The properties of a list, with what each is.
fn read(prop: Ptr<Prop>) -> Result<Vec<(&'static Property, Value)>> {
    if prop.is_null() {
        return Ok(Vec::new());
    }
    let read = |entry: PropEntry| {
        let property = CONTAINER.iter().find(|property| property.id == entry.kind);
        let property = property.ok_or(Code::INVAL)?;
        Ok((property, Value::read(property, entry)?))
    };
    list::entries(prop)?.into_iter().map(|at| read(at.get()?)).collect()
}

/// Checksums of DAOS that there are here: none, CRC-32C, CRC-64.
fn checksum(number: u64) -> Result<Checksum> {
    match number {
        0 => Ok(Checksum::Off),
        2 => Ok(Checksum::Crc32c),
        3 => Ok(Checksum::Crc64),
        _ => Err(Code::NOTSUPPORTED),
    }
}

fn checksum_number(checksum: Checksum) -> u64 {
    match checksum {
        Checksum::Off => 0,
        Checksum::Crc32c => 2,
        Checksum::Crc64 => 3,
    }
}

/// What would be a promise that is not kept: compression, encryption, deduplication. A redundancy factor
/// says how many domains may fail, and here there is one.
fn is_refused(id: u32, number: u64) -> bool {
    let unkept = [table::CO_COMPRESS, table::CO_ENCRYPT, table::CO_DEDUP];
    unkept.contains(&id) && number != 0
}

/// Most snapshots the container may have; 0 for any number.
pub(crate) async fn snapshots_max(container: &Container) -> Result<u64> {
    match get(container, by_id(table::CO_SNAPSHOT_MAX)?).await? {
        Value::Number(most) => Ok(most),
        _ => Ok(0),
    }
}

pub(super) fn by_id(id: u32) -> Result<&'static Property> {
    CONTAINER.iter().find(|property| property.id == id).ok_or(Code::INVAL)
}

/// The value of a property, set or not.
pub(crate) async fn get(container: &Container, property: &Property) -> Result<Value> {
    match property.id {
        table::CO_LABEL => Ok(Value::Text(container.query().await?.label)),
        table::CO_CSUM => Ok(Value::Number(checksum_number(container.info().checksum))),
        table::CO_ALLOCED_OID => Ok(Value::Number(container.next_oid().await?)),
        _ => {
            let kept = container.properties().get(property.name).await?;
            let kept = kept.and_then(|bytes| Value::from_bytes(property.sort, bytes));
            kept.map_or_else(|| default(property), Ok)
        }
    }
}

/// The value of a property, for who may see it.
pub(crate) async fn show(open: &OpenContainer, property: &Property) -> Result<Value> {
    open.rights.to_get(property)?;
    get(&open.container, property).await
}

/// What a property is where nobody set it.
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

/// The user of this process: pools are their owner's unless they are told otherwise.
fn owner() -> String {
    acl::principal::of_user(acl::accounts::effective_user())
}

fn owner_group() -> String {
    acl::principal::of_group(acl::accounts::effective_groups()[0])
}

/// The owner may do everything, the owner's group read and write.
fn default_acl(id: u32) -> Result<Vec<u8>> {
    let texts = match id {
        table::PO_ACL => ["A::OWNER@:rw", "A:G:GROUP@:rw"],
        _ => ["A::OWNER@:rwdtTaAo", "A:G:GROUP@:rwtT"],
    };
    acl::pack(texts.into_iter().map(acl::text::read).collect::<Result<_>>()?)
}

/// The entries of a list to be filled, with the property that each asks for. An empty list asks for all properties; no
/// list asks for none.
pub(crate) fn asked(
    prop: Ptr<Prop>,
    known: &'static [Property],
) -> Result<Vec<(Ptr<PropEntry>, &'static Property)>> {
    if prop.is_null() {
        return Ok(Vec::new());
    }
    if prop.get()?.nr == 0 {
        ask_for_all(prop, known)?;
    }
    let property = |at: Ptr<PropEntry>| {
        let kind = at.get()?.kind;
        let property = known.iter().find(|property| property.id == kind).ok_or(Code::INVAL)?;
        Ok((at, property))
    };
    list::entries(prop)?.into_iter().map(property).collect()
}

fn ask_for_all(prop: Ptr<Prop>, known: &[Property]) -> Result<()> {
    let ids: Vec<_> = known
        .iter()
        .map(|property| PropEntry { kind: property.id, ..Default::default() })
        .collect();
    let list = prop.get()?;
    prop.set(Prop { nr: ids.len() as u32, entries: crate::memory::copy(&ids)?, ..list });
    Ok(())
}

/// Changes properties, all or none but for the label, which comes first.
pub(crate) async fn set(open: &OpenContainer, prop: Ptr<Prop>) -> Result<()> {
    prop.needed()?;
    let wanted = read(prop)?;
    if wanted.is_empty() || wanted.iter().any(|(property, _)| property.change != Change::Always) {
        return Err(if wanted.is_empty() { Code::INVAL } else { Code::NO_PERM });
    }
    wanted.iter().try_for_each(|(property, _)| open.rights.to_set(property.id))?;
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
    keep(open, &kept).await
}

/// A container that has the label keeps it.
async fn rename(container: &Container, label: &str) -> Result<()> {
    match container.query().await?.label == label {
        true => Ok(()),
        false => Ok(container.rename(Some(label)).await?),
    }
}

/// A status that is cleared is healthy.
fn health(status: u64) -> Result<Vec<u8>> {
    let status = if status & CLEAR == 0 { status } else { 0 };
    Ok(status.to_le_bytes().to_vec())
}

async fn keep(open: &OpenContainer, kept: &[(&str, Vec<u8>)]) -> Result<()> {
    let changes: Vec<_> =
        kept.iter().map(|(name, value)| (*name, Some(value.as_slice()))).collect();
    if !changes.is_empty() {
        open.described().properties().change(&changes).await?;
    }
    Time::Changed.touch(open).await;
    Ok(())
}

/// Sets one property to a value of any sort.
pub(crate) async fn set_one(open: &OpenContainer, id: u32, value: &Value) -> Result<()> {
    open.rights.to_set(id)?;
    keep(open, &[(by_id(id)?.name, value.to_bytes())]).await
}

/// The entries of the access control list.
pub(crate) async fn acl_of(container: &Container) -> Result<Vec<acl::Ace>> {
    match get(container, by_id(table::CO_ACL)?).await? {
        Value::Acl(bytes) => acl::unpack(&bytes),
        _ => Err(Code::INVAL),
    }
}

/// Calls a container healthy.
pub(crate) async fn clear_status(open: &OpenContainer) -> Result<()> {
    set_one(open, table::CO_STATUS, &Value::Number(0)).await
}
