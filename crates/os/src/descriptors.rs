//! Descriptors that other processes must not keep open, and descriptors of directories. If a forked child keeps a
//! socket open, for example, the peer does not notice that the parent has died.
#![allow(unsafe_code)]
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicI32, Ordering};

/// Most sockets that are closed in children. Children keep all further ones.
const SOCKETS_MAX: usize = 1024;

/// Marks a free slot.
const NONE: i32 = -1;

/// Descriptors of the registered sockets.
static SOCKETS: [AtomicI32; SOCKETS_MAX] = [const { AtomicI32::new(NONE) }; SOCKETS_MAX];

/// Closes the registered sockets of the parent in its child. Uses only atomics and system calls, as a handler of fork
/// must.
pub(crate) fn close_inherited() {
    for socket in &SOCKETS {
        let descriptor = socket.swap(NONE, Ordering::Relaxed);
        if descriptor != NONE {
            // SAFETY: the descriptor was open when the parent registered it and until the fork. Its owner in this
            // child's memory is never used nor dropped: it belongs to another generation.
            unsafe { close_directly(descriptor) };
        }
    }
}

/// Closes a descriptor by the system call itself. `close` and `syscall` of the C library may be intercepted, to protect
/// the store's descriptors from programs.
///
/// # Safety
/// Nothing may use the descriptor any more.
pub unsafe fn close_directly(descriptor: RawFd) {
    // SAFETY: as the caller promises.
    unsafe { rustix::io::close(descriptor) };
}

/// Closes a file. Network file systems may write its data only now, and report an error that dropping the file would
/// ignore. Calls the C library, as dropping does, because the interception library tracks the descriptors of the store
/// there.
///
/// # Errors
/// Errors of the file system, such as `StorageFull`.
pub fn close(file: File) -> io::Result<()> {
    // SAFETY: the descriptor belonged to `file`, so nothing uses it any more.
    match unsafe { libc::close(file.into_raw_fd()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Removes the entry `name` of an open directory; `is_directory` says whether it is a directory. Calls the C library,
/// so that tests can intercept the call and kill the process there.
///
/// # Errors
/// Errors of the file system; `EISDIR` for a directory unless `is_directory` is set.
pub(crate) fn unlink_at(
    directory: BorrowedFd<'_>,
    name: &CStr,
    is_directory: bool,
) -> io::Result<()> {
    let flags = if is_directory { libc::AT_REMOVEDIR } else { 0 };
    // SAFETY: the descriptor is open, and the name ends with a zero byte.
    match unsafe { libc::unlinkat(directory.as_raw_fd(), name.as_ptr(), flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// While this value exists, a child made by fork closes the socket first. Drop it before the socket is closed.
#[derive(Debug)]
pub struct ClosedInChildren(Option<&'static AtomicI32>);

impl ClosedInChildren {
    /// Registers a socket. Does nothing if 1024 are registered already.
    #[must_use]
    pub fn new(socket: BorrowedFd<'_>) -> Self {
        crate::generation();
        let (descriptor, order) = (socket.as_raw_fd(), Ordering::Relaxed);
        let taken = SOCKETS
            .iter()
            .find(|slot| slot.compare_exchange(NONE, descriptor, order, order).is_ok());
        Self(taken)
    }
}

impl Drop for ClosedInChildren {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.store(NONE, Ordering::Relaxed);
        }
    }
}

/// Marks all open files except standard input, output and error, so that programs started from now on do not inherit
/// them. Best effort: kernels before 5.11 cannot do it.
pub fn keep_from_programs() {
    let (first, last, flags) = (3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: all files stay open and as they are in this process.
    unsafe {
        libc::syscall(libc::SYS_close_range, first, last, flags);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::fd::{AsFd, FromRawFd};
    use std::os::unix::net::UnixStream;

    /// A descriptor that was closed before stands for a file system that cannot write the data.
    #[test]
    fn errors_of_closing_are_reported() {
        let file = File::open("/dev/null").unwrap();
        // High numbers are not used again at once.
        let copy = rustix::io::fcntl_dupfd_cloexec(&file, 900).unwrap();
        let number = copy.as_raw_fd();
        close(File::from(copy)).unwrap();
        // SAFETY: nothing else has this number, and closing it fails.
        let closed = unsafe { File::from_raw_fd(number) };
        assert_eq!(close(closed).unwrap_err().raw_os_error(), Some(libc::EBADF));
    }

    #[test]
    fn a_peer_notices_the_end_of_a_parent_whose_child_lives() {
        let (mine, mut peer) = UnixStream::pair().unwrap();
        let (kept, mut go) = UnixStream::pair().unwrap();
        let closed = ClosedInChildren::new(mine.as_fd());
        // SAFETY: the child only makes system calls, and ends by one.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let mut byte = [0u8];
            // SAFETY: the buffer belongs to this function; the call waits until the parent lets the child go on.
            unsafe {
                libc::read(kept.as_raw_fd(), byte.as_mut_ptr().cast(), 1);
                libc::_exit(0)
            }
        }
        drop((closed, mine));
        assert_eq!(peer.read(&mut [0]).unwrap(), 0);
        std::io::Write::write_all(&mut go, b"!").unwrap();
        // SAFETY: waits for the child made above.
        assert_eq!(unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) }, child);
    }
}
