//! Values that each process creates for itself. After a fork, the child creates its own, whatever state the parent's
//! value was in. Nothing takes a lock.
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A value that exists at most once in each process.
pub(crate) struct PerProcess<T>(AtomicPtr<(u32, Arc<T>)>);

impl<T: Default> PerProcess<T> {
    pub(crate) const fn new() -> Self {
        Self(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// The value of this process, created on first use.
    pub(crate) fn get(&self) -> Arc<T> {
        let known = self.0.load(Ordering::Acquire);
        Self::read(known).unwrap_or_else(|| self.make(known))
    }

    /// Removes the value of this process, if it was created. The next use creates another one.
    pub(crate) fn take(&self) -> Option<Arc<T>> {
        Self::read(self.0.swap(std::ptr::null_mut(), Ordering::AcqRel))
    }

    /// Returns the value if this process made it. None if it is null or was made by the parent before a fork.
    fn read(known: *mut (u32, Arc<T>)) -> Option<Arc<T>> {
        // SAFETY: it is null or was made by `make`, and is never freed.
        let (process, value) = unsafe { known.as_ref() }?;
        (*process == std::process::id()).then(|| Arc::clone(value))
    }

    /// Makes the value of this process. Values are never freed: another thread may be about to clone one, and an
    /// inherited one belongs to the parent.
    #[cold]
    fn make(&self, known: *mut (u32, Arc<T>)) -> Arc<T> {
        let value = Arc::<T>::default();
        let made = Box::into_raw(Box::new((std::process::id(), Arc::clone(&value))));
        match self.0.compare_exchange(known, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => value,
            Err(now) => {
                // SAFETY: another thread stored its value first, so this one was never shared.
                drop(unsafe { Box::from_raw(made) });
                Self::read(now).unwrap_or(value)
            }
        }
    }
}
