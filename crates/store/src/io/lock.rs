//! Record locks that belong to an open file and not to a process (open file description locks). Only closing that open
//! file drops them, even if the program closes other descriptors of the file. Forked children inherit the open file;
//! [`super::private_file`] prevents that where it is not wanted.
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Kind of lock on a byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum LockKind {
    Shared,
    Exclusive,
    None,
}

/// Argument of `fcntl` for a lock on one byte.
fn request(kind: LockKind, byte: u64) -> libc::flock {
    // SAFETY: `flock` is plain data, for which all zeros is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
        LockKind::None => libc::F_UNLCK,
    } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte as libc::off_t;
    lock.l_len = 1;
    lock
}

/// Calls `fcntl`, again if a signal interrupts it.
fn control(file: &File, command: libc::c_int, lock: &mut libc::flock) -> io::Result<()> {
    loop {
        // SAFETY: the descriptor is open for as long as `file` is borrowed, and `lock` is a valid
        // flock that the kernel may write to.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), command, std::ptr::from_mut(lock)) };
        match io::Error::last_os_error() {
            _ if result == 0 => return Ok(()),
            error if error.kind() == io::ErrorKind::Interrupted => {}
            error => return Err(error),
        }
    }
}

/// Takes, changes or drops the lock of `file` on a byte; returns false if another lock conflicts.
pub(crate) fn set(file: &File, kind: LockKind, byte: u64) -> io::Result<bool> {
    match control(file, libc::F_OFD_SETLK, &mut request(kind, byte)) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// An exclusive lock of a file on a byte. It is dropped with this value, also during a panic.
pub(crate) struct ByteLock<'f> {
    file: &'f File,
    byte: u64,
}

impl<'f> ByteLock<'f> {
    /// Takes the lock; returns `None` if another lock conflicts.
    pub(crate) fn take(file: &'f File, byte: u64) -> io::Result<Option<Self>> {
        Ok(set(file, LockKind::Exclusive, byte)?.then_some(Self { file, byte }))
    }

    /// Takes the lock; waits until no other lock conflicts.
    pub(crate) fn wait(file: &'f File, byte: u64) -> io::Result<Self> {
        control(file, libc::F_OFD_SETLKW, &mut request(LockKind::Exclusive, byte))?;
        Ok(Self { file, byte })
    }
}

impl Drop for ByteLock<'_> {
    fn drop(&mut self) {
        // This fails only if the program closed the file, which dropped the lock.
        let _ = set(self.file, LockKind::None, self.byte);
    }
}

/// True if another open file description, in any process, has a lock on the byte.
pub(crate) fn held_by_other(file: &File, byte: u64) -> io::Result<bool> {
    any_held_by_other(file, byte..byte + 1)
}

/// True if another open file description, in any process, has a lock on any byte of the range.
pub(crate) fn any_held_by_other(file: &File, bytes: std::ops::Range<u64>) -> io::Result<bool> {
    Ok(first_held_by_other(file, bytes)?.is_some())
}

/// The first byte of the range on which another open file description, in any process, has a lock; `None` if there is
/// none.
pub(crate) fn first_held_by_other(
    file: &File,
    bytes: std::ops::Range<u64>,
) -> io::Result<Option<u64>> {
    let mut lock = request(LockKind::Exclusive, bytes.start);
    lock.l_len = (bytes.end - bytes.start) as libc::off_t;
    control(file, libc::F_OFD_GETLK, &mut lock)?;
    let is_held = lock.l_type != libc::F_UNLCK as libc::c_short;
    Ok(is_held.then_some((lock.l_start as u64).max(bytes.start)))
}

/// Takes a shared lock of `file` on a byte.
///
/// # Errors
/// `WouldBlock` if there is an exclusive lock.
pub(crate) fn share(file: &File, byte: u64) -> io::Result<()> {
    match set(file, LockKind::Shared, byte)? {
        true => Ok(()),
        false => Err(io::ErrorKind::WouldBlock.into()),
    }
}

/// Takes a shared lock of `file` on a byte; waits until exclusive locks are dropped.
pub(crate) fn wait_shared(file: &File, byte: u64) -> io::Result<()> {
    control(file, libc::F_OFD_SETLKW, &mut request(LockKind::Shared, byte))
}

/// Drops all locks of `file`.
pub(super) fn drop_all(file: &File) -> io::Result<()> {
    let mut all = request(LockKind::None, 0);
    all.l_len = 0;
    control(file, libc::F_OFD_SETLK, &mut all)
}

/// Drops the lock on a byte that belongs to this process and not to an open file.
pub(crate) fn drop_process_lock(file: &File, byte: u64) -> io::Result<()> {
    control(file, libc::F_SETLK, &mut request(LockKind::None, byte))
}
