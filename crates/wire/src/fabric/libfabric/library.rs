//! The loaded library: the few functions that it exports. All others are reached through the objects that it makes.
use crate::fabric::libfabric::VARIABLE;
use crate::fabric::libfabric::layout::{FabricAttributes, Fid, Info};
use esker_types::{Error, ErrorKind, Result};
use libloading::Library;
use std::ffi::{OsString, c_char, c_int, c_void};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard};

/// Usual file name of the library.
const FILE: &str = "libfabric.so.1";

/// The functions, and the process that loaded them.
static LOADED: OnceLock<(u64, Result<Functions>)> = OnceLock::new();

/// The functions of libfabric. The first call loads it; it stays loaded.
///
/// # Errors
/// `NotSupported` if it cannot be loaded; the message says what to install.
pub(crate) fn functions() -> Result<&'static Functions> {
    let (_, loaded) = LOADED.get_or_init(|| (esker_os::generation(), load()));
    loaded.as_ref().map_err(Error::clone)
}

/// Loads libfabric, to find out whether this machine has it.
///
/// # Errors
/// `NotSupported` if it cannot be loaded; the message says what to install.
pub fn check_library() -> Result<()> {
    functions().map(drop)
}

/// True once this process ends.
static ENDED: RwLock<bool> = RwLock::new(false);

/// Read guard that every caller of libfabric holds. It delays the library's exit handlers, which free its memory.
///
/// # Errors
/// `Canceled` once the process ends.
pub(crate) fn enter() -> Result<RwLockReadGuard<'static, bool>> {
    let ended = ENDED.read().unwrap_or_else(PoisonError::into_inner);
    match *ended {
        false => Ok(ended),
        true => Err(ErrorKind::Canceled.into()),
    }
}

/// Exit handler that runs before those of the library, and waits for calls in progress.
extern "C" fn end() {
    // A forked child does not use the library. A thread of its parent that held the lock does not exist in the child.
    if is_usable() {
        *ENDED.write().unwrap_or_else(PoisonError::into_inner) = true;
    }
}

/// False in a child made by fork whose parent has loaded libfabric: its locks may be held by threads that the child
/// does not have.
#[must_use]
pub fn is_usable() -> bool {
    LOADED.get().is_none_or(|(generation, _)| *generation == esker_os::generation())
}

/// Loads libfabric from the file that [`VARIABLE`] names, or from the usual one. It is never unloaded.
fn load() -> Result<Functions> {
    let file = std::env::var_os(VARIABLE).unwrap_or_else(|| OsString::from(FILE));
    // SAFETY: loading runs code of the library, which the user or the system named as libfabric.
    let library = unsafe { libloading::Library::new(&file) }.map_err(load_error)?;
    let functions = Functions::load(&library).map_err(load_error)?;
    // Never unloaded: the pointers live as long as the process.
    std::mem::forget(library);
    // SAFETY: the function may run at any time, and does not unwind.
    unsafe { libc::atexit(end) };
    Ok(functions)
}

fn load_error(error: libloading::Error) -> Error {
    let message = format!(
        "libfabric, the library for fast networks, cannot be loaded: {error}; install it (Debian: apt-get install \
         libfabric1), name its file in {VARIABLE}, or make the pool with --transport tcp"
    );
    Error::new(ErrorKind::NotSupported, message)
}

/// Declares the functions once, as a table of pointers and as their look-up by name.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Pointers to the functions of a library that is never unloaded.
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Functions {
            /// Finds every function in `library`.
            pub(crate) fn load(library: &Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: the names are those of libfabric's public API, whose headers give these types. Newer releases
                // only add fields at the end of the structures, which the library itself allocates.
                Ok(unsafe { Self { $($name: *library.get(stringify!($name).as_bytes())?,)* } })
            }
        }
    };
}

functions! {
    fi_getinfo: fn(u32, *const c_char, *const c_char, u64, *const Info, *mut *mut Info) -> c_int;
    fi_dupinfo: fn(*const Info) -> *mut Info;
    fi_freeinfo: fn(*mut Info);
    fi_fabric: fn(*mut FabricAttributes, *mut *mut Fid, *mut c_void) -> c_int;
    fi_strerror: fn(c_int) -> *const c_char;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The child ends with the code 1 if it found the library usable, else with 0.
    #[test]
    fn a_child_of_a_process_that_has_loaded_the_library_does_not_use_it() {
        let _ = functions();
        assert!(is_usable());
        // SAFETY: the child only reads atomics, and ends by a system call.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: ends the child without running the parent's exit handlers.
            unsafe { libc::_exit(i32::from(is_usable())) };
        }
        let mut status = -1;
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0);
    }
}
