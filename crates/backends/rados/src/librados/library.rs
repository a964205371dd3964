//! The loaded library: its functions, with the types of its header.
use crate::librados::VARIABLE;
use esker_os::PerProcess;
use esker_types::{Error, ErrorKind, Result};
use libloading::Library;
use std::ffi::{CString, OsString, c_char, c_int, c_uchar, c_void};

/// Usual file name of the library.
const FILE: &str = "librados.so.2";

/// The functions of librados. The first call loads it; it stays loaded.
///
/// # Errors
/// `NotSupported` if it cannot be loaded; the message says what to install.
pub(crate) fn functions() -> Result<&'static Functions> {
    static LOADED: PerProcess<Result<Functions>> = PerProcess::empty();
    LOADED.get_or_create(load).as_ref().map_err(Error::clone)
}

/// Loads librados, to find out whether this machine has it.
///
/// # Errors
/// `NotSupported` if it cannot be loaded; the message says what to install.
pub fn check_library() -> Result<()> {
    functions().map(drop)
}

/// Loads librados. It is never unloaded.
fn load() -> Result<Functions> {
    let file = std::env::var_os(VARIABLE).unwrap_or_else(|| OsString::from(FILE));
    // SAFETY: loading runs code of the library, which the user or the system named as librados.
    let library = unsafe { libloading::Library::new(&file) }.map_err(load_error)?;
    let functions = Functions::load(&library).map_err(load_error)?;
    // Never unloaded: the pointers live as long as the process.
    std::mem::forget(library);
    Ok(functions)
}

fn load_error(error: libloading::Error) -> Error {
    let message = format!(
        "librados, the client library of Ceph, cannot be loaded: {error}; install it (Debian: apt-get install \
         librados2) or name its file in {VARIABLE}"
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

/// Declares opaque types.
macro_rules! opaque {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[repr(C)] pub(crate) struct $name(c_void);)*
    };
}

opaque! {
    /// A connection to a cluster.
    RawCluster;
    /// An I/O context: a pool and a namespace of it.
    RawIoContext;
    /// A completion: reports the end of an operation.
    RawCompletion;
    /// A write operation on an object.
    RawWrite;
    /// A read operation on an object.
    RawRead;
    /// An iterator over entries of an object's map.
    RawEntries;
    /// A listing of the objects of a namespace.
    RawList;
}

/// Space of a cluster, as librados reports it.
#[repr(C)]
#[derive(Default)]
pub(crate) struct RawUsage {
    pub(crate) kib: u64,
    pub(crate) kib_used: u64,
    pub(crate) kib_free: u64,
    pub(crate) objects: u64,
}

/// Callback of a completed operation: completion, argument.
pub(crate) type Done = unsafe extern "C" fn(*mut RawCompletion, *mut c_void);

/// Bytes of a map's key or value; the length is passed separately.
pub(crate) type Bytes = *const c_char;

/// Adds a comparison with an entry of an object's map to an operation: key, comparison, value, lengths of key and
/// value, output of the result.
pub(crate) type CompareFunction<Op> =
    unsafe extern "C" fn(*mut Op, Bytes, c_uchar, Bytes, usize, usize, *mut c_int);

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
                // SAFETY: the names are those of librados' public API, whose header gives these types; they
                // are the same in all releases that have them.
                Ok(unsafe { Self { $($name: *library.get(stringify!($name).as_bytes())?,)* } })
            }
        }
    };
}

functions! {
    rados_create: fn(*mut *mut RawCluster, *const c_char) -> c_int;
    rados_conf_read_file: fn(*mut RawCluster, *const c_char) -> c_int;
    rados_conf_parse_env: fn(*mut RawCluster, *const c_char) -> c_int;
    rados_conf_set: fn(*mut RawCluster, *const c_char, *const c_char) -> c_int;
    rados_conf_get: fn(*mut RawCluster, *const c_char, *mut c_char, usize) -> c_int;
    rados_connect: fn(*mut RawCluster) -> c_int;
    rados_shutdown: fn(*mut RawCluster);
    rados_cluster_stat: fn(*mut RawCluster, *mut RawUsage) -> c_int;
    rados_cluster_fsid: fn(*mut RawCluster, *mut c_char, usize) -> c_int;
    rados_ioctx_create: fn(*mut RawCluster, *const c_char, *mut *mut RawIoContext) -> c_int;
    rados_ioctx_destroy: fn(*mut RawIoContext);
    rados_ioctx_set_namespace: fn(*mut RawIoContext, *const c_char);
    rados_aio_create_completion2: fn(*mut c_void, Option<Done>, *mut *mut RawCompletion) -> c_int;
    rados_aio_wait_for_complete: fn(*mut RawCompletion) -> c_int;
    rados_aio_get_return_value: fn(*mut RawCompletion) -> c_int;
    rados_aio_get_version: fn(*mut RawCompletion) -> u64;
    rados_aio_release: fn(*mut RawCompletion);
    rados_aio_write_op_operate: fn(*mut RawWrite, *mut RawIoContext, *mut RawCompletion, *const c_char, *mut c_void, c_int) -> c_int;
    rados_aio_read_op_operate: fn(*mut RawRead, *mut RawIoContext, *mut RawCompletion, *const c_char, c_int) -> c_int;
    rados_write_full: fn(*mut RawIoContext, *const c_char, Bytes, usize) -> c_int;
    rados_remove: fn(*mut RawIoContext, *const c_char) -> c_int;
    rados_read: fn(*mut RawIoContext, *const c_char, *mut c_char, usize, u64) -> c_int;
    rados_write_op_operate: fn(*mut RawWrite, *mut RawIoContext, *const c_char, *mut c_void, c_int) -> c_int;
    rados_read_op_operate: fn(*mut RawRead, *mut RawIoContext, *const c_char, c_int) -> c_int;
    rados_create_write_op: fn() -> *mut RawWrite;
    rados_release_write_op: fn(*mut RawWrite);
    rados_write_op_create: fn(*mut RawWrite, c_int, *const c_char);
    rados_write_op_remove: fn(*mut RawWrite);
    rados_write_op_write: fn(*mut RawWrite, Bytes, usize, u64);
    rados_write_op_write_full: fn(*mut RawWrite, Bytes, usize);
    rados_write_op_assert_version: fn(*mut RawWrite, u64);
    rados_write_op_omap_cmp2: fn(*mut RawWrite, Bytes, c_uchar, Bytes, usize, usize, *mut c_int);
    rados_write_op_omap_set2: fn(*mut RawWrite, *const Bytes, *const Bytes, *const usize, *const usize, usize);
    rados_write_op_omap_rm_keys2: fn(*mut RawWrite, *const Bytes, *const usize, usize);
    rados_create_read_op: fn() -> *mut RawRead;
    rados_release_read_op: fn(*mut RawRead);
    rados_read_op_read: fn(*mut RawRead, u64, usize, *mut c_char, *mut usize, *mut c_int);
    rados_read_op_omap_cmp2: fn(*mut RawRead, Bytes, c_uchar, Bytes, usize, usize, *mut c_int);
    rados_read_op_omap_get_vals2: fn(*mut RawRead, *const c_char, *const c_char, u64, *mut *mut RawEntries, *mut c_uchar, *mut c_int);
    rados_read_op_omap_get_vals_by_keys2: fn(*mut RawRead, *const Bytes, usize, *const usize, *mut *mut RawEntries, *mut c_int);
    rados_omap_get_next2: fn(*mut RawEntries, *mut *mut c_char, *mut *mut c_char, *mut usize, *mut usize) -> c_int;
    rados_omap_get_end: fn(*mut RawEntries);
    rados_nobjects_list_open: fn(*mut RawIoContext, *mut *mut RawList) -> c_int;
    rados_nobjects_list_next: fn(*mut RawList, *mut *const c_char, *mut *const c_char, *mut *const c_char) -> c_int;
    rados_nobjects_list_close: fn(*mut RawList);
}
