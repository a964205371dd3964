//! Principals: users and groups by name.
use super::accounts::{gid_of, group_name, uid_of, user_name};
use super::{Kind, pure};
use crate::abi::{Ptr, Str};
use crate::code::{Code, Result};
use crate::edge::guard;
use crate::memory;
use std::ffi::c_int;

/// `DAOS_ACL_MAX_PRINCIPAL_LEN`.
const NAME_MAX: usize = 255;

/// A name, one `@`, perhaps a domain.
pub(crate) fn is_valid(name: &str) -> bool {
    let at = name.find('@');
    name.len() <= NAME_MAX && at.is_some_and(|at| at > 0) && name.matches('@').count() == 1
}

/// Whether a string can be the name of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_principal_is_valid(name: Str) -> bool {
    guard(false, || name.text().is_ok_and(is_valid))
}

/// The principal that is a user. Who has no name goes by a number.
pub(crate) fn of_user(uid: libc::uid_t) -> String {
    of_name(&user_name(uid).unwrap_or_else(|_| uid.to_string()))
}

/// As [`of_user`], of a group.
pub(crate) fn of_group(gid: libc::gid_t) -> String {
    of_name(&group_name(gid).unwrap_or_else(|_| gid.to_string()))
}

/// The principal of this name.
pub(crate) fn of_name(name: &str) -> String {
    format!("{name}@")
}

/// The user or group before the `@`.
pub(crate) fn local<'a>(principal: Str) -> Result<&'a str> {
    let text = principal.text()?;
    let (name, _) = text.split_once('@').ok_or(Code::INVAL)?;
    if is_valid(text) { Ok(name) } else { Err(Code::INVAL) }
}

/// The principal of a user.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_uid_to_principal(uid: libc::uid_t, name: Ptr<Str>) -> c_int {
    pure(|| {
        let name = name.needed()?;
        give(&user_name(uid)?, name)
    })
}

/// The principal of a group.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_gid_to_principal(gid: libc::gid_t, name: Ptr<Str>) -> c_int {
    pure(|| {
        let name = name.needed()?;
        give(&group_name(gid)?, name)
    })
}

fn give(name: &str, at: Ptr<Str>) -> Result<()> {
    at.needed()?.set(memory::string(of_name(name).as_bytes())?);
    Ok(())
}

/// The user of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_principal_to_uid(principal: Str, uid: Ptr<libc::uid_t>) -> c_int {
    pure(|| {
        uid.needed()?.set(uid_of(local(principal)?)?);
        Ok(())
    })
}

/// The group of a principal.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_principal_to_gid(principal: Str, gid: Ptr<libc::gid_t>) -> c_int {
    pure(|| {
        gid.needed()?.set(gid_of(local(principal)?)?);
        Ok(())
    })
}

/// Reads a principal with its kind from text.
#[unsafe(no_mangle)]
pub extern "C" fn daos_acl_principal_from_str(text: Str, kind: Ptr<u32>, name: Ptr<Str>) -> c_int {
    pure(|| {
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
