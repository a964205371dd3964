//! Huge pages of files in memory: a process that has just mapped such a file enters one into its page table at a
//! time, where it would enter 512 small ones.
//!
//! The kernel gathers pages on request (`MADV_COLLAPSE`, Linux 6.1), whatever the mount says of huge pages. Where it
//! does not, or finds no memory in one piece, all works as it does with small pages.
use super::map::Map;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

/// Bytes of a huge page of x86-64, and of the other machines with small pages of 4 KiB.
pub(crate) const HUGE_PAGE: u64 = 2 << 20;

/// Bytes that a thread fills at a time.
const STEP: u64 = 16 * HUGE_PAGE;

/// The whole huge pages of a part of a file.
fn pages(part: &Range<u64>) -> Range<u64> {
    let begin = part.start.next_multiple_of(HUGE_PAGE);
    begin..(part.end / HUGE_PAGE * HUGE_PAGE).max(begin)
}

/// Puts huge pages where a part of a file is a hole.
///
/// # Errors
/// What the kernel says where it does not; `StorageFull` where the file system has no room. Some of the part may have
/// been filled, by small pages too.
pub(crate) fn fill(file: &File, map: &Map, part: &Range<u64>) -> io::Result<()> {
    let part = pages(part);
    // Where a page is all hole, there is nothing to be gathered.
    for page in part.clone().step_by(HUGE_PAGE as usize) {
        file.write_all_at(&[0], page)?;
    }
    map.gather(part.start, (part.end - part.start) as usize)
}

/// As [`fill`], of a whole new file by all cores at once; `report` hears of bytes done. False where the kernel
/// gathers no pages.
///
/// # Errors
/// `StorageFull` where the file system has no room; where the file cannot be mapped.
pub(crate) fn fill_all(file: &File, bytes: u64, report: &mut dyn FnMut(u64)) -> io::Result<bool> {
    let map = Map::new(file, bytes as usize)?;
    if bytes < HUGE_PAGE || !has_room(fill(file, &map, &(0..HUGE_PAGE)))? {
        return Ok(false);
    }
    let (next, workers) = (AtomicU64::new(0), std::thread::available_parallelism()?.get());
    let (done, all_done) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..workers {
            let done = done.clone();
            scope.spawn(|| fill_steps(file, &map, bytes, &next, done));
        }
        drop(done);
        for filled in all_done {
            has_room(filled.map(&mut *report))?;
        }
        Ok(true)
    })
}

/// Fills one step after the other, of those that nobody else does.
fn fill_steps(
    file: &File,
    map: &Map,
    bytes: u64,
    next: &AtomicU64,
    done: mpsc::Sender<io::Result<u64>>,
) {
    loop {
        let begin = next.fetch_add(STEP, Ordering::Relaxed);
        if begin >= bytes {
            return;
        }
        let end = (begin + STEP).min(bytes);
        let filled = has_room(fill(file, map, &(begin..end)));
        if done.send(filled.map(|_| end - begin)).is_err() {
            return;
        }
    }
}

/// Whether it was done; that there is no room is an error, all else is the kernel's to decide.
fn has_room<T>(done: io::Result<T>) -> io::Result<bool> {
    match done {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Err(error),
        done => Ok(done.is_ok()),
    }
}
