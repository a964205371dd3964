//! The intercepted functions: those of the C library, or of another library in between.
use crate::older;
use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

/// Version under which the C library keeps spellings that it no longer offers to new programs.
#[cfg(target_arch = "x86_64")]
const OLDEST: &CStr = c"GLIBC_2.2.5";
#[cfg(target_arch = "aarch64")]
const OLDEST: &CStr = c"GLIBC_2.17";

/// The next function of one name, looked up when it is first needed.
pub(crate) struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    pub(crate) const fn new(name: &'static CStr) -> Self {
        Self { name, address: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address; that of a function that fails with `ENOSYS` if no library has it.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Relaxed);
        if known.is_null() { self.look_up() } else { known }
    }

    #[cold]
    fn look_up(&self) -> *mut c_void {
        let found = find(self.name).or_else(|| older::function(self.name));
        let found = found.unwrap_or(absent as *mut c_void);
        self.address.store(found, Ordering::Relaxed);
        found
    }
}

/// Functions that the C library has in several versions, with the version that programs use. Before glibc 2.36,
/// `dlsym` returns the oldest one: its `realpath` refuses to allocate the result.
const NEWER: [(&CStr, &CStr); 5] = [
    (c"realpath", c"GLIBC_2.3"),
    (c"posix_spawn", c"GLIBC_2.15"),
    (c"posix_spawnp", c"GLIBC_2.15"),
    (c"glob", c"GLIBC_2.27"),
    (c"glob64", c"GLIBC_2.27"),
];

/// The next symbol of this name after ours.
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

/// A symbol of the C library that is data, such as a table; `None` if there is none.
pub(crate) fn data(name: &CStr) -> Option<*mut c_void> {
    find(name)
}

// SAFETY: as the C library declares it.
unsafe extern "C" {
    fn dlvsym(handle: *mut c_void, name: *const c_char, version: *const c_char) -> *mut c_void;
}

extern "C" fn absent() -> c_long {
    crate::thread::set_errno(libc::ENOSYS);
    c_long::from(-1 as c_int)
}
