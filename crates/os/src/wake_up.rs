//! An eventfd per thread, which wakes the thread while it sleeps in `poll(2)`.
#![allow(unsafe_code)]
use crate::generation;
use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, RawFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

thread_local! {
    /// The eventfd of this thread.
    static MADE: RefCell<Option<Arc<Event>>> = const { RefCell::new(None) };
}

/// An eventfd. A child made by fork must neither share nor close it: its program may have closed it, and opened another
/// file under that number.
struct Event {
    descriptor: RawFd,
    made_in: u64,
}

impl Event {
    /// `None` if the process has no more descriptors. The C library's function creates it: where that is intercepted,
    /// programs cannot close the descriptor.
    fn new() -> Option<Self> {
        // SAFETY: the call only creates a descriptor.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        (descriptor >= 0).then(|| Self { descriptor, made_in: generation() })
    }

    /// True if this process created it, not its parent.
    fn is_own(&self) -> bool {
        self.made_in == generation()
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as this value exists, in the process that created it.
        unsafe { BorrowedFd::borrow_raw(self.descriptor) }
    }
}

impl Drop for Event {
    /// Closes it without the C library, whose `close` may be intercepted for a thread that ends.
    fn drop(&mut self) {
        if self.is_own() {
            // SAFETY: only this value has this descriptor.
            unsafe { rustix::io::close(self.descriptor) };
        }
    }
}

/// Lets other threads wake a thread that sleeps at its eventfd.
#[derive(Default)]
pub(crate) struct WakeUp {
    descriptor: OnceLock<Arc<Event>>,
    is_sleeping: AtomicBool,
}

impl WakeUp {
    /// Runs `sleep` with a descriptor that is readable after a wake-up. `None` if the process has no more descriptors.
    /// Only one thread may sleep on it.
    pub(crate) fn sleep_with<T>(&self, sleep: impl FnOnce(BorrowedFd<'_>) -> T) -> Option<T> {
        let descriptor = match self.descriptor.get() {
            Some(descriptor) => descriptor,
            None => {
                let own = own()?;
                self.descriptor.get_or_init(|| own)
            }
        };
        self.is_sleeping.store(true, Ordering::SeqCst);
        let slept = sleep(descriptor.as_fd());
        self.is_sleeping.store(false, Ordering::SeqCst);
        // A late wake-up makes only the next sleep a short one.
        let _ = rustix::io::read(descriptor, &mut [0_u8; 8]);
        Some(slept)
    }

    /// Wakes the thread that sleeps with this value. Does nothing if none does.
    pub(crate) fn wake(&self) {
        if self.is_sleeping.load(Ordering::SeqCst)
            && let Some(descriptor) = self.descriptor.get()
        {
            // It fails if the counter is full; then the descriptor is readable already.
            let _ = rustix::io::write(descriptor, &1_u64.to_ne_bytes());
        }
    }
}

/// Returns the eventfd of this thread. Creates it at the first call, and again in a child made by fork, which must not
/// use that of its parent. `None` if the thread is ending or no eventfd can be created.
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
    fn wake_up_ends_one_sleep() {
        let wake_up = WakeUp::default();
        let wait = |descriptor: BorrowedFd<'_>| {
            poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], None).expect("a poll")
        };
        wake_up.wake();
        let at_once = |descriptor: BorrowedFd<'_>| {
            let zero = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&zero)).expect("a poll")
        };
        assert_eq!(wake_up.sleep_with(at_once), Some(0));
        let all = std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| wake_up.sleep_with(wait));
            while !sleeper.is_finished() {
                wake_up.wake();
                std::thread::yield_now();
            }
            sleeper.join().expect("a thread")
        });
        assert_eq!(all, Some(1));
    }
}
