//! The index of a target: one LMDB environment with one unnamed database.
mod files;

use super::folder::Folder;
use super::own::Own;
use super::{sys, txn::ReadTxn, txn::WriteTxn};
use crate::wait::patiently;
use esker_os as fork;
use esker_types::{Error, ErrorKind, Result, limits::READERS_MAX};
use files::{FileId, files_of};
use lmdb_master_sys as lmdb;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) use files::DATA;

/// How commits reach the medium, and how the file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Written through the mapping, no sync: fastest; survives processes, not the machine.
    Mapped,
    /// Written by system calls, no sync: a stray pointer of the program cannot damage it.
    Guarded,
    /// Written by system calls and synced by each commit.
    Synced,
    /// On a file system that nobody can write to: without locks.
    ReadOnly,
}

/// An open environment. A process opens each index at most once (a rule of LMDB), and a forked child
/// never touches its parent's.
pub(crate) struct Index {
    pub(super) env: *mut lmdb::MDB_env,
    pub(super) dbi: lmdb::MDB_dbi,
    /// Bytes of the file, to check the lengths LMDB returns against.
    pub(super) bytes: usize,
    mode: Mode,
    /// Last transaction as of the opening.
    opened_at: u64,
    path: PathBuf,
    generation: u64,
    /// Has the locks by which others know that this process lives.
    locks: Option<Own>,
    /// Reset read transactions, each with a reader slot, ready to be renewed.
    idle: Mutex<Vec<IdleTxn>>,
}

/// A reset read transaction.
pub(super) struct IdleTxn(pub(super) *mut lmdb::MDB_txn);

// SAFETY: with MDB_NOTLS a read transaction belongs to no thread; one thread at a time uses it.
unsafe impl Send for IdleTxn {}
// SAFETY: LMDB environments may be used by any number of threads.
unsafe impl Send for Index {}
// SAFETY: as for Send; `idle` has its own lock.
unsafe impl Sync for Index {}

/// Pages of the index, by what they hold.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pages {
    /// In use by the tree.
    pub(crate) used: u64,
    /// All the file has.
    pub(crate) total: u64,
    /// Bytes of one.
    pub(crate) bytes: u64,
}

impl Index {
    /// Opens the environment in a directory, whose file is there and has `bytes` reserved bytes. What is
    /// opened is what was looked at before: LMDB itself follows links.
    pub(crate) fn open(
        folder: &Folder,
        bytes: u64,
        mode: Mode,
        permissions: u32,
    ) -> Result<Arc<Self>> {
        let env = create(bytes)?;
        let mut index = Self {
            env,
            dbi: 0,
            bytes: bytes as usize,
            mode,
            opened_at: 0,
            path: folder.path().to_owned(),
            generation: fork::generation(),
            locks: None,
            idle: Mutex::default(),
        };
        let found = files_of(folder, permissions)?;
        index.start(folder, permissions)?;
        if mode != Mode::ReadOnly {
            index.locks = Some(files::keep_locks(folder, permissions)?);
        }
        index.opened_at = index.last_commit()?;
        match found == files_of(folder, permissions)? && found[0] == index.file()? {
            true => Ok(Arc::new(index)),
            false => Err(Error::new(
                ErrorKind::NoPermission,
                format!("the files of index {} were exchanged just now", folder.path().display()),
            )),
        }
    }

    /// The file that LMDB has open.
    fn file(&self) -> Result<FileId> {
        let mut descriptor = -1;
        // SAFETY: `env` is open and `descriptor` is ours to be written.
        let code = unsafe { lmdb::mdb_env_get_fd(self.env, &raw mut descriptor) };
        self.check(code, "asking")?;
        // SAFETY: LMDB keeps its descriptor open as long as the environment.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        sys::info_of(descriptor)
            .map(|info| (info.st_dev, info.st_ino))
            .map_err(|error| Error::io(format_args!("looking at {}", self.path.display()), &error))
    }

    fn start(&mut self, folder: &Folder, permissions: u32) -> Result<()> {
        let path = CString::new(folder.handle().as_os_str().as_bytes())
            .map_err(|_| Error::new(ErrorKind::BadPath, "a path with a zero byte"))?;
        let flags = lmdb::MDB_NOTLS | lmdb::MDB_NORDAHEAD | flags_of(self.mode);
        // SAFETY: `env` is fresh and not open yet; `path` ends in a zero byte.
        let code = unsafe { lmdb::mdb_env_open(self.env, path.as_ptr(), flags, permissions) };
        self.check(code, "opening")?;
        self.open_database()
    }

    fn open_database(&mut self) -> Result<()> {
        let mut txn = null_mut();
        // SAFETY: `env` is open; `txn` receives the transaction. The dbi of the unnamed database is a
        // constant of LMDB, valid for all transactions once opened in one.
        let code = unsafe {
            let begun = lmdb::mdb_txn_begin(self.env, null_mut(), lmdb::MDB_RDONLY, &raw mut txn);
            self.check(begun, "opening")?;
            let opened = lmdb::mdb_dbi_open(txn, std::ptr::null(), 0, &raw mut self.dbi);
            lmdb::mdb_txn_abort(txn);
            opened
        };
        self.check(code, "opening")
    }

    /// True where commits write through a mapping.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mode == Mode::Mapped
    }

    fn info(&self) -> Result<lmdb::MDB_envinfo> {
        // SAFETY: `MDB_envinfo` is plain data, for which all zeros is a valid value.
        let mut info: lmdb::MDB_envinfo = unsafe { std::mem::zeroed() };
        // SAFETY: `env` is open and `info` is ours to be written.
        let code = unsafe { lmdb::mdb_env_info(self.env, &raw mut info) };
        self.check(code, "asking")?;
        Ok(info)
    }

    /// Bytes of its file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Number of the last transaction that was committed.
    pub(crate) fn last_commit(&self) -> Result<u64> {
        Ok(self.info()?.me_last_txnid as u64)
    }

    /// Pages that were ever in use, in the latest state.
    pub(crate) fn reach(&self) -> Result<u64> {
        Ok((self.info()?.me_last_pgno as u64).saturating_add(1))
    }

    /// A consistent view of the index as of now.
    pub(crate) fn read(self: &Arc<Self>) -> Result<ReadTxn> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let txn = match idle {
            Some(txn) => ReadTxn::renew(self, txn),
            None => self.begin_read(),
        }?;
        if self.mode == Mode::ReadOnly && txn.id() != self.opened_at {
            return Err(self.written_elsewhere());
        }
        Ok(txn)
    }

    /// Nobody waits for readers that have no locks.
    #[cold]
    fn written_elsewhere(&self) -> Error {
        Error::new(
            ErrorKind::Again,
            format!(
                "index {} is mounted for reading only here, and was written to where it is mounted for \
                 writing: open the pool again",
                self.path.display()
            ),
        )
    }

    fn begin_read(self: &Arc<Self>) -> Result<ReadTxn> {
        match ReadTxn::begin(self) {
            Err(error) if error.kind() == ErrorKind::Busy => {
                self.clear_stale_readers();
                ReadTxn::begin(self)
            }
            other => other,
        }
    }

    pub(super) fn park(&self, txn: IdleTxn) {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(txn);
    }

    /// The right to change the index; waits for the writer before.
    pub(crate) fn write(self: &Arc<Self>) -> Result<WriteTxn> {
        if self.mode == Mode::ReadOnly {
            return Err(read_only(&self.path));
        }
        WriteTxn::begin(self)
    }

    /// Oldest transaction some reader may still look at; all readers gone: the latest.
    pub(crate) fn oldest_reader(&self) -> Result<u64> {
        self.clear_stale_readers();
        self.oldest_listed()
    }

    /// Waits a moment for the readers of the past, for they hold back pages and segments; true where they
    /// moved on, or were dead, or nobody looks at the past any more.
    pub(crate) fn outwait_readers(&self) -> Result<bool> {
        let latest = self.info()?.me_last_txnid as u64;
        let before = self.oldest_listed()?;
        let moved =
            patiently(|| Ok((before >= latest || self.oldest_reader()? > before).then_some(())))?;
        Ok(moved.is_some())
    }

    /// As [`Index::oldest_reader`], where dead readers count like live ones.
    pub(crate) fn oldest_listed(&self) -> Result<u64> {
        let mut oldest = self.info()?.me_last_txnid as u64;
        let context = (&raw mut oldest).cast::<c_void>();
        // SAFETY: the callback gets `oldest`, which outlives the call.
        unsafe { lmdb::mdb_reader_list(self.env, Some(note_reader), context) };
        Ok(oldest)
    }

    /// Number of reader slots in use, over all processes.
    pub(crate) fn readers(&self) -> Result<u32> {
        Ok(self.info()?.me_numreaders)
    }

    /// Frees the slots of processes that died.
    pub(crate) fn clear_stale_readers(&self) {
        let mut dead = 0;
        // SAFETY: `env` is open and `dead` is ours to be written.
        unsafe { lmdb::mdb_reader_check(self.env, &raw mut dead) };
    }

    /// Turns a code of LMDB into an error that names this index.
    pub(super) fn check(&self, code: c_int, doing: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(error_of(code, doing, &self.path))
    }
}

/// An error for who wants to change what lies on a file system for reading only.
#[cold]
pub(crate) fn read_only(path: &Path) -> Error {
    let message = format!(
        "{} is on a file system that is mounted for reading only: open the pool for reading, or mount it for \
         writing",
        path.display()
    );
    Error::new(ErrorKind::NoPermission, message)
}

/// A line of the reader table: pid, thread, transaction (or `-`).
///
/// # Safety
/// `line` must be a zero-terminated string and `oldest` point to a `u64` nobody else uses.
unsafe extern "C" fn note_reader(line: *const c_char, oldest: *mut c_void) -> c_int {
    // SAFETY: LMDB passes a zero-terminated line, and `oldest` as `oldest_reader` gave it.
    let (line, oldest) = unsafe { (CStr::from_ptr(line), &mut *oldest.cast::<u64>()) };
    let fields = line.to_str().unwrap_or_default().split_whitespace();
    if let Some(txn) = fields.last().and_then(|field| field.parse::<u64>().ok()) {
        *oldest = txn.min(*oldest);
    }
    0
}

fn flags_of(mode: Mode) -> u32 {
    match mode {
        Mode::Mapped => lmdb::MDB_WRITEMAP | lmdb::MDB_NOSYNC,
        Mode::Guarded => lmdb::MDB_NOSYNC,
        Mode::Synced => 0,
        Mode::ReadOnly => lmdb::MDB_RDONLY | lmdb::MDB_NOLOCK,
    }
}

fn create(bytes: u64) -> Result<*mut lmdb::MDB_env> {
    let mut env = null_mut();
    // SAFETY: `env` receives a fresh environment, which is configured before it is opened.
    let code = unsafe {
        match lmdb::mdb_env_create(&raw mut env) {
            0 => {
                lmdb::mdb_env_set_mapsize(env, bytes as lmdb::mdb_size_t);
                lmdb::mdb_env_set_maxreaders(env, READERS_MAX)
            }
            code => code,
        }
    };
    match code {
        0 => Ok(env),
        code => Err(error_of(code, "creating", Path::new("index"))),
    }
}

#[cold]
fn error_of(code: c_int, doing: &str, path: &Path) -> Error {
    let place = path.display();
    let (kind, advice) = match code {
        lmdb::MDB_MAP_FULL | lmdb::MDB_TXN_FULL => (
            ErrorKind::NoSpace,
            "the index is full: destroy snapshots, delete something, or make a larger pool",
        ),
        lmdb::MDB_READERS_FULL => {
            (ErrorKind::Busy, "all 4096 reader slots (READERS_MAX) are taken: use fewer readers")
        }
        lmdb::MDB_BAD_RSLOT => (
            ErrorKind::Again,
            "this process was taken for dead while it was reading: open the pool again",
        ),
        lmdb::MDB_VERSION_MISMATCH => (ErrorKind::Incompatible, "written by another release"),
        lmdb::MDB_CORRUPTED
        | lmdb::MDB_PAGE_NOTFOUND
        | lmdb::MDB_INVALID
        | lmdb::MDB_PANIC
        | lmdb::MDB_CURSOR_FULL => (ErrorKind::Corrupt, "run `esker pool check`"),
        lmdb::MDB_BAD_VALSIZE => (ErrorKind::KeyTooBig, "a key does not fit the index"),
        code if code > 0 => {
            let cause = std::io::Error::from_raw_os_error(code);
            return Error::io(format_args!("{doing} index {place}"), &cause);
        }
        _ => (ErrorKind::Io, "unexpected"),
    };
    // SAFETY: mdb_strerror returns a constant string for every code.
    let text = unsafe { CStr::from_ptr(lmdb::mdb_strerror(code)) }.to_string_lossy();
    Error::new(kind, format!("{doing} index {place}: {text}; {advice}"))
}

impl Drop for Index {
    fn drop(&mut self) {
        if self.generation != fork::generation() {
            return;
        }
        let idle = std::mem::take(self.idle.get_mut().unwrap_or_else(PoisonError::into_inner));
        // SAFETY: every transaction has been parked (they keep `self` alive), so the environment has no
        // user left; it was opened by this very process.
        unsafe {
            idle.into_iter().for_each(|txn| lmdb::mdb_txn_abort(txn.0));
            lmdb::mdb_env_close(self.env);
        }
    }
}
