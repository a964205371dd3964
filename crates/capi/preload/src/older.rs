//! Functions that an older C library does not export. Before version 2.33, glibc compiled `stat`, `mknod` and those
//! like them into each program as calls of `__xstat` and `__xmknod`. This library exports both forms on any version, so
//! the newer ones may have no next function; the system calls stand in for it.
use crate::{raw, thread};
use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, SYS_fstat, SYS_mknodat, SYS_newfstatat};
use std::ffi::{CStr, c_char, c_int, c_long, c_void};

/// What stands in for the function of this name; `None` if nothing does.
pub(crate) fn function(name: &CStr) -> Option<*mut c_void> {
    Some(match name.to_bytes() {
        b"stat" | b"stat64" => stat as *mut c_void,
        b"lstat" | b"lstat64" => lstat as *mut c_void,
        b"fstat" | b"fstat64" => fstat as *mut c_void,
        b"fstatat" | b"fstatat64" => fstatat as *mut c_void,
        b"mknod" => mknod as *mut c_void,
        b"mknodat" => mknodat as *mut c_void,
        _ => return None,
    })
}

/// A system call as C functions answer: -1 and `errno` on failure.
///
/// # Safety
/// As the call says of its arguments.
unsafe fn call(number: c_long, with: [usize; 4]) -> c_int {
    let [a, b, c, d] = with;
    // SAFETY: promised by the caller; these calls ignore further arguments.
    let result = unsafe { raw::call(number, [a, b, c, d, 0, 0]) };
    if result < 0 {
        thread::set_errno(-result as c_int);
        return -1;
    }
    result as c_int
}

/// # Safety
/// As for `stat` of the C library.
unsafe extern "C" fn stat(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: as promised.
    unsafe { fstatat(AT_FDCWD, path, out, 0) }
}

/// # Safety
/// As for `lstat` of the C library.
unsafe extern "C" fn lstat(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: as promised.
    unsafe { fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW) }
}

/// # Safety
/// As for `fstat` of the C library.
unsafe extern "C" fn fstat(fd: c_int, out: *mut libc::stat) -> c_int {
    // SAFETY: as promised; on 64-bit machines the structure of the kernel is that of C.
    unsafe { call(SYS_fstat, [fd as usize, out as usize, 0, 0]) }
}

/// # Safety
/// As for `fstatat` of the C library.
unsafe extern "C" fn fstatat(
    dir: c_int,
    path: *const c_char,
    out: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: as promised; on 64-bit machines the structure of the kernel is that of C.
    unsafe { call(SYS_newfstatat, [dir as usize, path as usize, out as usize, flags as usize]) }
}

/// # Safety
/// As for `mknod` of the C library.
unsafe extern "C" fn mknod(path: *const c_char, mode: u32, device: u64) -> c_int {
    // SAFETY: as promised.
    unsafe { mknodat(AT_FDCWD, path, mode, device) }
}

/// # Safety
/// As for `mknodat` of the C library.
unsafe extern "C" fn mknodat(dir: c_int, path: *const c_char, mode: u32, device: u64) -> c_int {
    // SAFETY: as promised.
    unsafe { call(SYS_mknodat, [dir as usize, path as usize, mode as usize, device as usize]) }
}
