//! Record locks of POSIX: held by the process, released by the kernel when it dies, not inherited by
//! forked children (which is why they are used rather than open-file-description locks, but for what
//! children are meant to inherit).
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Sort of lock on one byte.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Shared,
    Exclusive,
    None,
}

fn request(kind: Kind, byte: u64) -> libc::flock {
    // SAFETY: `flock` is plain data, for which all zeros is a valid value.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = match kind {
        Kind::Shared => libc::F_RDLCK,
        Kind::Exclusive => libc::F_WRLCK,
        Kind::None => libc::F_UNLCK,
    } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = byte as libc::off_t;
    lock.l_len = 1;
    lock
}

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

/// Takes, changes or drops this process's lock on a byte; false where another process is in the way.
pub(crate) fn set(file: &File, kind: Kind, byte: u64) -> io::Result<bool> {
    match control(file, libc::F_SETLK, &mut request(kind, byte)) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES)) => {
            Ok(false)
        }
        Err(error) => Err(error),
    }
}

/// This process's exclusive lock on a byte, for as long as it lives: also where a panic ends that.
pub(crate) struct Held<'f> {
    file: &'f File,
    byte: u64,
}

impl<'f> Held<'f> {
    /// Takes it; `None` where another process is in the way.
    pub(crate) fn take(file: &'f File, byte: u64) -> io::Result<Option<Self>> {
        Ok(set(file, Kind::Exclusive, byte)?.then_some(Self { file, byte }))
    }

    /// Takes it, waiting for others to let go.
    ///
    /// The kernel looks for deadlocks between processes, and can take threads of one that wait for
    /// different things for one: then it is tried again.
    pub(crate) fn wait(file: &'f File, byte: u64) -> io::Result<Self> {
        loop {
            match control(file, libc::F_SETLKW, &mut request(Kind::Exclusive, byte)) {
                Err(error) if error.raw_os_error() == Some(libc::EDEADLK) => {
                    std::thread::sleep(std::time::Duration::from_millis(1));
                }
                result => return result.map(|()| Self { file, byte }),
            }
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // It fails only where the file was closed behind our back, and the lock went with it.
        let _ = set(self.file, Kind::None, self.byte);
    }
}

/// True where another process holds a lock on the byte.
pub(crate) fn held_by_other(file: &File, byte: u64) -> io::Result<bool> {
    let mut lock = request(Kind::Exclusive, byte);
    control(file, libc::F_GETLK, &mut lock)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// Takes a lock on a byte that belongs to `file` as it was opened: whoever inherits it holds the lock as
/// well, and it is gone once the last of them has closed the file.
pub(crate) fn share(file: &File, byte: u64) -> io::Result<()> {
    control(file, libc::F_OFD_SETLK, &mut request(Kind::Shared, byte))
}

/// True where somebody, in this process or another, holds a lock on the byte by [`share`].
pub(crate) fn is_shared(file: &File, byte: u64) -> io::Result<bool> {
    let mut lock = request(Kind::Exclusive, byte);
    control(file, libc::F_OFD_GETLK, &mut lock)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}

/// True where another process holds a lock on any byte of the range.
pub(crate) fn any_held_by_other(file: &File, bytes: std::ops::Range<u64>) -> io::Result<bool> {
    let mut lock = request(Kind::Exclusive, bytes.start);
    lock.l_len = (bytes.end - bytes.start) as libc::off_t;
    control(file, libc::F_GETLK, &mut lock)?;
    Ok(lock.l_type != libc::F_UNLCK as libc::c_short)
}
