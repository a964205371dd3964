//! Descriptors of the store. They have high numbers, and programs cannot reach them: otherwise a program that closes
//! all descriptors would close the store's files and drop its locks.
use crate::answer::Answer;
use crate::limits::{DESCRIPTORS_MAX, INTERNAL_MAX};
use crate::raw;
use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const WORDS: usize = DESCRIPTORS_MAX / 64;

/// Highest number for descriptors of the store. It keeps the kernel's descriptor table small, which each fork copies.
const HIGHEST: u64 = 4096;

/// One bit for each descriptor of the store.
static MEMBERS: [AtomicU64; WORDS] = [const { AtomicU64::new(0) }; WORDS];
/// Lowest number that descriptors of the store get.
static BASE: AtomicI32 = AtomicI32::new(0);
/// Upper bound (exclusive) of the numbers in use.
static TOP: AtomicI32 = AtomicI32::new(0);

/// Free descriptors that the store needs to open a pool, also in a child.
const FREE_MIN: c_int = 64;

/// The word of [`MEMBERS`] and the bit in it for a descriptor; `None` for a number out of range.
fn word_and_bit(fd: c_int) -> Option<(&'static AtomicU64, u64)> {
    let number = usize::try_from(fd).ok()?;
    MEMBERS.get(number / 64).map(|word| (word, 1 << (number % 64)))
}

/// Chooses the numbers of the store's descriptors by the limit of the process.
pub(crate) fn choose_base() {
    let mut limit = libc::rlimit { rlim_cur: 1024, rlim_max: 1024 };
    // SAFETY: `limit` has space for the result.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let top = limit.rlim_cur.min(HIGHEST);
    TOP.store(top as c_int, Ordering::Relaxed);
    BASE.store((top - INTERNAL_MAX.min(top / 2)) as c_int, Ordering::Relaxed);
}

/// Moves a descriptor of the store to a high number, and returns that. It stays where it is if none is free, and if
/// `fd` is a negative result.
pub(crate) fn keep(fd: c_int) -> c_int {
    let base = BASE.load(Ordering::Relaxed);
    let moved = match fd {
        ..0 => return fd,
        _ if fd >= base => fd,
        _ => match raw::control(fd, libc::F_DUPFD_CLOEXEC, base as usize) {
            Ok(moved) => {
                raw::close(fd);
                moved
            }
            Err(_) => fd,
        },
    };
    add(moved);
    moved
}

/// Marks a descriptor as one of this library.
pub(crate) fn add(fd: c_int) {
    if let Some((word, bit)) = word_and_bit(fd) {
        word.fetch_or(bit, Ordering::Relaxed);
    }
}

/// False if only the descriptors that the store may need itself are left. Probes by duplicating `fd`; true if another
/// thread has closed that.
pub(crate) fn has_room(fd: c_int) -> bool {
    match raw::control(fd, libc::F_DUPFD_CLOEXEC, BASE.load(Ordering::Relaxed) as usize) {
        Ok(next) => {
            raw::close(next);
            has_room_above(next)
        }
        Err(failure) => failure.errno() == libc::EBADF,
    }
}

/// True if descriptor `fd` of the store may stay open. It must be in the store's range, so that it takes no number of
/// the program. And at least [`FREE_MIN`] numbers from `fd` on must be in the range, to open a pool.
pub(crate) fn has_room_above(fd: c_int) -> bool {
    fd >= BASE.load(Ordering::Relaxed) && fd + FREE_MIN <= TOP.load(Ordering::Relaxed)
}

/// Records that the store has closed a descriptor.
pub(crate) fn forget(fd: c_int) {
    if let Some((word, bit)) = word_and_bit(fd) {
        word.fetch_and(!bit, Ordering::Relaxed);
    }
}

/// True for a descriptor of the store.
#[inline]
pub(crate) fn has(fd: c_int) -> bool {
    word_and_bit(fd).is_some_and(|(word, bit)| word.load(Ordering::Relaxed) & bit != 0)
}

/// Calls `work` with the first and last number of each range between `first` and `last` that has no descriptor of the
/// store.
pub(crate) fn between(
    first: u32,
    last: u32,
    mut work: impl FnMut(u32, u32) -> Answer<()>,
) -> Answer<()> {
    let mut start = first;
    for fd in members().filter(|fd| (first..=last).contains(fd)) {
        if fd > start {
            work(start, fd - 1)?;
        }
        start = fd + 1;
    }
    if start <= last { work(start, last) } else { Ok(()) }
}

/// Iterates over the descriptors that this library uses itself and hides from the program.
fn members() -> impl Iterator<Item = u32> {
    let words = MEMBERS.iter().map(|word| word.load(Ordering::Relaxed)).enumerate();
    let taken = words.filter(|(_, bits)| *bits != 0);
    taken.flat_map(|(word, bits)| {
        (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| (word * 64 + bit) as u32)
    })
}
