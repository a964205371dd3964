//! Index of a target: one LMDB environment with one unnamed database.
#![allow(unsafe_code)]

use super::txn::{ReadTxn, WriteTxn};
use crate::format::superblock::PAGE;
use crate::io::folder::{Folder, Use};
use crate::io::idle::{IdlePool, Pointer};
use crate::io::private_file::PrivateFile;
use crate::io::turn::TurnWord;
use crate::io::{lock, sys};
use crate::sync::retry_for_two_seconds;
use esker_os as fork;
use esker_types::limits::READERS_MAX;
use esker_types::{Error, ErrorKind, Result};
use lmdb_master_sys as lmdb;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs::Metadata;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Method of writing the file, and whether commits are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Writes through the mapping, without sync. This is the fastest mode. Commits survive the death of processes, but
    /// not a crash of the machine.
    Mapped,
    /// Writes by system calls, without sync. Stray pointers of the host program cannot damage the file.
    Guarded,
    /// Writes by system calls; each commit syncs.
    Synced,
    /// Reads on a read-only file system, without locks.
    ReadOnly,
}

/// An open LMDB environment. A process opens each index at most once, as LMDB requires. A forked child never uses the
/// environment of its parent.
pub(crate) struct Index {
    pub(super) env: *mut lmdb::MDB_env,
    pub(super) dbi: lmdb::MDB_dbi,
    /// Bytes of the file. Lengths that LMDB returns are verified against it.
    pub(super) bytes: usize,
    mode: Mode,
    /// Transaction id of the last commit when the index was opened.
    opened_at: u64,
    path: PathBuf,
    generation: u64,
    /// Lock file. By its locks, other processes know that this process is alive.
    locks: Option<PrivateFile>,
    /// Lock word by which writers of all processes take turns. `None` if no other process has the index open.
    pub(super) turn: Option<TurnWord>,
    /// State of the last reader that did not finish while a writer waited for it.
    stuck_reader: AtomicU64,
    /// Idle read transactions. They are reset, keep their reader slots, and are ready to be renewed.
    pub(super) idle: IdlePool<IdleTxn>,
}

/// An idle read transaction.
pub(super) struct IdleTxn(pub(super) NonNull<lmdb::MDB_txn>);

// SAFETY: with MDB_NOTLS a read transaction does not belong to a thread; one thread at a time uses it.
unsafe impl Send for IdleTxn {}

impl Pointer for IdleTxn {
    type Target = lmdb::MDB_txn;

    fn into_raw(self) -> *mut lmdb::MDB_txn {
        self.0.as_ptr()
    }

    fn from_raw(raw: NonNull<lmdb::MDB_txn>) -> Self {
        Self(raw)
    }
}

// SAFETY: LMDB environments may be used by any number of threads.
unsafe impl Send for Index {}
// SAFETY: as for Send; the pool of idle readers synchronizes itself.
unsafe impl Sync for Index {}

/// Page counts of an index.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pages {
    /// Pages in use by the tree.
    pub(crate) used: u64,
    /// Pages in the file.
    pub(crate) total: u64,
    /// Bytes per page.
    pub(crate) bytes: u64,
}

impl Index {
    /// Opens the environment in a directory. Its file must exist, with `bytes` allocated bytes. LMDB follows links, so
    /// this verifies that LMDB opened the file that was verified before. Without `turn`, no other process may have the
    /// index open.
    pub(crate) fn open(
        folder: &Folder,
        bytes: u64,
        mode: Mode,
        permissions: u32,
        turn: Option<TurnWord>,
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
            turn,
            stuck_reader: AtomicU64::new(u64::MAX),
            idle: IdlePool::new(),
        };
        let found = files_of(folder, permissions)?;
        index.start(folder, permissions)?;
        if mode != Mode::ReadOnly {
            index.locks = Some(replace_locks(folder, permissions)?);
        }
        index.opened_at = index.last_commit()?;
        match found == files_of(folder, permissions)? && found[0] == index.file()? {
            true => Ok(Arc::new(index)),
            false => Err(Error::new(
                ErrorKind::NoPermission,
                format!(
                    "the files of index {} were replaced while it was being opened",
                    folder.path().display()
                ),
            )),
        }
    }

    /// Identity of the file that LMDB has open.
    fn file(&self) -> Result<FileId> {
        let mut descriptor = -1;
        // SAFETY: `env` is open and `descriptor` is a local variable that LMDB writes.
        let code = unsafe { lmdb::mdb_env_get_fd(self.env, &raw mut descriptor) };
        self.check(code, "asking")?;
        // SAFETY: LMDB keeps its descriptor open as long as the environment.
        let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
        sys::info_of(descriptor).map(|info| (info.st_dev, info.st_ino)).map_err(|error| {
            Error::io(format_args!("reading the metadata of {}", self.path.display()), &error)
        })
    }

    /// Opens the files of the environment in a directory, then its database.
    fn start(&mut self, folder: &Folder, permissions: u32) -> Result<()> {
        let path = CString::new(folder.handle().as_os_str().as_bytes())
            .map_err(|_| Error::new(ErrorKind::BadPath, "a path with a zero byte"))?;
        let flags = lmdb::MDB_NOTLS | lmdb::MDB_NORDAHEAD | flags_of(self.mode);
        // SAFETY: `env` is fresh and not open yet; `path` ends in a zero byte.
        let code = unsafe { lmdb::mdb_env_open(self.env, path.as_ptr(), flags, permissions) };
        self.check(code, "opening")?;
        self.open_database()
    }

    /// Opens the database, which needs a reader slot. If dead processes hold all slots, their slots are freed first.
    ///
    /// Opening fails with `EAGAIN` while a child has the lock of this process on its pid, so it is repeated. If a
    /// program forks and then executes another one, the child shares the lock of the old program until it closes the
    /// inherited descriptors.
    fn open_database(&mut self) -> Result<()> {
        let mut code = self.try_open_database();
        if code == lmdb::MDB_READERS_FULL {
            self.clear_stale_readers();
            code = self.try_open_database();
        }
        if code == libc::EAGAIN {
            retry_for_two_seconds(|| {
                code = self.try_open_database();
                Ok((code != libc::EAGAIN).then_some(()))
            })?;
        }
        self.check(code, "opening")
    }

    /// Opens the database in a transaction of its own. Returns an error code of LMDB, or 0.
    fn try_open_database(&mut self) -> c_int {
        let mut txn = null_mut();
        // SAFETY: `env` is open; `txn` receives the transaction. The dbi of the unnamed database is a
        // constant of LMDB, valid for all transactions once opened in one.
        unsafe {
            let begun = lmdb::mdb_txn_begin(self.env, null_mut(), lmdb::MDB_RDONLY, &raw mut txn);
            if begun != 0 {
                return begun;
            }
            let opened = lmdb::mdb_dbi_open(txn, std::ptr::null(), 0, &raw mut self.dbi);
            lmdb::mdb_txn_abort(txn);
            opened
        }
    }

    /// True if commits write through a mapping.
    pub(crate) fn is_mapped(&self) -> bool {
        self.mode == Mode::Mapped
    }

    /// Properties of the environment, as LMDB reports them.
    fn info(&self) -> Result<lmdb::MDB_envinfo> {
        // SAFETY: `MDB_envinfo` is plain data, for which all zeros is a valid value.
        let mut info: lmdb::MDB_envinfo = unsafe { std::mem::zeroed() };
        // SAFETY: `env` is open and `info` is a local variable that LMDB writes.
        let code = unsafe { lmdb::mdb_env_info(self.env, &raw mut info) };
        self.check(code, "asking")?;
        Ok(info)
    }

    /// Bytes of the file.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Transaction id of the last commit.
    pub(crate) fn last_commit(&self) -> Result<u64> {
        Ok(self.info()?.me_last_txnid as u64)
    }

    /// Number of pages up to the last one that was ever in use.
    pub(crate) fn high_water_pages(&self) -> Result<u64> {
        Ok((self.info()?.me_last_pgno as u64).saturating_add(1))
    }

    /// Number of pages at the end of the file that were never in use. LMDB allocates them if it has no reusable free
    /// page.
    pub(crate) fn untouched_pages(&self) -> Result<u64> {
        Ok(((self.bytes / PAGE) as u64).saturating_sub(self.high_water_pages()?))
    }

    /// Begins a read transaction, which is a consistent view of the latest state.
    pub(crate) fn read(&self) -> Result<ReadTxn<'_>> {
        let txn = match self.idle.take() {
            Some(txn) => ReadTxn::renew(self, txn),
            None => self.begin_read(),
        }?;
        if self.mode == Mode::ReadOnly && txn.id() != self.opened_at {
            return Err(self.changed_elsewhere_error());
        }
        Ok(txn)
    }

    /// Writers elsewhere do not wait for readers without locks, so a reader must not continue after a commit.
    #[cold]
    fn changed_elsewhere_error(&self) -> Error {
        Error::new(
            ErrorKind::Again,
            format!(
                "index {} is mounted read-only here, and another mount of it was written to: \
                 open the pool again",
                self.path.display()
            ),
        )
    }

    /// Begins a read transaction. If dead processes hold all reader slots, their slots are freed first.
    #[cold]
    fn begin_read(&self) -> Result<ReadTxn<'_>> {
        match ReadTxn::begin(self) {
            Err(error) if error.kind() == ErrorKind::Busy => {
                self.clear_stale_readers();
                ReadTxn::begin(self)
            }
            other => other,
        }
    }

    /// Begins a write transaction. `is_alive` tells whether the process that holds a number in the turn word is alive.
    pub(crate) fn write(self: &Arc<Self>, is_alive: impl Fn(u64) -> bool) -> Result<WriteTxn> {
        if self.mode == Mode::ReadOnly {
            return Err(read_only_error(&self.path));
        }
        WriteTxn::begin(self, is_alive)
    }

    /// Begins a write transaction of an index that no other process has open.
    pub(crate) fn write_alone(self: &Arc<Self>) -> Result<WriteTxn> {
        WriteTxn::begin(self, |_| true)
    }

    /// Id of the oldest transaction whose state a live reader may still read; without readers, the id of the last
    /// commit. Frees the reader slots of dead processes first.
    pub(crate) fn oldest_reader(&self) -> Result<u64> {
        self.clear_stale_readers();
        self.oldest_listed()
    }

    /// Waits up to two seconds for readers of old states, which prevent the reuse of pages and segments. True if these
    /// readers finished or were dead, or if there are none. A reader that once did not finish in time is not waited for
    /// again, since its process may be stopped.
    pub(crate) fn wait_for_readers(&self) -> Result<bool> {
        let latest = self.info()?.me_last_txnid as u64;
        let before = self.oldest_listed()?;
        let has_moved = || Ok((before >= latest || self.oldest_reader()? > before).then_some(()));
        let moved = match self.stuck_reader.load(Ordering::Relaxed) == before {
            true => has_moved(),
            false => retry_for_two_seconds(has_moved),
        }?;
        if moved.is_none() {
            self.stuck_reader.store(before, Ordering::Relaxed);
        }
        Ok(moved.is_some())
    }

    /// Variant of [`Index::oldest_reader`] that does not free the reader slots of dead processes, and takes their
    /// readers as alive.
    pub(crate) fn oldest_listed(&self) -> Result<u64> {
        let mut oldest = self.info()?.me_last_txnid as u64;
        let context = (&raw mut oldest).cast::<c_void>();
        // SAFETY: the callback gets `oldest`, which outlives the call.
        unsafe { lmdb::mdb_reader_list(self.env, Some(note_reader), context) };
        Ok(oldest)
    }

    /// Frees reader slots of dead processes.
    pub(crate) fn clear_stale_readers(&self) {
        let mut dead = 0;
        // SAFETY: `env` is open and `dead` is a local variable that LMDB writes.
        unsafe { lmdb::mdb_reader_check(self.env, &raw mut dead) };
    }

    /// Converts an error code of LMDB into an error that names this index.
    pub(super) fn check(&self, code: c_int, doing: &str) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        Err(error_of(code, doing, &self.path))
    }
}

/// Error for a write on a read-only file system.
#[cold]
pub(crate) fn read_only_error(path: &Path) -> Error {
    let message = format!(
        "{} is on a file system that is mounted read-only: open the pool for reading, or mount the file system for \
         writing",
        path.display()
    );
    Error::new(ErrorKind::NoPermission, message)
}

/// Callback for one line of LMDB's reader table: pid, thread, and transaction (or `-`).
///
/// # Safety
/// `line` must be a zero-terminated string and `oldest` point to a `u64` that nothing else uses.
unsafe extern "C" fn note_reader(line: *const c_char, oldest: *mut c_void) -> c_int {
    // SAFETY: LMDB passes a zero-terminated line, and `oldest` as `oldest_reader` gave it.
    let (line, oldest) = unsafe { (CStr::from_ptr(line), &mut *oldest.cast::<u64>()) };
    let fields = line.to_str().unwrap_or_default().split_whitespace();
    if let Some(txn) = fields.last().and_then(|field| field.parse::<u64>().ok()) {
        *oldest = txn.min(*oldest);
    }
    0
}

/// Flags of LMDB for a mode.
fn flags_of(mode: Mode) -> u32 {
    match mode {
        Mode::Mapped => lmdb::MDB_WRITEMAP | lmdb::MDB_NOSYNC,
        Mode::Guarded => lmdb::MDB_NOSYNC,
        Mode::Synced => 0,
        Mode::ReadOnly => lmdb::MDB_RDONLY | lmdb::MDB_NOLOCK,
    }
}

/// Creates an environment for a file of `bytes` bytes. It is not open yet.
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

/// Error for a code of LMDB or of the operating system, with a remedy. `doing` names the operation, such as "reading".
#[cold]
fn error_of(code: c_int, doing: &str, path: &Path) -> Error {
    let place = path.display();
    let (kind, advice) = match code {
        lmdb::MDB_MAP_FULL | lmdb::MDB_TXN_FULL => (
            ErrorKind::NoSpace,
            "the index is full: destroy snapshots, delete something, or make a larger pool",
        ),
        lmdb::MDB_READERS_FULL => {
            (ErrorKind::Busy, "all 4096 reader slots (READERS_MAX) are in use: use fewer readers")
        }
        lmdb::MDB_BAD_RSLOT => (
            ErrorKind::Again,
            "other processes treated this one as dead while it was reading: open the pool again",
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
        // SAFETY: readers borrow `self` and writers share it, so all readers are idle and all writers have ended. The
        // environment has no user left, and this very process opened it.
        unsafe {
            std::iter::from_fn(|| self.idle.take())
                .for_each(|txn| lmdb::mdb_txn_abort(txn.0.as_ptr()));
            lmdb::mdb_env_close(self.env);
        }
    }
}

/// Name of LMDB's data file.
pub(crate) const DATA: &str = "data.mdb";
const LOCKS: &str = "lock.mdb";

/// Device and inode number of a file.
type FileId = (u64, u64);

/// Identities of the data file and the lock file. A missing lock file is created.
fn files_of(folder: &Folder, permissions: u32) -> Result<[FileId; 2]> {
    let id = |info: Metadata| (info.dev(), info.ino());
    let data = folder.info(DATA, permissions)?;
    let locks = folder.info(LOCKS, permissions)?;
    match (data, locks) {
        (Some(data), Some(locks)) => Ok([id(data), id(locks)]),
        (Some(data), None) if folder.is_read_only() => Ok([id(data), FileId::default()]),
        (Some(_), None) => {
            folder.create(LOCKS, permissions)?;
            files_of(folder, permissions)
        }
        (None, _) => Err(Error::new(
            ErrorKind::NotFound,
            format!("{} does not exist: restore it", folder.path().join(DATA).display()),
        )),
    }
}

/// Replaces the record locks of LMDB by open file description locks.
///
/// LMDB locks a byte of its reader table while the table is in use, and a byte whose offset is the pid. Record locks
/// belong to the process, which loses them when it closes any descriptor of the file. Other processes would then treat
/// its readers as dead. Open file description locks on the same bytes have the same meaning for every LMDB. There is no
/// reader yet, so nothing is lost during the change.
///
/// The descriptor is kept so that the locks can be released explicitly at the end. A child that another thread is about
/// to start has a copy of each descriptor until it executes another program. This copy would keep the locks.
fn replace_locks(folder: &Folder, permissions: u32) -> Result<PrivateFile> {
    let process = u64::from(std::process::id());
    let file = folder.file(LOCKS, Use::Read, permissions)?;
    let kept = PrivateFile::new(&file, false).and_then(|own| {
        lock::drop_process_lock(own.get()?, process)?;
        lock::share(own.get()?, 0)?;
        lock::share(own.get()?, process)?;
        Ok(own)
    });
    kept.map_err(|error| {
        Error::io(format_args!("locking {}", folder.path().join(LOCKS).display()), &error)
    })
}

#[cfg(test)]
mod tests {
    use crate::tests::Scratch;
    use esker_os::executor::without_waiting;

    /// The reader may be stopped. Then each change that needs space would wait for it.
    #[test]
    fn reader_that_does_not_finish_is_waited_for_once() {
        let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(1));
        let state = pool.opened();
        let target = &state.targets[0];
        let put = |value: &[u8]| target.change(|change| change.put(b"Tkey", value)).unwrap();
        let reader = target.index().read().unwrap();
        put(b"one");
        put(b"two");
        assert!(!target.index().wait_for_readers().unwrap());
        let (again, would_wait) = without_waiting(|| target.index().wait_for_readers());
        assert_eq!((again, would_wait), (Ok(false), false));
        drop(reader);
        assert!(target.index().wait_for_readers().unwrap());
    }
}
