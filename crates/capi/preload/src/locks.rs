//! Locks: flock and the record locks of fcntl.
//!
//! The kernel provides the locks, on one lock file per object, which all processes share. An open file opens the lock
//! file at its first lock, or before a fork or exec. So all processes that share the open file share its locks, and the
//! store knows that the object is in use ([`esker::PRESENCE`]). The offset of a lock descriptor is the inode number of
//! its anonymous file, by which a started program finds the open file. The last process that closes the lock file
//! removes it. The lock files are in a directory of the pool, which `esker run` passes on, so that all users of the
//! pool may lock.
use crate::answer::{Answer, Fail, refuse};
use crate::config::{self, Config};
use crate::open_file::OpenFile;
use crate::{descriptors, internal, left_open, lock_cache, mounted, raw, threads};
use esker::types::ObjectId;
use std::ffi::{CStr, CString, c_int};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Byte that marks an object as in use. Locks of programs end before it.
pub(crate) const PRESENCE: i64 = esker::PRESENCE as i64;

/// Mask for the mode of lock files. A lock file has the mode of its directory, so that all users of that may lock.
const FILE_MODE_MAX: u32 = 0o666;

/// Objects on which this process may have record locks, which the kernel drops when any of its descriptors is closed.
static RECORD_LOCKED: Mutex<Vec<ObjectId>> = Mutex::new(Vec::new());
static RECORD_LOCKED_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Lets one thread at a time open lock files, drop record locks, and add to [`RECORD_LOCKED`]. So no descriptor of a
/// lock file is closed after another thread has taken a record lock on it.
static OPENING: Mutex<()> = Mutex::new(());

fn opening() -> MutexGuard<'static, ()> {
    OPENING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of attempts of [`opening_soon`].
const OPENING_TRIES: u32 = 1000;

/// The guard of [`OPENING`], unless another thread keeps it for long. A signal handler must not wait for its own thread.
pub(crate) fn opening_soon() -> Option<MutexGuard<'static, ()>> {
    for _ in 0..OPENING_TRIES {
        match OPENING.try_lock() {
            Ok(guard) => return Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::yield_now(),
        }
    }
    None
}

/// True for the name of a lock file.
pub(crate) fn is_lock_file(path: &[u8]) -> bool {
    let folder = &config::get().locks;
    !folder.is_empty()
        && path.strip_prefix(folder.as_slice()).is_some_and(|rest| rest.starts_with(b"/"))
}

const FLAGS: c_int = libc::O_RDWR | libc::O_CLOEXEC | libc::O_NOFOLLOW;

/// The path of the lock file of an object.
fn name(oid: ObjectId) -> Answer<CString> {
    name_with(oid, b"")
}

/// The path of the lock file of an object with a suffix.
pub(crate) fn name_with(oid: ObjectId, suffix: &[u8]) -> Answer<CString> {
    let Config { locks: folder, container, .. } = config::get();
    if folder.is_empty() {
        return refuse(libc::ENOLCK);
    }
    c_string([folder, &b"/"[..], esker::lock_file(container, oid).as_bytes(), suffix].concat())
}

/// Opens the lock file of an object, and takes a shared lock on its last byte, which shows that it is in use.
fn open_file(oid: ObjectId) -> Answer<c_int> {
    loop {
        let fd = lock_cache::take(oid).map_or_else(|| find_or_make(oid), Ok)?;
        match presence(fd, libc::F_OFD_SETLKW, libc::F_RDLCK).and_then(|_| raw::status(fd)) {
            Ok(status) if status.st_nlink > 0 => return Ok(fd),
            // Its last user has just removed it, or a signal arrived.
            Ok(_) | Err(Fail::Errno(libc::EINTR)) => close(fd),
            Err(error) => {
                close(fd);
                return Err(error);
            }
        }
    }
}

/// Opens the lock file of an object. If it is missing, tells the store and then creates it.
fn find_or_make(oid: ObjectId) -> Answer<c_int> {
    let name = name(oid)?;
    open_made(&name).or_else(|_| {
        note(oid, true)?;
        make(&name).or_else(|_| {
            // It was not made. Another process may have made it meanwhile.
            note(oid, false)?;
            open_made(&name)
        })
    })
}

/// Makes a new file in the directory for lock files.
fn make(name: &CStr) -> Answer<c_int> {
    let mode = raw::status_of(&c_string(config::get().locks.clone())?)?.st_mode & FILE_MODE_MAX;
    let fd = raw::open(name, FLAGS | libc::O_CREAT | libc::O_EXCL, mode)?;
    // The umask has removed permissions of other users. It belongs to all threads, so it must not be changed.
    if let Err(error) = raw::set_mode(fd, mode) {
        raw::close(fd);
        raw::unlink(name);
        return Err(error);
    }
    Ok(fd)
}

/// Opens or makes a file in the directory for lock files, without telling the store.
pub(crate) fn open_or_make(name: &CStr) -> Answer<c_int> {
    // Another process may make the file between the first two attempts.
    open_made(name).or_else(|_| make(name)).or_else(|_| open_made(name))
}

/// Attempts to open a file that another user is making: until its mode is set, the file may refuse other users.
const ATTEMPTS: usize = 100;

/// Opens an existing file in the directory for lock files.
pub(crate) fn open_made(name: &CStr) -> Answer<c_int> {
    for _ in 1..ATTEMPTS {
        match raw::open(name, FLAGS, 0) {
            Err(Fail::Errno(libc::EACCES)) => std::thread::yield_now(),
            answer => return answer,
        }
    }
    raw::open(name, FLAGS, 0)
}

/// Tells the store that the lock file of an object will be created (`made`), or has been removed.
fn note(oid: ObjectId, made: bool) -> Answer<()> {
    Ok(mounted::get()?.note_lock_file(oid, made)?)
}

/// Sets or removes the lock on the last byte that marks a user of a lock file. `kind` is `F_RDLCK` or `F_WRLCK`.
fn presence(fd: c_int, command: c_int, kind: c_int) -> Answer<c_int> {
    set(fd, PRESENCE, command, kind)
}

/// Sets or removes a lock on one byte; `command` and `kind` are those of `fcntl`.
pub(crate) fn set(fd: c_int, byte: i64, command: c_int, kind: c_int) -> Answer<c_int> {
    set_from(fd, (byte, 1), command, kind)
}

/// Sets or removes a lock on a range of start and length in bytes; length 0 means to the end.
fn set_from(fd: c_int, range: (i64, i64), command: c_int, kind: c_int) -> Answer<c_int> {
    let (l_type, l_whence) = (kind as i16, libc::SEEK_SET as i16);
    let mut lock = libc::flock { l_type, l_whence, l_start: range.0, l_len: range.1, l_pid: 0 };
    raw::lock_range(fd, command, &mut lock)
}

/// State of a lock file after its last user in this process has closed it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockFileState {
    /// No other process uses it: it does not exist, or only this process has it, in its cache.
    Nothing,
    /// Other processes have it open.
    InUse,
    /// It was removed.
    Removed,
    /// It was removed, and the object has to be freed, too: its name is gone.
    Unlinked,
}

fn close(fd: c_int) {
    internal::forget(fd);
    raw::close(fd);
}

/// Closes the lock file of an object.
pub(crate) fn close_lock_file(fd: c_int, oid: ObjectId) -> LockFileState {
    close(fd);
    remove_lock_file_if_unused(oid)
}

/// Drops all locks of `fd`, the lock file of an object, and caches the open file for later locks. Closes it in three
/// cases: the object has to be freed, the lock file was removed, or too few descriptors are left.
fn unlock(fd: c_int, oid: ObjectId) -> Answer<LockFileState> {
    raw::lock_whole(fd, libc::LOCK_UN)?;
    let is_last = presence(fd, libc::F_OFD_SETLK, libc::F_WRLCK).is_ok();
    let status = raw::status(fd)?;
    // A lock file that is not empty tells its last user to free the object.
    let is_over = status.st_nlink == 0 || (is_last && status.st_size > 0);
    // A cached lock file must not use a descriptor number that the program or the store will need.
    if is_over || !internal::has_room_above(fd) {
        return Ok(close_lock_file(fd, oid));
    }
    set_from(fd, (0, 0), libc::F_OFD_SETLK, libc::F_UNLCK)?;
    lock_cache::keep(oid, fd);
    Ok(if is_last { LockFileState::Nothing } else { LockFileState::InUse })
}

/// True if any process has the lock file of an object open. A process with record locks has it open itself, and must
/// not probe it, because that would drop the locks.
pub(crate) fn is_used(oid: ObjectId) -> bool {
    let Some(_opening) = opening_soon() else { return true };
    has_records(oid) || remove_lock_file_if_unused(oid) == LockFileState::InUse
}

/// Waits until no process has the lock file of an object open any more, and removes it.
pub(crate) fn wait_until_unused(oid: ObjectId) -> Answer<()> {
    while is_used(oid) {
        let Ok(fd) = raw::open(&name(oid)?, FLAGS, 0) else { continue };
        let waited = presence(fd, libc::F_OFD_SETLKW, libc::F_WRLCK);
        raw::close(fd);
        waited?;
    }
    Ok(())
}

/// Removes the lock file of an object if no process has it open.
fn remove_lock_file_if_unused(oid: ObjectId) -> LockFileState {
    let left = name(oid).map_or(LockFileState::Nothing, |name| remove_unused(&name));
    // Opening the pool just for this would take longer than checking the file once more.
    if matches!(left, LockFileState::Removed | LockFileState::Unlinked)
        && mounted::if_open().is_some()
    {
        let _ = note(oid, false);
    }
    left
}

/// Removes a lock file if no process has it open. A process that opens it meanwhile waits for the lock on the last
/// byte, and then sees that it was removed.
fn remove_unused(name: &CStr) -> LockFileState {
    let Ok(fd) = raw::open(name, FLAGS, 0) else { return LockFileState::Nothing };
    let is_last = presence(fd, libc::F_OFD_SETLK, libc::F_WRLCK).is_ok();
    let left = match raw::status(fd) {
        Ok(status) if status.st_nlink == 0 => LockFileState::Nothing,
        Ok(status) if is_last => {
            raw::unlink(name);
            if status.st_size > 0 { LockFileState::Unlinked } else { LockFileState::Removed }
        }
        _ => LockFileState::InUse,
    };
    raw::close(fd);
    left
}

fn c_string(text: Vec<u8>) -> Answer<CString> {
    CString::new(text).or_else(|_| refuse(libc::EINVAL))
}

/// The lock descriptor of an open file, opened if necessary.
pub(crate) fn descriptor(fd: c_int, file: &OpenFile) -> Answer<c_int> {
    let known = || Some(file.lock.load(Ordering::Acquire)).filter(|lock| *lock >= 0);
    if let Some(lock) = known() {
        return Ok(lock);
    }
    let _opening = opening();
    // Another thread may have opened it meanwhile.
    known().map_or_else(|| open_for(fd, file), Ok)
}

/// Opens the lock file of an open file, which has no lock descriptor yet. The caller has [`OPENING`].
fn open_for(fd: c_int, file: &OpenFile) -> Answer<c_int> {
    let oid = file.identity().oid;
    let opened = keep(open_file(oid)?, oid);
    let marked = if file.position.is_shared() { mark(opened, fd) } else { Ok(()) };
    // The lock descriptor is inherited with the open file; a program that does not inherit the file closes it.
    let prepared = marked.and_then(|()| raw::control(opened, libc::F_SETFD, 0));
    if let Err(failure) = prepared {
        // Another thread has closed `fd` meanwhile. A close of the lock file would drop record locks.
        if !has_records(oid) {
            close_lock_file(opened, oid);
        }
        return Err(failure);
    }
    file.lock.store(opened, Ordering::Release);
    Ok(opened)
}

/// Moves a lock descriptor to a high number, and returns that. It stays where it is if this process has record locks on
/// the object: moving it closes the lower number, and the kernel drops record locks at any close.
fn keep(fd: c_int, oid: ObjectId) -> c_int {
    if !has_records(oid) {
        return internal::keep(fd);
    }
    internal::add(fd);
    fd
}

/// Records in a lock descriptor to which anonymous file it belongs: its offset is the inode number of that file.
fn mark(lock: c_int, anonymous: c_int) -> Answer<()> {
    raw::seek(lock, raw::status(anonymous)?.st_ino as i64, libc::SEEK_SET).map(drop)
}

/// Records in the lock descriptor that the open file now has this anonymous file.
pub(crate) fn belongs_to(file: &OpenFile, anonymous: c_int) -> Answer<()> {
    match file.lock.load(Ordering::Acquire) {
        ..0 => Ok(()),
        lock => mark(lock, anonymous),
    }
}

/// Before a fork: opens lock files, so that parent and child share locks and count as users.
pub(crate) fn share() {
    share_if(|_| true);
}

/// Before exec: opens the lock files of the descriptors that the next program inherits.
pub(crate) fn share_with_next() {
    share_if(|fd| raw::control(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags == 0));
}

/// Opens the lock file of each descriptor that a child or the next program inherits, so that it shares the locks. An
/// open file whose lock file cannot be opened is left out.
fn share_if(is_inherited: impl Fn(c_int) -> bool) {
    // A signal handler may fork while its own thread opens a lock file: it must not wait for that thread.
    if threads::is_inside() && OPENING.try_lock().is_err() {
        return;
    }
    let _ = threads::inside(|| {
        for fd in descriptors::within(0, u32::MAX).filter(|fd| is_inherited(*fd)) {
            // Another thread may close it meanwhile.
            let Ok(file) = descriptors::get(fd) else { continue };
            if file.lock.load(Ordering::Acquire) >= 0 {
                continue;
            }
            // The store needs the remaining descriptors itself. The other files are not locked then.
            if !internal::has_room(fd) {
                break;
            }
            let _ = share_one(fd, &file);
        }
        Ok(())
    });
}

/// Opens the lock file of one open file, to share its locks. A file opened with `O_PATH` has none.
pub(crate) fn share_one(fd: c_int, file: &OpenFile) -> Answer<()> {
    match file.identity().flags & libc::O_PATH {
        0 => descriptor(fd, file).map(drop),
        _ => Ok(()),
    }
}

/// Assigns an inherited lock descriptor to its open file. If that was not inherited, closes `lock`, and removes the
/// lock file `name` unless another process uses it.
pub(crate) fn inherit(lock: c_int, name: &CStr) {
    // The offset of a lock descriptor is the inode of its anonymous file: see `mark`.
    let number = raw::seek(lock, 0, libc::SEEK_CUR).unwrap_or(-1);
    let belongs = |fd: &c_int| raw::status(*fd).is_ok_and(|status| status.st_ino as i64 == number);
    let file = descriptors::within(0, u32::MAX).find(belongs).map(descriptors::get);
    match file {
        Some(Ok(file)) => {
            file.lock.store(lock, Ordering::Release);
            internal::add(lock);
        }
        // The next mount frees removed files.
        _ => {
            raw::close(lock);
            remove_unused(name);
        }
    }
}

/// Releases the locks of an open file whose last descriptor is closed. Returns the state of its lock file.
pub(crate) fn closed(file: &OpenFile) -> LockFileState {
    let lock = file.lock.swap(-1, Ordering::AcqRel);
    if lock < 0 {
        return LockFileState::Nothing;
    }
    let oid = file.identity().oid;
    match file.position.is_shared() {
        // Other processes may have the open file, and share its locks.
        true => close_lock_file(lock, oid),
        false => unlock(lock, oid).unwrap_or_else(|_| close_lock_file(lock, oid)),
    }
}

/// Releases all open files at the end of the process. Returns those that other processes still have open.
pub(crate) fn end() -> Vec<left_open::LeftOpen> {
    let files = descriptors::within(0, u32::MAX).filter_map(|fd| descriptors::get(fd).ok());
    let in_use = files.filter(|file| file.release() == LockFileState::InUse);
    let left = in_use.filter_map(|file| Some((file.identity().oid, file.leased()?))).collect();
    lock_cache::close();
    left
}

/// Open files with a lock file, which the next program may inherit.
pub(crate) fn shared() -> Vec<left_open::LeftOpen> {
    let files = descriptors::within(0, u32::MAX).filter_map(|fd| descriptors::get(fd).ok());
    let shared = files.filter(|file| file.lock.load(Ordering::Acquire) >= 0);
    shared.filter_map(|file| Some((file.identity().oid, file.leased()?))).collect()
}

/// Drops the record locks of this process on an object, because a descriptor of it is closed (POSIX: `fcntl`).
pub(crate) fn drop_records(oid: ObjectId) {
    if RECORD_LOCKED_COUNT.load(Ordering::Relaxed) == 0 {
        return;
    }
    let _opening = opening();
    if forget_records(oid)
        && let Ok(fd) = open_file(oid)
    {
        // The kernel drops record locks when any descriptor of the file is closed.
        close_lock_file(fd, oid);
    }
}

/// Records that this process has no record locks on the object. True if it may have had some.
fn forget_records(oid: ObjectId) -> bool {
    let mut held = RECORD_LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    let before = held.len();
    held.retain(|other| *other != oid);
    RECORD_LOCKED_COUNT.store(held.len(), Ordering::Relaxed);
    held.len() < before
}

/// True if this process may have record locks on the object.
pub(crate) fn has_records(oid: ObjectId) -> bool {
    RECORD_LOCKED_COUNT.load(Ordering::Relaxed) != 0
        && RECORD_LOCKED.lock().unwrap_or_else(PoisonError::into_inner).contains(&oid)
}

/// Records that this process has record locks on the object.
fn note_records(oid: ObjectId) {
    if has_records(oid) {
        return;
    }
    let _opening = opening();
    let mut held = RECORD_LOCKED.lock().unwrap_or_else(PoisonError::into_inner);
    if !held.contains(&oid) {
        held.push(oid);
        RECORD_LOCKED_COUNT.store(held.len(), Ordering::Relaxed);
    }
}

/// The arguments of a record lock for the kernel: the descriptor, and the range from the file's start.
pub(crate) fn range(
    fd: c_int,
    file: &OpenFile,
    command: c_int,
    mut lock: libc::flock,
) -> Answer<(c_int, libc::flock)> {
    let access = file.identity().flags & libc::O_ACCMODE;
    let is_query = matches!(command, libc::F_GETLK | libc::F_OFD_GETLK);
    let refused = match c_int::from(lock.l_type) {
        libc::F_RDLCK => access == libc::O_WRONLY,
        libc::F_WRLCK => access == libc::O_RDONLY,
        _ => false,
    };
    if refused && !is_query {
        return refuse(libc::EBADF);
    }
    let origin = match c_int::from(lock.l_whence) {
        libc::SEEK_SET => 0,
        libc::SEEK_CUR => file.position.seek(fd, 0, libc::SEEK_CUR)?,
        libc::SEEK_END => file.file()?.size()? as i64,
        _ => return refuse(libc::EINVAL),
    };
    let start = origin.checked_add(lock.l_start).map_or(refuse(libc::EOVERFLOW), Ok)?;
    (lock.l_start, lock.l_whence) = (start, libc::SEEK_SET as i16);
    // Linux refuses locks that begin before the file.
    if start < 0 {
        return refuse(libc::EINVAL);
    }
    // Locks of this byte show which processes have the lock file open.
    if start == PRESENCE {
        return refuse(libc::EOVERFLOW);
    }
    if lock.l_len == 0 || lock.l_len > PRESENCE - start {
        lock.l_len = PRESENCE - start;
    }
    let is_set = matches!(command, libc::F_SETLK | libc::F_SETLKW);
    if is_set {
        // Opening the file first avoids a later search for its users, which would close the lock file and drop the
        // lock.
        file.node()?;
    }
    // Before the record of the locks, which keeps the descriptor at its low number.
    let descriptor = descriptor(fd, file)?;
    if is_set {
        note_records(file.identity().oid);
    }
    Ok((descriptor, lock))
}

/// A lock that the kernel reports, in the form for programs: length 0 means to the end.
pub(crate) fn shown(mut lock: libc::flock) -> libc::flock {
    if lock.l_len == PRESENCE - lock.l_start {
        lock.l_len = 0;
    }
    lock
}
