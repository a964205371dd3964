//! Memory of the process: settings of the C library's allocator, and huge pages for buffers that are about to be
//! filled.
#![allow(unsafe_code)]

use std::ops::Range;

/// Bytes of freed memory at the end of a heap that are kept for later allocations.
const KEPT_BYTES: i32 = 32 << 20;
/// Heaps that threads share. By default glibc has eight for each processor.
const HEAPS_MAX: i32 = 8;
/// From this size on, an allocation has a mapping of its own, which is unmapped when it is freed. It is the most that
/// glibc accepts.
const MAPPED_BYTES: i32 = 32 << 20;

/// Configures the allocator to keep freed memory, for a process that receives large messages all the time. By default
/// each buffer of such a process is fresh from the kernel, which clears its pages at the first use. That takes longer
/// than filling it.
pub fn keep_freed() {
    // SAFETY: the calls set numbers of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
}

/// Bytes of a huge page.
pub const HUGE_PAGE: usize = 2 << 20;

/// Asks the kernel for huge pages in a buffer that is about to be filled, if it has no pages yet. A fresh buffer costs
/// a page fault for each page, and with small pages these take several times as long as filling it. The request covers
/// complete huge pages inside the buffer only, so no more memory is used. Best effort: contents do not change, and
/// errors have no effect.
pub fn want_huge_pages(buffer: &mut [u8]) {
    if !lacks_huge_pages(buffer) {
        return;
    }
    let whole = whole_pages(buffer);
    let inner = &mut buffer[whole];
    // SAFETY: the range is inside the buffer, and the call does not change its content.
    unsafe { libc::madvise(inner.as_mut_ptr().cast(), inner.len(), libc::MADV_HUGEPAGE) };
}

/// True if [`want_huge_pages`] would ask the kernel: the last huge page of the buffer is not in memory yet.
#[must_use]
pub fn lacks_huge_pages(buffer: &[u8]) -> bool {
    let Some(last) = buffer[whole_pages(buffer)].rchunks(HUGE_PAGE).next() else { return false };
    let mut present = 1;
    // SAFETY: the address is aligned to a page, and the byte of the answer is a local variable.
    let result = unsafe { libc::mincore(last.as_ptr().cast_mut().cast(), 1, &raw mut present) };
    result == 0 && present & 1 == 0
}

/// Range of the complete huge pages inside a buffer.
fn whole_pages(buffer: &[u8]) -> Range<usize> {
    let start = buffer.as_ptr().align_offset(HUGE_PAGE).min(buffer.len());
    start..start + (buffer.len() - start) / HUGE_PAGE * HUGE_PAGE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Page faults of this thread so far.
    fn faults() -> i64 {
        // SAFETY: zeros are a valid value of the structure, which the call fills.
        unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage);
            usage.ru_minflt
        }
    }

    #[test]
    fn freed_memory_is_used_again_without_page_faults() {
        keep_freed();
        let receive = || (0..8).map(|fill| vec![fill + 1_u8; 512 << 10]).collect::<Vec<_>>();
        let all = std::thread::spawn(move || {
            drop(receive());
            let before = faults();
            (0..50).for_each(|_| drop(std::hint::black_box(receive())));
            faults() - before
        });
        assert!(all.join().unwrap() < 50 * 100);
    }

    /// True if the mapping of an address is marked for huge pages.
    fn wants_huge_pages(place: &[u8]) -> bool {
        let address = place.as_ptr() as usize;
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|range| range.split_once('-'));
            if let Some((from, to)) = range
                && let (Ok(from), Ok(to)) =
                    (usize::from_str_radix(from, 16), usize::from_str_radix(to, 16))
            {
                inside = (from..to).contains(&address);
            } else if inside && let Some(flags) = line.strip_prefix("VmFlags:") {
                return flags.split(' ').any(|flag| flag == "hg");
            }
        }
        panic!("{address:x} is in no mapping")
    }

    #[test]
    fn huge_pages_are_requested_only_for_complete_unused_ones() {
        // Long enough for a mapping of its own.
        let mut buffer = vec![0_u8; 40 << 20];
        let aligned = buffer.as_ptr().align_offset(HUGE_PAGE);
        buffer[aligned + 7 * HUGE_PAGE] = 1;
        want_huge_pages(&mut buffer[aligned + 6 * HUGE_PAGE..aligned + 8 * HUGE_PAGE]);
        assert!(!wants_huge_pages(&buffer[aligned + 6 * HUGE_PAGE..]), "it is in use");
        want_huge_pages(&mut buffer[aligned + 1..aligned + 2 * HUGE_PAGE - 1]);
        assert!(!wants_huge_pages(&buffer[aligned..]), "it is shorter");
        want_huge_pages(&mut buffer[aligned + HUGE_PAGE - 1..aligned + 3 * HUGE_PAGE + 1]);
        assert!(
            !wants_huge_pages(&buffer[aligned..])
                && !wants_huge_pages(&buffer[aligned + 3 * HUGE_PAGE..])
        );
        let has_any = std::path::Path::new("/sys/kernel/mm/transparent_hugepage").exists();
        assert_eq!(wants_huge_pages(&buffer[aligned + HUGE_PAGE..]), has_any);
        assert!(buffer.iter().map(|&byte| u64::from(byte)).sum::<u64>() == 1);
    }
}
