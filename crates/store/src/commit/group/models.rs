//! What threads that commit together rely on, under every order they may run in.
use super::*;
use esker_types::ErrorKind;
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;

/// An index that is changed by one transaction at a time, and the data that it names.
struct Index {
    busy: Mutex<bool>,
    free: Condvar,
    commits: Mutex<Vec<Vec<u64>>>,
    /// Changes whose data is written, and what of it is on the medium.
    written: Mutex<Vec<u64>>,
    synced: Mutex<Vec<u64>>,
    fails: bool,
}

/// A transaction, which goes from thread to thread: loom ends the model where two are at it.
struct Txn {
    watched: UnsafeCell<()>,
    changes: Vec<u64>,
    index: Arc<Index>,
}

impl Txn {
    fn put(&mut self, change: u64) {
        self.watched.with_mut(|_| ());
        self.changes.push(change);
    }
}

impl Drop for Txn {
    fn drop(&mut self) {
        *self.index.busy.lock().unwrap() = false;
        self.index.free.notify_one();
    }
}

impl Changing for Arc<Index> {
    type Txn = Txn;

    fn begin(&self) -> Result<Txn> {
        let mut busy = self.busy.lock().unwrap();
        while *busy {
            busy = self.free.wait(busy).unwrap();
        }
        *busy = true;
        Ok(Txn { watched: UnsafeCell::new(()), changes: Vec::new(), index: Self::clone(self) })
    }

    fn sync(&self) -> Result<()> {
        *self.synced.lock().unwrap() = self.written.lock().unwrap().clone();
        Ok(())
    }

    fn commit(&self, mut txn: Txn) -> Result<()> {
        txn.watched.with_mut(|_| ());
        if self.fails {
            return Err(ErrorKind::Io.into());
        }
        let is_synced = !txn.changes.contains(&1) || self.synced.lock().unwrap().contains(&1);
        assert!(is_synced, "data comes first");
        self.commits.lock().unwrap().push(std::mem::take(&mut txn.changes));
        Ok(())
    }
}

/// A group, and the index it changes.
#[derive(Clone)]
struct Model {
    group: Arc<Group<Txn>>,
    index: Arc<Index>,
}

impl Model {
    fn new(fails: bool) -> Self {
        let none = || Mutex::new(Vec::new());
        let (busy, free, commits) = (Mutex::new(false), Condvar::new(), Mutex::new(Vec::new()));
        let index = Index { busy, free, commits, written: none(), synced: none(), fails };
        Self { group: Arc::new(Group::new()), index: Arc::new(index) }
    }

    /// The first has data, the others have none.
    fn change(&self, number: u64) -> Result<Epoch> {
        let has_data = number == 1;
        if has_data {
            self.index.written.lock().unwrap().push(number);
        }
        self.group.together(&self.index, has_data, &mut |txn| {
            txn.put(number);
            Ok(Epoch(number))
        })
    }

    /// Fails after half of it.
    fn spoil(&self, number: u64) -> Result<Epoch> {
        self.group.together(&self.index, false, &mut |txn| {
            txn.put(number);
            Err(Failed { error: ErrorKind::Exists.into(), spoiled: true })
        })
    }

    fn beside<T: 'static>(&self, work: impl FnOnce(&Self) -> T + 'static) -> thread::JoinHandle<T> {
        let model = self.clone();
        thread::spawn(move || work(&model))
    }

    /// What was committed, each change as often as it was.
    fn committed(&self) -> Vec<u64> {
        assert!(self.group.lock().outcomes.is_empty(), "all have heard");
        let mut committed = self.index.commits.lock().unwrap().concat();
        committed.sort_unstable();
        committed
    }
}

/// Whoever is told of a commit was in one, once, after its data; and everybody is told.
#[test]
fn all_that_join_are_committed_once() {
    loom::model(|| {
        let model = Model::new(false);
        let others = [1, 2].map(|number| model.beside(move |model| model.change(number)));
        assert_eq!(model.change(3).unwrap(), Epoch(3));
        let epochs = others.map(|other| other.join().unwrap().unwrap());
        assert_eq!(epochs, [Epoch(1), Epoch(2)]);
        assert_eq!(model.committed(), [1, 2, 3]);
    });
}

/// Half a change is in no commit, whatever else is.
#[test]
fn half_a_change_is_not_committed() {
    loom::model(|| {
        let model = Model::new(false);
        let half = model.beside(|model| model.spoil(4));
        let other = model.beside(|model| model.change(2));
        model.change(3).unwrap();
        other.join().unwrap().unwrap();
        assert_eq!(half.join().unwrap().unwrap_err().kind(), ErrorKind::Exists);
        assert_eq!(model.committed(), [2, 3]);
    });
}

/// Where a commit fails, all whose changes were in it are told.
#[test]
fn all_that_join_hear_of_a_failure() {
    loom::model(|| {
        let model = Model::new(true);
        let other = model.beside(|model| model.change(1));
        assert!(model.change(2).is_err() && other.join().unwrap().is_err());
        assert_eq!(model.committed(), [0; 0]);
    });
}
