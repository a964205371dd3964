//! The memory of files that several processes map: a file of the system beside the lock file of the object, which all of
//! them map in place of the object.
//!
//! Its users hold a shared lock on its last byte, as those of a lock file. Whoever opens it alone empties it: then the
//! object has the content, and the file is filled from the object as far as it is mapped.
use crate::answer::{Answer, Fail, refuse};
use crate::open_file::OpenFile;
use crate::{internal, locks, raw, threads};
use dfs::File;
use esker::types::ObjectId;
use std::ffi::{CString, c_int};

/// What its name has after that of the lock file.
const SUFFIX: &[u8] = b".pages";

/// Byte that is locked while the file is filled, and while its content is written to the object.
const BUSY: i64 = locks::PRESENCE - 1;

/// Unit of mapping in bytes.
const PAGE: u64 = 4096;

/// The memory of one file, open in this process. The last of its users removes it.
pub(crate) struct Pages {
    fd: c_int,
    name: CString,
    /// The process that opened it.
    generation: u64,
}

impl Pages {
    /// Opens the memory of an object.
    ///
    /// # Errors
    /// `ENOLCK` without a directory for lock files; those of opening a file in it.
    pub(crate) fn open(oid: ObjectId) -> Answer<Self> {
        let name = locks::name_with(oid, SUFFIX)?;
        loop {
            let fd = internal::keep(locks::open_or_make(&name)?);
            let pages = Self { fd, name: name.clone(), generation: threads::generation() };
            if pages.is_alone() && pages.has_name() {
                raw::resize(pages.fd, 0)?;
            }
            match locks::set(pages.fd, locks::PRESENCE, libc::F_OFD_SETLKW, libc::F_RDLCK) {
                Ok(_) if pages.has_name() => return Ok(pages),
                // Its last user has just removed it, or a signal arrived.
                Ok(_) | Err(Fail::Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// True if no other process has it open. None can then open it before the lock is changed.
    fn is_alone(&self) -> bool {
        locks::set(self.fd, locks::PRESENCE, libc::F_OFD_SETLK, libc::F_WRLCK).is_ok()
    }

    fn has_name(&self) -> bool {
        raw::status(self.fd).is_ok_and(|status| status.st_nlink > 0)
    }

    /// The descriptor to map.
    pub(crate) fn descriptor(&self) -> c_int {
        self.fd
    }

    /// Makes sure that the memory has the content of the file up to `end`.
    pub(crate) fn fill(&self, file: &OpenFile, end: u64) -> Answer<()> {
        let Some(end) = end.checked_next_multiple_of(PAGE) else { return refuse(libc::EOVERFLOW) };
        self.alone(|| {
            let start = raw::status(self.fd)?.st_size as u64;
            if start >= end {
                return Ok(());
            }
            // The size last: whoever is killed before leaves at most a part of a page, which nobody has mapped.
            file.whole(|file| self.copy(file, start / PAGE * PAGE, end))?;
            raw::resize(self.fd, end as i64)
        })
    }

    fn copy(&self, file: &File, start: u64, end: u64) -> Answer<()> {
        let mut room = vec![0; PAGE as usize];
        for offset in (start..end).step_by(PAGE as usize) {
            let length = file.read_at(offset, &mut room)?;
            if length == 0 {
                break;
            }
            raw::write_at(self.fd, &room[..length], offset as i64)?;
        }
        Ok(())
    }

    /// Runs `work` while no other process fills the memory or writes it to the object.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> Answer<T>) -> Answer<T> {
        while let Err(error) = locks::set(self.fd, BUSY, libc::F_OFD_SETLKW, libc::F_WRLCK) {
            if !matches!(error, Fail::Errno(libc::EINTR)) {
                return Err(error);
            }
        }
        let result = work();
        locks::set(self.fd, BUSY, libc::F_OFD_SETLK, libc::F_UNLCK)?;
        result
    }
}

impl Drop for Pages {
    /// Mappings keep the file open, so its lock is released explicitly, but not by a child, which shares it.
    fn drop(&mut self) {
        if self.generation == threads::generation() {
            if self.has_name() && self.is_alone() {
                raw::unlink(&self.name);
            }
            let _ = locks::set(self.fd, locks::PRESENCE, libc::F_OFD_SETLK, libc::F_UNLCK);
        }
        internal::forget(self.fd);
        raw::close(self.fd);
    }
}
