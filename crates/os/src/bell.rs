//! A descriptor that wakes a thread which sleeps in `poll(2)`.
use crate::generation;
use rustix::event::{EventfdFlags, eventfd};
use std::cell::RefCell;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// The descriptor of a thread, and the process that made it: a child made by fork must not share it.
type Made = (u64, Arc<OwnedFd>);

thread_local! {
    static MADE: RefCell<Option<Made>> = const { RefCell::new(None) };
}

/// Wakes the thread that listens to it.
#[derive(Default)]
pub(crate) struct Bell {
    descriptor: OnceLock<Arc<OwnedFd>>,
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

/// The descriptor of this thread.
fn own() -> Option<Arc<OwnedFd>> {
    let now = generation();
    let made = MADE.try_with(|made| {
        let mut made = made.borrow_mut();
        if let Some((_, descriptor)) = made.as_ref().filter(|(then, _)| *then == now) {
            return Some(Arc::clone(descriptor));
        }
        let new = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let new = Arc::new(new);
        *made = Some((now, Arc::clone(&new)));
        Some(new)
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
