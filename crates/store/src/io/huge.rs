//! Huge pages of files on tmpfs: 2 MiB of a file in one page. A process that maps the file again needs one entry of
//! its page table instead of 512.
//!
//! `MADV_COLLAPSE` (Linux 6.1) makes them at once, without privileges, whatever the mount option `huge=` says. All
//! of it is best effort: if the kernel or the file system has no huge pages, pages stay small.
use super::map::Map;
use super::sys;
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
/// The same as a length in memory.
pub(super) const HUGE_LEN: usize = esker_os::HUGE_PAGE;

/// The huge pages that are entirely within a part of a file.
fn inside(part: &Range<u64>) -> Range<u64> {
    let begin = part.start.next_multiple_of(HUGE);
    begin..(part.end / HUGE * HUGE).max(begin)
}

/// How much longer huge pages may take than small ones. A huge piece of memory that was never used may be slow to
/// get, especially on virtual machines, when small pages are still available.
pub(crate) struct Pace {
    /// Nanoseconds that are left; `None` for no limit.
    left: Option<AtomicI64>,
}

/// Approximate rate at which the kernel reserves small pages, in bytes per nanosecond.
const SMALL_PAGES_SPEED: i64 = 2;

impl Pace {
    /// Without a limit.
    pub(crate) const ANY: Self = Self { left: None };

    /// At most `longer` more than small pages would take.
    pub(crate) fn of(longer: Duration) -> Self {
        Self { left: Some(AtomicI64::new(longer.as_nanos() as i64)) }
    }

    /// True if there is time for another huge page.
    fn has_time(&self) -> bool {
        self.left.as_ref().is_none_or(|left| left.load(Ordering::Relaxed) > 0)
    }

    /// Accounts for the time of one huge page. If it could not be made, no other is tried.
    fn count(&self, made: bool, time: Duration) {
        let Some(left) = &self.left else { return };
        if made {
            let longer = time.as_nanos() as i64 - HUGE as i64 / SMALL_PAGES_SPEED;
            left.fetch_sub(longer, Ordering::Relaxed);
        } else {
            left.store(i64::MIN / 2, Ordering::Relaxed);
        }
    }
}

/// Bytes that are reserved at a time.
const STEP: u64 = 32 << 20;

/// Extends a file to `len` bytes and reserves all of it, in huge pages as far as the kernel has some. `report` is
/// called with the bytes of each step.
///
/// # Errors
/// Those of [`reserve`].
pub(crate) fn reserve_all(
    file: &File,
    bytes: u64,
    pace: &Pace,
    report: &mut dyn FnMut(u64),
) -> io::Result<()> {
    file.set_len(bytes)?;
    let mut left = bytes;
    let mut done = |bytes: u64| {
        let more = bytes.min(left);
        left -= more;
        report(more);
    };
    if !comes_in_huge_pages(file)? {
        fill_all(file, bytes, pace, &mut done)?;
    }
    // By one thread: they would wait for each other.
    for begin in (0..bytes).step_by(STEP as usize) {
        let len = STEP.min(bytes - begin);
        sys::reserve(file, begin, len)?;
        done(len);
    }
    Ok(())
}

/// True if the file system uses a huge page for any reserved byte, by its mount option `huge=`.
fn comes_in_huge_pages(file: &File) -> io::Result<bool> {
    sys::reserve(file, 0, 1)?;
    Ok(file.metadata()?.blocks() * 512 >= HUGE)
}

/// Makes all huge pages of a file for which there is time, with one thread per core: zeroing memory takes most of the
/// time.
fn fill_all(file: &File, bytes: u64, pace: &Pace, report: &mut dyn FnMut(u64)) -> io::Result<()> {
    let (next, (done, reports)) = (AtomicU64::new(0), mpsc::channel());
    let next_part = || {
        let begin = next.fetch_add(STEP, Ordering::Relaxed);
        (begin < bytes && pace.has_time()).then(|| begin..(begin + STEP).min(bytes))
    };
    let work = |done: mpsc::Sender<io::Result<u64>>| {
        while let Some(part) = next_part() {
            // Nobody listens any more where something failed.
            if done.send(fill(file, &part, pace).map(|()| part.end - part.start)).is_err() {
                break;
            }
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for done in std::iter::repeat_n(done, threads) {
            scope.spawn(|| work(done));
        }
        reports.into_iter().try_for_each(|done: io::Result<u64>| done.map(&mut *report))
    })
}

/// Reserves a part of a file that is an unused hole, in huge pages as far as the kernel has some.
///
/// # Errors
/// The error of the reservation; nothing is reserved then.
pub(crate) fn reserve(file: &File, part: &Range<u64>, pace: &Pace) -> io::Result<()> {
    let (begin, len) = (part.start, part.end - part.start);
    let reserved = fill(file, part, pace).and_then(|()| sys::reserve(file, begin, len));
    reserved.inspect_err(|_| drop(sys::punch(file, begin, len)))
}

/// Makes huge pages of a hole: each begins with one small page, so that the kernel has almost nothing to copy.
fn fill(file: &File, part: &Range<u64>, pace: &Pace) -> io::Result<()> {
    each_place(file, &inside(part), pace, |begin| file.write_all_at(&[0], begin))
}

/// Has the kernel move small pages of a part of a file into huge ones. Holes are filled.
pub(crate) fn collapse(file: &File, part: &Range<u64>, pace: &Pace) {
    let _ = each_place(file, part, pace, |_| Ok(()));
}

/// Has the kernel make a huge page at each position, after `prepare`, as long as there is time.
fn each_place(
    file: &File,
    part: &Range<u64>,
    pace: &Pace,
    mut prepare: impl FnMut(u64) -> io::Result<()>,
) -> io::Result<()> {
    if part.is_empty() || !pace.has_time() {
        return Ok(());
    }
    let Ok(map) = Map::new(file, part.start, (part.end - part.start) as usize) else {
        return Ok(());
    };
    for begin in part.clone().step_by(HUGE_LEN).take_while(|_| pace.has_time()) {
        let start = Instant::now();
        prepare(begin)?;
        let made = map.collapse(begin - part.start, HUGE_LEN);
        pace.count(made, start.elapsed());
    }
    Ok(())
}

/// Number of bytes in huge pages, of those that begin at `pages`. None of them may be a hole: it would be filled.
pub(crate) fn count(file: &File, pages: impl Iterator<Item = u64>) -> io::Result<u64> {
    let map = Map::to_read(file, file.metadata()?.len() as usize)?;
    for begin in pages {
        let mut byte = [0];
        map.read(begin, &mut byte);
        // Not left out because nobody looks at it.
        std::hint::black_box(byte);
    }
    map.huge_bytes()
}

/// True if this machine makes huge pages of files in the directory `folder` of a file system in memory.
///
/// # Errors
/// `Io` if no file can be created there.
pub fn has_huge_pages(folder: &Path) -> io::Result<bool> {
    let mut options = File::options();
    let file = options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder)?;
    reserve(&file, &(0..HUGE), &Pace::ANY)?;
    Ok(count(&file, std::iter::once(0))? == HUGE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_lie_inside() {
        let mib = |from: u64, to: u64| from << 20..to << 20;
        assert_eq!(inside(&mib(0, 8)), mib(0, 8));
        assert_eq!(inside(&mib(1, 9)), mib(2, 8));
        assert!(inside(&mib(1, 2)).is_empty() && inside(&mib(3, 4)).is_empty());
    }

    #[test]
    fn what_is_reserved_is_there_and_what_is_not_is_no_more() {
        let folder = Path::new("/dev/shm");
        let mut options = File::options();
        let file = options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(folder);
        let file = file.unwrap();
        file.write_all_at(&[7; 100], (5 << 20) - 100).unwrap();
        let part = 5 << 20..(13 << 20) + 4096;
        reserve(&file, &part, &Pace::ANY).unwrap();
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
    fn slow_memory_is_left_alone_in_time() {
        let (pace, slow) = (Pace::of(Duration::from_millis(10)), Duration::from_millis(5));
        pace.count(true, slow);
        pace.count(true, slow);
        assert!(pace.has_time());
        pace.count(true, slow);
        assert!(!pace.has_time());
        // What was faster than small pages makes up for it.
        (0..20).for_each(|_| pace.count(true, Duration::from_micros(100)));
        assert!(pace.has_time());
        pace.count(false, Duration::ZERO);
        assert!(!pace.has_time());
        Pace::ANY.count(false, slow);
        assert!(Pace::ANY.has_time());
    }
}
