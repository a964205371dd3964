//! Access to containers: the permissions that the access control list grants to the user of this process, and the
//! functions that read and change the list.
//!
//! Only the C functions enforce the list. It is stored in the container, so users who can open the pool's files can
//! bypass it.
use super::properties;
use crate::abi::{Bytes, Event, Handle, Prop, PropEntry, Ptr, Str};
use crate::acl::perms::{Credentials, Rules};
use crate::acl::{self, Ace, Kind, unpack};
use crate::boundary;
use crate::code::{Code, Result};
use crate::handles::{self, OpenContainer, OpenPool};
use crate::property;
use crate::property::Value;
use crate::property::table::{self, CONTAINER, Property};
use esker::Container;
use esker::types::info::OpenMode;
use std::ffi::c_int;

const READ: u64 = 0x001;
const WRITE: u64 = 0x002;
const GET_PROP: u64 = 0x010;
const SET_PROP: u64 = 0x020;
const GET_ACL: u64 = 0x040;
const SET_ACL: u64 = 0x080;
const SET_OWNER: u64 = 0x100;
/// Exclusive use, which only the owner may request, regardless of the list.
const EXCLUSIVE: u64 = 1 << 32;

const READS: u64 = READ | GET_PROP | GET_ACL;
const WRITES: u64 = WRITE | SET_PROP | SET_ACL | SET_OWNER;

/// A set of permissions (`DAOS_ACL_PERM_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights(u64);

impl Rights {
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// Reads the permissions that the container grants to the user of this process.
    pub(crate) async fn load(container: &Container) -> Result<Self> {
        let rules = rules(container).await?;
        let credentials = Credentials::current();
        let owned = if rules.is_owner(&credentials) { EXCLUSIVE | GET_ACL | SET_ACL } else { 0 };
        Ok(Self(rules.perms(&credentials) | owned))
    }

    /// Whether exclusive use is included, which an owner has and no list can grant.
    fn is_owner(self) -> bool {
        self.has(EXCLUSIVE)
    }

    /// The permissions that remain in a mode.
    ///
    /// # Errors
    /// [`Code::NO_PERM`] if the user may not open the container in this mode.
    pub(super) fn within(self, mode: OpenMode) -> Result<Self> {
        let enough = match mode {
            OpenMode::ReadOnly => self.has(READS),
            OpenMode::ReadWrite => self.has(READS) && self.has(WRITES),
            OpenMode::Exclusive => self.is_owner() && self.has(READ) && self.has(WRITE),
        };
        let kept = if mode == OpenMode::ReadOnly { READS } else { u64::MAX };
        if enough { Ok(Self(self.0 & kept)) } else { Err(Code::NO_PERM) }
    }

    /// Whether any of these permissions is granted.
    fn has(self, wanted: u64) -> bool {
        self.0 & wanted != 0
    }

    /// Fails with `NO_PERM` unless any of these permissions is granted.
    fn require(self, wanted: u64) -> Result<()> {
        if self.has(wanted) { Ok(()) } else { Err(Code::NO_PERM) }
    }

    /// Fails unless the user may read data.
    pub(crate) fn require_read(self) -> Result<()> {
        self.require(READ)
    }

    /// Fails unless the user may change data.
    pub(crate) fn require_write(self) -> Result<()> {
        self.require(WRITE)
    }

    /// Fails unless the user may read a property.
    pub(crate) fn require_get(self, property: &Property) -> Result<()> {
        self.require(match property.id {
            table::CO_ACL => GET_ACL,
            table::CO_OWNER | table::CO_OWNER_GROUP => GET_ACL | GET_PROP,
            _ => GET_PROP,
        })
    }

    /// Fails unless the user may change a property.
    pub(crate) fn require_set(self, id: u32) -> Result<()> {
        self.require(match id {
            table::CO_ACL => SET_ACL,
            table::CO_OWNER | table::CO_OWNER_GROUP => SET_OWNER,
            _ => SET_PROP,
        })
    }
}

/// Access list, owner and group of a container.
async fn rules(container: &Container) -> Result<Rules> {
    let Value::Acl(acl) = value(container, table::CO_ACL).await? else { return Err(Code::INVAL) };
    let owner = text(container, table::CO_OWNER).await?;
    let group = text(container, table::CO_OWNER_GROUP).await?;
    Ok(Rules { aces: unpack(&acl)?, owner, group })
}

async fn value(container: &Container, id: u32) -> Result<Value> {
    properties::get(container, properties::by_id(id)?).await
}

/// Value of a property that is a text.
async fn text(container: &Container, id: u32) -> Result<String> {
    match value(container, id).await? {
        Value::Text(text) => Ok(text),
        _ => Err(Code::INVAL),
    }
}

/// Opens a container with the permissions that its list grants the user.
pub(crate) async fn open(pool: &OpenPool, name: &str, mode: OpenMode) -> Result<OpenContainer> {
    let container = pool.for_containers.open_container(name, mode).await?;
    let allowed = Rights::load(&container).await.and_then(|rights| rights.within(mode));
    let rights = match allowed {
        Ok(rights) => rights,
        // Dropping it would close it as well, but block this thread.
        Err(code) => return container.close().await.map_err(Code::from).and(Err(code)),
    };
    if mode == OpenMode::ReadOnly || rights.has(WRITE) {
        return Ok(pool.with(container).for_user(rights, None));
    }
    // This user may not write data. A read-only handle reads it, and the first handle changes properties.
    let data = pool.pool.open_container(name, OpenMode::ReadOnly).await?;
    Ok(pool.with(data).for_user(rights, Some(container)))
}

/// Returns the list, the owner and the owner group as a new list of properties.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_get_acl(coh: Handle, out: Ptr<Ptr<Prop>>, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move {
            out.needed()?;
            let wanted = [table::CO_ACL, table::CO_OWNER, table::CO_OWNER_GROUP];
            let made = property::alloc(wanted.len() as u32)?;
            for (at, kind) in property::entries(made)?.into_iter().zip(wanted) {
                at.set(PropEntry { kind, ..PropEntry::default() });
            }
            if let Err(code) = show(&container, made).await {
                property::daos_prop_free(made);
                return Err(code);
            }
            out.set(made);
            Ok(())
        })
    })
}

/// Fills the entries of a list with the values of the properties that they request.
async fn show(container: &OpenContainer, list: Ptr<Prop>) -> Result<()> {
    for (at, property) in properties::requested(list, &CONTAINER)? {
        properties::show(container, property).await?.write(at)?;
    }
    Ok(())
}

/// Replaces the list of a container by these entries.
async fn store_acl(container: &OpenContainer, aces: Vec<Ace>) -> Result<()> {
    properties::set_one(container, table::CO_ACL, Value::Acl(acl::pack(aces)?)).await
}

/// Replaces the list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_overwrite_acl(coh: Handle, acl: Bytes, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move { store_acl(&container, acl::unpack(acl::checked(acl)?)?).await })
    })
}

/// Adds entries, replacing existing ones of the same principals.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_update_acl(coh: Handle, acl: Bytes, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move {
            let new = acl::unpack(acl::checked(acl)?)?;
            let mut aces = properties::acl_of(&container.container).await?;
            new.into_iter().for_each(|new| acl::list::merge(&mut aces, new));
            store_acl(&container, aces).await
        })
    })
}

/// Removes the entry of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_delete_acl(coh: Handle, kind: u32, name: Str, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move {
            container.rights.require_set(table::CO_ACL)?;
            let kind = Kind::from_code(kind)?;
            let name = if kind.has_name() { name.text()? } else { "" };
            let mut aces = properties::acl_of(&container.container).await?;
            let before = aces.len();
            aces.retain(|ace| !ace.is(kind, name));
            match aces.len() < before {
                true => store_acl(&container, aces).await,
                false => Err(Code::NONEXIST),
            }
        })
    })
}

/// Changes the owner, the owner group, or both. This machine must know them.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_set_owner(coh: Handle, user: Str, group: Str, ev: Ptr<Event>) -> c_int {
    set_owner(coh, user, group, true, ev)
}

/// Changes the owner, the owner group, or both. This machine need not know them.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_set_owner_no_check(
    coh: Handle,
    user: Str,
    group: Str,
    ev: Ptr<Event>,
) -> c_int {
    set_owner(coh, user, group, false, ev)
}

/// Changes the user or group that owns a container. If they must be `known`, the machine must have such accounts.
fn set_owner(coh: Handle, user: Str, group: Str, known: bool, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move {
            if user.is_null() && group.is_null() {
                return Err(Code::INVAL);
            }
            if known {
                check_known(user, group)?;
            }
            let named = [(table::CO_OWNER, user), (table::CO_OWNER_GROUP, group)];
            let named = named.into_iter().filter(|(_, name)| !name.is_null());
            let owners: Vec<_> =
                named.map(|(id, name)| Ok((id, principal(name)?))).collect::<Result<_>>()?;
            properties::set_all(&container, &owners).await
        })
    })
}

/// Fails if the machine has no such user or group.
fn check_known(user: Str, group: Str) -> Result<()> {
    if !user.is_null() {
        acl::accounts::uid_of(acl::principal::local(user)?)?;
    }
    if !group.is_null() {
        acl::accounts::gid_of(acl::principal::local(group)?)?;
    }
    Ok(())
}

/// The value of an owner or owner group with this name. `INVAL` if it is not a principal.
fn principal(name: Str) -> Result<Value> {
    let name = name.text()?;
    match acl::principal::is_valid(name) {
        true => Ok(Value::Text(name.to_owned())),
        false => Err(Code::INVAL),
    }
}
