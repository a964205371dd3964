//! Permissions of a user, according to a list, an owner and an owner group.
use super::accounts;
use super::ace::Ace;
use super::list::{checked, unpack};
use super::principal::{self, Kind};
use crate::abi::{Prop, Ptr};
use crate::boundary;
use crate::code::{Code, Result};
use crate::property::{self, table};
use std::ffi::c_int;

/// Permissions the owner of a container always has: read and change its list.
const OWNER_PERMS: u64 = 0x0c0;
/// Most groups in one call, the limit of Linux for a process (`NGROUPS_MAX`).
const GROUPS_MAX: usize = 1 << 16;

/// A user and the user's groups, as principals.
pub(crate) struct Credentials {
    user: String,
    groups: Vec<String>,
}

impl Credentials {
    /// The user of this process.
    pub(crate) fn current() -> Self {
        let groups = accounts::effective_groups().into_iter().map(principal::of_group).collect();
        Self { user: principal::of_user(accounts::effective_user()), groups }
    }
}

/// The inputs of an access decision: list, owner and owner group of a pool or container.
pub(crate) struct Rules {
    pub(crate) aces: Vec<Ace>,
    pub(crate) owner: String,
    pub(crate) group: String,
}

impl Rules {
    /// Reads the access list, owner and group from a list of properties. `acl`, `owner` and `group` are their numbers.
    fn read(prop: Ptr<Prop>, acl: u32, owner: u32, group: u32) -> Result<Self> {
        let entry = |kind| {
            let found = property::daos_prop_entry_get(prop, kind);
            found.get().map_err(|_| Code::INVAL)
        };
        Ok(Self {
            aces: unpack(checked(entry(acl)?.value.pointer())?)?,
            owner: entry(owner)?.value.string().text()?.to_owned(),
            group: entry(group)?.value.string().text()?.to_owned(),
        })
    }

    /// Permissions that the principal's entry grants; `None` if the list has no such entry.
    fn find(&self, kind: Kind, name: &str) -> Option<u64> {
        self.aces.iter().find(|ace| ace.is(kind, name)).map(Ace::allowed)
    }

    /// Whether the user is the owner.
    pub(crate) fn is_owner(&self, credentials: &Credentials) -> bool {
        credentials.user == self.owner
    }

    /// The permissions of a user. The most specific entry applies: owner, user, all groups together, everyone.
    pub(crate) fn perms(&self, credentials: &Credentials) -> u64 {
        let owner = self.is_owner(credentials).then(|| self.find(Kind::Owner, "")).flatten();
        let user = || self.find(Kind::User, &credentials.user);
        let everyone = || self.find(Kind::Everyone, "");
        owner.or_else(user).or_else(|| self.group_perms(credentials)).or_else(everyone).unwrap_or(0)
    }

    /// Permissions of the user's groups together; `None` if no entry names one of them.
    fn group_perms(&self, credentials: &Credentials) -> Option<u64> {
        let named = credentials.groups.iter().filter_map(|group| self.find(Kind::Group, group));
        let in_owners = credentials.groups.contains(&self.group);
        let owners = in_owners.then(|| self.find(Kind::OwnerGroup, "")).flatten();
        named.chain(owners).reduce(|all, perms| all | perms)
    }
}

/// Returns the principals of a user and of `count` groups. Fails if the system has no name for one of them.
fn credentials_of(uid: libc::uid_t, gids: Ptr<libc::gid_t>, count: usize) -> Result<Credentials> {
    if count > GROUPS_MAX {
        return Err(Code::INVAL);
    }
    let principal = |name: String| principal::of_name(&name);
    let group = |gid| accounts::group_name(gid).map(principal);
    Ok(Credentials {
        user: accounts::user_name(uid).map(principal)?,
        groups: gids.list(count)?.into_iter().map(group).collect::<Result<_>>()?,
    })
}

/// Returns the permissions of a user for a pool.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_get_perms(
    prop: Ptr<Prop>,
    uid: libc::uid_t,
    gids: Ptr<libc::gid_t>,
    count: usize,
    perms: Ptr<u64>,
) -> c_int {
    boundary::always(|| {
        perms.needed()?;
        let rules = Rules::read(prop, table::PO_ACL, table::PO_OWNER, table::PO_OWNER_GROUP)?;
        perms.set(rules.perms(&credentials_of(uid, gids, count)?));
        Ok(())
    })
}

/// Returns the permissions of a user for a container.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_get_perms(
    prop: Ptr<Prop>,
    uid: libc::uid_t,
    gids: Ptr<libc::gid_t>,
    count: usize,
    perms: Ptr<u64>,
) -> c_int {
    boundary::always(|| {
        perms.needed()?;
        let rules = Rules::read(prop, table::CO_ACL, table::CO_OWNER, table::CO_OWNER_GROUP)?;
        let credentials = credentials_of(uid, gids, count)?;
        let always = if rules.is_owner(&credentials) { OWNER_PERMS } else { 0 };
        perms.set(rules.perms(&credentials) | always);
        Ok(())
    })
}
