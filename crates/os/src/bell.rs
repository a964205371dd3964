//! A descriptor that wakes a thread which sleeps in `poll(2)`.
#![allow(unsafe_code)]
use crate::generation;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

thread_local! {
    static MADE: RefCell<Option<Arc<Event>>> = const { RefCell::new(None) };
}

/// A descriptor of an event. A child made by fork must neither share nor close it: its program may have closed it, and have
/// another one of that number.
struct Event {
    descriptor: RawFd,
    made_in: u64,
}

impl Event {
    /// `None` if there are no more descriptors. Made by the C library's function, so that where that is intercepted
    /// programs cannot close it.
    fn new() -> Option<Self> {
        // SAFETY: it only makes a descriptor.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        (descriptor >= 0).then(|| Self { descriptor, made_in: generation() })
    }

    fn is_own(&self) -> bool {
        self.made_in == generation()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as this value exists, in the process that made it.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }
}

impl Drop for Event {
    /// Not by the C library's function: a thread that ends is not the store's any more.
    fn drop(&mut self) {
        if self.is_own() {
            // SAFETY: nobody else has this descriptor.
            unsafe { rustix::io::close(self.descriptor) };
        }
    }
}

/// Wakes the thread that listens to it.
#[derive(Default)]
pub(crate) struct Bell {
    descriptor: OnceLock<Arc<Event>>,
    is_heard: AtomicBool,
}

impl Bell {
    /// Does `sleep` with a descriptor that can be read once the bell has rung. `None` if there are no more descriptors. Only
    /// one thread may listen to a bell.
    pub(crate) fn listen<T>(&self, sleep: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        let descriptor = match self.descriptor.get() {
            Some(descriptor) => descriptor,
            None => {
                let own = own()?;
                self.descriptor.get_or_init(|| own)
            }
        };
        self.is_heard.store(true, Ordering::SeqCst);
        let slept = sleep(descriptor.as_fd());
        self.is_heard.store(false, Ordering::SeqCst);
        // Whoever rang late makes the next sleep a short one.
        let _ = rustix::io::read(descriptor, &mut [0_u8; 8]);
        Some(slept)
    }

    /// Wakes whoever listens.
    pub(crate) fn ring(&self) {
        if self.is_heard.load(Ordering::SeqCst)
            && let Some(descriptor) = self.descriptor.get()
        {
            // It fails if nobody has heard the bell for very long; then it still rings.
            let _ = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
        }
    }
}

/// The event of this thread.
fn own() -> Option<Arc<Event>> {
    let made = MADE.try_with(|made| {
        let mut made = made.borrow_mut();
        if made.as_ref().is_none_or(|made| !made.is_own()) {
            *made = Some(Arc::new(Event::new()?));
        }
        made.clone()
    });
    made.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, poll};

    #[test]
    fn a_bell_wakes_who_listens_and_is_silent_afterwards() {
        let bell = Bell::default();
        let heard = |bell: BorrowedFd<'_>| {
            poll(&mut [PollFd::new(&bell, PollFlags::IN)], None).expect("a poll")
        };
        bell.ring();
        let at_once = |bell: BorrowedFd<'_>| {
            let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&bell, PollFlags::IN)], Some(&zero)).expect("a poll")
        };
        assert_eq!(bell.listen(at_once), Some(0));
        let all = std::thread::scope(|scope| {
            let listener = scope.spawn(|| bell.listen(heard));
            while !listener.is_finished() {
                bell.ring();
                std::thread::yield_now();
            }
            listener.join().expect("a thread")
        });
        assert_eq!(all, Some(1));
    }
}
