//! The memory of mapped files: for each mapped object, a system file next to its lock file. All processes map this file
//! instead of the object.
//!
//! Its users hold a shared lock on its last byte, like users of a lock file. A process that opens the file as the only
//! user truncates it. From then on, mapped ranges of the file are filled from the object. A process that writes to the
//! object writes to this file, too ([`Pages::reload`]).
use crate::answer::{Answer, Fail, refuse};
use crate::open_file::OpenFile;
use crate::{config, internal, locks, mapped, raw, threads};
use dfs::Open;
use esker::types::ObjectId;
use esker_preload_interface::File;
use std::ffi::{CString, c_int};
use std::ops::Range;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// Suffix of its name after the name of the lock file.
const SUFFIX: &[u8] = b".pages";

/// Byte that is locked while the file is filled, and while its content is written to the object.
const BUSY: i64 = locks::PRESENCE - 1;

/// Unit of mapping in bytes.
const PAGE: u64 = 4096;

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// Excludes other threads of this process, which share the lock on [`BUSY`].
static TURN: Mutex<()> = Mutex::new(());

/// The memory of one object, open in this process. Its last user removes it.
pub(crate) struct Pages {
    fd: AtomicI32,
    /// Descriptor for a child during a fork, because the child must not share the locks of its parent; -1 for none.
    for_child: AtomicI32,
    name: CString,
    /// The object that this process counts as mapped.
    counted: Option<ObjectId>,
    /// Generation of the process that opened it or inherited it.
    generation: AtomicU64,
}

impl Pages {
    /// Takes over the descriptor `fd` of the memory `name`. `counted` is the object if [`mapped::add`] was called for
    /// it.
    fn new(fd: c_int, name: CString, counted: Option<ObjectId>) -> Self {
        let (fd, for_child) = (AtomicI32::new(internal::keep(fd)), AtomicI32::new(-1));
        let generation = AtomicU64::new(threads::generation());
        Self { fd, for_child, name, counted, generation }
    }

    /// Opens the memory of an object, to map it.
    ///
    /// # Errors
    /// `ENODEV` if no file can be made in the directory for lock files.
    pub(crate) fn open(oid: ObjectId) -> Answer<Self> {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(sweep);
        let name = locks::name_with(oid, SUFFIX).or_else(|_| refuse(libc::ENODEV))?;
        // Counts first, so that processes that write from now on search for the memory.
        mapped::add(oid)?;
        Self::open_counted(oid, name).inspect_err(|_| mapped::remove(oid))
    }

    /// Opens the file of the memory after [`mapped::add`] has counted this process. Tries again if the last user has
    /// removed the file just before this process became a user.
    fn open_counted(oid: ObjectId, name: CString) -> Answer<Self> {
        loop {
            let fd = locks::open_or_make(&name).or_else(|_| refuse(libc::ENODEV))?;
            let mut pages = Self::new(fd, name.clone(), None);
            // No process uses the file, so its content may be outdated.
            if pages.is_alone() && pages.has_name() {
                raw::resize(pages.descriptor(), 0)?;
            }
            if pages.join()? {
                pages.counted = Some(oid);
                return Ok(pages);
            }
        }
    }

    /// Opens the memory of an object that another process maps, to write to it; `None` if no process does.
    pub(crate) fn attach(oid: ObjectId) -> Answer<Option<Self>> {
        let Ok(name) = locks::name_with(oid, SUFFIX) else { return Ok(None) };
        let fd = match locks::open_made(&name) {
            Ok(fd) => fd,
            Err(Fail::Errno(libc::ENOENT)) => return Ok(None),
            Err(error) => return Err(error),
        };
        let pages = Self::new(fd, name, None);
        // Killed processes leave the file behind. Its content must not be taken for that of the object.
        let is_used = !pages.is_alone() && pages.join()?;
        Ok(is_used.then_some(pages))
    }

    /// Becomes a user; false if the last user has just removed the file.
    fn join(&self) -> Answer<bool> {
        loop {
            match locks::set(self.descriptor(), locks::PRESENCE, libc::F_OFD_SETLKW, libc::F_RDLCK)
            {
                Ok(_) => return Ok(self.has_name()),
                Err(Fail::Errno(libc::EINTR)) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// True if no other process uses it. The lock that this takes keeps others from becoming users until the lock is
    /// changed.
    fn is_alone(&self) -> bool {
        locks::set(self.descriptor(), locks::PRESENCE, libc::F_OFD_SETLK, libc::F_WRLCK).is_ok()
    }

    fn has_name(&self) -> bool {
        raw::status(self.descriptor()).is_ok_and(|status| status.st_nlink > 0)
    }

    /// Returns the descriptor of the shared memory, for `mmap`.
    pub(crate) fn descriptor(&self) -> c_int {
        self.fd.load(Ordering::Relaxed)
    }

    /// Makes sure that the memory has the content of the file up to `end`.
    pub(crate) fn fill(&self, file: &OpenFile, end: u64) -> Answer<()> {
        let Some(end) = end.checked_next_multiple_of(PAGE) else { return refuse(libc::EOVERFLOW) };
        self.alone(|| {
            let start = raw::status(self.descriptor())?.st_size as u64;
            if start >= end {
                return Ok(());
            }
            // Sets the size last: a process that is killed before leaves at most part of a page, which no process has
            // mapped.
            self.copy(&*file.stored_file()?, start / PAGE * PAGE, end)?;
            raw::resize(self.descriptor(), end as i64)
        })
    }

    /// Copies a range of the object into the memory, also if `file` is not open for reading. Returns as [`Pages::copy`]
    /// does.
    fn copy_any(&self, file: &File, start: u64, end: u64) -> Answer<u64> {
        if file.mode().read {
            return self.copy(file, start, end);
        }
        let readable = file.node().open(Open { read: true, ..Open::default() })?;
        self.copy(&readable, start, end)
    }

    /// Copies a range of the object into the memory. Returns the end of the range or of the object, whichever is first.
    fn copy(&self, file: &File, start: u64, end: u64) -> Answer<u64> {
        let mut room = vec![0; CHUNK.min((end - start) as usize)];
        let mut at = start;
        while at < end {
            let wanted = room.len().min((end - at) as usize);
            let length = file.read_at(at, &mut room[..wanted])?;
            if length == 0 {
                break;
            }
            raw::write_all_at(self.descriptor(), &room[..length], at as i64)?;
            at += length as u64;
        }
        Ok(at)
    }

    /// Reads a range of the object into the memory again. Bytes of the range past the end of the object become zeros;
    /// without `file`, all bytes of the range do.
    pub(crate) fn reload(&self, file: Option<&File>, range: Range<u64>) -> Answer<()> {
        let end = range.end.min(raw::status(self.descriptor())?.st_size as u64);
        if range.start >= end {
            return Ok(());
        }
        let data_end = match file {
            Some(file) => self.copy_any(file, range.start, end)?,
            None => range.start,
        };
        match data_end < end {
            true => raw::punch(self.descriptor(), data_end, end - data_end),
            false => Ok(()),
        }
    }

    /// Runs `work` while no other thread or process changes the memory or the object: by filling the memory, writing it
    /// back, or writing to both.
    pub(crate) fn alone<T>(&self, work: impl FnOnce() -> Answer<T>) -> Answer<T> {
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        while let Err(error) =
            locks::set(self.descriptor(), BUSY, libc::F_OFD_SETLKW, libc::F_WRLCK)
        {
            if !matches!(error, Fail::Errno(libc::EINTR)) {
                return Err(error);
            }
        }
        let result = work();
        locks::set(self.descriptor(), BUSY, libc::F_OFD_SETLK, libc::F_UNLCK)?;
        result
    }
}

impl Pages {
    /// Before a fork: opens the file once more for the child, which can then outlive its parent.
    pub(crate) fn before_fork(&self) {
        // Several mappings share this value.
        let Some(oid) = self.counted.filter(|_| self.for_child.load(Ordering::Relaxed) < 0) else {
            return;
        };
        let opened = locks::open_made(&self.name).map(internal::keep);
        if let Ok(fd) = opened
            && locks::set(fd, locks::PRESENCE, libc::F_OFD_SETLK, libc::F_RDLCK).is_ok()
            && mapped::add(oid).is_ok()
        {
            self.for_child.store(fd, Ordering::Relaxed);
        }
    }

    /// After a fork, in the parent: closes the descriptor for the child.
    pub(crate) fn after_fork(&self) {
        close(self.for_child.swap(-1, Ordering::Relaxed));
    }

    /// After a fork, in the child: uses the descriptor that was opened for it.
    pub(crate) fn inherit(&self) {
        let fd = self.for_child.swap(-1, Ordering::Relaxed);
        if fd >= 0 {
            close(self.fd.swap(fd, Ordering::Relaxed));
            self.generation.store(threads::generation(), Ordering::Relaxed);
        }
    }
}

/// Closes a descriptor of this library.
fn close(fd: c_int) {
    if fd >= 0 {
        internal::forget(fd);
        raw::close(fd);
    }
}

impl Drop for Pages {
    /// Mappings keep the file open, so its lock is released explicitly, but not by a child, which shares it.
    fn drop(&mut self) {
        let fd = self.descriptor();
        if self.generation.load(Ordering::Relaxed) == threads::generation() {
            if self.has_name() && self.is_alone() {
                raw::unlink(&self.name);
            }
            let _ = locks::set(fd, locks::PRESENCE, libc::F_OFD_SETLK, libc::F_UNLCK);
            self.counted.into_iter().for_each(mapped::remove);
        }
        close(fd);
    }
}

/// Removes files that killed processes have left, because they occupy memory.
fn sweep() {
    let folder = &config::get().locks;
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let Some(listing) =
        CString::new(folder.clone()).ok().and_then(|path| raw::open(&path, flags, 0).ok())
    else {
        return;
    };
    let mut room = [0_u8; 4096];
    while let Ok(length @ 1..) = raw::entries(listing, &mut room) {
        for name in raw::names(&room[..length]).filter(|name| name.ends_with(SUFFIX)) {
            sweep_one([folder, &b"/"[..], name].concat());
        }
    }
    raw::close(listing);
}

/// Opens and closes a file, which removes it if no process uses it.
fn sweep_one(path: Vec<u8>) {
    if let Ok(name) = CString::new(path)
        && let Ok(fd) = locks::open_made(&name)
    {
        drop(Pages::new(fd, name, None));
    }
}
