//! Turns at the write lock of an index.
//!
//! LMDB's lock is a robust mutex: it survives the death of its owner, but a thread that sleeps on it may sleep for ever. If a
//! thread is woken, loses the race for the mutex and is killed together with the winner, the kernel wakes nobody else. So
//! nobody sleeps on that mutex. A word in shared memory says whose turn it is; the others spin for a moment and then sleep on
//! the word, for a limited time, and look whether the owner of the turn is alive.
//!
//! The word only decides who waits where. What excludes writers is LMDB's lock, so a turn that is taken from a process by
//! mistake does no harm.
use super::map::SharedAtomics;
use std::hint::spin_loop;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Set in the word if somebody sleeps on it.
const WAITERS: u64 = 1 << 31;
/// How long a thread spins before it sleeps: about as long as the commit of a full write buffer takes, and being woken.
const SPIN_TIME: Duration = Duration::from_micros(100);
/// Attempts between two looks at the clock, some nanoseconds apart.
const SPINS: u32 = 256;
/// How long a thread sleeps before it looks whether the owner is alive.
const SLEEP: Duration = Duration::from_millis(10);

/// The word of an index, and the process that takes turns.
pub(crate) struct TurnWord {
    atomics: Arc<SharedAtomics>,
    at: usize,
    process: u64,
}

impl TurnWord {
    /// The word at a position, for a process whose number is not zero.
    pub(crate) fn new(atomics: Arc<SharedAtomics>, at: usize, process: u64) -> Self {
        Self { atomics, at, process }
    }

    /// Waits for the turn. `is_alive` tells whether the process with a number lives.
    pub(crate) fn take(&self, is_alive: impl Fn(u64) -> bool) {
        let Self { ref atomics, at, process } = *self;
        let word = &atomics[at];
        let swap = |from, to| {
            let swapped = word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
            swapped.is_ok()
        };
        if !swap(0, process) && !spin(|| word.load(Ordering::Relaxed) == 0 && swap(0, process)) {
            loop {
                let found = word.load(Ordering::Relaxed);
                match found & !WAITERS {
                    // Others may still sleep.
                    0 if swap(found, process | WAITERS) => break,
                    0 => continue,
                    _ if found & WAITERS == 0 && !swap(found, found | WAITERS) => continue,
                    _ => {}
                }
                let has_slept = atomics.sleep_on(at, (found | WAITERS) as u32, SLEEP);
                let owner = word.load(Ordering::Relaxed) & !WAITERS;
                let is_dead = || owner != 0 && !is_alive(owner);
                if has_slept && is_dead() && swap(owner | WAITERS, process | WAITERS) {
                    break;
                }
            }
        }
    }

    /// Ends the turn of this process.
    pub(crate) fn end(&self) {
        end(&self.atomics, self.at);
    }

    /// Ends the turn that a dead process with this number had.
    pub(crate) fn end_dead_turn(atomics: &SharedAtomics, at: usize, process: u64) {
        if atomics[at].load(Ordering::Relaxed) & !WAITERS == process {
            end(atomics, at);
        }
    }
}

/// Calls `attempt` until it succeeds, or for [`SPIN_TIME`].
fn spin(mut attempt: impl FnMut() -> bool) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < SPIN_TIME {
        for _ in 0..SPINS {
            if attempt() {
                return true;
            }
            spin_loop();
        }
    }
    false
}

fn end(atomics: &SharedAtomics, at: usize) {
    if atomics[at].swap(0, Ordering::Release) & WAITERS != 0 {
        atomics.wake_one(at);
    }
}
