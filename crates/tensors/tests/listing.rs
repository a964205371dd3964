//! Listings, look-ups and collections of tensors while another process changes them or the pool fails.
#![allow(clippy::unwrap_used, missing_docs)]

use esker::Pool;
use esker::backend::memory::Memory;
use esker::backend::{OpenContainer, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_tensors::{DataType, NewTensor, Slab, Strided, TensorStore};
use esker_types::info::OpenMode;
use esker_types::ops::{Change, DkeyFetch, ReadAt};
use esker_types::{Epoch, Error, ErrorKind, ObjectId, Uuid};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Work = Box<dyn FnOnce() + Send>;

/// Work of another process before a call of the reader, and the number of calls until then.
#[derive(Default)]
struct Between(Mutex<Option<(usize, Work)>>);

impl Between {
    /// Counts a call, and does the work if its turn has come.
    fn call(&self) {
        let mut work = self.0.lock().unwrap();
        match work.take() {
            Some((0, now)) => now(),
            Some((calls, later)) => *work = Some((calls - 1, later)),
            None => {}
        }
    }
}

impl Interceptor for Between {
    fn fetch<'a, 'f, 'b>(
        &'a self,
        from: &'a dyn OpenContainer,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        self.call();
        from.fetch(oid, dkeys, at)
    }

    fn list<'a, T: Send + Unpin + 'a>(
        &'a self,
        call: impl FnOnce() -> Reply<'a, T> + Send + 'a,
        _len: fn(&T) -> usize,
    ) -> Reply<'a, T> {
        self.call();
        call()
    }
}

fn put(store: &TensorStore, name: &str, value: u8) {
    let new = NewTensor::new(DataType::parse("|u1").unwrap(), &[1]);
    store.put(&new, &Strided::contiguous(&[value], &[1], 1).unwrap(), Some(name)).unwrap();
}

/// Calls `act` with a store of one tensor, `t`, and with its UUID. `change` happens during `act`: each time before
/// another call to the backend.
fn during<T>(change: fn(&TensorStore), act: impl Fn(&TensorStore, Uuid) -> T) -> Vec<T> {
    let results = (0..16).map(|calls| {
        let (memory, between) = (Arc::new(Memory::new(2)), Arc::new(Between::default()));
        let pool = Pool::from_backend(memory.clone(), OpenMode::ReadWrite);
        let other = TensorStore::create(&pool, "tensors").unwrap();
        put(&other, "t", 1);
        let uuid = other.locate("t").unwrap().uuid;
        let pool = PoolBetween::before(memory, &between);
        let pool = Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite);
        let store = TensorStore::open(&pool, "tensors", OpenMode::ReadWrite).unwrap();
        let work: Work = Box::new(move || change(&other));
        *between.0.lock().unwrap() = Some((calls, work));
        act(&store, uuid)
    });
    results.collect()
}

/// The names in a listing during which `change` happens, for each call of the listing before which it may happen.
fn names_during(change: fn(&TensorStore)) -> Vec<Vec<String>> {
    let names = |store: &TensorStore| {
        store.list().unwrap().into_iter().filter_map(|listed| listed.name).collect()
    };
    during(change, |store, _| names(store))
}

#[test]
fn tensor_replaced_during_a_listing_is_listed() {
    for names in names_during(|other| put(other, "t", 2)) {
        assert_eq!(names, ["t"]);
    }
}

#[test]
fn tensor_renamed_during_a_listing_is_listed() {
    for names in names_during(|other| other.rename("t", "u").unwrap()) {
        assert!(names == ["t"] || names == ["u"], "{names:?}");
    }
}

#[test]
fn tensor_renamed_during_a_look_up_by_its_uuid_is_found() {
    let rename: fn(&TensorStore) = |other| other.rename("t", "u").unwrap();
    during(rename, |store, uuid| assert_eq!(store.locate(&uuid.to_string()).unwrap().uuid, uuid));
}

#[test]
fn tensor_renamed_during_a_collection_is_kept() {
    let rename: fn(&TensorStore) = |other| other.rename("t", "u").unwrap();
    during(rename, |store, uuid| {
        assert_eq!(store.collect(Duration::ZERO, true).unwrap().removed, 0);
        let tensor = store.open_tensor(&uuid.to_string()).unwrap();
        assert_eq!(tensor.read_to_vec(&[Slab::new(0, 1)]).unwrap(), [1]);
    });
}

/// Reads fail after the first change.
#[derive(Default)]
struct FailingReads(AtomicBool);

impl Interceptor for FailingReads {
    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        self.0.store(true, Ordering::Relaxed);
        to.write(change)
    }

    fn fetch<'a, 'f, 'b>(
        &'a self,
        from: &'a dyn OpenContainer,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        match self.0.load(Ordering::Relaxed) {
            true => Reply::Ready(Err(Error::new(ErrorKind::Io, "a read after a change"))),
            false => from.fetch(oid, dkeys, at),
        }
    }
}

#[test]
fn changes_succeed_if_only_freeing_a_tensor_fails() {
    let changes: [fn(&TensorStore); 2] =
        [|store| store.rename("t", "u").unwrap(), |store| _ = store.remove("t").unwrap()];
    for change in changes {
        let memory = Arc::new(Memory::new(2));
        let pool = Pool::from_backend(memory.clone(), OpenMode::ReadWrite);
        let other = TensorStore::create(&pool, "tensors").unwrap();
        put(&other, "t", 1);
        put(&other, "u", 2);
        let pool = PoolBetween::before(memory, &Arc::new(FailingReads::default()));
        let pool = Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite);
        change(&TensorStore::open(&pool, "tensors", OpenMode::ReadWrite).unwrap());
        assert_eq!(other.list().unwrap().len(), 1);
    }
}
