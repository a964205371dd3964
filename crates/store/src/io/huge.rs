//! Huge pages of files on tmpfs: 2 MiB of a file in one page. A process that maps the file needs one page table entry
//! for it instead of 512.
//!
//! `MADV_COLLAPSE` (Linux 6.1) creates them at once, without privileges and independently of the mount option `huge=`.
//! It is best effort: if the kernel or the file system does not support huge pages, the pages stay small.
use super::map::Map;
use super::sys;
use esker_os::run_on_threads;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Bytes of a huge page.
pub(crate) const HUGE: u64 = HUGE_LEN as u64;
/// Bytes of a huge page, as a length in memory.
pub(super) const HUGE_LEN: usize = esker_os::HUGE_PAGE;

/// The huge pages that are entirely within a range of a file.
fn inside(part: &Range<u64>) -> Range<u64> {
    let begin = part.start.next_multiple_of(HUGE);
    begin..(part.end / HUGE * HUGE).max(begin)
}

/// Limit on the extra time that huge pages may take over small ones. The kernel may need long to get a huge page that
/// was never used, especially on virtual machines, while small pages are still available.
pub(crate) struct TimeLimit {
    /// Nanoseconds that are left; `None` without a limit.
    left: Option<AtomicI64>,
}

/// Approximate rate at which the kernel allocates small pages, in bytes per nanosecond.
const SMALL_PAGES_SPEED: i64 = 2;

impl TimeLimit {
    /// No limit.
    pub(crate) const NONE: Self = Self { left: None };

    /// At most `longer` more than small pages would take.
    pub(crate) fn from_duration(longer: Duration) -> Self {
        Self { left: Some(AtomicI64::new(longer.as_nanos() as i64)) }
    }

    /// True if there is time for another huge page.
    fn has_time(&self) -> bool {
        self.left.as_ref().is_none_or(|left| left.load(Ordering::Relaxed) > 0)
    }

    /// Subtracts from the time limit the time that one huge page took longer than small pages. If the kernel could not
    /// create it (`made` is false), uses up the limit, so that no thread tries another one.
    fn charge(&self, made: bool, time: Duration) {
        let Some(left) = &self.left else { return };
        if made {
            let longer = time.as_nanos() as i64 - HUGE as i64 / SMALL_PAGES_SPEED;
            left.fetch_sub(longer, Ordering::Relaxed);
        } else {
            // Other threads may still subtract from it.
            left.store(i64::MIN / 2, Ordering::Relaxed);
        }
    }
}

/// Bytes that are allocated at a time.
const STEP: u64 = 32 << 20;

/// Extends a file to `len` bytes and allocates all of it, in huge pages if the kernel has enough. Calls `report` with
/// the number of bytes of each step.
///
/// # Errors
/// Errors of [`reserve`].
pub(crate) fn reserve_all(
    file: &File,
    bytes: u64,
    limit: &TimeLimit,
    report: &mut dyn FnMut(u64),
) -> io::Result<()> {
    file.set_len(bytes)?;
    let mut left = bytes;
    // Space is first allocated in huge pages and then again without, but reported once.
    let mut done = |bytes: u64| {
        let more = bytes.min(left);
        left -= more;
        report(more);
    };
    if !allocates_huge_pages(file)? {
        fill_all(file, bytes, limit, &mut done)?;
    }
    // Only one thread allocates, since several would wait for each other.
    for begin in (0..bytes).step_by(STEP as usize) {
        let len = STEP.min(bytes - begin);
        sys::reserve(file, begin, len)?;
        done(len);
    }
    Ok(())
}

/// True if the file system allocates a huge page even for a single byte, because of its mount option `huge=`.
fn allocates_huge_pages(file: &File) -> io::Result<bool> {
    sys::reserve(file, 0, 1)?;
    Ok(file.metadata()?.blocks() * 512 >= HUGE)
}

/// Creates all huge pages of a file for which there is time, with one thread per core. Zeroing memory takes most of the
/// time.
fn fill_all(
    file: &File,
    bytes: u64,
    limit: &TimeLimit,
    report: &mut dyn FnMut(u64),
) -> io::Result<()> {
    let (next, (done, reports)) = (AtomicU64::new(0), mpsc::channel());
    let next_part = || {
        let begin = next.fetch_add(STEP, Ordering::Relaxed);
        (begin < bytes && limit.has_time()).then(|| begin..(begin + STEP).min(bytes))
    };
    let work = |done: mpsc::Sender<io::Result<u64>>| {
        while let Some(part) = next_part() {
            // The receiver is dropped if another part failed.
            if done.send(fill(file, &part, limit).map(|()| part.end - part.start)).is_err() {
                break;
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let work = &work;
        run_on_threads(scope, threads, move || work(done));
        reports.into_iter().try_for_each(|done: io::Result<u64>| done.map(&mut *report))
    })
}

/// Allocates a range of a file that is a hole, in huge pages if the kernel has enough.
///
/// # Errors
/// The error of the allocation. Then nothing is allocated.
pub(crate) fn reserve(file: &File, part: &Range<u64>, limit: &TimeLimit) -> io::Result<()> {
    let (begin, len) = (part.start, part.end - part.start);
    let reserved = fill(file, part, limit).and_then(|()| sys::reserve(file, begin, len));
    reserved.inspect_err(|_| drop(sys::punch(file, begin, len)))
}

/// Creates huge pages in a hole. Each begins with one small page, so that the kernel has almost nothing to copy.
fn fill(file: &File, part: &Range<u64>, limit: &TimeLimit) -> io::Result<()> {
    for_each_huge_page(file, &inside(part), limit, |begin| file.write_all_at(&[0], begin))
}

/// Asks the kernel to move the small pages of a range of a file into huge ones. Holes are filled.
pub(crate) fn collapse(file: &File, part: &Range<u64>, limit: &TimeLimit) {
    let _ = for_each_huge_page(file, part, limit, |_| Ok(()));
}

/// Creates a huge page at each position of a range, after `prepare`, as long as there is time.
fn for_each_huge_page(
    file: &File,
    part: &Range<u64>,
    limit: &TimeLimit,
    mut prepare: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    if part.is_empty() || !limit.has_time() {
        return Ok(());
    }
    let Ok(map) = Map::new(file, part.start, (part.end - part.start) as usize) else {
        return Ok(());
    };
    for begin in part.clone().step_by(HUGE_LEN).take_while(|_| limit.has_time()) {
        let start = Instant::now();
        prepare(begin)?;
        let made = map.collapse(begin - part.start, HUGE_LEN);
        limit.charge(made, start.elapsed());
    }
    Ok(())
}

/// Number of bytes in huge pages, among those that begin at `pages`. None of them may be a hole, since reading fills
/// it.
pub(crate) fn count(file: &File, pages: impl Iterator<Item = u64>) -> io::Result<u64> {
    let map = Map::to_read(file, file.metadata()?.len() as usize)?;
    for begin in pages {
        let mut byte = [0];
        map.read(begin, &mut byte);
        // Prevents that the compiler removes the read.
        std::hint::black_box(byte);
    }
    map.huge_bytes()
}

/// True if this machine creates huge pages for files in `folder`, which is on a file system in memory.
///
/// # Errors
/// `Io` if a file cannot be created there.
pub fn has_huge_pages(folder: &Path) -> io::Result<bool> {
    let mut options = File::options();
    let file = options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder)?;
    reserve(&file, &(0..HUGE), &TimeLimit::NONE)?;
    Ok(count(&file, std::iter::once(0))? == HUGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_within_range() {
        let mib = |from: u64, to: u64| from << 20..to << 20;
        assert_eq!(inside(&mib(0, 8)), mib(0, 8));
        assert_eq!(inside(&mib(1, 9)), mib(2, 8));
        assert!(inside(&mib(1, 2)).is_empty() && inside(&mib(3, 4)).is_empty());
    }

    /// The range begins in the middle of a huge page, behind other data.
    #[test]
    fn reserve_allocates_the_range_and_nothing_else() {
        let folder = Path::new("/dev/shm");
        let mut options = File::options();
        let file = options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder);
        let file = file.unwrap();
        file.write_all_at(&[7; 100], (5 << 20) - 100).unwrap();
        let part = 5 << 20..(13 << 20) + 4096;
        reserve(&file, &part, &TimeLimit::NONE).unwrap();
        let blocks = |file: &File| file.metadata().unwrap().blocks() * 512;
        let reserved = part.end - part.start;
        assert!(blocks(&file) >= reserved + 4096);
        let mut before = [0; 100];
        file.read_exact_at(&mut before, (5 << 20) - 100).unwrap();
        assert_eq!(before, [7; 100]);
        if has_huge_pages(folder).unwrap() {
            assert_eq!(
                count(&file, [6, 8, 10].map(|mib| mib << 20).into_iter()).unwrap(),
                3 * HUGE
            );
        }
    }

    #[test]
    fn slow_huge_pages_use_up_the_time_limit() {
        let (limit, slow) =
            (TimeLimit::from_duration(Duration::from_millis(10)), Duration::from_millis(5));
        limit.charge(true, slow);
        limit.charge(true, slow);
        assert!(limit.has_time());
        limit.charge(true, slow);
        assert!(!limit.has_time());
        // Pages that were faster than small ones extend the time.
        (0..20).for_each(|_| limit.charge(true, Duration::from_micros(100)));
        assert!(limit.has_time());
        limit.charge(false, Duration::ZERO);
        assert!(!limit.has_time());
        TimeLimit::NONE.charge(false, slow);
        assert!(TimeLimit::NONE.has_time());
    }
}
