//! Users and groups, as the system knows them.
use crate::code::{Code, Result};
use std::ffi::{CStr, CString, c_char, c_int};

/// Room for what the system tells of a user or group.
const RECORD_BYTES: usize = 64 << 10;

/// Where the system's answer lies.
struct Record(Vec<c_char>);

impl Record {
    fn new() -> Self {
        Self(vec![0; RECORD_BYTES])
    }
}

/// Name of a user.
pub(crate) fn user_name(uid: libc::uid_t) -> Result<String> {
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
    // SAFETY: it only asks for a number.
    unsafe { libc::geteuid() }
}

/// The groups of this process, the first the one that files get.
pub(crate) fn effective_groups() -> Vec<libc::gid_t> {
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

/// Number of a user.
pub(crate) fn uid_of(name: &str) -> Result<libc::uid_t> {
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

/// Number of a group.
pub(crate) fn gid_of(name: &str) -> Result<libc::gid_t> {
    esker::group_id(name).ok().flatten().ok_or(Code::NONEXIST)
}
