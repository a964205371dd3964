//! The guarantees of the table, checked under every order in which its threads may run (`scripts/soak.sh loom`).
//!
//! Loom runs the parent thread before the thread that it spawned. The parent should change the values that it has
//! loaded: if a thread that only loads runs first, loom does not try the opposite order.
use super::*;
use loom::sync::Arc;
use loom::sync::atomic::AtomicUsize;
use loom::thread;

/// An entry whose reads and drop loom tracks.
struct Tracked {
    number: UnsafeCell<u32>,
    dropped: Arc<AtomicUsize>,
}

impl Tracked {
    fn number(&self) -> u32 {
        // SAFETY: loom fails the model if another thread drops it meanwhile.
        self.number.with(|number| unsafe { *number })
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        // SAFETY: as in `number`.
        self.number.with_mut(|number| unsafe { *number = u32::MAX });
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// A table, and the number of dropped entries.
#[derive(Clone)]
struct Model {
    table: Arc<Table<Tracked>>,
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
        self.table.insert(Tracked { number, dropped }).unwrap()
    }

    /// The number in the entry of a cookie.
    fn look(&self, cookie: u64) -> Result<u32> {
        self.table.hold(cookie).map(|held| held.number())
    }

    fn close(&self, cookie: u64) -> Result<()> {
        self.table.hold(cookie)?.close()
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Acquire)
    }

    /// Runs `work` on a thread beside this one.
    fn beside<T: 'static>(&self, work: impl FnOnce(&Self) -> T + 'static) -> thread::JoinHandle<T> {
        let model = self.clone();
        thread::spawn(move || work(&model))
    }
}

/// An entry is dropped once, after the close and with its last reference; then its slot is free.
#[test]
fn an_entry_is_dropped_once_when_unused() {
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
        assert_eq!(model.table.slots().count(), 1, "the slot is free again");
    });
}

/// A closed cookie never refers to the next entry in its slot.
#[test]
fn a_closed_cookie_stays_invalid() {
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

/// A new slot, in an existing chunk or a new one, goes to one thread only.
#[test]
fn a_new_slot_goes_to_one_thread() {
    loom::model(|| {
        let model = Model::new();
        let other = model.beside(|model| model.open(1));
        let mine = model.open(2);
        let theirs = other.join().unwrap();
        assert_eq!((model.look(theirs), model.look(mine)), (Ok(1), Ok(2)));
    });
}

/// A free slot goes to one thread only, even if another takes it, closes the handle and frees it meanwhile.
#[test]
fn a_free_slot_goes_to_one_thread() {
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

/// `close_all` closes every handle opened before, and drops no entry that is in use.
#[test]
fn close_all_drops_entries_when_unused() {
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

/// A thread that finds an entry another has just opened sees all of it.
#[test]
fn an_open_entry_is_complete() {
    loom::model(|| {
        let model = Model::new();
        let finds = |model: &Model| model.table.open_entries().all(|held| held.number() == 1);
        let other = model.beside(finds);
        model.open(1);
        assert!(other.join().unwrap());
    });
}
