//! What the user of this process may do with a container that is opened by the C functions: what its access
//! control list says of him.
//!
//! The list is kept with the container, by whom it binds. Who may open the pool's files can go round it.
use super::properties;
use crate::acl::perms::{Rules, Who};
use crate::acl::unpack;
use crate::code::{Code, Result};
use crate::handles::{OpenContainer, OpenPool};
use crate::property::table::{self, Property};
use crate::property::value::Value;
use esker::Container;
use esker::types::info::OpenMode;

const READ: u64 = 0x001;
const WRITE: u64 = 0x002;
const GET_PROP: u64 = 0x010;
const SET_PROP: u64 = 0x020;
const GET_ACL: u64 = 0x040;
const SET_ACL: u64 = 0x080;
const SET_OWNER: u64 = 0x100;
/// Of the owner, whatever the list says: exclusive use.
const ALONE: u64 = 1 << 32;

const READS: u64 = READ | GET_PROP | GET_ACL;
const WRITES: u64 = WRITE | SET_PROP | SET_ACL | SET_OWNER;

/// A set of permissions (`DAOS_ACL_PERM_*`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rights(u64);

impl Rights {
    pub(crate) const ALL: Self = Self(u64::MAX);

    /// Those of the user of this process.
    pub(crate) async fn of(container: &Container) -> Result<Self> {
        let rules = rules(container).await?;
        let who = Who::current();
        let alone = if rules.is_owner(&who) { ALONE | GET_ACL | SET_ACL } else { 0 };
        Ok(Self(rules.perms(&who) | alone))
    }

    pub(crate) fn is_owner(self) -> bool {
        self.has(ALONE)
    }

    /// What is left in a mode.
    ///
    /// # Errors
    /// [`Code::NO_PERM`] where that is too little for it.
    fn within(self, mode: OpenMode) -> Result<Self> {
        let enough = match mode {
            OpenMode::ReadOnly => self.has(READS),
            OpenMode::ReadWrite => self.has(READS) && self.has(WRITES),
            OpenMode::Exclusive => self.is_owner() && self.has(READ) && self.has(WRITE),
        };
        let kept = if mode == OpenMode::ReadOnly { READS } else { u64::MAX };
        if enough { Ok(Self(self.0 & kept)) } else { Err(Code::NO_PERM) }
    }

    /// Any of these.
    fn has(self, wanted: u64) -> bool {
        self.0 & wanted != 0
    }

    fn needs(self, wanted: u64) -> Result<()> {
        if self.has(wanted) { Ok(()) } else { Err(Code::NO_PERM) }
    }

    pub(crate) fn to_read_data(self) -> Result<()> {
        self.needs(READ)
    }

    /// To be told of a property.
    pub(crate) fn to_get(self, property: &Property) -> Result<()> {
        self.needs(match property.id {
            table::CO_ACL => GET_ACL,
            table::CO_OWNER | table::CO_OWNER_GROUP => GET_ACL | GET_PROP,
            _ => GET_PROP,
        })
    }

    /// To change a property.
    pub(crate) fn to_set(self, id: u32) -> Result<()> {
        self.needs(match id {
            table::CO_ACL => SET_ACL,
            table::CO_OWNER | table::CO_OWNER_GROUP => SET_OWNER,
            _ => SET_PROP,
        })
    }
}

async fn rules(container: &Container) -> Result<Rules> {
    let Value::Acl(acl) = value(container, table::CO_ACL).await? else { return Err(Code::INVAL) };
    let owner = text(container, table::CO_OWNER).await?;
    let group = text(container, table::CO_OWNER_GROUP).await?;
    Ok(Rules { aces: unpack(&acl)?, owner, group })
}

async fn value(container: &Container, id: u32) -> Result<Value> {
    properties::get(container, properties::by_id(id)?).await
}

async fn text(container: &Container, id: u32) -> Result<String> {
    match value(container, id).await? {
        Value::Text(text) => Ok(text),
        _ => Err(Code::INVAL),
    }
}

/// Opens a container as far as its list lets the user.
pub(crate) async fn open(pool: &OpenPool, name: &str, mode: OpenMode) -> Result<OpenContainer> {
    let container = pool.pool.open_container(name, mode).await?;
    let allowed = Rights::of(&container).await.and_then(|rights| rights.within(mode));
    let rights = match allowed {
        Ok(rights) => rights,
        // Dropping it would close it as well, but block this thread.
        Err(code) => return container.close().await.map_err(Code::from).and(Err(code)),
    };
    if mode == OpenMode::ReadOnly || rights.has(WRITE) {
        return Ok(pool.with(container).for_user(rights, None));
    }
    let data = pool.pool.open_container(name, OpenMode::ReadOnly).await?;
    Ok(pool.with(data).for_user(rights, Some(container)))
}
