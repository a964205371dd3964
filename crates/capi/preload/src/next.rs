//! The intercepted functions of the C library, or of another library in between. System calls replace functions that an
//! older C library does not export.
use crate::{libraries, raw, threads};
use libc::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, SYS_fstat, SYS_mknodat, SYS_newfstatat};
use std::ffi::{CStr, CString, c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Version of the symbols that the C library exports only for old programs.
#[cfg(target_arch = "x86_64")]
const OLDEST: &CStr = c"GLIBC_2.2.5";
#[cfg(target_arch = "aarch64")]
const OLDEST: &CStr = c"GLIBC_2.17";

/// The next function of one name, looked up when it is first needed. It is zero at first and does not contain the name,
/// so that the loader need not write to it.
pub(crate) struct Next {
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new() -> Self {
        Self { address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The address of the function; if no library has it, the address of one that fails with `ENOSYS`. Each value is
    /// used with one name.
    #[inline]
    pub(crate) fn address(&self, name: &'static CStr) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.look_up(name) } else { known }
    }

    /// Looks up the C library's function of this name, to which an intercepted call is passed on. In place of a missing
    /// one, it returns a function that fails with `ENOSYS`.
    #[cold]
    fn look_up(&self, name: &CStr) -> *mut c_void {
        libraries::keep_message(name);
        let found = find(name).or_else(|| stand_in(name));
        let found = found.unwrap_or(fail_with_enosys as *mut c_void);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Functions that the C library has in several versions, with the version that programs use. Before glibc 2.36, `dlsym`
/// returns the oldest version: its `realpath` refuses to allocate the result.
const NEWER: [(&CStr, &CStr); 8] = [
    (c"realpath", c"GLIBC_2.3"),
    (c"posix_spawn", c"GLIBC_2.15"),
    (c"posix_spawnp", c"GLIBC_2.15"),
    (c"glob", c"GLIBC_2.27"),
    (c"glob64", c"GLIBC_2.27"),
    (c"lio_listio", c"GLIBC_2.4"),
    (c"lio_listio64", c"GLIBC_2.4"),
    (c"io_getevents", c"LIBAIO_0.4"),
];

/// Returns the C library's function of this name, which our function of that name hides. If the C library has several
/// versions of it, returns the one that programs use.
fn find(name: &CStr) -> Option<*mut c_void> {
    let newer = NEWER.iter().find(|(known, _)| *known == name);
    newer.and_then(|(_, version)| versioned(name, version)).or_else(|| {
        // SAFETY: the names are strings that end with a zero byte.
        let default = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if default.is_null() { versioned(name, OLDEST) } else { Some(default) }
    })
}

/// The next symbol of this name and version.
fn versioned(name: &CStr, version: &CStr) -> Option<*mut c_void> {
    // SAFETY: the names are strings that end with a zero byte.
    let found = unsafe { dlvsym(libc::RTLD_NEXT, name.as_ptr(), version.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// A symbol of the C library that is data, such as a table; `None` if no library has it.
pub(crate) fn data(name: &CStr) -> Option<*mut c_void> {
    find(name)
}

/// True if the loader has loaded a library of this name.
pub(crate) fn is_loaded(name: &[u8]) -> bool {
    let Ok(name) = CString::new(name) else { return false };
    // SAFETY: the name ends with a zero byte, and nothing is loaded by this.
    let found = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
    // SAFETY: the handle is one that the loader has just returned.
    !found.is_null() && unsafe { libc::dlclose(found) } == 0
}

// SAFETY: the declaration is that of the C library.
unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

/// Stands for a function that no library has.
extern "C" fn fail_with_enosys() -> c_long {
    crate::threads::set_errno(libc::ENOSYS);
    c_long::from(-1 as c_int)
}

/// The replacement for a function that the C library does not export; `None` if there is none. Before version 2.33,
/// glibc compiled `stat`, `mknod` and similar functions into each program as calls of `__xstat` and `__xmknod`. This
/// library exports both forms on any version, so the newer ones may have no next function.
fn stand_in(name: &CStr) -> Option<*mut c_void> {
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

/// Makes a system call and returns as C functions do: -1 and `errno` on failure.
///
/// # Safety
/// The arguments must be valid for the system call.
unsafe fn call(number: c_long, with: [usize; 4]) -> c_int {
    let [a, b, c, d] = with;
    // SAFETY: the caller guarantees it; these calls ignore further arguments.
    let result = unsafe { raw::call(number, [a, b, c, d, 0, 0]) };
    if result < 0 {
        threads::set_errno(-result as c_int);
        return -1;
    }
    result as c_int
}

/// # Safety
/// The requirements of `stat` of the C library.
unsafe extern "C" fn stat(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { fstatat(AT_FDCWD, path, out, 0) }
}

/// # Safety
/// The requirements of `lstat` of the C library.
unsafe extern "C" fn lstat(path: *const c_char, out: *mut libc::stat) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW) }
}

/// # Safety
/// The requirements of `fstat` of the C library.
unsafe extern "C" fn fstat(fd: c_int, out: *mut libc::stat) -> c_int {
    // SAFETY: the caller guarantees it; on 64-bit machines the structure of the kernel is that of C.
    unsafe { call(SYS_fstat, [fd as usize, out as usize, 0, 0]) }
}

/// # Safety
/// The requirements of `fstatat` of the C library.
unsafe extern "C" fn fstatat(
    dir: c_int,
    path: *const c_char,
    out: *mut libc::stat,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller guarantees it; on 64-bit machines the structure of the kernel is that of C.
    unsafe { call(SYS_newfstatat, [dir as usize, path as usize, out as usize, flags as usize]) }
}

/// # Safety
/// The requirements of `mknod` of the C library.
unsafe extern "C" fn mknod(path: *const c_char, mode: u32, device: u64) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { mknodat(AT_FDCWD, path, mode, device) }
}

/// # Safety
/// The requirements of `mknodat` of the C library.
unsafe extern "C" fn mknodat(dir: c_int, path: *const c_char, mode: u32, device: u64) -> c_int {
    // SAFETY: the caller guarantees it.
    unsafe { call(SYS_mknodat, [dir as usize, path as usize, mode as usize, device as usize]) }
}
