//! The library with the file system, which is loaded at the first access to the mount point. It is in the same
//! directory as this one.
use crate::edge::Text;
use crate::libraries::{self, c};
use esker_preload_interface::{GET_TABLE, GetTable, LIBRARY, Table, fingerprint};
use std::ffi::{CString, OsStr, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::OnceLock;

static TABLE: OnceLock<&'static Table> = OnceLock::new();

/// The functions of the library with the store, if it is loaded.
pub(crate) fn if_loaded() -> Option<&'static Table> {
    TABLE.get().copied()
}

/// The functions of the library with the store, which is loaded if necessary. Takes no lock of this library while the
/// loader works: the loader runs constructors of other libraries under a lock of its own, and they may access the mount
/// point.
///
/// # Errors
/// A text that says why it cannot be loaded.
pub(crate) fn load() -> Result<&'static Table, String> {
    match if_loaded() {
        Some(table) => Ok(table),
        None => find().map(|table| *TABLE.get_or_init(|| table)),
    }
}

/// Loads the library with the store, and returns its table of functions.
#[cold]
fn find() -> Result<&'static Table, String> {
    libraries::keep_message(c"dlopen");
    let path = path().ok_or_else(|| format!("{LIBRARY} was not found"))?;
    let name = CString::new(path.as_os_str().as_bytes()).map_err(|error| error.to_string())?;
    let library = c::dlopen(Text::from_c_str(&name), libc::RTLD_NOW | libc::RTLD_LOCAL);
    if library.is_null() {
        return Err(message().unwrap_or_else(|| format!("{} cannot be loaded", path.display())));
    }
    // SAFETY: the loader has just returned the handle, and the name ends with a zero byte.
    let found = unsafe { libc::dlsym(library, GET_TABLE.as_ptr()) };
    // SAFETY: a function of this name has this type.
    let get = unsafe { std::mem::transmute::<*mut c_void, Option<GetTable>>(found) };
    let table = get.map_or(std::ptr::null(), |get| get(fingerprint()));
    // SAFETY: the function returns null or a table that stays. The fingerprint says that it is of this type.
    let table = unsafe { table.cast::<Table>().as_ref() };
    table.ok_or_else(|| format!("{} is of another version", path.display()))
}

/// Returns the path of the library with the store, which is in the directory of this library, or in that of the file to
/// which a link to this library points. `None` if neither has it.
fn path() -> Option<PathBuf> {
    let own = path_of_this_library()?;
    let beside = |path: PathBuf| Some(path.with_file_name(LIBRARY)).filter(|path| path.exists());
    beside(own.clone()).or_else(|| beside(own.canonicalize().ok()?))
}

fn path_of_this_library() -> Option<PathBuf> {
    let own = libraries::path_of_library_at((&raw const TABLE).cast())?;
    Some(PathBuf::from(OsStr::from_bytes(own.to_bytes())))
}

/// Returns the loader's text for its last error (`dlerror`).
fn message() -> Option<String> {
    Some(Text::at(c::dlerror() as usize).c_str()?.to_string_lossy().into_owned())
}
