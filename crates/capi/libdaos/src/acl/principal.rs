//! Principals: the users and groups that entries name.
use super::accounts::{gid_of, group_name, uid_of, user_name};
use crate::abi::{Ptr, Str};
use crate::boundary;
use crate::boundary::guard;
use crate::code::{Code, Result};
use crate::memory;
use std::ffi::c_int;

/// Kinds of principal, in their order within a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Kind {
    Owner = 0,
    User = 1,
    OwnerGroup = 2,
    Group = 3,
    Everyone = 4,
}

impl Kind {
    /// Converts DAOS's number of a kind. `INVAL` if it is unknown.
    pub(crate) fn from_code(code: u32) -> Result<Self> {
        let all = [Self::Owner, Self::User, Self::OwnerGroup, Self::Group, Self::Everyone];
        all.get(code as usize).copied().ok_or(Code::INVAL)
    }

    /// Whether entries of this kind name their principal.
    pub(crate) fn has_name(self) -> bool {
        matches!(self, Self::User | Self::Group)
    }

    pub(super) fn is_group(self) -> bool {
        matches!(self, Self::OwnerGroup | Self::Group)
    }

    /// The name of the principal in text, if it is not a named user or group.
    pub(crate) fn special(self) -> Option<&'static str> {
        match self {
            Self::Owner => Some("OWNER@"),
            Self::OwnerGroup => Some("GROUP@"),
            Self::Everyone => Some("EVERYONE@"),
            Self::User | Self::Group => None,
        }
    }
}

/// `DAOS_ACL_MAX_PRINCIPAL_LEN`.
const NAME_MAX: usize = 255;

/// Whether a text is a principal: a name, one `@`, and optionally a domain.
pub(crate) fn is_valid(name: &str) -> bool {
    let at = name.find('@');
    name.len() <= NAME_MAX && at.is_some_and(|at| at > 0) && name.matches('@').count() == 1
}

/// Whether a string can name a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_principal_is_valid(name: Str) -> bool {
    guard(false, || name.text().is_ok_and(is_valid))
}

/// The principal of a user. A user without a name is represented by the number.
pub(crate) fn of_user(uid: libc::uid_t) -> String {
    of_name(&user_name(uid).unwrap_or_else(|_| uid.to_string()))
}

/// The principal of a group. A group without a name is represented by the number.
pub(crate) fn of_group(gid: libc::gid_t) -> String {
    of_name(&group_name(gid).unwrap_or_else(|_| gid.to_string()))
}

/// Returns the principal of a local user or group: its name and an `@` without a domain.
pub(crate) fn of_name(name: &str) -> String {
    format!("{name}@")
}

/// Returns the part of a principal before the `@`: the name of the local user or group. `INVAL` if the principal is not
/// valid.
pub(crate) fn local<'a>(principal: Str) -> Result<&'a str> {
    let text = principal.text()?;
    let (name, _) = text.split_once('@').ok_or(Code::INVAL)?;
    if is_valid(text) { Ok(name) } else { Err(Code::INVAL) }
}

/// Returns the principal of a user.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_uid_to_principal(uid: libc::uid_t, name: Ptr<Str>) -> c_int {
    boundary::always(|| {
        let name = name.needed()?;
        write(&user_name(uid)?, name)
    })
}

/// Returns the principal of a group.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_gid_to_principal(gid: libc::gid_t, name: Ptr<Str>) -> c_int {
    boundary::always(|| {
        let name = name.needed()?;
        write(&group_name(gid)?, name)
    })
}

/// Stores the principal of the local user or group `name` at `at`, as a new string that C frees.
fn write(name: &str, at: Ptr<Str>) -> Result<()> {
    at.needed()?.set(memory::string(of_name(name).as_bytes())?);
    Ok(())
}

/// Returns the user id of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_principal_to_uid(principal: Str, uid: Ptr<libc::uid_t>) -> c_int {
    boundary::always(|| {
        uid.needed()?.set(uid_of(local(principal)?)?);
        Ok(())
    })
}

/// Returns the group id of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_principal_to_gid(principal: Str, gid: Ptr<libc::gid_t>) -> c_int {
    boundary::always(|| {
        gid.needed()?.set(gid_of(local(principal)?)?);
        Ok(())
    })
}

/// Parses `OWNER@`, `GROUP@`, `EVERYONE@`, `u:NAME@` or `g:NAME@`. The first three have no name: `name` becomes null.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_principal_from_str(text: Str, kind: Ptr<u32>, name: Ptr<Str>) -> c_int {
    boundary::always(|| {
        let (text, kind, name) = (text.text()?, kind.needed()?, name.needed()?);
        let specials = [Kind::Owner, Kind::OwnerGroup, Kind::Everyone];
        if let Some(special) = specials.into_iter().find(|kind| kind.special() == Some(text)) {
            kind.set(special as u32);
            name.set(Ptr::null());
            return Ok(());
        }
        let (found, rest) = match text.split_once(':') {
            Some(("u", rest)) => (Kind::User, rest),
            Some(("g", rest)) => (Kind::Group, rest),
            _ => return Err(Code::INVAL),
        };
        if !is_valid(rest) {
            return Err(Code::INVAL);
        }
        name.set(memory::string(rest.as_bytes())?);
        kind.set(found as u32);
        Ok(())
    })
}
