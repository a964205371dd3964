//! What threads share memory by: the standard library's, or loom's where a model runs the table in every order
//! in which its threads may get at it.
#[cfg(all(loom, test))]
pub(super) use loom::{
    cell::UnsafeCell,
    sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence},
};
#[cfg(not(all(loom, test)))]
pub(super) use {
    std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, fence},
    unwatched::UnsafeCell,
};

#[cfg(not(all(loom, test)))]
mod unwatched {
    /// A cell used as loom's is, which watches when each use begins and ends.
    pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

    impl<T> UnsafeCell<T> {
        pub(crate) const fn new(it: T) -> Self {
            Self(std::cell::UnsafeCell::new(it))
        }

        pub(crate) fn with<R>(&self, read: impl FnOnce(*const T) -> R) -> R {
            read(self.0.get())
        }

        pub(crate) fn with_mut<R>(&self, write: impl FnOnce(*mut T) -> R) -> R {
            write(self.0.get())
        }
    }
}
