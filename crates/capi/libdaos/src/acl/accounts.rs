//! Users and groups of the system.
use crate::code::{Code, Result};
use std::ffi::{CStr, CString, c_char, c_int};
use std::mem::MaybeUninit;

/// Initial and maximum buffer size for the data of a user or group. The entry of a group lists all its members.
const RECORD_BYTES: usize = 16 << 10;
const RECORD_BYTES_MAX: usize = 16 << 20;

/// Queries a user or group, and returns the part of its entry that `read` takes. `NONEXIST` if there is none or the
/// query fails. `ask` receives pointers to an entry, to a buffer for the data it points to and its size, and to the
/// resulting pointer. It is repeated with a larger buffer if it returns `ERANGE`.
///
/// # Safety
/// `ask` leaves the resulting pointer null, or sets it to the entry that it filled.
unsafe fn entry<T, R>(
    ask: impl Fn(*mut T, *mut c_char, usize, *mut *mut T) -> c_int,
    read: impl FnOnce(&T) -> R,
) -> Result<R> {
    let mut room = vec![0; RECORD_BYTES];
    let mut entry = MaybeUninit::uninit();
    let mut found = std::ptr::null_mut();
    // After an error, `found` is null.
    while ask(entry.as_mut_ptr(), room.as_mut_ptr(), room.len(), &raw mut found) == libc::ERANGE
        && room.len() < RECORD_BYTES_MAX
    {
        room = vec![0; room.len() * 4];
    }
    // SAFETY: the caller guarantees that the entry is valid; entry and buffer live until it is read.
    unsafe { found.as_ref() }.map(read).ok_or(Code::NONEXIST)
}

/// Copies a name out of an entry.
///
/// # Safety
/// `name` must be a string that ends in NUL.
unsafe fn text(name: *const c_char) -> String {
    // SAFETY: the caller guarantees the NUL.
    unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
}

/// Returns the name of a user in the accounts of the system (`getpwuid_r`).
pub(crate) fn user_name(uid: libc::uid_t) -> Result<String> {
    // SAFETY: the buffer has the given size, and an entry that was found has a name.
    unsafe {
        entry(
            |user, room, size, found| libc::getpwuid_r(uid, user, room, size, found),
            |user| text(user.pw_name),
        )
    }
}

/// Returns the name of a group in the accounts of the system (`getgrgid_r`).
pub(crate) fn group_name(gid: libc::gid_t) -> Result<String> {
    // SAFETY: the buffer has the given size, and an entry that was found has a name.
    unsafe {
        entry(
            |group, room, size, found| libc::getgrgid_r(gid, group, room, size, found),
            |group| text(group.gr_name),
        )
    }
}

/// The effective user of this process.
pub(crate) fn effective_user() -> libc::uid_t {
    // SAFETY: it only returns a number.
    unsafe { libc::geteuid() }
}

/// Real user and group of this process, not the effective ones. `access` checks these.
pub(crate) fn real_owner() -> (libc::uid_t, libc::gid_t) {
    // SAFETY: they only return numbers.
    unsafe { (libc::getuid(), libc::getgid()) }
}

/// The groups of this process. The effective group, which new files belong to, is the first.
pub(crate) fn effective_groups() -> Vec<libc::gid_t> {
    // SAFETY: it only returns a number.
    let first = unsafe { libc::getegid() };
    // SAFETY: with a size of 0 it only counts.
    let count = unsafe { libc::getgroups(0, std::ptr::null_mut()) };
    let mut groups = vec![0; usize::try_from(count).unwrap_or(0)];
    // SAFETY: the vector has this many elements.
    let count = unsafe { libc::getgroups(groups.len() as c_int, groups.as_mut_ptr()) };
    groups.truncate(usize::try_from(count).unwrap_or(0));
    groups.insert(0, first);
    groups
}

/// Returns the number of the user with this name in the accounts of the system (`getpwnam_r`). `NONEXIST` if there is
/// none.
pub(crate) fn uid_of(name: &str) -> Result<libc::uid_t> {
    let name = CString::new(name).map_err(|_| Code::INVAL)?;
    // SAFETY: the buffer has the given size.
    unsafe {
        entry(
            |user, room, size, found| libc::getpwnam_r(name.as_ptr(), user, room, size, found),
            |user| user.pw_uid,
        )
    }
}

/// Returns the number of the group with this name. `NONEXIST` if there is none or the look-up fails.
pub(crate) fn gid_of(name: &str) -> Result<libc::gid_t> {
    esker::group_id(name).ok().flatten().ok_or(Code::NONEXIST)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The data of a large group needs a buffer of `needed` bytes.
    fn query(needed: usize) -> Result<usize> {
        let ask = |group: *mut usize, _: *mut c_char, size: usize, found: *mut *mut usize| {
            if size < needed {
                return libc::ERANGE;
            }
            // SAFETY: `entry` passes valid pointers.
            unsafe {
                group.write(size);
                found.write(group);
            }
            0
        };
        // SAFETY: the resulting pointer is set to the entry.
        unsafe { entry(ask, |size| *size) }
    }

    #[test]
    fn buffer_grows_to_the_size_of_an_entry() {
        assert_eq!(query(0), Ok(RECORD_BYTES));
        assert_eq!(query(1 << 20), Ok(1 << 20));
        assert_eq!(query(RECORD_BYTES_MAX + 1), Err(Code::NONEXIST));
    }
}
