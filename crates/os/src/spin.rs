//! Spin-waiting: a waiting thread polls the connections on which its replies arrive before it sleeps.
//!
//! Waking a thread often takes longer than an engine needs for its reply. So a thread first polls for a short while,
//! and yields between two polls. Then it sleeps at a descriptor that the network wakes, without another thread's help.
use std::cell::{Cell, RefCell};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Time for which a thread polls before it sleeps.
pub const SPIN_TIME: Duration = Duration::from_micros(50);

/// Consecutive misses after which a thread polls less often.
const MISSES_MAX: u32 = 8;

/// Rate of polling after that: once in this many times, to notice that replies have become faster.
const SELDOM: u32 = 32;

/// Longest yield on a core that is not crowded. Threads with work of their own run for a time slice, which is longer.
const YIELD_TIME_MAX: Duration = Duration::from_micros(500);

/// Most doublings of the waits without polling on a crowded core: up to 2048 in a row.
const DOUBLINGS_MAX: u32 = 6;

/// Yields to other threads. True if the core is crowded: they have run for long, and would do so at each yield. Then
/// sleeping is faster, because a woken thread runs at once.
#[must_use]
pub fn yield_core() -> bool {
    let began = Instant::now();
    std::thread::yield_now();
    began.elapsed() >= YIELD_TIME_MAX
}

/// Outcome of spin-waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spun {
    /// The thread was woken before it slept.
    pub in_time: bool,
    /// A yield took long ([`yield_core`]).
    pub crowded: bool,
}

/// Success rate of spin-waiting.
#[derive(Debug, Default)]
pub struct Hits {
    /// Misses, and waits without polling, since the last success.
    misses: AtomicU32,
    /// Waits without polling that are left, because the core was crowded.
    pauses: AtomicU32,
    /// Outcomes on a crowded core in a row.
    crowded: AtomicU32,
}

impl Hits {
    /// True if spin-waiting is likely to succeed now. Each call counts as one wait.
    pub fn are_likely(&self) -> bool {
        let pauses = self.pauses.load(Ordering::Relaxed);
        if pauses > 0 {
            self.pauses.store(pauses - 1, Ordering::Relaxed);
            return false;
        }
        let misses = self.misses.load(Ordering::Relaxed);
        let likely = misses < MISSES_MAX || misses.is_multiple_of(SELDOM);
        // The wait without polling counts, so that one of [`SELDOM`] waits polls again.
        if !likely {
            self.misses.fetch_add(1, Ordering::Relaxed);
        }
        likely
    }

    /// Records the outcome of spin-waiting.
    pub fn note(&self, spun: Spun) {
        // Another thread needs the core. Each such outcome in a row doubles the number of waits without polling.
        if spun.crowded {
            let doublings = self.crowded.fetch_add(1, Ordering::Relaxed).min(DOUBLINGS_MAX);
            return self.pauses.store(SELDOM << doublings, Ordering::Relaxed);
        }
        self.crowded.store(0, Ordering::Relaxed);
        match spun.in_time {
            true => self.misses.store(0, Ordering::Relaxed),
            false => {
                self.misses.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// A connection that waiting threads poll.
pub trait Polled: Send + Sync {
    /// A thread begins to poll, and continues until it calls [`Polled::end`].
    fn begin(&self);

    /// True if data is likely to arrive before a thread could sleep and be woken.
    fn is_soon(&self) -> bool;

    /// Receives arrived data. It must not wait.
    fn poll(&self);

    /// Records the outcome of spin-waiting, on which later answers of [`Polled::is_soon`] depend.
    fn note(&self, spun: Spun);

    /// Sleeps until data may have arrived, or until `wake_up` is readable. False if another thread does that already.
    fn sleep(&self, wake_up: BorrowedFd<'_>) -> bool;

    /// The thread stops polling.
    fn end(&self);
}

/// Connections that the thread polls.
struct PolledConnections(RefCell<Vec<Arc<dyn Polled>>>);

impl Drop for PolledConnections {
    /// Ends the polling of a thread that ends, perhaps in a panic.
    fn drop(&mut self) {
        self.0.take().iter().for_each(|connection| connection.end());
    }
}

thread_local! {
    static POLLED: PolledConnections = const { PolledConnections(RefCell::new(Vec::new())) };
    static IS_SPINNING: Cell<bool> = const { Cell::new(false) };
}

/// Adds a connection that the thread polls before it sleeps. False if the thread is ending.
pub(crate) fn add(connection: &Arc<impl Polled + 'static>) -> bool {
    let added = POLLED.try_with(|polled| {
        let mut all = polled.0.borrow_mut();
        let same =
            |known: &Arc<dyn Polled>| Arc::as_ptr(known).addr() == Arc::as_ptr(connection).addr();
        if !all.iter().any(same) {
            connection.begin();
            all.push(Arc::clone(connection) as Arc<dyn Polled>);
        }
    });
    IS_SPINNING.set(IS_SPINNING.get() || added.is_ok());
    added.is_ok()
}

/// A thread that waits for a wake-up.
pub(crate) trait Sleeper {
    /// True if the thread was woken since the last call.
    fn take(&self) -> bool;

    /// Runs `sleep` with a descriptor that is readable as soon as the thread is woken. `None` if there is no
    /// descriptor.
    fn sleep_with(&self, sleep: impl FnOnce(BorrowedFd<'_>) -> bool) -> Option<bool>;
}

/// Waits until the thread is woken. First it spins, if a connection that it polls is likely to get a reply in time.
/// Then it sleeps at its connection, if it polls only one.
///
/// False if the thread was not woken yet and polls no connection now. Other threads then receive its replies, and
/// the caller may let it sleep in any way.
pub(crate) fn wait(sleeper: &impl Sleeper) -> bool {
    if !IS_SPINNING.get() {
        return false;
    }
    let connections = POLLED.try_with(|polled| polled.0.borrow().clone()).unwrap_or_default();
    if connections.iter().any(|connection| connection.is_soon()) {
        let spun = spin(&connections, sleeper);
        // The outcome decides whether `is_soon` is true next time.
        connections.iter().for_each(|connection| connection.note(spun));
        if spun.in_time {
            return true;
        }
    }
    // A thread can sleep at one connection only.
    let woken = matches!(&connections[..], [connection] if sleep_at(&**connection, sleeper));
    if !woken {
        // The thread stops polling.
        end();
    }
    woken
}

/// Polls all connections until the thread is woken, or for at most [`SPIN_TIME`].
fn spin(all: &[Arc<dyn Polled>], sleeper: &impl Sleeper) -> Spun {
    let (began, mut crowded) = (Instant::now(), false);
    while !sleeper.take() {
        if began.elapsed() >= SPIN_TIME {
            return Spun { in_time: false, crowded };
        }
        crowded |= yield_core();
        all.iter().for_each(|connection| connection.poll());
    }
    Spun { in_time: true, crowded }
}

/// Sleeps until `sleeper` is woken, and polls `connection` whenever that has something to read. Returns false if the
/// connection cannot wake this thread: it is over, another thread sleeps at it, or `sleeper` has no descriptor.
fn sleep_at(connection: &dyn Polled, sleeper: &impl Sleeper) -> bool {
    while !sleeper.take() {
        if sleeper.sleep_with(|wake_up| connection.sleep(wake_up)) != Some(true) {
            return false;
        }
        connection.poll();
    }
    true
}

/// Ends the polling of this thread: it no longer polls any connection.
pub(crate) fn end() {
    if IS_SPINNING.replace(false) {
        let all = POLLED.try_with(|polled| polled.0.take()).unwrap_or_default();
        all.iter().for_each(|connection| connection.end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HIT: Spun = Spun { in_time: true, crowded: false };
    const MISS: Spun = Spun { in_time: false, crowded: false };

    /// Number of waits that poll, among `waits` waits. Each poll has the outcome `spun`.
    fn polls(hits: &Hits, waits: u32, spun: Spun) -> u32 {
        (0..waits).filter(|_| hits.are_likely()).inspect(|_| hits.note(spun)).count() as u32
    }

    #[test]
    fn spin_waiting_is_rare_after_misses_until_a_success() {
        let hits = Hits::default();
        assert_eq!(polls(&hits, MISSES_MAX, MISS), MISSES_MAX);
        assert_eq!(polls(&hits, SELDOM * 10, MISS), 10);
        hits.note(HIT);
        assert_eq!(polls(&hits, MISSES_MAX, MISS), MISSES_MAX);
    }

    /// On a crowded core, the reply arrives during the yield, but so late that sleeping would have been faster.
    #[test]
    fn spin_waiting_is_rare_on_a_crowded_core() {
        let hits = Hits::default();
        assert_eq!(polls(&hits, 10_000, Spun { in_time: true, crowded: true }), 10);
        let pauses = SELDOM << DOUBLINGS_MAX;
        assert!(polls(&hits, pauses + 100, HIT) >= 100, "it polls again once the core is free");
        assert_eq!(polls(&hits, 100, HIT), 100);
    }
}
