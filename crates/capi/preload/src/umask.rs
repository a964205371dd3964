//! The umask, which only the kernel and the calling process know.
use crate::edge::export;
use crate::raw;
use std::sync::atomic::{AtomicU32, Ordering};

static CURRENT: AtomicU32 = AtomicU32::new(0o022);

/// Asks the kernel, which returns it only when it is set. Called while there is one thread.
pub(crate) fn learn() {
    let mask = raw::set_umask(0o077);
    raw::set_umask(mask);
    CURRENT.store(mask, Ordering::Relaxed);
}

pub(crate) fn get() -> u32 {
    CURRENT.load(Ordering::Relaxed)
}

export! {
    fn umask(mask: u32) -> u32 | next {
        CURRENT.store(mask & 0o777, Ordering::Relaxed);
        next(mask)
    }
}
