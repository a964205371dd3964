//! What those who hold an object and those who remove it rely on, under every order they may run in.
use super::*;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicUsize};
use loom::thread;

/// Words of the bucket of a model, with room for two holds.
const WORDS: usize = 3;
const TAG_OF_OBJECT: u64 = 5;

/// An object, and the bucket its holds are in.
#[derive(Clone)]
struct Model {
    words: Arc<Vec<AtomicU64>>,
    unplaced_anywhere: Arc<AtomicU64>,
    has_name: Arc<AtomicBool>,
    content: Arc<UnsafeCell<()>>,
    /// How often somebody was told to remove it.
    removed: Arc<AtomicUsize>,
}

impl Model {
    fn new(holds: &[u64]) -> Self {
        let word = |place: usize| AtomicU64::new(holds.get(place).copied().unwrap_or(0));
        Self {
            words: Arc::new((0..WORDS).map(word).collect()),
            unplaced_anywhere: Arc::new(AtomicU64::new(0)),
            has_name: Arc::new(AtomicBool::new(true)),
            content: Arc::new(UnsafeCell::new(())),
            removed: Arc::new(AtomicUsize::new(0)),
        }
    }

    /// The bucket as a process sees it; those from 100 on are dead.
    fn of(&self, process: u32) -> Bucket<'_, impl Fn(ProcessSlot) -> bool> {
        Bucket {
            words: &self.words,
            unplaced_anywhere: &self.unplaced_anywhere,
            tag: TAG_OF_OBJECT,
            slot: ProcessSlot(process),
            is_alive: |slot: ProcessSlot| slot.0 < 100,
        }
    }

    /// Opens the object by its name, reads it and closes it again.
    fn open_and_close(&self, process: u32) {
        let bucket = self.of(process);
        let place = bucket.insert();
        if self.has_name.load(Ordering::Relaxed) {
            self.content.with(|_| ());
        }
        if bucket.release(place) {
            self.remove();
        }
    }

    /// Removes the name of the object, and with it the object where nobody holds it.
    fn unlink(&self, process: u32) {
        self.has_name.store(false, Ordering::Relaxed);
        if !self.of(process).mark() {
            self.remove();
        }
    }

    /// Loom ends the model where somebody still reads.
    fn remove(&self) {
        if self.removed.fetch_add(1, Ordering::AcqRel) == 0 {
            self.content.with_mut(|_| ());
        }
    }

    fn removed(&self) -> usize {
        self.removed.load(Ordering::Acquire)
    }

    fn beside<T: 'static>(&self, work: impl FnOnce(&Self) -> T + 'static) -> thread::JoinHandle<T> {
        let model = self.clone();
        thread::spawn(move || work(&model))
    }
}

fn hold_of(process: u64, tag: u64) -> u64 {
    process << SLOT_SHIFT | tag
}

/// An object is removed, and not while somebody has it open who found its name.
#[test]
fn what_is_open_stays_and_what_is_closed_goes() {
    loom::model(|| {
        let model = Model::new(&[]);
        let reads = [1, 2].map(|process| model.beside(move |model| model.open_and_close(process)));
        model.unlink(3);
        reads.into_iter().for_each(|reads| reads.join().unwrap());
        assert!(model.removed() > 0);
    });
}

/// Where a bucket has no room, an object stays until somebody asks again.
#[test]
fn what_is_open_stays_where_there_is_no_room() {
    loom::model(|| {
        let model = Model::new(&[hold_of(8, 1), hold_of(9, 2)]);
        let reads = model.beside(|model| model.open_and_close(1));
        model.unlink(3);
        reads.join().unwrap();
        if model.removed() == 0 {
            model.unlink(3);
        }
        assert_eq!(model.removed(), 1);
    });
}

/// The place of a dead process goes to one of those who want it, whatever becomes of its hold.
#[test]
fn the_place_of_the_dead_goes_to_one() {
    loom::model(|| {
        let model = Model::new(&[hold_of(100, TAG_OF_OBJECT), hold_of(9, 2)]);
        let other = model.beside(|model| model.of(1).insert());
        let mine = model.of(2).insert();
        let theirs = other.join().unwrap();
        assert!(mine.is_some() != theirs.is_some());
        assert!(model.of(3).mark(), "it is held");
        let released = [model.of(1).release(theirs), model.of(2).release(mine)];
        assert!(!model.of(3).mark() && released != [true; 2]);
    });
}
