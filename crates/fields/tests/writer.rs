//! A writer whose backend fails.
#![allow(clippy::unwrap_used, missing_docs)]

use esker::Pool;
use esker::backend::memory::Memory;
use esker::backend::{OpenContainer, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_fields::request::Selection;
use esker_fields::{FieldStore, Key, Schema};
use esker_types::info::OpenMode;
use esker_types::ops::Change;
use esker_types::{Epoch, ErrorKind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A pool that a test fills and empties.
#[derive(Default)]
struct Fill {
    is_full: AtomicBool,
}

impl Interceptor for Fill {
    fn write<'a>(&'a self, to: &'a dyn OpenContainer, change: Change<'a>) -> Reply<'a, Epoch> {
        match self.is_full.load(Ordering::Relaxed) {
            true => Reply::Ready(Err(ErrorKind::NoSpace.into())),
            false => to.write(change),
        }
    }
}

fn key(step: usize) -> Key {
    let text = format!(
        "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=sfc,step={step},param=167"
    );
    Key::parse(&text).unwrap()
}

/// Numbers of fields are reserved in batches, and a purge keeps the pending fields of a batch while the writer has its
/// lease.
#[test]
fn pending_fields_survive_a_batch_that_cannot_be_reserved() {
    let fill = Arc::new(Fill::default());
    let backend = PoolBetween::before(Arc::new(Memory::new(2)), &fill);
    let pool = Pool::from_backend(Arc::new(backend), OpenMode::ReadWrite);
    let store = FieldStore::create(&pool, "fields", &Schema::default_mars().unwrap()).unwrap();
    let (mut writer, mut archived) = (store.writer(), Vec::new());
    // The first number of one of several batches falls on an attempt that fails.
    for attempt in 0..900 {
        let is_full = attempt % 3 == 2;
        fill.is_full.store(is_full, Ordering::Relaxed);
        match writer.archive(&key(attempt), b"a field") {
            Ok(()) => archived.push(attempt),
            Err(error) => assert!(is_full && error.kind() == ErrorKind::NoSpace, "{error}"),
        }
    }
    fill.is_full.store(false, Ordering::Relaxed);
    let everything = Selection::everything(store.schema());
    assert_eq!(store.purge(&everything, true, |_| Ok(())).unwrap().unflushed, 0);
    writer.flush().unwrap();
    assert_eq!(archived.len(), 600);
    for step in archived {
        assert_eq!(store.field(&key(step)).unwrap().read().unwrap(), b"a field");
    }
}
