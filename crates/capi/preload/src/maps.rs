//! Files in memory: mmap.
//!
//! A mapping of a file of the mount point is anonymous memory, filled from the file when it is made. What
//! a shared writable one changes is found by comparing with a second copy, and written to the file by
//! msync, munmap, close and at the end of the process, and before this process reads the file.
use crate::answer::{Answer, no, tell};
use crate::edge::export;
use crate::open_file::OpenFile;
use crate::serve::serve;
use crate::{descriptors, locks, raw, report, thread};
use esker::types::ObjectId;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are compared and written together.
const PAGE: usize = 4096;

static REGIONS: Mutex<Vec<Region>> = Mutex::new(Vec::new());
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A shared mapping of a file.
struct Region {
    start: usize,
    length: usize,
    file: Arc<OpenFile>,
    /// Offset in the file of its first byte.
    offset: u64,
    /// The content as the file has it, while the memory is writable.
    copy: Option<Vec<u8>>,
}

impl Region {
    fn end(&self) -> usize {
        self.start + self.length
    }

    fn overlaps(&self, start: usize, end: usize) -> bool {
        self.start < end && start < self.end()
    }

    fn memory(&self) -> &[u8] {
        // SAFETY: the region is mapped as long as it is in the list; the program that changes it while it
        // is written gets what it would get from the kernel: either state of each byte.
        unsafe { std::slice::from_raw_parts(self.start as *const u8, self.length) }
    }

    /// Writes what the program changed.
    fn write_back(&mut self) -> Answer<()> {
        let Some(mut copy) = self.copy.take() else { return Ok(()) };
        let result = self.file.whole(|file| {
            // What lies behind the end of the file is nowhere, as in Linux.
            let size = file.size()?.saturating_sub(self.offset).min(self.length as u64) as usize;
            for start in (0..size).step_by(PAGE) {
                let end = (start + PAGE).min(size);
                let now = &self.memory()[start..end];
                if *now != copy[start..end] {
                    copy[start..end].copy_from_slice(now);
                    file.write_at(self.offset + start as u64, &copy[start..end])?;
                }
            }
            Ok(())
        });
        self.copy = Some(copy);
        result
    }

    /// The part of it from `start` to `end`.
    fn part(&self, start: usize, end: usize) -> Option<Self> {
        let (start, end) = (start.max(self.start), end.min(self.end()));
        let skip = start.checked_sub(self.start)?;
        let length = end.checked_sub(start).filter(|length| *length > 0)?;
        let copy = self.copy.as_ref().map(|copy| copy[skip..skip + length].to_vec());
        let offset = self.offset + skip as u64;
        Some(Self { start, length, file: self.file.clone(), offset, copy })
    }
}

fn regions() -> MutexGuard<'static, Vec<Region>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn has_any() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

fn write_back(wanted: impl Fn(&Region) -> bool) -> Answer<()> {
    regions().iter_mut().filter(|region| wanted(region)).try_for_each(Region::write_back)
}

/// Writes back what was changed in memory of this object.
pub(crate) fn write_back_of(oid: ObjectId) {
    if has_any() {
        let _ = write_back(|region| region.file.identity().oid == oid);
    }
}

/// Writes back all that was changed in memory.
pub(crate) fn write_back_all() {
    if has_any() {
        let _ = write_back(|_| true);
    }
}

/// Brings bytes that were written to the file into its shared mappings.
pub(crate) fn written(oid: ObjectId, offset: u64, parts: &[&[u8]]) {
    if !has_any() {
        return;
    }
    for region in regions().iter_mut().filter(|region| region.file.identity().oid == oid) {
        let mut at = offset;
        for part in parts {
            update(region, at, part);
            at += part.len() as u64;
        }
    }
}

fn update(region: &mut Region, offset: u64, data: &[u8]) {
    let (start, end) = (offset.max(region.offset), offset + data.len() as u64);
    let end = end.min(region.offset + region.length as u64);
    if start >= end {
        return;
    }
    let data = &data[(start - offset) as usize..(end - offset) as usize];
    let at = (start - region.offset) as usize;
    if let Some(copy) = &mut region.copy {
        copy[at..at + data.len()].copy_from_slice(data);
        // SAFETY: the region is mapped and writable, and so long.
        unsafe {
            std::ptr::copy(data.as_ptr(), (region.start + at) as *mut u8, data.len());
        }
    }
}

type Map = extern "C" fn(usize, usize, c_int, c_int, c_int, i64) -> *mut c_void;

fn map(
    (address, length): (usize, usize),
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
    real: Map,
) -> Answer<*mut c_void> {
    let file = descriptors::get(fd)?;
    let access = file.identity().flags & libc::O_ACCMODE;
    let is_shared = flags & libc::MAP_TYPE != libc::MAP_PRIVATE;
    let is_written = is_shared && protection & libc::PROT_WRITE != 0;
    if access == libc::O_WRONLY || (is_written && access != libc::O_RDWR) {
        return no(libc::EACCES);
    }
    // Who locks it shares it with other processes, whose changes it would not see: sqlite's
    // write-ahead log does so.
    if is_written && locks::has_records(file.identity().oid) {
        report::note("a shared writable mapping of a file with record locks was refused");
        return no(libc::ENODEV);
    }
    if length == 0 || offset < 0 || !(offset as usize).is_multiple_of(PAGE) {
        return no(libc::EINVAL);
    }
    if file.is_directory() {
        return no(libc::ENODEV);
    }
    let kind = if is_shared { libc::MAP_SHARED } else { libc::MAP_PRIVATE };
    let flags = flags & !(libc::MAP_TYPE | libc::MAP_SYNC) | kind | libc::MAP_ANONYMOUS;
    let both = libc::PROT_READ | libc::PROT_WRITE;
    let memory = real(address, length, both, flags, -1, 0);
    if memory == libc::MAP_FAILED {
        return no(thread::errno());
    }
    let region = Region { start: memory as usize, length, file, offset: offset as u64, copy: None };
    match fill(region, is_shared, is_written) {
        Ok(()) => {
            if protection != both {
                raw::protect(memory as usize, length, protection)?;
            }
            Ok(memory)
        }
        Err(error) => {
            raw::unmap(memory as usize, length);
            Err(error)
        }
    }
}

fn fill(mut region: Region, is_shared: bool, is_written: bool) -> Answer<()> {
    // SAFETY: fresh memory of this length, which nobody else knows yet.
    let memory = unsafe { std::slice::from_raw_parts_mut(region.start as *mut u8, region.length) };
    region.file.whole(|file| {
        file.read_at(region.offset, memory)?;
        Ok(())
    })?;
    if is_shared {
        region.copy = is_written.then(|| region.memory().to_vec());
        regions().push(region);
        COUNT.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn map_file(
    place: (usize, usize),
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
    real: Map,
) -> *mut c_void {
    match serve(|| map(place, protection, flags, fd, offset, real)) {
        Ok(memory) => memory,
        Err(error) => {
            let _: c_int = tell(Err(error));
            libc::MAP_FAILED
        }
    }
}

/// Forgets what is no longer mapped between two addresses.
fn unmapped(start: usize, end: usize) -> Answer<()> {
    write_back(|region| region.overlaps(start, end))?;
    let mut regions = regions();
    let touched: Vec<_> = regions.extract_if(.., |region| region.overlaps(start, end)).collect();
    for region in touched {
        regions.extend(region.part(region.start, start));
        regions.extend(region.part(end, region.end()));
    }
    COUNT.store(regions.len(), Ordering::Relaxed);
    Ok(())
}

/// Shared memory becomes writable: from now on changes are looked for.
fn made_writable(start: usize, end: usize) -> Answer<()> {
    for region in regions().iter_mut().filter(|region| region.overlaps(start, end)) {
        if region.file.identity().flags & libc::O_ACCMODE != libc::O_RDWR {
            return no(libc::EACCES);
        }
        if region.copy.is_none() {
            region.copy = Some(region.memory().to_vec());
        }
    }
    Ok(())
}

/// A size that memory of ours may not be given: the rest would not be the file's.
fn check_resize(start: usize, length: usize) -> Answer<()> {
    let grows = regions().iter().any(|region| region.start == start && region.length < length);
    if grows { no(libc::ENOMEM) } else { Ok(()) }
}

export! {
    fn mmap(address: usize, length: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64)
        -> *mut c_void
    | next {
        if flags & libc::MAP_ANONYMOUS != 0 || !descriptors::is_ours(fd) {
            return next(address, length, protection, flags, fd, offset);
        }
        map_file((address, length), protection, flags, fd, offset, next)
    }

    fn mmap64(address: usize, length: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64)
        -> *mut c_void
    | next {
        if flags & libc::MAP_ANONYMOUS != 0 || !descriptors::is_ours(fd) {
            return next(address, length, protection, flags, fd, offset);
        }
        map_file((address, length), protection, flags, fd, offset, next)
    }

    fn munmap(address: usize, length: usize) -> c_int | next {
        if has_any() {
            let _ = thread::inside(|| unmapped(address, address.saturating_add(length)));
        }
        next(address, length)
    }

    fn msync(address: usize, length: usize, flags: c_int) -> c_int | next {
        if has_any() {
            let end = address.saturating_add(length);
            let done = thread::inside(|| write_back(|region| region.overlaps(address, end)));
            if done.is_err() {
                return tell(done.map(|()| 0));
            }
        }
        next(address, length, flags)
    }

    fn mprotect(address: usize, length: usize, protection: c_int) -> c_int | next {
        if has_any() && protection & libc::PROT_WRITE != 0 {
            let end = address.saturating_add(length);
            let done = thread::inside(|| made_writable(address, end));
            if done.is_err() {
                return tell(done.map(|()| 0));
            }
        }
        next(address, length, protection)
    }

    fn mremap(address: usize, length: usize, new_length: usize, flags: c_int, new: usize)
        -> *mut c_void
    | next {
        if has_any() {
            let done = thread::inside(|| check_resize(address, new_length));
            if done.is_err() {
                let _: c_int = tell(done.map(|()| 0));
                return libc::MAP_FAILED;
            }
        }
        next(address, length, new_length, flags, new)
    }
}
