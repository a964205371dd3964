//! Detecting that a process has forked or is about to fork, and a lock that a fork cannot leave locked.
#![allow(unsafe_code)]
use esker_types::checksum::prepare_checksums;
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};

static GENERATION: AtomicU64 = AtomicU64::new(1);
/// Whether the handlers of fork are registered. A `Once` would not do: a child made while another thread is in it waits
/// for ever.
static REGISTERED: AtomicBool = AtomicBool::new(false);
/// Function of the store that each child runs first; null without one.
static ON_CHILD: AtomicPtr<()> = AtomicPtr::new(null_mut());
/// Number of forks of this process that have begun, and number of those that have ended.
static BEGUN: AtomicU64 = AtomicU64::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// Handler before a fork. Waits while another thread creates what checksums need: the child would wait for it for ever.
extern "C" fn before() {
    prepare_checksums();
    BEGUN.fetch_add(1, Ordering::SeqCst);
}

extern "C" fn in_parent() {
    ENDED.fetch_add(1, Ordering::SeqCst);
}

/// Handler in the child. Sets the number of ended forks: forks that other threads of the parent had begun never end in
/// the child.
extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::SeqCst);
    ENDED.store(BEGUN.load(Ordering::SeqCst), Ordering::SeqCst);
    let run = ON_CHILD.load(Ordering::SeqCst);
    if !run.is_null() {
        // SAFETY: only `on_child` stores a pointer, that of such a function.
        unsafe { std::mem::transmute::<*mut (), fn()>(run)() };
    }
    crate::descriptors::close_inherited();
}

/// A number that differs between a process and each of its forked children. A resource of another number belongs to an
/// ancestor and must be neither used nor closed.
#[inline]
pub fn generation() -> u64 {
    if !REGISTERED.load(Ordering::Acquire) {
        register();
    }
    GENERATION.load(Ordering::Relaxed)
}

/// Registers the handlers of fork. Threads that call this at once all do it: the handlers may run several times.
#[cold]
fn register() {
    // SAFETY: the handlers only touch atomics and descriptors, which is safe after fork.
    unsafe { libc::pthread_atfork(Some(before), Some(in_parent), Some(in_child)) };
    REGISTERED.store(true, Ordering::Release);
}

/// Registers `run` to be called first in each child made by fork. It may only touch atomics and make system calls.
/// Only the first registered function counts.
pub fn on_child(run: fn()) {
    let (first, order) = (null_mut(), Ordering::SeqCst);
    let _ = ON_CHILD.compare_exchange(first, run as *mut (), order, order);
    generation();
}

/// Attempts of [`undisturbed`] in a process that forks all the time. The last one counts in any case.
const ATTEMPTS: u32 = 1000;

/// Creates a value that no forked child inherits half made: if another thread forked meanwhile, drops it and creates it
/// again. Does not wait for the end of a fork, which may wait for locks of the program.
///
/// # Errors
/// The error of `make`.
pub fn undisturbed<T, E>(mut make: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    generation();
    for _ in 1..ATTEMPTS {
        let ended = ENDED.load(Ordering::SeqCst);
        let begun = BEGUN.load(Ordering::SeqCst);
        let made = make()?;
        if ended == begun && BEGUN.load(Ordering::SeqCst) == begun {
            return Ok(made);
        }
        std::thread::yield_now();
    }
    make()
}

/// A value that each process creates for itself. A forked child starts without one; it neither uses nor drops its
/// parent's value.
pub struct PerProcess<T> {
    newest: AtomicPtr<Owned<T>>,
    _values: PhantomData<T>,
}

/// A value, and the process that created it.
struct Owned<T> {
    generation: u64,
    value: T,
    /// The value of the parent. It is kept until `self` is dropped, because references to it may exist.
    older: *mut Owned<T>,
}

impl<T: Send + Sync> PerProcess<T> {
    /// A cell that holds `value` for this process.
    pub fn new(value: T) -> Self {
        let made = Owned { generation: generation(), value, older: null_mut() };
        let newest = AtomicPtr::new(Box::into_raw(Box::new(made)));
        Self { newest, _values: PhantomData }
    }

    /// A cell without a value.
    #[must_use]
    pub const fn empty() -> Self {
        Self { newest: AtomicPtr::new(null_mut()), _values: PhantomData }
    }

    /// The value of this process; `None` in a child that has not created one yet.
    #[inline]
    pub fn get(&self) -> Option<&T> {
        // SAFETY: the value was created by `new` or `set` and lives as long as `self`.
        let made = unsafe { self.newest.load(Ordering::Acquire).as_ref() }?;
        (made.generation == generation()).then_some(&made.value)
    }

    /// The value of this process; creates it if necessary.
    #[inline]
    pub fn get_or_create(&self, create: impl FnOnce() -> T) -> &T {
        self.get().unwrap_or_else(|| self.set(create()))
    }

    /// The value of this process; makes it if necessary, which may fail.
    ///
    /// # Errors
    /// The errors of `make`.
    #[inline]
    pub fn get_or_make<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        match self.get() {
            Some(value) => Ok(value),
            None => make().map(|value| self.set(value)),
        }
    }

    /// Sets the value of this process. If another thread has set one meanwhile, that one is kept.
    #[cold]
    fn set(&self, value: T) -> &T {
        let older = self.newest.load(Ordering::Acquire);
        if let Some(value) = self.get() {
            return value;
        }
        let created = Box::into_raw(Box::new(Owned { generation: generation(), value, older }));
        let (won, lost) = (Ordering::AcqRel, Ordering::Acquire);
        match self.newest.compare_exchange(older, created, won, lost) {
            // SAFETY: just created; from now on it lives as long as `self`.
            Ok(_) => unsafe { &(*created).value },
            Err(other) => {
                // SAFETY: no other thread knows the value just created; the other one, created by a thread of this
                // process, lives as long as `self`.
                unsafe {
                    drop(Box::from_raw(created));
                    &(*other).value
                }
            }
        }
    }
}

impl<T: Send + Sync + fmt::Debug> fmt::Debug for PerProcess<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PerProcess").field(&self.get()).finish()
    }
}

impl<T> Drop for PerProcess<T> {
    fn drop(&mut self) {
        let mut next = *self.newest.get_mut();
        while !next.is_null() {
            // SAFETY: created by `new` or `set`, dropped once, and no reference to it outlives `self`.
            let made = unsafe { Box::from_raw(next) };
            next = made.older;
            // A value of an ancestor must not release what the ancestor still uses.
            if made.generation != generation() {
                std::mem::forget(made.value);
            }
        }
    }
}

/// A mutex whose content is reset in a forked child, even if a thread of the parent held it.
pub struct ForkLock<T> {
    /// Generation of the holder, zero if unlocked.
    holder: AtomicU64,
    content: UnsafeCell<(u64, Option<T>)>,
}

// SAFETY: the content is only accessed through the guard, and `holder` admits one guard at a time.
unsafe impl<T: Send> Sync for ForkLock<T> {}

impl<T: Default> ForkLock<T> {
    /// An empty lock.
    #[must_use]
    pub const fn new() -> Self {
        Self { holder: AtomicU64::new(0), content: UnsafeCell::new((0, None)) }
    }

    /// Waits for the lock. In a child, a lock held in the parent does not count. Its content does not count either, and
    /// is leaked because it may be half changed.
    pub fn lock(&self) -> ForkGuard<'_, T> {
        let generation = generation();
        while !self.try_take(generation) {
            std::thread::yield_now();
        }
        self.guard(generation)
    }

    /// Takes the lock; `None` if another thread of this process has it.
    pub fn try_lock(&self) -> Option<ForkGuard<'_, T>> {
        let generation = generation();
        self.try_take(generation).then(|| self.guard(generation))
    }

    /// Makes the guard of the process with this generation. In a child made by fork, the content of the parent is
    /// replaced by a new one.
    fn guard(&self, generation: u64) -> ForkGuard<'_, T> {
        // SAFETY: this thread is the holder, so no other thread accesses the content.
        let (stamp, content) = unsafe { &mut *self.content.get() };
        if *stamp != generation {
            // Leaked and not dropped: it may be half changed, and may refer to resources that the parent still uses.
            std::mem::forget(content.take());
            *stamp = generation;
        }
        content.get_or_insert_with(T::default);
        ForkGuard { lock: self, generation, _content: PhantomData }
    }

    /// Takes the lock for the process with this generation. False if a thread of this process has it; a lock of an
    /// ancestor does not count.
    fn try_take(&self, generation: u64) -> bool {
        let held = self.holder.load(Ordering::Relaxed);
        held != generation
            && self
                .holder
                .compare_exchange(held, generation, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
    }
}

impl<T: Default> Default for ForkLock<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Holds a [`ForkLock`]. It follows the rules of `&mut T`: threads may share it only if they may share `T`.
pub struct ForkGuard<'a, T> {
    lock: &'a ForkLock<T>,
    generation: u64,
    _content: PhantomData<&'a mut T>,
}

impl<T> ForkGuard<'_, T> {
    /// The content of the lock: its generation and value.
    fn slot(&self) -> *mut (u64, Option<T>) {
        self.lock.content.get()
    }
}

impl<T> Deref for ForkGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock, and `lock` filled the content.
        unsafe { (*self.slot()).1.as_ref().unwrap_unchecked() }
    }
}

impl<T> DerefMut for ForkGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the guard holds the lock, and `lock` filled the content.
        unsafe { (*self.slot()).1.as_mut().unwrap_unchecked() }
    }
}

impl<T> Drop for ForkGuard<'_, T> {
    fn drop(&mut self) {
        // In a child made by fork, another thread may hold the lock by now.
        let (mine, free) = (self.generation, 0);
        let _ = self.lock.holder.compare_exchange(mine, free, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;

    #[test]
    fn child_neither_uses_nor_drops_the_value_of_its_parent() {
        let of_parent = Arc::new(1);
        let values = PerProcess::new(Arc::clone(&of_parent));
        assert_eq!(values.get().map(|value| **value), Some(1));
        // This is the state in a child: the value has another process's generation.
        // SAFETY: created by `new`, and no other thread accesses it.
        unsafe { (*values.newest.load(Ordering::Relaxed)).generation = 0 };
        assert!(values.get().is_none());
        let own = Arc::new(2);
        let made = values.get_or_make(|| Ok::<_, ()>(Arc::clone(&own)));
        assert!(made.is_ok_and(|made| Arc::ptr_eq(made, &own)));
        let again = values.get_or_make(|| Err(()));
        assert!(again.is_ok_and(|made| Arc::ptr_eq(made, &own)));
        drop(values);
        assert_eq!((Arc::strong_count(&of_parent), Arc::strong_count(&own)), (2, 1));
    }

    /// Tells at compile time whether threads may share values of a type (`SHARED`). The constant of the trait counts
    /// only if the type has none.
    struct Threads<T>(PhantomData<T>);

    trait Neither {
        const SHARED: bool = false;
        const SENT: bool = false;
    }

    impl<T> Neither for Threads<T> {}

    /// Tells at compile time whether values of a type may move between threads (`SENT`).
    struct Sent<T>(PhantomData<T>);

    impl<T> Neither for Sent<T> {}

    impl<T: Sync> Threads<T> {
        const SHARED: bool = true;
    }

    impl<T: Send> Sent<T> {
        const SENT: bool = true;
    }

    /// `Cell` may move to another thread but not be shared; a reference to it may do neither.
    #[test]
    fn a_guard_follows_the_thread_rules_of_its_content() {
        type Lonely = &'static Cell<u32>;
        const {
            assert!(Threads::<ForkGuard<'_, u32>>::SHARED && Sent::<ForkGuard<'_, u32>>::SENT);
            assert!(Threads::<ForkLock<Cell<u32>>>::SHARED && Sent::<ForkLock<Cell<u32>>>::SENT);
            assert!(Sent::<ForkGuard<'_, Cell<u32>>>::SENT);
            assert!(!Threads::<ForkGuard<'_, Cell<u32>>>::SHARED);
            assert!(!Threads::<ForkLock<Lonely>>::SHARED && !Sent::<ForkLock<Lonely>>::SENT);
            assert!(!Threads::<ForkGuard<'_, Lonely>>::SHARED);
            assert!(!Sent::<ForkGuard<'_, Lonely>>::SENT);
        }
    }

    /// Forks during the creation of a value; the child ends at once.
    fn fork_here() {
        // SAFETY: the child makes one system call.
        match unsafe { libc::fork() } {
            // SAFETY: as above.
            0 => unsafe { libc::_exit(0) },
            child => {
                // SAFETY: no memory is written.
                let ended = unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
                assert_eq!(ended, child);
            }
        }
    }

    #[test]
    fn a_value_is_created_again_after_a_fork_during_its_creation() {
        let mut forks = 3;
        let mut made = 0;
        let result = undisturbed(|| {
            made += 1;
            if forks > 0 {
                forks -= 1;
                fork_here();
            }
            Ok::<_, ()>(made)
        });
        assert!(result.unwrap() > 3);
        assert_eq!(undisturbed(|| Err::<(), _>(7)), Err(7));
    }

    #[test]
    fn a_guard_from_before_a_fork_releases_nothing_in_the_child() {
        let lock = ForkLock::<u32>::new();
        let mut inherited = lock.lock();
        inherited.generation -= 1;
        drop(inherited);
        assert_eq!(lock.holder.load(Ordering::Relaxed), generation());
    }
}
