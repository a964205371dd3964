//! The word that epochs come from, on whatever target and in whatever process.
use crate::sync::AtomicU64;
use esker_types::Epoch;
use std::sync::atomic::Ordering;

/// Gives out each epoch once, in rising order.
pub(super) struct Epochs<'c>(pub(super) &'c AtomicU64);

impl Epochs<'_> {
    /// An epoch later than all before, and no earlier than the clock says.
    pub(super) fn next(&self, now: Epoch) -> Epoch {
        let last = self.0.load(Ordering::Relaxed);
        let wanted = now.0.max(last.saturating_add(1));
        match self.0.compare_exchange(last, wanted, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Epoch(wanted),
            Err(_) => self.next_contended(now),
        }
    }

    fn next_contended(&self, now: Epoch) -> Epoch {
        self.pass(now);
        Epoch(self.0.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Makes sure that later epochs are later than `epoch`.
    pub(super) fn pass(&self, epoch: Epoch) {
        self.0.fetch_max(epoch.0, Ordering::AcqRel);
    }
}

/// Under every order in which threads may run.
#[cfg(all(loom, test))]
mod models {
    use super::*;
    use loom::sync::Arc;
    use loom::thread;

    /// No epoch is given out twice, and each is later than what was passed or given out before.
    #[test]
    fn an_epoch_is_given_out_once_and_later_than_those_before() {
        loom::model(|| {
            let word = Arc::new(AtomicU64::new(0));
            let (now, passed) = (Epoch(100), Epoch(500));
            let others = [false, true].map(|passes| {
                let word = Arc::clone(&word);
                thread::spawn(move || {
                    let epochs = Epochs(&word);
                    if passes {
                        epochs.pass(passed);
                    }
                    epochs.next(now)
                })
            });
            let [first, second] = [Epochs(&word).next(now), Epochs(&word).next(now)];
            let [third, fourth] = others.map(|other| other.join().unwrap());
            assert!(first < second && passed < fourth);
            let all = std::collections::BTreeSet::from([first, second, third, fourth]);
            assert_eq!(all.len(), 4);
        });
    }
}
