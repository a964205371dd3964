//! Queue for the write lock of an index: writers take turns.
//!
//! LMDB's lock is a robust mutex, which survives the death of its owner. But a thread that sleeps on it may sleep for
//! ever: if a thread is woken, loses the race for the mutex, and is killed together with the winner, the kernel wakes
//! no other thread. So no thread sleeps on that mutex. A word in shared memory records whose turn it is. The other
//! writers spin for a short time. Then they sleep on the word for a limited time, and check whether the owner of the
//! turn is alive.
//!
//! The word only decides which writer waits. If a turn is taken from a live process by mistake, LMDB's lock still excludes
//! other writers, and the thread sleeps on that lock.
use super::map::SharedAtomics;
use crate::sync::{expect_may_wait, spin};
use esker_types::Result;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Flag in the word: a thread sleeps on it.
const WAITERS: u64 = 1 << 31;
/// Time for which a thread sleeps before it checks whether the owner is alive.
const SLEEP: Duration = Duration::from_millis(10);
/// Complete sleeps, one after the other and with the same live owner, after which a thread takes the turn: 15 s. No
/// commit takes that long, unless the medium stalls. So the word is damaged, and nobody would end the turn.
const SLEEPS_MAX: u32 = if cfg!(test) { 20 } else { 1500 };

/// The turn word of an index, and the number of the process that uses it.
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

    /// Waits for the turn. `is_alive` tells whether the process with a number is alive.
    ///
    /// # Errors
    /// `Busy` on a thread that must not block, if the turn does not end soon.
    pub(crate) fn take(&self, is_alive: impl Fn(u64) -> bool) -> Result<()> {
        let Self { ref atomics, at, process } = *self;
        let word = &atomics[at];
        let swap = |from, to| {
            let swapped = word.compare_exchange(from, to, Ordering::Acquire, Ordering::Relaxed);
            swapped.is_ok()
        };
        let attempt = || (word.load(Ordering::Relaxed) == 0 && swap(0, process)).then_some(());
        if !swap(0, process) && spin(attempt).is_none() {
            expect_may_wait()?;
            let (mut last_owner, mut sleeps) = (0, 0);
            loop {
                let found = word.load(Ordering::Relaxed);
                match found & !WAITERS {
                    // Other threads may still sleep.
                    0 if swap(found, process | WAITERS) => break,
                    0 => continue,
                    // The owner wakes a thread only if the flag is set.
                    _ if found & WAITERS == 0 && !swap(found, found | WAITERS) => continue,
                    _ => {}
                }
                let has_slept = atomics.sleep_on(at, (found | WAITERS) as u32, SLEEP);
                let owner = word.load(Ordering::Relaxed) & !WAITERS;
                sleeps = if has_slept && owner == last_owner { sleeps + 1 } else { 0 };
                last_owner = owner;
                // The owner is checked only after a complete sleep, since the check takes a system call.
                let is_over = || owner != 0 && (sleeps >= SLEEPS_MAX || !is_alive(owner));
                if has_slept && is_over() && swap(owner | WAITERS, process | WAITERS) {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Ends the turn of this process.
    pub(crate) fn end(&self) {
        Self::end_turn_of(&self.atomics, self.at, self.process);
    }

    /// Ends the turn of a process, unless it was taken from that, and wakes one of the writers that sleep on the word.
    pub(crate) fn end_turn_of(atomics: &SharedAtomics, at: usize, process: u64) {
        let ended = |word: u64| (word & !WAITERS == process).then_some(0);
        let word = atomics[at].fetch_update(Ordering::Release, Ordering::Relaxed, ended);
        if word.is_ok_and(|word| word & WAITERS != 0) {
            atomics.wake_one(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A damaged word names a live process, which does not know of its turn.
    #[test]
    fn turn_that_nobody_ends_is_taken() {
        let name = format!("esker-turn-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, [0; 8]).unwrap();
        let file = std::fs::File::options().read(true).write(true).open(&path).unwrap();
        let atomics = Arc::new(SharedAtomics::new(&file, 1).unwrap());
        let word = TurnWord::new(Arc::clone(&atomics), 0, 7);
        for owner in [3, 3 | WAITERS, 7] {
            atomics[0].store(owner, Ordering::Relaxed);
            word.take(|_| true).unwrap();
            assert_eq!(atomics[0].load(Ordering::Relaxed), 7 | WAITERS);
            word.end();
            assert_eq!(atomics[0].load(Ordering::Relaxed), 0);
        }
        // The owner from which the turn was taken does not end the turn of another.
        atomics[0].store(3, Ordering::Relaxed);
        word.end();
        assert_eq!(atomics[0].load(Ordering::Relaxed), 3);
        std::fs::remove_file(&path).unwrap();
    }
}
