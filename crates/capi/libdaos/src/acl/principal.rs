//! Principals: users and groups by name.
use super::{Kind, pure};
use crate::abi::{Ptr, Str};
use crate::code::{Code, Result};
use crate::edge::guard;
use crate::memory;
use std::ffi::{CStr, CString, c_char, c_int};

/// `DAOS_ACL_MAX_PRINCIPAL_LEN`.
const NAME_MAX: usize = 255;
/// Room for what the system tells of a user or group.
const RECORD_BYTES: usize = 64 << 10;

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

/// Where the system's answer lies.
struct Record(Vec<c_char>);

impl Record {
    fn new() -> Self {
        Self(vec![0; RECORD_BYTES])
    }
}

/// Miri knows no users: there this one, of the group of the same number and name, is the only one.
const ONLY: (libc::uid_t, &str) = (0, "root");

fn only_if<T>(is_it: bool, what: T) -> Result<T> {
    is_it.then_some(what).ok_or(Code::NONEXIST)
}

/// Name of a user.
pub(crate) fn user_name(uid: libc::uid_t) -> Result<String> {
    if cfg!(miri) {
        return only_if(uid == ONLY.0, ONLY.1.to_owned());
    }
    let mut record = Record::new();
    let mut user = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    let room = record.0.as_mut_ptr();
    // SAFETY: all places are of this function and as long as said.
    unsafe { libc::getpwuid_r(uid, user.as_mut_ptr(), room, RECORD_BYTES, &raw mut found) };
    // SAFETY: what was found is the user, its name lies in the record.
    let name = unsafe { found.as_ref() }.map(|user| unsafe { CStr::from_ptr(user.pw_name) });
    name.map(|name| name.to_string_lossy().into_owned()).ok_or(Code::NONEXIST)
}

/// Name of a group.
pub(crate) fn group_name(gid: libc::gid_t) -> Result<String> {
    if cfg!(miri) {
        return only_if(gid == ONLY.0, ONLY.1.to_owned());
    }
    let mut record = Record::new();
    let mut group = std::mem::MaybeUninit::<libc::group>::uninit();
    let mut found = std::ptr::null_mut();
    let room = record.0.as_mut_ptr();
    // SAFETY: all places are of this function and as long as said.
    unsafe { libc::getgrgid_r(gid, group.as_mut_ptr(), room, RECORD_BYTES, &raw mut found) };
    // SAFETY: what was found is the group, its name lies in the record.
    let name = unsafe { found.as_ref() }.map(|group| unsafe { CStr::from_ptr(group.gr_name) });
    name.map(|name| name.to_string_lossy().into_owned()).ok_or(Code::NONEXIST)
}

/// The user of this process.
pub(crate) fn effective_user() -> libc::uid_t {
    if cfg!(miri) {
        return ONLY.0;
    }
    // SAFETY: it only asks for a number.
    unsafe { libc::geteuid() }
}

/// The groups of this process, the first the one that files get.
pub(crate) fn effective_groups() -> Vec<libc::gid_t> {
    if cfg!(miri) {
        return vec![ONLY.0];
    }
    // SAFETY: it only asks for a number.
    let first = unsafe { libc::getegid() };
    // SAFETY: without room it only counts.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: there is room for so many.
    let count = unsafe { libc::getgroups(groups.len() as c_int, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).unwrap_or(0));
    groups.insert(0, first);
    groups
}

/// The user or group before the `@`.
pub(crate) fn local<'a>(principal: Str) -> Result<&'a str> {
    let text = principal.text()?;
    let (name, _) = text.split_once('@').ok_or(Code::INVAL)?;
    if is_valid(text) { Ok(name) } else { Err(Code::INVAL) }
}

pub(crate) fn uid_of(name: &str) -> Result<libc::uid_t> {
    if cfg!(miri) {
        return only_if(name == ONLY.1, ONLY.0);
    }
    let name = CString::new(name).map_err(|_| Code::INVAL)?;
    let mut record = Record::new();
    let mut user = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    let (at, room) = (user.as_mut_ptr(), record.0.as_mut_ptr());
    // SAFETY: all places are of this function and as long as said.
    unsafe { libc::getpwnam_r(name.as_ptr(), at, room, RECORD_BYTES, &raw mut found) };
    // SAFETY: what was found is the user.
    unsafe { found.as_ref() }.map(|user| user.pw_uid).ok_or(Code::NONEXIST)
}

pub(crate) fn gid_of(name: &str) -> Result<libc::gid_t> {
    if cfg!(miri) {
        return uid_of(name);
    }
    esker::group_id(name).ok().flatten().ok_or(Code::NONEXIST)
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
    at.needed()?.set(memory::string(format!("{name}@").as_bytes())?);
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
