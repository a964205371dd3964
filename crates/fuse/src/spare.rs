//! Files and threads that are kept for the session of a mount.
//!
//! Threads of the session clone the device and start others by themselves. If that fails, nobody serves the mount, and
//! calls on it wait for good. Entries of io_uring need files and threads too, so they are made while these are kept.
use std::fs::File;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Files and threads that are occupied, so that others can be made once this is dropped.
pub(crate) struct Spare {
    _files: Vec<File>,
    hold: Option<Sender<()>>,
    threads: Vec<JoinHandle<()>>,
}

impl Spare {
    /// Occupies `count` descriptors and threads, so that as many are certainly available once this is dropped.
    pub(crate) fn keep(count: usize) -> io::Result<Self> {
        let files = (0..count).map(|_| File::open("/dev/null")).collect::<io::Result<_>>()?;
        let (hold, held) = channel();
        let held = Arc::new(Mutex::new(held));
        let mut spare = Self { _files: files, hold: Some(hold), threads: Vec::new() };
        for _ in 0..count {
            let held = Arc::clone(&held);
            // It ends once the sender is dropped.
            let wait = move || {
                let _ = held.lock().unwrap_or_else(PoisonError::into_inner).recv();
            };
            spare.threads.push(Builder::new().spawn(wait)?);
        }
        Ok(spare)
    }
}

impl Drop for Spare {
    /// Returns when all threads have ended.
    fn drop(&mut self) {
        self.hold = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kept_threads_end_with_the_value() {
        let spare = Spare::keep(3).unwrap();
        assert!(spare.threads.iter().all(|thread| !thread.is_finished()));
        drop(spare);
    }
}
