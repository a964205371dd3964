//! Listings of tensors while another process changes them.
#![allow(clippy::unwrap_used, missing_docs)]

use esker::Pool;
use esker::backend::memory::Memory;
use esker::backend::{OpenContainer, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_tensors::{DataType, NewTensor, Strided, TensorStore};
use esker_types::ObjectId;
use esker_types::info::OpenMode;
use esker_types::ops::{DkeyFetch, ReadAt};
use std::sync::{Arc, Mutex};

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

/// The names in a listing during which `change` happens, for each call of the listing before which it may happen.
fn names_during(change: fn(&TensorStore)) -> Vec<Vec<String>> {
    let names = (0..12).map(|calls| {
        let (memory, between) = (Arc::new(Memory::new(2)), Arc::new(Between::default()));
        let pool = Pool::from_backend(memory.clone(), OpenMode::ReadWrite);
        let other = TensorStore::create(&pool, "tensors").unwrap();
        put(&other, "t", 1);
        let pool = PoolBetween::before(memory, &between);
        let pool = Pool::from_backend(Arc::new(pool), OpenMode::ReadWrite);
        let store = TensorStore::open(&pool, "tensors", OpenMode::ReadOnly).unwrap();
        let work: Work = Box::new(move || change(&other));
        *between.0.lock().unwrap() = Some((calls, work));
        store.list().unwrap().into_iter().filter_map(|listed| listed.name).collect()
    });
    names.collect()
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
