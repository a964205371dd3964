//! A pool of idle things: any thread can take one and put it back without a lock.
use crate::sync::{AtomicPtr, Mutex};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Something that can be stored as a pointer.
pub(crate) trait Pointer: Sized {
    /// What it points to.
    type Target;

    /// The pointer.
    fn into_raw(self) -> *mut Self::Target;

    /// The one that [`Pointer::into_raw`] was called on.
    fn from_raw(raw: NonNull<Self::Target>) -> Self;
}

/// Number of things kept without a lock.
const SLOTS: usize = if cfg!(loom) { 1 } else { 16 };

/// A slot, alone on its cache line (or two, which some processors fetch together).
#[repr(align(128))]
struct Slot<T>(AtomicPtr<T>);

impl<T> Slot<T> {
    #[inline]
    fn take(&self) -> Option<NonNull<T>> {
        if self.0.load(Ordering::Relaxed).is_null() {
            return None;
        }
        NonNull::new(self.0.swap(null_mut(), Ordering::Acquire))
    }

    /// True if the slot was empty and has it now.
    #[inline]
    fn put(&self, raw: *mut T) -> bool {
        let (full, empty) = (Ordering::Release, Ordering::Relaxed);
        self.0.compare_exchange(null_mut(), raw, full, empty).is_ok()
    }
}

/// A pool of idle things. A thread usually finds the one it put back last.
pub(crate) struct IdlePool<P: Pointer> {
    slots: [Slot<P::Target>; SLOTS],
    /// Those for which there was no empty slot.
    rest: Mutex<Vec<P>>,
}

/// The slot at which this thread looks first.
fn first_slot() -> usize {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static FIRST: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    FIRST.with(|first| {
        if first.get() == usize::MAX {
            first.set(THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS);
        }
        first.get()
    })
}

impl<P: Pointer> IdlePool<P> {
    pub(crate) fn new() -> Self {
        let slots = std::array::from_fn(|_| Slot(AtomicPtr::new(null_mut())));
        Self { slots, rest: Mutex::new(Vec::new()) }
    }

    /// Takes an idle one, if there is any.
    #[inline]
    pub(crate) fn take(&self) -> Option<P> {
        let idle = self.slots[first_slot()].take().or_else(|| self.take_anywhere());
        idle.map(P::from_raw)
    }

    #[cold]
    fn take_anywhere(&self) -> Option<NonNull<P::Target>> {
        let rest = || {
            let idle = self.rest.lock().unwrap_or_else(PoisonError::into_inner).pop();
            idle.and_then(|idle| NonNull::new(idle.into_raw()))
        };
        self.slots.iter().find_map(Slot::take).or_else(rest)
    }

    /// Keeps one for the next [`IdlePool::take`].
    #[inline]
    pub(crate) fn put(&self, idle: P) {
        let raw = idle.into_raw();
        if !self.slots[first_slot()].put(raw) {
            self.put_anywhere(raw);
        }
    }

    #[cold]
    fn put_anywhere(&self, raw: *mut P::Target) {
        if !self.slots.iter().any(|slot| slot.put(raw)) {
            let idle = NonNull::new(raw).map(P::from_raw);
            self.rest.lock().unwrap_or_else(PoisonError::into_inner).extend(idle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Pointer for Box<u32> {
        type Target = u32;

        fn into_raw(self) -> *mut u32 {
            Box::into_raw(self)
        }

        fn from_raw(raw: NonNull<u32>) -> Self {
            // SAFETY: `into_raw` gave it up, and a pool hands it out once.
            unsafe { Box::from_raw(raw.as_ptr()) }
        }
    }

    #[test]
    #[cfg(not(loom))]
    fn what_was_put_is_taken_once() {
        let pool = IdlePool::<Box<u32>>::new();
        assert!(pool.take().is_none());
        let count = 2 * SLOTS as u32 + 3;
        (0..count).for_each(|number| pool.put(Box::new(number)));
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.take()).map(|one| *one).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..count).collect::<Vec<_>>());
    }
}

/// Under every order in which threads may run.
#[cfg(all(loom, test))]
mod models {
    use super::*;
    use loom::cell::UnsafeCell;
    use loom::sync::Arc;
    use loom::thread;

    struct Reader(&'static UnsafeCell<u32>);

    impl Pointer for Reader {
        type Target = UnsafeCell<u32>;

        fn into_raw(self) -> *mut UnsafeCell<u32> {
            std::ptr::from_ref(self.0).cast_mut()
        }

        fn from_raw(raw: NonNull<UnsafeCell<u32>>) -> Self {
            // SAFETY: readers of the model are leaked.
            Self(unsafe { raw.as_ref() })
        }
    }

    /// Two threads never have the same one, and each sees what those before did with it.
    #[test]
    fn an_idle_reader_is_taken_by_one_thread() {
        loom::model(|| {
            let pool = Arc::new(IdlePool::<Reader>::new());
            for _ in 0..2 {
                pool.put(Reader(Box::leak(Box::new(UnsafeCell::new(0)))));
            }
            let uses = |pool: &IdlePool<Reader>| {
                let reader = pool.take().unwrap();
                // SAFETY: loom ends the model where somebody else has it.
                reader.0.with_mut(|uses| unsafe { *uses += 1 });
                pool.put(reader);
            };
            let other = Arc::clone(&pool);
            let other = thread::spawn(move || uses(&other));
            uses(&pool);
            other.join().unwrap();
            let left = std::iter::from_fn(|| pool.take());
            // SAFETY: both threads are done.
            assert_eq!(left.map(|reader| reader.0.with(|uses| unsafe { *uses })).sum::<u32>(), 2);
        });
    }
}
