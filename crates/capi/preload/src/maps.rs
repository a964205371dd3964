//! Files in memory: mmap.
//!
//! A private mapping of a file in the mount point is anonymous memory, filled from the file at the start
//! ([`private_maps`]). A shared mapping maps a file of the system that all processes map in place of the object
//! ([`Pages`]). Calls that change the content of the object change that file, too ([`change_content`]). The program
//! changes a writable mapping without calls, so this library compares the mapping with a copy. It writes the differences
//! to the object on msync, munmap and close, at the end of the process, and before this process reads the file.
//!
//! The comparison reads a second mapping of the same memory, which only this library uses. Libraries that track
//! mappings (UCX, libfabric, Open MPI) patch `munmap` and similar functions in machine code or in the tables of the
//! linker, so memory may be unmapped without a call to this library. The second mapping keeps the bytes that the
//! program wrote, and reading it cannot fault.
use crate::answer::{Answer, refuse, to_c};
use crate::edge::export;
use crate::open_file::OpenFile;
use crate::pages::Pages;
use crate::serve::serve;
use crate::{descriptors, mapped, private_maps, process, raw, report, threads};
use esker::types::ObjectId;
use esker_preload_interface::File;
use std::ffi::{c_int, c_long, c_void};
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Unit of comparing and writing in bytes.
const PAGE: usize = 4096;

/// All shared mappings of files by this process.
static REGIONS: Mutex<Vec<Region>> = Mutex::new(Vec::new());

/// Lets one thread at a time map or move memory and then update the list. Otherwise a move could free addresses that
/// another thread maps and lists before the move has updated the list.
static ADDRESSES: Mutex<()> = Mutex::new(());

fn addresses() -> MutexGuard<'static, ()> {
    ADDRESSES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of regions: programs without any need not lock the list.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A shared mapping of a file.
struct Region {
    start: usize,
    length: usize,
    /// The same memory, through the second mapping.
    view: View,
    file: Arc<OpenFile>,
    /// Offset in the file of its first byte.
    offset: u64,
    /// The bytes as they are in the object, while the program may write to the memory. Differences are its changes.
    copy: Option<Vec<u8>>,
    /// The file of the system that it maps.
    pages: Arc<Pages>,
    /// False once the program has unmapped it: it only waits for its changes to be written back.
    is_mapped: bool,
}

impl Region {
    fn end(&self) -> usize {
        self.start + self.length
    }

    fn overlaps(&self, start: usize, end: usize) -> bool {
        self.is_mapped && self.start < end && start < self.end()
    }

    /// Writes the changes of the program, and of other processes that map the same memory, to the object.
    fn write_back(&mut self) -> Answer<()> {
        // Not at the same time as another process, whose newer bytes could then be overwritten by older ones.
        self.pages.clone().alone(|| self.write_changes())
    }

    /// Writes the pages to the object that differ from the copy: the program has changed them.
    fn write_changes(&mut self) -> Answer<()> {
        let Some(copy) = &mut self.copy else { return Ok(()) };
        // A forked child that has changed nothing need not use the store.
        if self.view.bytes() == *copy {
            return Ok(());
        }
        process::used();
        let file = self.file.stored_file()?;
        // Bytes past the end of the file are not written, as in Linux.
        let size = file.size()?.saturating_sub(self.offset).min(self.length as u64) as usize;
        let mut page = [0; PAGE];
        for start in (0..size).step_by(PAGE) {
            let end = (start + PAGE).min(size);
            let now = &self.view.bytes()[start..end];
            if *now != copy[start..end] {
                // The program may change the page meanwhile. After an error, the page still differs from the copy, so
                // that a later call writes it again.
                let page = &mut page[..end - start];
                page.copy_from_slice(now);
                file.write_at(self.offset + start as u64, page)?;
                copy[start..end].copy_from_slice(page);
            }
        }
        Ok(())
    }

    /// Returns the part of this mapping between the addresses `start` and `end`. `None` if they do not overlap it.
    fn part(&self, start: usize, end: usize) -> Option<Self> {
        let (start, end) = (start.max(self.start), end.min(self.end()));
        let skip = start.checked_sub(self.start)?;
        let length = end.checked_sub(start).filter(|length| *length > 0)?;
        let view = self.view.part(skip, length);
        let copy = self.copy.as_ref().map(|copy| copy[skip..skip + length].to_vec());
        let offset = self.offset + skip as u64;
        let (file, pages, is_mapped) = (self.file.clone(), self.pages.clone(), self.is_mapped);
        Some(Self { start, length, view, file, offset, copy, pages, is_mapped })
    }
}

fn regions() -> MutexGuard<'static, Vec<Region>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn has_any() -> bool {
    COUNT.load(Ordering::Relaxed) != 0
}

/// Writes the changes in all mappings that `wanted` selects back to their objects. An error of one does not keep the
/// others from being written; returns the first.
fn write_back(wanted: impl Fn(&Region) -> bool) -> Answer<()> {
    let (mut regions, mut result) = (regions(), Ok(()));
    regions.retain_mut(|region| {
        if !wanted(region) {
            return true;
        }
        let written = region.write_back();
        let is_kept = region.is_mapped || written.is_err();
        if result.is_ok() {
            result = written;
        }
        is_kept
    });
    COUNT.store(regions.len(), Ordering::Relaxed);
    result
}

/// Writes back the changes to mappings of this object.
pub(crate) fn write_back_of(oid: ObjectId) -> Answer<()> {
    match has_any() {
        true => write_back(|region| region.file.identity().oid == oid),
        false => Ok(()),
    }
}

/// Runs `work` on the memory of each mapping, before or after a fork. Does nothing if the list is locked: a signal
/// handler may fork while its own thread has the lock, and waiting would then deadlock. The child then has no
/// descriptors of its own for the memory.
pub(crate) fn around_fork(work: impl Fn(&Pages)) {
    if has_any()
        && let Ok(regions) = REGIONS.try_lock()
    {
        for region in regions.iter() {
            work(&region.pages);
        }
    }
}

/// Drops all mappings at the end of the process. The last process that maps an object removes its memory.
pub(crate) fn release_all() {
    if has_any() {
        COUNT.store(0, Ordering::Relaxed);
        regions().clear();
    }
}

/// Writes the changes in all shared mappings back to their objects.
pub(crate) fn write_back_all() -> Answer<()> {
    if has_any() { write_back(|_| true) } else { Ok(()) }
}

/// Runs `work`, which changes the content of an object, and updates the memory that is mapped in its place: the bytes
/// that `range` returns. They are read again from `file`; without it they become zeros.
pub(crate) fn change_content<T>(
    oid: ObjectId,
    file: Option<&File>,
    work: impl FnOnce() -> Answer<T>,
    range: impl FnOnce(&T) -> Range<u64>,
) -> Answer<T> {
    let Some(pages) = mapped_pages(oid)? else {
        let done = work()?;
        // A process that maps the file after this check reads the changed content.
        if let Some(pages) = mapped_pages(oid)? {
            pages.alone(|| pages.reload(file, range(&done)))?;
        }
        return Ok(done);
    };
    let (done, range) = pages.alone(|| {
        let done = work()?;
        let range = range(&done);
        pages.reload(file, range.clone())?;
        Ok((done, range))
    })?;
    update_copies(oid, &range);
    Ok(done)
}

/// Calls [`change_content`] for `work` that sets the size of an object.
pub(crate) fn cut<T>(oid: ObjectId, size: u64, work: impl FnOnce() -> Answer<T>) -> Answer<T> {
    change_content(oid, None, work, |_| size..u64::MAX)
}

/// Calls [`change_content`] for `work` that makes bytes zeros.
pub(crate) fn zero(
    oid: ObjectId,
    range: Range<u64>,
    work: impl FnOnce() -> esker::types::Result<()>,
) -> Answer<()> {
    change_content(oid, None, || Ok(work()?), |()| range)
}

/// The memory that any process maps in place of the object; `None` if no process maps it.
fn mapped_pages(oid: ObjectId) -> Answer<Option<Arc<Pages>>> {
    if !mapped::is_mapped(oid) {
        return Ok(None);
    }
    match own_pages(oid) {
        Some(pages) => Ok(Some(pages)),
        None => Ok(Pages::attach(oid)?.map(Arc::new)),
    }
}

/// The memory of the object, if this process maps it.
fn own_pages(oid: ObjectId) -> Option<Arc<Pages>> {
    let regions = regions();
    let region = regions.iter().find(|region| region.file.identity().oid == oid)?;
    Some(region.pages.clone())
}

/// Updates the copies for comparison after a call has written to the object, because these bytes are not changes by the
/// program through its mappings. Reads them from the object: the memory may have new changes of the program already.
/// After an error, the bytes in memory count as changes, which are the same.
fn update_copies(oid: ObjectId, range: &Range<u64>) {
    for region in regions().iter_mut().filter(|region| region.file.identity().oid == oid) {
        let Some(copy) = &mut region.copy else { continue };
        let place = |at: u64| at.saturating_sub(region.offset).min(copy.len() as u64) as usize;
        let (start, end) = (place(range.start), place(range.end));
        let (from, part) = (region.offset + start as u64, &mut copy[start..end]);
        let read = region.file.stored_file().and_then(|file| Ok(file.read_at(from, part)?));
        // Behind the end of the object are zeros.
        if let Ok(length) = read {
            part[length..].fill(0);
        }
    }
}

type Map = extern "C" fn(usize, usize, c_int, c_int, c_int, i64) -> *mut c_void;

/// The mapping that a program requests.
#[derive(Clone, Copy)]
struct MapRequest {
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
    fd: c_int,
    offset: i64,
}

impl MapRequest {
    fn is_ours(&self) -> bool {
        self.flags & libc::MAP_ANONYMOUS == 0 && descriptors::is_ours(self.fd)
    }

    fn is_shared(&self) -> bool {
        self.flags & libc::MAP_TYPE != libc::MAP_PRIVATE
    }

    /// True if the program stores to persistent memory and will not call `msync`.
    fn bypasses_sync(&self) -> bool {
        self.flags & libc::MAP_TYPE == libc::MAP_SHARED_VALIDATE && self.flags & libc::MAP_SYNC != 0
    }

    /// True if the program may change the file through the mapping.
    fn is_written(&self) -> bool {
        self.is_shared() && self.protection & libc::PROT_WRITE != 0
    }

    /// The request in the arguments of a system call.
    fn from_words(a: [usize; 6]) -> Self {
        let (protection, flags, fd) = (a[2] as c_int, a[3] as c_int, a[4] as c_int);
        Self { address: a[0], length: a[1], protection, flags, fd, offset: a[5] as i64 }
    }

    fn words(self) -> [usize; 6] {
        let (protection, flags) = (self.protection as usize, self.flags as usize);
        [self.address, self.length, protection, flags, self.fd as usize, self.offset as usize]
    }

    fn call(self, real: Map) -> *mut c_void {
        real(self.address, self.length, self.protection, self.flags, self.fd, self.offset)
    }

    /// The request for private anonymous memory, which is writable so that it can be filled from the file.
    fn memory(self) -> Self {
        let flags = self.flags & !libc::MAP_TYPE | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        Self { protection, flags, fd: -1, offset: 0, ..self }
    }

    /// Checks a request to map a file, with the errors of the kernel. `MAP_SYNC` is refused with `EOPNOTSUPP`:
    /// a program that uses it does not call `msync`, so its stores would reach the object too late.
    fn check(&self, file: &OpenFile) -> Answer<()> {
        let access = file.open()?.identity().flags & libc::O_ACCMODE;
        if access == libc::O_WRONLY || (self.is_written() && access != libc::O_RDWR) {
            return refuse(libc::EACCES);
        }
        if self.length == 0 || self.offset < 0 || !(self.offset as usize).is_multiple_of(PAGE) {
            return refuse(libc::EINVAL);
        }
        if self.bypasses_sync() {
            return refuse(libc::EOPNOTSUPP);
        }
        if file.is_directory() { refuse(libc::ENODEV) } else { Ok(()) }
    }
}

/// Maps a file of the mount point: shared pages, or private memory with a copy of the file. `real` maps memory.
fn map(request: MapRequest, real: impl Fn(MapRequest) -> *mut c_void) -> Answer<*mut c_void> {
    let file = descriptors::get(request.fd)?;
    request.check(&file)?;
    if request.is_shared() {
        return map_pages(request, file, real);
    }
    finish(real(request.memory()), request, |start| fill(start, request, file))
}

/// Maps the memory that all processes of this file share, after it was filled with the content of the file.
fn map_pages(
    request: MapRequest,
    file: Arc<OpenFile>,
    real: impl Fn(MapRequest) -> *mut c_void,
) -> Answer<*mut c_void> {
    let pages = pages_of(file.identity().oid)?;
    pages.fill(&file, (request.offset as u64).saturating_add(request.length as u64))?;
    let flags = request.flags & !(libc::MAP_TYPE | libc::MAP_SYNC) | libc::MAP_SHARED;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let _addresses = addresses();
    let memory = real(MapRequest { fd: pages.descriptor(), flags, protection, ..request });
    finish(memory, request, |start| record(start, request, file, pages))
}

/// Runs `work` on the new writable mapping `memory`, and then gives it the protection that the program requests. Unmaps
/// it if that fails.
fn finish(
    memory: *mut c_void,
    request: MapRequest,
    work: impl FnOnce(usize) -> Answer<()>,
) -> Answer<*mut c_void> {
    if memory == libc::MAP_FAILED {
        return refuse(threads::errno());
    }
    let (start, length, protection) = (memory as usize, request.length, request.protection);
    forget_replaced(memory, request);
    let done = work(start).and_then(|()| match protection == libc::PROT_READ | libc::PROT_WRITE {
        true => Ok(()),
        false => raw::protect(start, length, protection),
    });
    match done {
        Ok(()) => Ok(memory),
        Err(error) => {
            private_maps::remove(&range(start, length));
            raw::unmap(start, length);
            Err(error)
        }
    }
}

/// Removes mappings from the lists that a new mapping `memory` has replaced. Their changes are written from their second
/// mappings.
fn forget_replaced(memory: *mut c_void, request: MapRequest) {
    let (start, length) = (memory as usize, request.length);
    private_maps::remove(&range(start, length));
    if request.flags & libc::MAP_FIXED != 0 && has_any() {
        // An error of writing the changes has no effect: the memory is replaced already.
        let _ = threads::inside(|| unmapped(start, length));
    }
}

/// Returns the shared memory of an object, which a mapping of the object maps. Opens it if this process does not have
/// it.
fn pages_of(oid: ObjectId) -> Answer<Arc<Pages>> {
    own_pages(oid).map_or_else(|| Pages::open(oid).map(Arc::new), Ok).inspect_err(|_| {
        report::warn_once(
            "a shared mapping was refused (ENODEV): the directory for locks of the pool cannot be changed, so writes of \
             other processes would not be seen in it; let the owner of the pool start `esker run` once, or map privately",
        );
    })
}

/// Reads the requested range of the file into the new private memory at `start`, and records the mapping.
fn fill(start: usize, request: MapRequest, file: Arc<OpenFile>) -> Answer<()> {
    let (length, offset) = (request.length, request.offset as u64);
    // SAFETY: the memory is new, has this length, and nothing else uses it yet.
    let memory = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, length) };
    file.stored_file()?.read_at(offset, memory)?;
    if private_maps::add(range(start, length)) { Ok(()) } else { refuse(libc::ENOMEM) }
}

/// Reads the content of a mapping from the object. The memory may already hold changes of other processes, which this
/// process has to write if they are killed.
///
/// # Errors
/// `ENOMEM` if memory runs out; errors of the backend.
fn read_object(file: &OpenFile, offset: u64, length: usize) -> Answer<Vec<u8>> {
    let mut content = Vec::new();
    content.try_reserve_exact(length).or_else(|_| refuse(libc::ENOMEM))?;
    content.resize(length, 0);
    file.stored_file()?.read_at(offset, &mut content)?;
    Ok(content)
}

/// Adds a shared mapping at `start` to the list. For a writable one, keeps a copy of its bytes, by which changes of the
/// program are found later.
fn record(start: usize, request: MapRequest, file: Arc<OpenFile>, pages: Arc<Pages>) -> Answer<()> {
    let (length, offset) = (request.length, request.offset as u64);
    let view = View::map(start, length)?;
    let copy = match request.is_written() {
        true => Some(read_object(&file, offset, length)?),
        false => None,
    };
    let region = Region { start, length, view, file, offset, copy, pages, is_mapped: true };
    let mut regions = regions();
    regions.push(region);
    COUNT.store(regions.len(), Ordering::Relaxed);
    Ok(())
}

/// Maps a file or memory; `real` maps memory, and files outside the mount point.
fn map_any(request: MapRequest, real: impl Fn(MapRequest) -> *mut c_void) -> *mut c_void {
    if threads::is_inside() && !request.is_ours() {
        return real(request);
    }
    if !request.is_ours() {
        let memory = real(request);
        if memory != libc::MAP_FAILED {
            forget_replaced(memory, request);
        }
        return memory;
    }
    match serve(|| map(request, real)) {
        Ok(memory) => memory,
        Err(error) => {
            let _: c_int = to_c(Err(error));
            libc::MAP_FAILED
        }
    }
}

/// End of an address range. The kernel maps whole pages, so `length` is rounded up.
fn end(start: usize, length: usize) -> usize {
    start.saturating_add(length.checked_next_multiple_of(PAGE).unwrap_or(length))
}

/// The address range of a mapping.
fn range(start: usize, length: usize) -> Range<usize> {
    start..end(start, length)
}

/// Removes an address range from the list of mappings, because the program unmaps it. Writes its changes back first;
/// if that fails, the list keeps them, so that a later call writes and reports them.
fn unmapped(start: usize, length: usize) -> Answer<()> {
    let end = end(start, length);
    let written = write_back(|region| region.overlaps(start, end));
    let mut regions = regions();
    let touched: Vec<_> = regions.extract_if(.., |region| region.overlaps(start, end)).collect();
    for region in touched {
        regions.extend(region.part(region.start, start));
        regions.extend(region.part(end, region.end()));
        if written.is_err() {
            let unwritten = region.part(start, end);
            regions.extend(unwritten.map(|part| Region { is_mapped: false, ..part }));
        }
    }
    COUNT.store(regions.len(), Ordering::Relaxed);
    written
}

/// Makes copies of the shared mappings in a range that becomes writable, to find changes later. `EACCES` if a file is
/// not open for reading and writing.
fn made_writable(start: usize, length: usize) -> Answer<()> {
    let end = end(start, length);
    for region in regions().iter_mut().filter(|region| region.overlaps(start, end)) {
        if region.file.identity().flags & libc::O_ACCMODE != libc::O_RDWR {
            return refuse(libc::EACCES);
        }
        if region.copy.is_none() {
            region.copy = Some(read_object(&region.file, region.offset, region.length)?);
        }
    }
    Ok(())
}

/// Refuses to grow a shared mapping: the additional memory would not have the content of the file.
fn check_resize(old: &Range<usize>, new_end: usize) -> Answer<()> {
    let is_ours = || regions().iter().any(|region| region.overlaps(old.start, old.end));
    if new_end > old.end && is_ours() { refuse(libc::ENOMEM) } else { Ok(()) }
}

/// Updates the list of mappings after the memory `old` was cut to `length` bytes and moved to `start`. The memory that
/// was there before is unmapped.
fn resized(old: &Range<usize>, start: usize, length: usize) -> Answer<()> {
    let kept_end = end(old.start, length).min(old.end);
    let cut = match kept_end < old.end {
        true => unmapped(kept_end, old.end - kept_end),
        false => Ok(()),
    };
    if start == old.start {
        return cut;
    }
    let replaced = unmapped(start, length);
    let mut regions = regions();
    let touched: Vec<_> =
        regions.extract_if(.., |region| region.overlaps(old.start, kept_end)).collect();
    for region in touched {
        regions.extend(region.part(region.start, old.start));
        regions.extend(region.part(kept_end, region.end()));
        let moved = region.part(old.start, kept_end);
        regions.extend(moved.map(|part| Region { start: part.start - old.start + start, ..part }));
    }
    COUNT.store(regions.len(), Ordering::Relaxed);
    cut.and(replaced)
}

/// Serves `msync`: writes the changes of the mappings in a range back.
fn synced(start: usize, length: usize) -> Answer<()> {
    let end = end(start, length);
    write_back(|region| region.overlaps(start, end))
}

/// Calls `ours` to keep the list of mappings true, then `real` to change the mappings of the process. If `ours` fails,
/// returns its error and changes nothing.
fn change(ours: impl FnOnce() -> Answer<()>, real: impl FnOnce() -> isize) -> isize {
    let done = if has_any() { threads::inside(ours) } else { Ok(()) };
    match done {
        Ok(()) => real(),
        Err(error) => to_c(Err(error)),
    }
}

/// Unmaps memory, after the changes in it were written.
fn unmap(start: usize, length: usize, real: impl FnOnce() -> isize) -> isize {
    if has_any() {
        // An error of writing the changes has no effect: the memory is unmapped in any case.
        let _ = threads::inside(|| unmapped(start, length));
    }
    private_maps::remove(&range(start, length));
    real()
}

/// Serves `mremap`. The additional memory of a longer mapping would not have the content of the file.
fn resize(start: usize, length: usize, new_length: usize, real: impl FnOnce() -> isize) -> isize {
    let old = range(start, length);
    let is_private = private_maps::overlaps(&old);
    if is_private && end(start, new_length) > old.end {
        return to_c(refuse(libc::ENOMEM));
    }
    let is_listed = has_any();
    let addresses = is_listed.then(addresses);
    let moved = change(|| check_resize(&old, end(start, new_length)), real);
    if moved >= 0 && is_listed {
        // An error of writing the changes has no effect: the memory is unmapped already.
        let _ = threads::inside(|| resized(&old, moved as usize, new_length));
    }
    drop(addresses);
    if moved >= 0 && is_private {
        private_maps::remove(&old);
        private_maps::remove(&range(moved as usize, new_length));
        private_maps::add(range(moved as usize, new_length));
    }
    moved
}

/// `MADV_DONTNEED_LOCKED`, which the crate `libc` lacks.
const DONTNEED_LOCKED: c_int = 24;

/// Serves `madvise`. Private mappings keep their content, and refuse advice that is for anonymous memory only.
fn advise(
    start: usize,
    length: usize,
    advice: c_int,
    real: impl Fn(usize, usize) -> isize,
) -> isize {
    let range = range(start, length);
    if !start.is_multiple_of(PAGE) || !private_maps::overlaps(&range) {
        return real(start, length);
    }
    match advice {
        libc::MADV_DONTNEED | DONTNEED_LOCKED => {
            private_maps::outside(&range, |part| real(part.start, part.len()))
        }
        libc::MADV_FREE | libc::MADV_WIPEONFORK => to_c(refuse(libc::EINVAL)),
        _ => real(start, length),
    }
}

/// Serves `syscall` with a call of this group, whose arguments are `a`; `None` for all other numbers. Libraries that
/// replace our functions, such as `mmap`, make such calls. `real` makes system calls.
pub(crate) fn by_number(
    number: c_long,
    a: [usize; 6],
    real: impl Fn(c_long, [usize; 6]) -> c_long,
) -> Option<c_long> {
    let real = |with: [usize; 6]| real(number, with) as isize;
    let done = match number {
        libc::SYS_mmap => {
            map_any(MapRequest::from_words(a), |request| real(request.words()) as *mut c_void)
                as isize
        }
        libc::SYS_munmap => unmap(a[0], a[1], || real(a)),
        libc::SYS_msync => change(|| synced(a[0], a[1]), || real(a)),
        libc::SYS_mprotect => protect(a[0], a[1], a[2] as c_int, || real(a)),
        libc::SYS_mremap => resize(a[0], a[1], a[2], || real(a)),
        libc::SYS_madvise => {
            advise(a[0], a[1], a[2] as c_int, |start, length| real([start, length, a[2], 0, 0, 0]))
        }
        _ => return None,
    };
    Some(done as c_long)
}

/// Changes the protection of memory. If it becomes writable, a copy is made to find changes.
fn protect(start: usize, length: usize, kind: c_int, real: impl FnOnce() -> isize) -> isize {
    match kind & libc::PROT_WRITE {
        0 => real(),
        _ => change(|| made_writable(start, length), real),
    }
}

export! {
    @inside_too
    fn mmap(address: usize, length: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64)
        -> *mut c_void
    | next {
        let request = MapRequest { address, length, protection, flags, fd, offset };
        map_any(request, |request| request.call(next))
    }

    fn mmap64(address: usize, length: usize, protection: c_int, flags: c_int, fd: c_int, offset: i64)
        -> *mut c_void
    | next {
        let request = MapRequest { address, length, protection, flags, fd, offset };
        map_any(request, |request| request.call(next))
    }
}

export! {
    fn munmap(address: usize, length: usize) -> c_int | next {
        unmap(address, length, || next(address, length) as isize) as c_int
    }

    fn msync(address: usize, length: usize, flags: c_int) -> c_int | next {
        change(|| synced(address, length), || next(address, length, flags) as isize) as c_int
    }

    fn mprotect(address: usize, length: usize, protection: c_int) -> c_int | next {
        protect(address, length, protection, || next(address, length, protection) as isize) as c_int
    }

    fn mremap(address: usize, length: usize, new_length: usize, flags: c_int, new: usize)
        -> *mut c_void
    | next {
        let real = || next(address, length, new_length, flags, new) as isize;
        resize(address, length, new_length, real) as *mut c_void
    }

    fn madvise(address: usize, length: usize, advice: c_int) -> c_int | next {
        advise(address, length, advice, |start, length| next(start, length, advice) as isize) as c_int
    }
}

/// A second mapping of shared memory. The last view of it unmaps it.
struct SecondMapping {
    start: usize,
    length: usize,
}

impl Drop for SecondMapping {
    fn drop(&mut self) {
        raw::unmap(self.start, self.length);
    }
}

/// A part of shared memory, through its second mapping.
struct View {
    mapping: Arc<SecondMapping>,
    skip: usize,
    length: usize,
}

impl View {
    /// Maps the shared memory at `start` a second time, so that this library can read it at any time, and returns a
    /// view of it.
    fn map(start: usize, length: usize) -> Answer<Self> {
        let mapping = SecondMapping { start: raw::map_again(start, length)?, length };
        Ok(Self { mapping: Arc::new(mapping), skip: 0, length })
    }

    /// Returns a view of `length` bytes of this view, from `skip` on. It ends where the mapping ends.
    fn part(&self, skip: usize, length: usize) -> Self {
        let skip = (self.skip + skip).min(self.mapping.length);
        let length = length.min(self.mapping.length - skip);
        Self { mapping: self.mapping.clone(), skip, length }
    }

    /// Returns the bytes of the view, through the second mapping.
    fn bytes(&self) -> &[u8] {
        // SAFETY: the second mapping has this length and lives as long as this value. If the program changes it
        // meanwhile, each byte has its old or its new value, as with the kernel.
        unsafe {
            std::slice::from_raw_parts((self.mapping.start + self.skip) as *const u8, self.length)
        }
    }
}
