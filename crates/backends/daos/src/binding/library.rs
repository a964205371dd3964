//! The loaded library: its functions, with the types of its headers.
use crate::binding::layout::{
    RawAnchor, RawContainerInfo, RawEpochs, RawEvent, RawHandle, RawIod, RawIom, RawIov,
    RawKeyDescription, RawListed, RawNamed, RawOid, RawPoolInfo, RawProperties, RawRecx, RawSgl,
};
use esker_types::{Error, ErrorKind, Result};
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::ffi::{CString, OsStr, OsString, c_char, c_int, c_uint, c_void};
use std::fs::read_to_string;

/// Environment variable that names the file of libdaos.
pub const VARIABLE: &str = "ESKER_LIBDAOS";

/// Environment variable that allows Esker's own library of this name, if it is `allow`. Meant for tests.
pub const OWN_VARIABLE: &str = "ESKER_LIBDAOS_OWN";

/// Environment variable that switches Esker's own library to the rules of DAOS, if it is `1`. Meant for tests.
const STRICT_VARIABLE: &str = "ESKER_DAOS_STRICT";

/// Usual names of the library.
const FILES: [&str; 2] = ["libdaos.so.2", "libdaos.so"];

/// Functions that only Esker's own library has.
const OWN_SYMBOL: &[u8] = b"esker_libdaos_version";
const STRICT_SYMBOL: &[u8] = b"esker_libdaos_be_strict";

/// Loads the library. Its symbols are local to it, so that they do not conflict with the symbols of another library in
/// the process, such as Esker's own.
///
/// # Errors
/// `NotSupported` if it cannot be loaded, or if it is Esker's own; the message says what to do.
pub(crate) fn load() -> Result<&'static Functions> {
    let named = std::env::var_os(VARIABLE).filter(|file| !file.is_empty());
    let library = match &named {
        Some(file) => open(file).map_err(|error| not_loaded_error(&error))?,
        None => FILES.iter().find_map(|file| open(OsStr::new(file)).ok()).map_or_else(
            || open(OsStr::new(FILES[0])).map_err(|error| not_loaded_error(&error)),
            Ok,
        )?,
    };
    refuse_own(&library, named.as_ref())?;
    make_strict(&library);
    let functions = Functions::load(&library).map_err(|error| not_loaded_error(&error))?;
    // Never unloaded: the pointers live as long as the process.
    std::mem::forget(library);
    Ok(Box::leak(Box::new(functions)))
}

/// Loads libdaos, to find out whether this machine has DAOS's own.
///
/// # Errors
/// `NotSupported` if it cannot be loaded, or if it is Esker's own; the message says what to do.
pub fn check_library() -> Result<()> {
    load().map(drop)
}

/// Loads a library. Its symbols are not visible to other libraries.
fn open(file: &OsStr) -> std::result::Result<Library, libloading::Error> {
    // SAFETY: loading runs code of the library, which the user or the system named as libdaos.
    unsafe { Library::open(Some(file), RTLD_NOW | RTLD_LOCAL) }
}

/// True if the library is Esker's own.
fn is_own(library: &Library) -> bool {
    // SAFETY: the symbol is only looked up.
    unsafe { library.get::<*const c_void>(OWN_SYMBOL) }.is_ok()
}

/// Switches Esker's own library to the rules of DAOS, if the environment requests it.
fn make_strict(library: &Library) {
    if std::env::var_os(STRICT_VARIABLE).is_some_and(|value| value == "1") {
        // SAFETY: the function of this name takes and returns nothing.
        let found = unsafe { library.get::<unsafe extern "C" fn()>(STRICT_SYMBOL) };
        // SAFETY: as above; it is called once, before all others.
        found.iter().for_each(|be_strict| unsafe { be_strict() });
    }
}

/// Refuses Esker's own libdaos: it would call itself.
fn refuse_own(library: &Library, named: Option<&OsString>) -> Result<()> {
    let is_allowed = std::env::var_os(OWN_VARIABLE).is_some_and(|value| value == "allow");
    if is_allowed || !is_own(library) {
        return Ok(());
    }
    let found = named.map_or_else(loaded_file, |file| file.to_string_lossy().into_owned());
    let message = format!(
        "{found} is Esker's own libdaos, which works on Esker's pools, not on a DAOS system: name the library of DAOS \
         in {VARIABLE}, for example {VARIABLE}=/usr/lib64/libdaos.so.2"
    );
    Err(Error::new(ErrorKind::NotSupported, message))
}

/// Path of the file that the loader has found, from the list of mapped files of the process.
fn loaded_file() -> String {
    let maps = read_to_string("/proc/self/maps").unwrap_or_default();
    let files = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    files
        .into_iter()
        .find(|file| file.rsplit('/').next().is_some_and(|name| name.starts_with("libdaos.so")))
        .unwrap_or(FILES[0])
        .to_owned()
}

fn not_loaded_error(error: &libloading::Error) -> Error {
    let message = format!(
        "libdaos, the client library of DAOS, cannot be loaded: {error}; install it (the package daos-client) or name \
         its file in {VARIABLE}"
    );
    Error::new(ErrorKind::NotSupported, message)
}

/// A text as a C string.
///
/// # Errors
/// `Invalid` for one with a zero byte.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    let invalid =
        |_| Error::new(ErrorKind::Invalid, format!("{text:?} has a zero byte; leave it out"));
    CString::new(text).map_err(invalid)
}

/// Names of attributes.
pub(crate) type Names = *const *const c_char;
/// An event that reports the end of the call.
pub(crate) type Ev = *mut RawEvent;

/// Declares the functions once: as a table of pointers, as their look-up by name, and as the list of their names.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// Pointers to the functions of a library that is never unloaded.
        pub(crate) struct Functions {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        /// Names of the functions that are loaded from the library.
        pub const SYMBOLS: &[&str] = &[$(stringify!($name)),*];

        impl Functions {
            /// Looks up all functions.
            fn load(library: &Library) -> std::result::Result<Self, libloading::Error> {
                // SAFETY: the names are those of the public API of libdaos, whose headers give these types; they are
                // the same in all releases 2.x that have them.
                Ok(unsafe { Self { $($name: *library.get(stringify!($name).as_bytes())?,)* } })
            }
        }
    };
}

functions! {
    daos_init: fn() -> c_int;
    daos_fini: fn() -> c_int;
    daos_eq_create: fn(*mut RawHandle) -> c_int;
    daos_eq_destroy: fn(RawHandle, c_int) -> c_int;
    daos_eq_poll: fn(RawHandle, c_int, i64, c_uint, *mut Ev) -> c_int;
    daos_event_init: fn(Ev, RawHandle, Ev) -> c_int;
    daos_event_fini: fn(Ev) -> c_int;
    daos_prop_alloc: fn(u32) -> *mut RawProperties;
    daos_prop_free: fn(*mut RawProperties);
    daos_pool_connect2: fn(*const c_char, *const c_char, c_uint, *mut RawHandle, *mut RawPoolInfo, Ev) -> c_int;
    daos_pool_disconnect: fn(RawHandle, Ev) -> c_int;
    daos_pool_query: fn(RawHandle, *mut *mut c_void, *mut RawPoolInfo, *mut RawProperties, Ev) -> c_int;
    daos_pool_list_attr: fn(RawHandle, *mut c_char, *mut usize, Ev) -> c_int;
    daos_pool_get_attr: fn(RawHandle, c_int, Names, *const *mut c_void, *mut usize, Ev) -> c_int;
    daos_pool_set_attr: fn(RawHandle, c_int, Names, *const *const c_void, *const usize, Ev) -> c_int;
    daos_pool_del_attr: fn(RawHandle, c_int, Names, Ev) -> c_int;
    daos_pool_list_cont: fn(RawHandle, *mut u64, *mut RawNamed, Ev) -> c_int;
    daos_pool_filter_cont: fn(RawHandle, *mut c_void, *mut u64, *mut RawListed, Ev) -> c_int;
    daos_cont_create2: fn(RawHandle, *mut [u8; 16], *mut RawProperties, Ev) -> c_int;
    daos_cont_open2: fn(RawHandle, *const c_char, c_uint, *mut RawHandle, *mut RawContainerInfo, Ev) -> c_int;
    daos_cont_close: fn(RawHandle, Ev) -> c_int;
    daos_cont_destroy2: fn(RawHandle, *const c_char, c_int, Ev) -> c_int;
    daos_cont_query: fn(RawHandle, *mut RawContainerInfo, *mut RawProperties, Ev) -> c_int;
    daos_cont_set_prop: fn(RawHandle, *mut RawProperties, Ev) -> c_int;
    daos_cont_list_attr: fn(RawHandle, *mut c_char, *mut usize, Ev) -> c_int;
    daos_cont_get_attr: fn(RawHandle, c_int, Names, *const *mut c_void, *mut usize, Ev) -> c_int;
    daos_cont_set_attr: fn(RawHandle, c_int, Names, *const *const c_void, *const usize, Ev) -> c_int;
    daos_cont_del_attr: fn(RawHandle, c_int, Names, Ev) -> c_int;
    daos_cont_alloc_oids: fn(RawHandle, u64, *mut u64, Ev) -> c_int;
    daos_cont_create_snap: fn(RawHandle, *mut u64, *mut c_char, Ev) -> c_int;
    daos_cont_list_snap: fn(RawHandle, *mut c_int, *mut u64, *mut *mut c_char, *mut RawAnchor, Ev) -> c_int;
    daos_cont_destroy_snap: fn(RawHandle, RawEpochs, Ev) -> c_int;
    daos_cont_snap_oit_create: fn(RawHandle, u64, *mut c_char, Ev) -> c_int;
    daos_oit_open: fn(RawHandle, u64, *mut RawHandle, Ev) -> c_int;
    daos_oit_list: fn(RawHandle, *mut RawOid, *mut u32, *mut RawAnchor, Ev) -> c_int;
    daos_oit_close: fn(RawHandle, Ev) -> c_int;
    daos_obj_open: fn(RawHandle, RawOid, c_uint, *mut RawHandle, Ev) -> c_int;
    daos_obj_close: fn(RawHandle, Ev) -> c_int;
    daos_obj_update: fn(RawHandle, RawHandle, u64, *mut RawIov, c_uint, *mut RawIod, *mut RawSgl, Ev) -> c_int;
    daos_obj_fetch: fn(RawHandle, RawHandle, u64, *mut RawIov, c_uint, *mut RawIod, *mut RawSgl, *mut RawIom, Ev) -> c_int;
    daos_obj_punch: fn(RawHandle, RawHandle, u64, Ev) -> c_int;
    daos_obj_punch_dkeys: fn(RawHandle, RawHandle, u64, c_uint, *mut RawIov, Ev) -> c_int;
    daos_obj_punch_akeys: fn(RawHandle, RawHandle, u64, *mut RawIov, c_uint, *mut RawIov, Ev) -> c_int;
    daos_obj_list_dkey: fn(RawHandle, RawHandle, *mut u32, *mut RawKeyDescription, *mut RawSgl, *mut RawAnchor, Ev) -> c_int;
    daos_obj_list_akey: fn(RawHandle, RawHandle, *mut RawIov, *mut u32, *mut RawKeyDescription, *mut RawSgl, *mut RawAnchor, Ev) -> c_int;
    daos_obj_list_recx: fn(RawHandle, RawHandle, *mut RawIov, *mut RawIov, *mut u64, *mut u32, *mut RawRecx, *mut RawEpochs, *mut RawAnchor, bool, Ev) -> c_int;
    daos_obj_query_key: fn(RawHandle, RawHandle, u64, *mut RawIov, *mut RawIov, *mut RawRecx, Ev) -> c_int;
    daos_obj_query_max_epoch: fn(RawHandle, RawHandle, *mut u64, Ev) -> c_int;
    daos_tx_open: fn(RawHandle, *mut RawHandle, u64, Ev) -> c_int;
    daos_tx_open_snap: fn(RawHandle, u64, *mut RawHandle, Ev) -> c_int;
    daos_tx_commit: fn(RawHandle, Ev) -> c_int;
    daos_tx_close: fn(RawHandle, Ev) -> c_int;
    daos_tx_hdl2epoch: fn(RawHandle, *mut u64) -> c_int;
}
