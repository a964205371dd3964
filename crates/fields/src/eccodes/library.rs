//! The loaded library. A lock lets one thread at a time call it, and no thread while the process forks. So no child
//! inherits an unfinished call of ecCodes.
use crate::eccodes::api::{Context, Functions, Handle};
use crate::eccodes::{Draft, Field, envelope, failure, search};
use esker_os::{ForkLock, PerProcess};
use esker_types::{Error, ErrorKind, Result};
use libloading::os::unix;
use std::cell::RefCell;
use std::ffi::{CString, OsStr, OsString, c_int, c_void};
use std::path::{Path, PathBuf};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The loaded ecCodes. It stays loaded until the process ends.
pub struct Library {
    functions: Functions,
    file: PathBuf,
}

impl Library {
    /// The library of this process. The first call searches for it, in this order:
    ///
    /// 1. the file that the environment variable `ESKER_ECCODES` names;
    /// 2. the file that the process has loaded;
    /// 3. the directories in `ECCODES_DIR`, `ECCODES_HOME`, `ECCODES_PATH`, `VIRTUAL_ENV` and `CONDA_PREFIX`, including
    ///    their Python package `eccodeslib`;
    /// 4. the library directories of the system.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if none can be loaded; the message says what was tried and what to install.
    pub fn shared() -> Result<&'static Self> {
        static SHARED: PerProcess<Result<Library>> = PerProcess::empty();
        let found = SHARED.get_or_create(|| Self::first_of(&search::candidates()));
        found.as_ref().map_err(Error::clone)
    }

    /// The library in `file`.
    ///
    /// # Errors
    /// [`ErrorKind::NotSupported`] if it cannot be loaded.
    pub fn load(file: &Path) -> Result<Self> {
        Self::first_of(&[file.as_os_str().to_owned()])
    }

    /// Opens the first library that can be loaded. If none can, the error has the causes of all.
    fn first_of(candidates: &[OsString]) -> Result<Self> {
        let mut tried = Vec::new();
        for candidate in candidates {
            match Self::open(candidate) {
                Ok(library) => return Ok(library),
                Err(error) => tried.push(error.to_string()),
            }
        }
        Err(load_error(&tried))
    }

    /// Opens the library, after those that it needs.
    fn open(file: &OsStr) -> std::result::Result<Self, libloading::Error> {
        for companion in search::companions(Path::new(file)) {
            // If a companion cannot be loaded, loading the library that needs it fails with an error that names the
            // companion.
            let _ = load(companion.as_os_str()).map(std::mem::forget);
        }
        let library = load(file)?;
        let functions = Functions::load(&library)?;
        // Never unloaded: the pointers live as long as the process.
        std::mem::forget(library);
        let loaded = Self { functions, file: PathBuf::from(file) };
        // SAFETY: `log` lives as long as the process and has the type that the function expects.
        loaded.call(|f| unsafe { (f.codes_context_set_logging_proc)(context(f), failure::log) });
        Ok(loaded)
    }

    /// The file, or the name by which the system found it.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// The release, such as `2.28.0`.
    #[must_use]
    pub fn version(&self) -> String {
        // SAFETY: it has no arguments and returns a number.
        let version = self.call(|f| unsafe { (f.codes_get_api_version)() });
        format!("{}.{}.{}", version / 10_000, version / 100 % 100, version % 100)
    }

    /// Reads `message` in place: one complete GRIB message, nothing before or after it.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if ecCodes cannot decode it.
    pub fn field<'a>(&'a self, message: &'a [u8]) -> Result<Field<'a>> {
        envelope::check(message)?;
        let (data, bytes) = (message.as_ptr().cast::<c_void>(), message.len());
        // SAFETY: the bytes live as long as the field, and a field is only read.
        let made =
            self.make(|f| unsafe { (f.codes_handle_new_from_message)(context(f), data, bytes) });
        Ok(Field::new(self, made.ok_or_else(|| cannot_decode(bytes))?))
    }

    /// A message to change, initially a copy of `message`.
    ///
    /// # Errors
    /// The errors of [`Library::field`].
    pub fn draft(&self, message: &[u8]) -> Result<Draft<'_>> {
        envelope::check(message)?;
        let (data, bytes) = (message.as_ptr().cast::<c_void>(), message.len());
        let make = |f: &Functions| {
            // SAFETY: the bytes live during the call, and ecCodes copies them.
            unsafe { (f.codes_handle_new_from_message_copy)(context(f), data, bytes) }
        };
        let made = self.make(make).ok_or_else(|| cannot_decode(bytes))?;
        Ok(Draft::new(Field::new(self, made)))
    }

    /// A message to change, initially the sample of ecCodes with this name, such as `GRIB2`.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if ecCodes has no such sample.
    pub fn sample(&self, name: &str) -> Result<Draft<'_>> {
        let text = c_string(name)?;
        // SAFETY: the C string lives during the call.
        let make = |f: &Functions| unsafe {
            (f.codes_grib_handle_new_from_samples)(context(f), text.as_ptr())
        };
        let made = self.make(make).ok_or_else(|| {
            let remedy =
                "install the samples (Debian: libeccodes-data) or set ECCODES_SAMPLES_PATH";
            failure::explained(
                ErrorKind::NotFound,
                format!("ecCodes has no sample {name:?}; {remedy}"),
            )
        })?;
        Ok(Draft::new(Field::new(self, made)))
    }

    /// The fields of a multi-field message, as messages with one field each, by the multi-field support of ecCodes. A
    /// message with one field is returned as it is.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] if ecCodes cannot decode it.
    pub fn split(&self, message: &[u8]) -> Result<Vec<Vec<u8>>> {
        envelope::check(message)?;
        // ecCodes keeps its position in a message for the whole process.
        static SPLITS: ForkLock<()> = ForkLock::new();
        let _one_at_a_time = SPLITS.lock();
        let mut copy = message.to_vec();
        let (mut data, mut bytes) = (copy.as_mut_ptr().cast::<c_void>(), copy.len());
        let mut fields = Vec::new();
        // SAFETY: null refers to messages in memory; it resets the position.
        self.call(|f| unsafe {
            (f.codes_grib_multi_support_reset_file)(context(f), ptr::null_mut())
        });
        while let Some(made) = self.next_of(&mut data, &mut bytes)? {
            fields.push(Field::new(self, made).message()?);
        }
        Ok(fields)
    }

    /// The next field of a multi-field message; none after the last. `data` and `bytes` are the rest of the message.
    fn next_of(
        &self,
        data: &mut *mut c_void,
        bytes: &mut usize,
    ) -> Result<Option<NonNull<Handle>>> {
        let mut code = 0;
        // SAFETY: `data` and `bytes` name bytes of a copy that lives longer than this call, which moves
        // them forward; the support is switched on only while the lock is held.
        let made = self.make(|f| unsafe {
            (f.codes_grib_multi_support_on)(context(f));
            let made = (f.codes_grib_handle_new_from_multi_message)(
                context(f),
                data,
                bytes,
                &raw mut code,
            );
            (f.codes_grib_multi_support_off)(context(f));
            made
        });
        // After the last field, no bytes are left.
        if made.is_none() && *bytes > 0 {
            self.check(code, "split a message")?;
        }
        Ok(made)
    }

    /// Calls a function that creates a handle; `None` if it fails.
    fn make(&self, make: impl FnOnce(&Functions) -> *mut Handle) -> Option<NonNull<Handle>> {
        NonNull::new(self.call(make))
    }

    /// Calls functions of the library under the lock, and keeps its error messages.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&Functions) -> T) -> T {
        let _calls = lock_calls();
        failure::clear();
        call(&self.functions)
    }

    /// Fails if `code`, which a function of ecCodes returned, is an error. `doing` names the action in the message.
    pub(crate) fn check(&self, code: c_int, doing: impl std::fmt::Display) -> Result<()> {
        failure::check(&self.functions, code, doing)
    }
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").field("file", &self.file).finish_non_exhaustive()
    }
}

/// Loads a library and binds all of its symbols at once (`RTLD_NOW`). Otherwise calls between its parts could reach
/// another ecCodes with global symbols that is loaded later, such as FDB's.
fn load(file: &OsStr) -> std::result::Result<libloading::Library, libloading::Error> {
    // SAFETY: loading runs code of the library, which the user or the system named as ecCodes.
    unsafe { unix::Library::open(Some(file), unix::RTLD_NOW | unix::RTLD_LOCAL) }.map(Into::into)
}

/// The default context of ecCodes, an argument of its functions that read messages.
fn context(functions: &Functions) -> *mut Context {
    // SAFETY: it has no arguments.
    unsafe { (functions.codes_context_get_default)() }
}

/// The text with a zero byte at its end.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    let invalid =
        |_| Error::new(ErrorKind::Invalid, format!("{text:?} has a zero byte; leave it out"));
    CString::new(text).map_err(invalid)
}

fn cannot_decode(bytes: usize) -> Error {
    let message = format!("ecCodes cannot decode a message of {bytes} bytes");
    failure::explained(ErrorKind::Invalid, message)
}

fn load_error(tried: &[String]) -> Error {
    let remedy = format!(
        "install it (Debian: apt-get install libeccodes0, Python: pip install eccodeslib) or name its file \
         in {}",
        search::VARIABLE
    );
    let message = format!(
        "ecCodes, the library that decodes GRIB, cannot be loaded: {}; {remedy}",
        tried.join("; ")
    );
    Error::new(ErrorKind::NotSupported, message)
}

/// Locked during each call of the library.
static CALLS: Mutex<()> = Mutex::new(());

thread_local! {
    /// The lock, held by a forking thread from before the fork until after it, in parent and child.
    static FORKING: RefCell<Option<MutexGuard<'static, ()>>> = const { RefCell::new(None) };
}

/// Locks ecCodes for a call, because it is not safe for threads. A fork waits for the lock, so that a child never
/// inherits it locked.
fn lock_calls() -> MutexGuard<'static, ()> {
    static REGISTERED: AtomicBool = AtomicBool::new(false);
    if !REGISTERED.load(Ordering::Acquire) {
        // Threads that are here at once all register the handlers. A `Once` would hang children that are made meanwhile.
        // SAFETY: the three functions live as long as the process and have no arguments. If this fails, forks are
        // unprotected.
        unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(after_fork)) };
        REGISTERED.store(true, Ordering::Release);
    }
    CALLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the lock of ecCodes before a fork, and keeps it until the fork is done.
extern "C" fn before_fork() {
    let take = || CALLS.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = FORKING.try_with(|forking| {
        forking.try_borrow_mut().map(|mut held| {
            held.get_or_insert_with(take);
        })
    });
}

/// Releases the lock of ecCodes after a fork, in parent and child.
extern "C" fn after_fork() {
    let _ = FORKING.try_with(|forking| forking.try_borrow_mut().map(|mut held| *held = None));
}
