//! The offset and the status flags of an open file. This process has them until another process can share the file.
//! Then the kernel has them, so that all processes with the file share them.
use crate::answer::{Answer, refuse};
use crate::raw;
use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, Ordering};

/// Flags that `F_SETFL` may change.
const CHANGEABLE: c_int = libc::O_APPEND | libc::O_NONBLOCK | libc::O_NOATIME;

/// Offset and status flags. All functions run inside the store; [`Position::share`] runs while no other thread is
/// inside.
pub(crate) struct Position {
    /// Offset; like `flags`, not used once the file is shared.
    offset: AtomicI64,
    flags: AtomicI32,
    shared: AtomicBool,
}

impl Position {
    /// The position of a file that was just opened with these flags.
    pub(crate) fn start(flags: c_int) -> Self {
        Self::with(flags, false)
    }

    /// Creates the position of a file inherited through exec, which this process shares with others.
    pub(crate) fn inherited() -> Self {
        Self::with(0, true)
    }

    fn with(flags: c_int, shared: bool) -> Self {
        let flags = AtomicI32::new(flags & CHANGEABLE);
        Self { offset: AtomicI64::new(0), flags, shared: AtomicBool::new(shared) }
    }

    /// True if other processes may share this position: its offset and flags are then in the kernel, not in this
    /// process.
    pub(crate) fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Relaxed)
    }

    /// Moves the offset from the start (`SEEK_SET`) or from where it is (`SEEK_CUR`), and returns the new one.
    ///
    /// # Errors
    /// `EINVAL` for an offset below 0 or beyond the largest one, as in Linux.
    pub(crate) fn seek(&self, fd: c_int, by: i64, whence: c_int) -> Answer<i64> {
        if self.is_shared() {
            return raw::seek(fd, by, whence);
        }
        let to = |from: i64| match whence {
            libc::SEEK_SET => by,
            libc::SEEK_CUR => from.wrapping_add(by),
            _ => -1,
        };
        let checked = |from| Some(to(from)).filter(|to| *to >= 0);
        match self.offset.fetch_update(Ordering::Relaxed, Ordering::Relaxed, checked) {
            Ok(from) => Ok(to(from)),
            Err(_) => refuse(libc::EINVAL),
        }
    }

    /// True if writes go to the end (`O_APPEND`).
    pub(crate) fn appends(&self, fd: c_int) -> bool {
        self.flags(fd).is_ok_and(|flags| flags & libc::O_APPEND != 0)
    }

    /// Returns the flags that `F_SETFL` can change. A shared position has them in the kernel, so that all processes see
    /// a change.
    pub(crate) fn flags(&self, fd: c_int) -> Answer<c_int> {
        match self.is_shared() {
            true => Ok(raw::control(fd, libc::F_GETFL, 0)? & CHANGEABLE),
            false => Ok(self.flags.load(Ordering::Relaxed)),
        }
    }

    /// Changes the flags that `F_SETFL` can change; ignores all others.
    pub(crate) fn set_flags(&self, fd: c_int, flags: c_int) -> Answer<()> {
        let flags = flags & CHANGEABLE;
        match self.is_shared() {
            true => raw::control(fd, libc::F_SETFL, flags as usize).map(drop),
            false => {
                self.flags.store(flags, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Hands offset and flags over to the kernel, to the anonymous file behind `fd`. From now on, `is_shared` is true.
    pub(crate) fn share(&self, fd: c_int) -> Answer<()> {
        raw::seek(fd, self.offset.load(Ordering::Relaxed), libc::SEEK_SET)?;
        raw::control(fd, libc::F_SETFL, self.flags.load(Ordering::Relaxed) as usize)?;
        self.shared.store(true, Ordering::Relaxed);
        Ok(())
    }
}
