//! Users and groups, as the system knows them.
use crate::code::{Code, Result};
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

/// Room for what the system tells of a user or group.
const RECORD_BYTES: usize = 64 << 10;

/// What the system tells of a user or group: `ask` is given a place for its entry, the room for what that points at,
/// and a place for the pointer to what was found.
///
/// # Safety
/// `ask` leaves that pointer at null, or at the entry that it filled.
unsafe fn entry<T, R>(
    ask: impl FnOnce(*mut T, *mut c_char, *mut *mut T) -> c_int,
    read: impl FnOnce(&T) -> R,
) -> Result<R> {
    let mut room = vec![0; RECORD_BYTES];
    let mut entry = MaybeUninit::uninit();
    let mut found = std::ptr::null_mut();
    ask(entry.as_mut_ptr(), room.as_mut_ptr(), &raw mut found);
    // SAFETY: the caller vouches for what was found; entry and room live until it was read.
    unsafe { found.as_ref() }.map(read).ok_or(Code::NONEXIST)
}

/// A name in an entry that was found.
///
/// # Safety
/// It is text of C.
unsafe fn text(name: *const c_char) -> String {
    // SAFETY: the caller vouches for it.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Name of a user.
pub(crate) fn user_name(uid: libc::uid_t) -> Result<String> {
    // SAFETY: the places are as long as said, and what is found has a name.
    unsafe {
        entry(
            |user, room, found| libc::getpwuid_r(uid, user, room, RECORD_BYTES, found),
            |user| text(user.pw_name),
        )
    }
}

/// Name of a group.
pub(crate) fn group_name(gid: libc::gid_t) -> Result<String> {
    // SAFETY: the places are as long as said, and what is found has a name.
    unsafe {
        entry(
            |group, room, found| libc::getgrgid_r(gid, group, room, RECORD_BYTES, found),
            |group| text(group.gr_name),
        )
    }
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
    // SAFETY: the places are as long as said.
    unsafe {
        entry(
            |user, room, found| libc::getpwnam_r(name.as_ptr(), user, room, RECORD_BYTES, found),
            |user| user.pw_uid,
        )
    }
}

/// Number of a group.
pub(crate) fn gid_of(name: &str) -> Result<libc::gid_t> {
    esker::group_id(name).ok().flatten().ok_or(Code::NONEXIST)
}
