//! Memory of the C library's allocator.
#![allow(unsafe_code)]

/// Bytes of freed memory at the end of a heap that are kept for what is allocated next.
const KEPT_BYTES: i32 = 32 << 20;
/// Heaps that threads share. By default glibc has eight for each processor.
const HEAPS_MAX: i32 = 8;
/// From this size on, an allocation has a mapping of its own, which goes when it is freed. It is the most that glibc
/// takes.
const MAPPED_BYTES: i32 = 32 << 20;

/// Keeps memory that was freed, in a process that receives large messages all the time. By default each buffer of
/// such a process is fresh from the kernel, which clears its pages at the first use: longer work than to fill it.
pub fn keep_freed() {
    // SAFETY: it sets numbers of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, HEAPS_MAX);
        libc::mallopt(libc::M_TRIM_THRESHOLD, KEPT_BYTES);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
    }
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
}
