//! What a waiting thread looks at itself before it sleeps: connections, on which what it waits for arrives.
//!
//! Waking a thread takes longer than many an engine takes to reply. So a thread first looks for a short while, and lets others
//! run between two looks. Then it sleeps where it is woken without another thread's help.
use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// How long a thread looks before it sleeps.
pub const LOOK_FOR: Duration = Duration::from_micros(50);

/// Times without success, one after the other, before a thread looks less often.
const MISSES_MAX: u32 = 8;

/// Then, it looks once in so many times, in case what it waits for comes faster again.
const SELDOM: u32 = 32;

/// Whether looking has been worth it.
#[derive(Debug, Default)]
pub struct Hits {
    /// Times without success, and without looking, since the last success.
    misses: AtomicU32,
}

impl Hits {
    /// True if it is worth looking now.
    pub fn are_likely(&self) -> bool {
        let misses = self.misses.load(Ordering::Relaxed);
        let likely = misses < MISSES_MAX || misses.is_multiple_of(SELDOM);
        if !likely {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
        likely
    }

    /// Notes whether looking was worth it.
    pub fn note(&self, was_worth_it: bool) {
        match was_worth_it {
            true => self.misses.store(0, Ordering::Relaxed),
            false => {
                self.misses.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Something at which threads look.
pub trait Watched: Send + Sync {
    /// A thread begins to look, and goes on until [`Watched::end`].
    fn begin(&self);

    /// True if something is likely to arrive before a thread could sleep and be woken.
    fn is_soon(&self) -> bool;

    /// Takes what has arrived. It must not wait.
    fn look(&self);

    /// Notes whether what a thread waited for came before it slept.
    fn note(&self, in_time: bool);

    /// Sleeps until something may have arrived, or until the bell can be read. False if another thread does that already.
    fn sleep(&self, bell: BorrowedFd<'_>) -> bool;

    /// The thread does not look any more.
    fn end(&self);
}

/// What the thread looks at.
struct Watching(RefCell<Vec<Arc<dyn Watched>>>);

impl Drop for Watching {
    /// The thread ends, perhaps in a panic.
    fn drop(&mut self) {
        self.0.take().iter().for_each(|watched| watched.end());
    }
}

thread_local! {
    static WATCHING: Watching = const { Watching(RefCell::new(Vec::new())) };
    static IS_WATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Adds what the thread is to look at before it sleeps. False if the thread is ending.
pub(crate) fn add(watched: &Arc<impl Watched + 'static>) -> bool {
    let added = WATCHING.try_with(|watching| {
        let mut all = watching.0.borrow_mut();
        let same =
            |known: &Arc<dyn Watched>| Arc::as_ptr(known).addr() == Arc::as_ptr(watched).addr();
        if !all.iter().any(same) {
            watched.begin();
            all.push(Arc::clone(watched) as Arc<dyn Watched>);
        }
    });
    IS_WATCHING.set(IS_WATCHING.get() || added.is_ok());
    added.is_ok()
}

/// A thread that waits until somebody wakes it.
pub(crate) trait Sleeper {
    /// True once after each time it was woken.
    fn take(&self) -> bool;

    /// Does `sleep` with a descriptor that can be read as soon as the thread is woken. `None` if there is none.
    fn with_bell(&self, sleep: impl FnOnce(BorrowedFd<'_>) -> bool) -> Option<bool>;
}

/// Looks, and sleeps between two looks, until the thread is woken. False if others must look for it: then it may sleep
/// elsewhere.
pub(crate) fn wait(sleeper: &impl Sleeper) -> bool {
    if !IS_WATCHING.get() {
        return false;
    }
    let all = WATCHING.try_with(|watching| watching.0.borrow().clone()).unwrap_or_default();
    if all.iter().any(|watched| watched.is_soon()) {
        let in_time = look_for_a_while(&all, sleeper);
        all.iter().for_each(|watched| watched.note(in_time));
        if in_time {
            return true;
        }
    }
    let woken = matches!(&all[..], [watched] if sleep_at(&**watched, sleeper));
    if !woken {
        end();
    }
    woken
}

fn look_for_a_while(all: &[Arc<dyn Watched>], sleeper: &impl Sleeper) -> bool {
    let began = Instant::now();
    while !sleeper.take() {
        if began.elapsed() >= LOOK_FOR {
            return false;
        }
        std::thread::yield_now();
        all.iter().for_each(|watched| watched.look());
    }
    true
}

fn sleep_at(watched: &dyn Watched, sleeper: &impl Sleeper) -> bool {
    while !sleeper.take() {
        if sleeper.with_bell(|bell| watched.sleep(bell)) != Some(true) {
            return false;
        }
        watched.look();
    }
    true
}

/// Ends looking.
pub(crate) fn end() {
    if IS_WATCHING.replace(false) {
        let all = WATCHING.try_with(|watching| watching.0.take()).unwrap_or_default();
        all.iter().for_each(|watched| watched.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_looks_in_vain_looks_seldom_until_that_was_worth_it() {
        let hits = Hits::default();
        let looks = |times: u32| {
            (0..times).filter(|_| hits.are_likely()).inspect(|_| hits.note(false)).count()
        };
        assert_eq!(looks(MISSES_MAX), MISSES_MAX as usize);
        assert_eq!(looks(SELDOM * 10), 10);
        hits.note(true);
        assert_eq!(looks(MISSES_MAX), MISSES_MAX as usize);
    }
}
