//! A pool of idle items. Any thread can take one and return it without a lock.
use crate::sync::{AtomicPtr, Mutex};
use std::cell::Cell;
use std::ptr::{NonNull, null_mut};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An item that can be stored as a pointer.
pub(crate) trait Pointer: Sized {
    /// Type that the pointer points to.
    type Target;

    /// Converts the item into a pointer.
    fn into_raw(self) -> *mut Self::Target;

    /// Converts back a pointer from [`Pointer::into_raw`].
    fn from_raw(raw: NonNull<Self::Target>) -> Self;
}

/// Number of items that are stored without a lock.
const SLOTS: usize = if cfg!(loom) { 1 } else { 16 };

/// A slot on a cache line of its own (or two lines, since some processors fetch them in pairs).
#[repr(align(128))]
struct Slot<T>(AtomicPtr<T>);

impl<T> Slot<T> {
    /// Takes the item of the slot, if there is one. An empty slot is only read, so its cache line stays shared.
    #[inline]
    fn take(&self) -> Option<NonNull<T>> {
        if self.0.load(Ordering::Relaxed).is_null() {
            return None;
        }
        NonNull::new(self.0.swap(null_mut(), Ordering::Acquire))
    }

    /// Stores an item; returns false if the slot is full.
    #[inline]
    fn put(&self, raw: *mut T) -> bool {
        let (full, empty) = (Ordering::Release, Ordering::Relaxed);
        self.0.compare_exchange(null_mut(), raw, full, empty).is_ok()
    }
}

/// A pool of idle items. A thread usually gets the item that it returned last.
pub(crate) struct IdlePool<P: Pointer> {
    slots: [Slot<P::Target>; SLOTS],
    /// Items for which there was no empty slot.
    rest: Mutex<Vec<P>>,
}

/// Index of the slot that this thread tries first.
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

    /// Takes an idle item, if there is one.
    #[inline]
    pub(crate) fn take(&self) -> Option<P> {
        let idle = self.slots[first_slot()].take().or_else(|| self.take_from_any_slot());
        idle.map(P::from_raw)
    }

    /// Takes an item from any slot or, if all are empty, from the others.
    #[cold]
    fn take_from_any_slot(&self) -> Option<NonNull<P::Target>> {
        let rest = || {
            let idle = self.rest.lock().unwrap_or_else(PoisonError::into_inner).pop();
            idle.and_then(|idle| NonNull::new(idle.into_raw()))
        };
        self.slots.iter().find_map(Slot::take).or_else(rest)
    }

    /// Returns an item to the pool, for the next [`IdlePool::take`].
    #[inline]
    pub(crate) fn put(&self, idle: P) {
        let raw = idle.into_raw();
        if !self.slots[first_slot()].put(raw) {
            self.put_in_any_slot(raw);
        }
    }

    /// Stores an item in any empty slot or, if there is none, with the others.
    #[cold]
    fn put_in_any_slot(&self, raw: *mut P::Target) {
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
            // SAFETY: `into_raw` released it, and the pool returns it once.
            unsafe { Box::from_raw(raw.as_ptr()) }
        }
    }

    #[test]
    #[cfg(not(loom))]
    fn each_item_is_taken_once() {
        let pool = IdlePool::<Box<u32>>::new();
        assert!(pool.take().is_none());
        let count = 2 * SLOTS as u32 + 3;
        (0..count).for_each(|number| pool.put(Box::new(number)));
        let mut taken: Vec<_> = std::iter::from_fn(|| pool.take()).map(|one| *one).collect();
        taken.sort_unstable();
        assert_eq!(taken, (0..count).collect::<Vec<_>>());
    }
}

/// Models under every order in which threads may run.
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
            // SAFETY: the readers of the model are leaked.
            Self(unsafe { raw.as_ref() })
        }
    }

    /// Two threads never have the same item, and each sees the writes of earlier users.
    #[test]
    fn idle_reader_is_taken_by_one_thread() {
        loom::model(|| {
            let pool = Arc::new(IdlePool::<Reader>::new());
            for _ in 0..2 {
                pool.put(Reader(Box::leak(Box::new(UnsafeCell::new(0)))));
            }
            let uses = |pool: &IdlePool<Reader>| {
                let reader = pool.take().unwrap();
                // SAFETY: loom fails the model if another thread has it.
                reader.0.with_mut(|uses| unsafe { *uses += 1 });
                pool.put(reader);
            };
            let other = Arc::clone(&pool);
            let other = thread::spawn(move || uses(&other));
            uses(&pool);
            other.join().unwrap();
            let left = std::iter::from_fn(|| pool.take());
            // SAFETY: both threads have ended.
            assert_eq!(left.map(|reader| reader.0.with(|uses| unsafe { *uses })).sum::<u32>(), 2);
        });
    }
}
