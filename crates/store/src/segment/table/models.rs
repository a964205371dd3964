//! What processes that share a segment table rely on, under every order they may run in.
use super::*;
use crate::segment::claim::Lanes;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

const BYTES: u64 = 1000;

/// A segment table, and the data of its segments.
#[derive(Clone)]
struct Model {
    words: Arc<Vec<AtomicU64>>,
    data: Arc<Vec<UnsafeCell<()>>>,
}

impl Model {
    fn new(states: &[State]) -> Self {
        let words = (0..states.len() * SEGMENT_WORDS).map(|_| AtomicU64::new(0)).collect();
        let data = states.iter().map(|_| UnsafeCell::new(())).collect();
        let model = Self { words: Arc::new(words), data: Arc::new(data) };
        for (number, state) in (0..).zip(states) {
            model.of(0).segment(number).store(*state);
        }
        model
    }

    fn of(&self, process: u32) -> Segments<'_> {
        Segments { words: &self.words, process: ProcessSlot(process), bytes: BYTES }
    }

    /// Appends to a segment; loom ends the model where somebody else does so meanwhile.
    fn append(&self, number: u32) {
        self.data[number as usize].with_mut(|_| ());
        let tail = self.of(0).segment(number).tail;
        tail.store(tail.load(Ordering::Relaxed) + 10, Ordering::Release);
    }

    fn beside<T: 'static>(&self, work: impl FnOnce(&Self) -> T + 'static) -> thread::JoinHandle<T> {
        let model = self.clone();
        thread::spawn(move || work(&model))
    }
}

/// One process at a time writes to a segment, whoever it belonged to before, and sees what others wrote to it.
#[test]
fn a_segment_is_written_to_by_one_process() {
    loom::model(|| {
        let model = Model::new(&[State::Free]);
        let steals = model.beside(|model| {
            let table = model.of(2);
            let taken = table.steal(10).into_iter().chain(table.abandoned(10));
            taken.for_each(|number| {
                model.append(number);
                table.leave(number);
            });
        });
        let (lanes, table) = (Lanes::new(1), model.of(1));
        let mut lane = lanes.enter();
        lane.keep(table.take_free(0).unwrap());
        for _ in 0..2 {
            lane.take(&table).into_iter().for_each(|number| model.append(number));
            lane.release(&table);
        }
        steals.join().unwrap();
    });
}

/// One free segment stays for compaction, even where a process has seen as free what was taken and freed while it
/// looked.
#[test]
fn the_reserve_is_taken_by_nobody() {
    loom::model(|| {
        let model = Model::new(&[State::Free, State::Busy(ProcessSlot(1)), State::Free]);
        [0, 2]
            .into_iter()
            .for_each(|number| model.of(1).segment(number).make_free(5 - u64::from(number)));
        let other = model.beside(|model| model.of(2).take_free(RESERVE));
        let table = model.of(1);
        let first = table.take_free(RESERVE);
        table.segment(1).make_free(6);
        let second = table.take_free(RESERVE);
        let third = other.join().unwrap();
        assert!(table.has_reserve(), "{first:?} {second:?} {third:?}");
    });
}

/// Compaction finds a place while others look for what they may take.
#[test]
fn compaction_finds_a_place() {
    loom::model(|| {
        let model = Model::new(&[State::Open(None), State::Free]);
        let other = model.beside(|model| {
            let taken = model.of(2).search(10);
            taken.into_iter().for_each(|number| model.append(number));
            taken
        });
        let mine = model.of(1).take_for_compaction(10);
        mine.into_iter().for_each(|number| model.append(number));
        let theirs = other.join().unwrap();
        assert!(mine.is_some() && mine != theirs);
    });
}
