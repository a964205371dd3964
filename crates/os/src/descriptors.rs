//! Descriptors that other processes must not keep open, and descriptors of directories. If a forked child keeps a
//! socket open, for example, the peer does not notice that the parent has died.
#![allow(unsafe_code)]
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// Most sockets that are closed in children. Children keep all further ones.
const SOCKETS_MAX: usize = 1024;

/// Mark a free slot, and one whose descriptor is not stored yet.
const NONE: i32 = -1;
const RESERVED: i32 = -2;

/// The registered sockets.
static SOCKETS: [ChildClosed; SOCKETS_MAX] = [const { ChildClosed::empty() }; SOCKETS_MAX];

/// Slot for a descriptor that forked children close, unless the program has closed it and its number belongs to another
/// file.
#[derive(Debug)]
pub struct ChildClosed {
    descriptor: AtomicI32,
    /// Device and inode of the file.
    device: AtomicU64,
    inode: AtomicU64,
}

impl ChildClosed {
    /// A free slot.
    #[must_use]
    pub const fn empty() -> Self {
        let (device, inode) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { descriptor: AtomicI32::new(NONE), device, inode }
    }

    /// Stores the descriptor of `file` if the slot is free. Returns false otherwise.
    pub fn take(&self, file: BorrowedFd<'_>) -> bool {
        let (won, lost) = (Ordering::SeqCst, Ordering::Relaxed);
        if self.descriptor.compare_exchange(NONE, RESERVED, won, lost).is_err() {
            return false;
        }
        let (device, inode) = identity_of(file);
        self.device.store(device, Ordering::SeqCst);
        self.inode.store(inode, Ordering::SeqCst);
        self.descriptor.store(file.as_raw_fd(), Ordering::SeqCst);
        true
    }

    /// Frees the slot.
    pub fn free(&self) {
        self.descriptor.store(NONE, Ordering::SeqCst);
    }

    /// Closes the descriptor, if any, and frees the slot. Uses only atomics and system calls, as a handler of fork must.
    ///
    /// # Safety
    /// Only for a forked child that does not use the file.
    pub unsafe fn close(&self) {
        let descriptor = self.descriptor.swap(NONE, Ordering::SeqCst);
        if descriptor < 0 {
            return;
        }
        let stored = (self.device.load(Ordering::SeqCst), self.inode.load(Ordering::SeqCst));
        // SAFETY: the borrow ends before the descriptor is closed. If it is not open, the call fails.
        if identity_of(unsafe { BorrowedFd::borrow_raw(descriptor) }) == stored {
            // SAFETY: as the caller promises.
            unsafe { close_directly(descriptor) };
        }
    }
}

/// Device and inode of an open file, by the system call itself: programs may intercept the C library's. Zeros if the
/// descriptor is not open.
fn identity_of(file: BorrowedFd<'_>) -> (u64, u64) {
    rustix::fs::fstat(file).map_or((0, 0), |info| (info.st_dev, info.st_ino))
}

/// Closes the registered sockets of the parent in its child. Uses only atomics and system calls, as a handler of fork
/// must.
pub(crate) fn close_inherited() {
    // SAFETY: the owners of the sockets in this child's memory are never used nor dropped: they belong to another
    // generation.
    SOCKETS.iter().for_each(|socket| unsafe { socket.close() });
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
pub struct ClosedInChildren(Option<&'static ChildClosed>);

impl ClosedInChildren {
    /// Registers a socket. Does nothing if 1024 are registered already.
    #[must_use]
    pub fn new(socket: BorrowedFd<'_>) -> Self {
        crate::generation();
        Self(SOCKETS.iter().find(|slot| slot.take(socket)))
    }
}

impl Drop for ClosedInChildren {
    fn drop(&mut self) {
        if let Some(slot) = self.0 {
            slot.free();
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

    /// The program has closed the socket, and another file has its number.
    #[test]
    fn reused_descriptor_stays_open_in_child() {
        let (socket, _peer) = UnixStream::pair().unwrap();
        let number = socket.as_raw_fd();
        let slot = ChildClosed::empty();
        assert!(slot.take(socket.as_fd()) && !slot.take(socket.as_fd()));
        let other = File::open("/dev/null").unwrap();
        // SAFETY: no memory is accessed, and the number stays open.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), number) }, number);
        // SAFETY: the socket is not used any more.
        unsafe { slot.close() };
        assert!(rustix::io::fcntl_getfd(&socket).is_ok());
        assert!(slot.take(socket.as_fd()), "the slot is free");
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
