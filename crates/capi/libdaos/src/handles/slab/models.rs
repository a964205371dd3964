//! What the table promises, under every order its threads may run in (`scripts/soak.sh loom`).
//!
//! Of two threads loom tries the one first that began the other. Let that be the one that changes what it has
//! loaded: where a thread that only loads comes first, loom leaves out the order the other way round.
use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

/// An entry that shows loom when it is looked at and when it ends.
struct Watched {
    number: UnsafeCell<u32>,
    dropped: Arc<AtomicUsize>,
}

impl Watched {
    fn number(&self) -> u32 {
        // SAFETY: loom ends the model where somebody else drops it meanwhile.
        self.number.with(|number| unsafe { *number })
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // SAFETY: as where it is looked at.
        self.number.with_mut(|number| unsafe { *number = u32::MAX });
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// A table, and a count of what was dropped.
#[derive(Clone)]
struct Model {
    table: Arc<Table<Watched>>,
    dropped: Arc<AtomicUsize>,
}

impl<E> Table<E> {
    pub(in super::super) fn new() -> Self {
        let chunks = std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut()));
        Self { chunks, made: AtomicU32::new(0), free: AtomicU64::new(0) }
    }
}

impl Model {
    fn new() -> Self {
        Self { table: Arc::new(Table::new()), dropped: Arc::new(AtomicUsize::new(0)) }
    }

    fn open(&self, number: u32) -> u64 {
        let (number, dropped) = (UnsafeCell::new(number), Arc::clone(&self.dropped));
        self.table.insert(Watched { number, dropped }).unwrap()
    }

    fn look(&self, cookie: u64) -> Result<u32> {
        self.table.hold(cookie).map(|held| held.number())
    }

    fn close(&self, cookie: u64) -> Result<()> {
        self.table.hold(cookie)?.close()
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Acquire)
    }

    fn beside<T: 'static>(&self, work: impl FnOnce(&Self) -> T + 'static) -> thread::JoinHandle<T> {
        let model = self.clone();
        thread::spawn(move || work(&model))
    }
}

/// An entry is dropped once, after the close and by the last who looks at it; then its place is free.
#[test]
fn an_entry_ends_once_and_under_nobody() {
    loom::model(|| {
        let model = Model::new();
        let cookie = model.open(7);
        let looks = model.beside(move |model| model.look(cookie));
        let closes = model.beside(move |model| model.close(cookie));
        let closed = model.close(cookie);
        assert!(closes.join().unwrap().is_ok() != closed.is_ok(), "one of them closed it");
        assert!(
            looks.join().unwrap().is_ok_and(|number| number == 7) || model.look(cookie).is_err()
        );
        assert_eq!(model.dropped(), 1);
        assert_ne!(model.open(8), cookie);
        assert_eq!(model.table.slots().count(), 1, "the place was free again");
    });
}

/// An old cookie never leads to what has come into its place.
#[test]
fn an_old_cookie_shows_nothing_new() {
    loom::model(|| {
        let model = Model::new();
        let old = model.open(1);
        let looks = model.beside(move |model| model.look(old));
        model.close(old).unwrap();
        let new = model.open(2);
        assert_eq!(model.look(new), Ok(2));
        assert!(matches!(looks.join().unwrap(), Ok(1) | Err(_)));
    });
}

/// Places that are made, alone or in a new chunk, go to one thread each.
#[test]
fn a_place_is_made_for_one_thread() {
    loom::model(|| {
        let model = Model::new();
        let other = model.beside(|model| model.open(1));
        let mine = model.open(2);
        let theirs = other.join().unwrap();
        assert_eq!((model.look(theirs), model.look(mine)), (Ok(1), Ok(2)));
    });
}

/// A free place goes to one thread, even where another takes it, closes and frees it meanwhile.
#[test]
fn a_free_place_is_given_to_one_thread() {
    loom::model(|| {
        let model = Model::new();
        let [first, second] = [model.open(0), model.open(0)];
        [first, second].into_iter().for_each(|cookie| model.close(cookie).unwrap());
        let other = model.beside(|model| model.open(1));
        let [passing, mine] = [model.open(2), model.open(3)];
        model.close(passing).unwrap();
        let (theirs, last) = (other.join().unwrap(), model.open(4));
        let seen = [theirs, mine, last].map(|cookie| model.look(cookie));
        assert_eq!(seen, [Ok(1), Ok(3), Ok(4)]);
    });
}

/// Whoever closes everything misses nothing that was open before, and ends it under nobody.
#[test]
fn all_are_closed_under_nobody() {
    loom::model(|| {
        let model = Model::new();
        let cookie = model.open(1);
        let looks = model.beside(move |model| model.look(cookie));
        model.table.close_all();
        assert!(model.look(cookie).is_err());
        assert!(matches!(looks.join().unwrap(), Ok(1) | Err(_)));
        assert_eq!(model.dropped(), 1);
    });
}

/// Whoever comes upon an entry that another thread has just opened sees all of it.
#[test]
fn what_is_found_open_is_whole() {
    loom::model(|| {
        let model = Model::new();
        let finds = |model: &Model| model.table.open_entries().all(|held| held.number() == 1);
        let other = model.beside(finds);
        model.open(1);
        assert!(other.join().unwrap());
    });
}
