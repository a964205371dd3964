//! The descriptors of files in the mount point.
//!
//! At a fork or exec, before another process can share an open file, the file gets an anonymous file of the kernel. The
//! name of that file encodes the open file, and its offset is the offset of the open file. So fork and exec share the
//! offset as POSIX requires. From then on the kernel has the authoritative state, and the table here is a cache. Until
//! then all descriptors are duplicates of one nameless file, which costs much less than a file for each. System calls
//! that bypass this library see a sealed file that is open for writing only: reads and writes fail.
use crate::answer::{Answer, Fail, refuse};
use crate::identity::{self, Identity, nameless};
use crate::limits::DESCRIPTORS_MAX;
use crate::open_file::OpenFile;
use crate::{internal, locks, raw, stdio, unshared};
use arc_swap::ArcSwapOption;
use std::ffi::{CString, c_int};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

const WORDS: usize = DESCRIPTORS_MAX / 64;

static OPEN: [ArcSwapOption<OpenFile>; DESCRIPTORS_MAX] =
    [const { ArcSwapOption::const_empty() }; DESCRIPTORS_MAX];
/// One bit for each entry of `OPEN` in use, for a fast [`is_ours`].
static TAKEN: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];

/// Descriptor of the nameless file that represents all files that only this process has open; -1 before the first.
static STAND_IN: AtomicI32 = AtomicI32::new(-1);

/// True for a file of the mount point. Takes no lock and allocates no memory.
#[inline]
pub(crate) fn is_ours(fd: c_int) -> bool {
    let fd = fd as usize;
    fd < DESCRIPTORS_MAX && TAKEN[fd / 64].load(Ordering::Acquire) >> (fd % 64) & 1 != 0
}

/// True once a descriptor was ours. Programs that never have one need not search the table.
static EVER: AtomicBool = AtomicBool::new(false);

/// True if this process has a descriptor of a file in the mount point.
pub(crate) fn any() -> bool {
    EVER.load(Ordering::Acquire) && TAKEN.iter().any(|word| word.load(Ordering::Acquire) != 0)
}

/// The open file of a descriptor.
///
/// # Errors
/// `EBADF` if it is not one of ours, or was closed meanwhile.
pub(crate) fn get(fd: c_int) -> Answer<Arc<OpenFile>> {
    let entry = usize::try_from(fd).ok().and_then(|fd| OPEN.get(fd));
    entry.and_then(ArcSwapOption::load_full).map_or_else(|| refuse(libc::EBADF), Ok)
}

/// A new descriptor whose file is not open yet. It is closed if [`Reserved::put`] is not called.
pub(crate) struct Reserved(c_int);

impl Reserved {
    /// Puts the open file of the descriptor into the table. Returns the descriptor.
    pub(crate) fn put(self, file: OpenFile) -> c_int {
        let fd = self.0;
        std::mem::forget(self);
        put(fd, Arc::new(file));
        fd
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        raw::close(self.0);
    }
}

/// Makes a new descriptor, closed on exec if `cloexec` is set. Callers do this before they open a file, so that a call
/// that fails without a free descriptor neither creates nor truncates the file.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM` from the kernel; `EMFILE` beyond [`DESCRIPTORS_MAX`].
pub(crate) fn reserve(cloexec: bool) -> Answer<Reserved> {
    // From now on, a stream of the C library may have a descriptor of ours.
    stdio::replace_entries();
    let command = if cloexec { libc::F_DUPFD_CLOEXEC } else { libc::F_DUPFD };
    let fd = match raw::control(STAND_IN.load(Ordering::Acquire), command, 0) {
        // There is no stand-in yet, or it was closed to free a descriptor.
        Err(Fail::Errno(libc::EBADF)) => raw::control(make_stand_in()?, command, 0)?,
        answer => answer?,
    };
    check_number(fd).map(Reserved)
}

/// True for a number that a file of the mount point can have.
pub(crate) fn is_possible(fd: c_int) -> bool {
    usize::try_from(fd).is_ok_and(|fd| fd < DESCRIPTORS_MAX)
}

/// Returns the new descriptor `fd`. Closes it if a file of the mount point cannot have its number.
///
/// # Errors
/// `EMFILE` beyond [`DESCRIPTORS_MAX`].
pub(crate) fn check_number(fd: c_int) -> Answer<c_int> {
    if is_possible(fd) {
        return Ok(fd);
    }
    raw::close(fd);
    refuse(libc::EMFILE)
}

/// Opens the nameless file that stands for all open files, and returns its descriptor. If two threads make one at the
/// same time, either may be kept.
fn make_stand_in() -> Answer<c_int> {
    let made = internal::keep(nameless()?);
    STAND_IN.store(made, Ordering::Release);
    Ok(made)
}

/// Descriptor of an empty file that can be read, which the C library accepts for a stream of any mode. All callers
/// share it.
///
/// # Errors
/// `EMFILE`, `ENFILE`, `ENOMEM` from the kernel.
pub(crate) fn readable() -> Answer<c_int> {
    static KNOWN: AtomicI32 = AtomicI32::new(-1);
    match KNOWN.load(Ordering::Acquire) {
        // Two threads may make one each. The file is empty, so either may be used.
        -1 => {
            let made = internal::keep(identity::readable()?);
            KNOWN.store(made, Ordering::Release);
            Ok(made)
        }
        known => Ok(known),
    }
}

/// Gives each open file that only this process has open an anonymous file, which other processes can share. Runs before
/// a fork or exec, while no other thread is inside the store. Allocates no memory: a signal handler may fork.
pub(crate) fn share_all() {
    for fd in within(0, u32::MAX) {
        if let Ok(file) = get(fd)
            && !file.position.is_shared()
        {
            // If memory runs out, the child has an offset of its own.
            let _ = share(fd, &file);
        }
    }
}

/// Gives the open file of `fd` an anonymous file that other processes can share. All descriptors of the open file then
/// refer to that file in the kernel.
///
/// # Errors
/// `ENFILE`, `ENOMEM` from the kernel; `EMFILE` if not even one more descriptor can be opened.
pub(crate) fn share(fd: c_int, file: &Arc<OpenFile>) -> Answer<()> {
    unshared::end();
    let make = || file.identity().anonymous_file();
    // If no descriptor is free, it takes one above the limit, or else the one of the stand-in.
    let named = make().or_else(|_| raw::beyond_limit(make)).or_else(|_| {
        close_stand_in();
        make()
    })?;
    let result = file.position.share(named).and_then(|()| locks::belongs_to(file, named));
    put_in_place(named, fd);
    // The table has one reference, the caller another.
    if Arc::strong_count(file) > 2 {
        let is_copy = |copy: &c_int| get(*copy).is_ok_and(|other| Arc::ptr_eq(&other, file));
        let copies = within(0, u32::MAX).filter(|copy| *copy != fd && is_copy(copy));
        copies.for_each(|copy| put_in_place(named, copy));
    }
    raw::close(named);
    result
}

/// Makes `fd` a duplicate of `named` in the kernel. It is closed on exec if it was before.
fn put_in_place(named: c_int, fd: c_int) {
    let cloexec = raw::control(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags != 0);
    let _ = raw::duplicate(named, fd, if cloexec { libc::O_CLOEXEC } else { 0 });
}

/// Closes the nameless file that stands for open files, to free one descriptor. The next [`reserve`] makes another.
fn close_stand_in() {
    let fd = STAND_IN.swap(-1, Ordering::AcqRel);
    if fd >= 0 {
        internal::forget(fd);
        raw::close(fd);
    }
}

/// Records that `fd` is this open file.
pub(crate) fn put(fd: c_int, file: Arc<OpenFile>) {
    let number = fd as usize;
    if number < DESCRIPTORS_MAX {
        OPEN[number].store(Some(file));
        EVER.store(true, Ordering::Release);
        TAKEN[number / 64].fetch_or(1 << (number % 64), Ordering::Release);
    }
}

/// Removes `fd` from the table and returns its open file. The kernel's descriptor stays open.
pub(crate) fn take(fd: c_int) -> Option<Arc<OpenFile>> {
    let number = usize::try_from(fd).ok().filter(|fd| *fd < DESCRIPTORS_MAX)?;
    TAKEN[number / 64].fetch_and(!(1 << (number % 64)), Ordering::AcqRel);
    OPEN[number].swap(None)
}

/// All descriptors of ours from `first` to `last`, in ascending order.
pub(crate) fn within(first: u32, last: u32) -> impl Iterator<Item = c_int> {
    let words = (first as usize / 64)..=((last as usize).min(DESCRIPTORS_MAX - 1) / 64);
    let taken = words.flat_map(|word| {
        let bits = TAKEN[word].load(Ordering::Acquire);
        (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| (word * 64 + bit) as u32)
    });
    taken.filter(move |fd| (first..=last).contains(fd)).map(|fd| fd as c_int)
}

/// Adds the descriptors inherited through exec to the table. Called during loading, while the process has one thread.
pub(crate) fn inherit() {
    let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC;
    let Ok(listing) = raw::open(c"/proc/self/fd", flags, 0) else { return };
    let (mut room, mut lock_files) = ([0_u8; 4096], Vec::new());
    while let Ok(length @ 1..) = raw::entries(listing, &mut room) {
        for fd in numbers(&room[..length]).filter(|fd| *fd != listing) {
            match identify(fd) {
                Some(Found::File(identity)) => inherit_file(fd, identity),
                Some(Found::Lock(name)) => lock_files.push((fd, name)),
                None => {}
            }
        }
    }
    raw::close(listing);
    // Now that all files are known, each lock file finds its own.
    lock_files.iter().for_each(|(fd, name)| locks::inherit(*fd, name));
}

/// The numbers in a listing of `/proc/self/fd` in the kernel's form. Skips `.` and `..`.
fn numbers(records: &[u8]) -> impl Iterator<Item = c_int> {
    raw::names(records).filter_map(|name| std::str::from_utf8(name).ok()?.parse().ok())
}

/// Adds a descriptor that this process inherited through exec. If another descriptor is a duplicate of it, both share
/// one open file.
fn inherit_file(fd: c_int, identity: Identity) {
    let same = within(0, u32::MAX).find(|other| is_same(*other, fd));
    let file = same.and_then(|other| get(other).ok());
    put(fd, file.unwrap_or_else(|| Arc::new(OpenFile::inherited(identity))));
}

/// A descriptor of this library that another process or the previous program has made.
enum Found {
    /// It stands for an open file of the mount point.
    File(Identity),
    /// The lock file of an open file.
    Lock(CString),
}

/// Tells by the name of the kernel's file what a descriptor stands for; `None` for a descriptor of the program.
fn identify(fd: c_int) -> Option<Found> {
    let mut room = [0_u8; 512];
    let path = CString::new(format!("/proc/self/fd/{fd}")).ok()?;
    let name = raw::read_link(&path, &mut room).ok()?;
    if locks::is_lock_file(name) {
        return CString::new(name).ok().map(Found::Lock);
    }
    Identity::parse(fd, name).map(Found::File)
}

/// True if the kernel still has a file of this library at `fd`, not one that the C library opened under the same
/// number.
pub(crate) fn is_still(fd: c_int) -> bool {
    is_same(fd, STAND_IN.load(Ordering::Acquire)) || matches!(identify(fd), Some(Found::File(_)))
}

/// True if two descriptors are duplicates, inherited or not: the same anonymous file.
pub(crate) fn is_same(one: c_int, other: c_int) -> bool {
    let number = |fd| raw::status(fd).map(|status| (status.st_dev, status.st_ino));
    matches!((number(one), number(other)), (Ok(one), Ok(other)) if one == other)
}
