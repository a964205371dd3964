//! Processors on which a thread may run.
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::cell::Cell;
use std::thread::available_parallelism;

thread_local! {
    /// Processors of this thread before [`stay_on_processor`].
    static BEFORE: Cell<Option<CpuSet>> = const { Cell::new(None) };
}

/// Pins this thread to a processor, unless that is offline or kept from this process. Helpers of this thread may still
/// use all processors that it had before ([`Processors`]).
pub fn stay_on_processor(number: usize) {
    if number >= CpuSet::MAX_CPU {
        return;
    }
    let before = sched_getaffinity(None).ok();
    let mut one = CpuSet::new();
    one.set(number);
    if sched_setaffinity(None, &one).is_ok() {
        BEFORE.set(BEFORE.get().or(before));
    }
}

/// Processors for the helpers of a thread. If the program has pinned the thread, its helpers stay on the same
/// processors.
#[derive(Clone, Copy, Debug)]
pub struct Processors(Option<CpuSet>);

impl Processors {
    /// Processors for helpers that this thread starts: all that it had before [`stay_on_processor`] pinned it. Without
    /// such a call, helpers stay on the processors of this thread, as the system does by default.
    #[must_use]
    pub fn for_helpers() -> Self {
        Self(BEFORE.get())
    }

    /// Number of the processors, at least one.
    #[must_use]
    pub fn count(self) -> usize {
        match self.0 {
            Some(all) => (all.count() as usize).max(1),
            None => available_parallelism().map_or(1, usize::from),
        }
    }

    /// Lets the calling thread, a helper, run on these processors.
    pub fn use_here(self) {
        // If this fails, the helper stays on the processor of the thread that has started it.
        let _ = self.0.map(|all| sched_setaffinity(None, &all));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn helpers_of_a_pinned_thread_use_all_processors() {
        let all = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|number| all.is_set(*number)).unwrap();
        let pinned = std::thread::spawn(move || {
            stay_on_processor(first);
            stay_on_processor(first);
            assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
            let processors = Processors::for_helpers();
            let helper = std::thread::spawn(move || {
                processors.use_here();
                sched_getaffinity(None).unwrap()
            });
            (processors.count(), helper.join().unwrap())
        });
        assert_eq!(pinned.join().unwrap(), (all.count() as usize, all));
    }

    /// The thread was pinned by the program, not by [`stay_on_processor`].
    #[test]
    fn helpers_stay_on_the_processor_that_the_program_chose() {
        let mut one = CpuSet::new();
        let all = sched_getaffinity(None).unwrap();
        one.set((0..CpuSet::MAX_CPU).find(|number| all.is_set(*number)).unwrap());
        let pinned = std::thread::spawn(move || {
            sched_setaffinity(None, &one).unwrap();
            Processors::for_helpers().count()
        });
        assert_eq!(pinned.join().unwrap(), 1);
    }
}
