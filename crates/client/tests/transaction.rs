//! Transactions: their limits and states, beyond the conformance suite.

use esker::backend::memory::Memory;
use esker::types::info::OpenMode;
use esker::types::limits::{SINGLE_VALUE_MAX, TX_BYTES_MAX, TX_OPS_MAX};
use esker::types::ops::Cond;
use esker::types::{ErrorKind, ObjectType, Result};
use esker::{Access, Container, Kv, Pool, Wait};
use esker_backend::NewContainer;
use esker_conformance::faulty::{Fault, Faulty};
use std::pin::pin;
use std::sync::{Arc, Barrier};
use std::task::{Context, Waker};

fn pool() -> Pool {
    pool_on(Arc::new(Memory::new(4)))
}

/// A pool of a backend, with a container.
fn pool_on(backend: Arc<dyn esker_backend::Pool>) -> Pool {
    let pool = Pool::from_backend(backend, OpenMode::ReadWrite);
    let new = NewContainer::named("test");
    pool.create_container(&new).wait().unwrap();
    pool
}

fn container() -> Container {
    pool().open_container("test", OpenMode::ReadWrite).wait().unwrap()
}

fn kv(container: &Container) -> Kv {
    let oid = container.generate_oid(0, 1, ObjectType::KvHashed, None, 0).unwrap();
    container.kv(oid).unwrap()
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

/// A transaction accepts at most `TX_OPS_MAX` operations.
#[test]
fn operations_are_bounded() {
    let container = container();
    let kv = kv(&container);
    let transaction = container.transaction().unwrap();
    let put = |number: usize| {
        kv.put(&number.to_le_bytes(), b"", Cond::NONE, Access::Tx(&transaction)).wait()
    };
    (0..TX_OPS_MAX).for_each(|number| put(number).unwrap());
    let error = put(TX_OPS_MAX).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Overflow);
    assert!(error.message().contains("TX_OPS_MAX"));
    transaction.abort().unwrap();
}

/// A transaction buffers at most `TX_BYTES_MAX` bytes.
#[test]
fn bytes_are_bounded() {
    let container = container();
    let kv = kv(&container);
    let transaction = container.transaction().unwrap();
    let value = vec![0; SINGLE_VALUE_MAX as usize];
    let put = |key: &[u8]| kv.put(key, &value, Cond::NONE, Access::Tx(&transaction)).wait();
    let fit = TX_BYTES_MAX / value.len() - 1;
    (0..fit).for_each(|number| put(&number.to_le_bytes()).unwrap());
    let error = put(b"last").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NoMemory);
    assert!(error.message().contains("TX_BYTES_MAX"));
    transaction.abort().unwrap();
}

#[test]
fn invalid_writes_fail_before_the_commit() {
    let container = container();
    let kv = kv(&container);
    let transaction = container.transaction().unwrap();
    let in_tx = Access::Tx(&transaction);
    assert_eq!(kind(kv.put(b"", b"v", Cond::NONE, in_tx).wait()), Some(ErrorKind::Invalid));
    let long = vec![0; SINGLE_VALUE_MAX as usize + 1];
    let put = kv.put(b"key", &long, Cond::NONE, in_tx).wait();
    assert_eq!(kind(put), Some(ErrorKind::RecordTooBig));
    transaction.commit().wait().unwrap();
    assert_eq!(transaction.epoch(), None);
}

#[test]
fn a_failed_commit_can_be_aborted_or_restarted() {
    let container = container();
    let kv = kv(&container);
    let failed = || {
        let transaction = container.transaction().unwrap();
        kv.put(b"key", b"v", Kv::UPDATE, Access::Tx(&transaction)).wait().unwrap();
        assert_eq!(kind(transaction.commit().wait()), Some(ErrorKind::NotFound));
        transaction
    };
    let aborted = failed();
    assert_eq!(kind(aborted.commit().wait()), Some(ErrorKind::NoPermission));
    aborted.abort().unwrap();
    assert_eq!(kind(aborted.restart()), Some(ErrorKind::NoPermission));
    let restarted = failed();
    restarted.restart().unwrap();
    restarted.commit().wait().unwrap();
    assert_eq!(kind(kv.get(b"key", Access::Tx(&restarted)).wait()), Some(ErrorKind::NoPermission));
}

#[test]
fn transaction_on_a_read_only_container_reads_but_does_not_write() {
    let pool = pool();
    let writer = pool.open_container("test", OpenMode::ReadWrite).wait().unwrap();
    kv(&writer).put(b"key", b"v", Cond::NONE, Access::Latest).wait().unwrap();
    let reader = pool.open_container("test", OpenMode::ReadOnly).wait().unwrap();
    let transaction = reader.transaction().unwrap();
    let in_tx = Access::Tx(&transaction);
    assert!(kv(&reader).get(b"key", in_tx).wait().unwrap().is_some());
    let put = kv(&reader).put(b"key", b"w", Cond::NONE, in_tx).wait();
    assert_eq!(kind(put), Some(ErrorKind::NoPermission));
    transaction.commit().wait().unwrap();
}

#[test]
fn a_closed_container_ends_its_transactions() {
    let container = container();
    let kv = kv(&container);
    let transaction = container.transaction().unwrap();
    kv.put(b"key", b"v", Cond::NONE, Access::Tx(&transaction)).wait().unwrap();
    container.close().wait().unwrap();
    assert_eq!(kind(transaction.commit().wait()), Some(ErrorKind::NoHandle));
    assert_eq!(kind(container.transaction()), Some(ErrorKind::NoHandle));
}

/// One thread writes until the transaction has ended. Another one commits it meanwhile.
#[test]
fn acknowledged_writes_are_part_of_a_concurrent_commit() {
    let container = container();
    let kv = kv(&container);
    for round in 0..500 {
        let (transaction, begun) = (container.transaction().unwrap(), Barrier::new(2));
        let last = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                begun.wait();
                let in_tx = Access::Tx(&transaction);
                let put = |key: &u64| kv.put(&key.to_le_bytes(), b"", Cond::NONE, in_tx).wait();
                (round << 32..=u64::MAX).take_while(|key| put(key).is_ok()).last()
            });
            begun.wait();
            transaction.commit().wait().unwrap();
            writer.join().unwrap()
        });
        let Some(last) = last else { continue };
        let found = kv.get(&last.to_le_bytes(), Access::Latest).wait().unwrap();
        assert!(found.is_some(), "round {round} lost an acknowledged write");
    }
}

#[test]
fn a_transaction_accepts_another_handle_of_its_container() {
    let pool = pool();
    let first = pool.open_container("test", OpenMode::ReadWrite).wait().unwrap();
    let second = pool.open_container("test", OpenMode::ReadWrite).wait().unwrap();
    let transaction = first.transaction().unwrap();
    kv(&second).put(b"key", b"v", Cond::NONE, Access::Tx(&transaction)).wait().unwrap();
    transaction.commit().wait().unwrap();
    assert!(kv(&first).get(b"key", Access::Latest).wait().unwrap().is_some());
}

#[test]
fn a_transaction_can_be_restarted_after_its_commit_future_is_dropped() {
    let pool = pool_on(Arc::new(Faulty::new(Fault::NoAnswer)));
    let container = pool.open_container("test", OpenMode::ReadWrite).wait().unwrap();
    let kv = kv(&container);
    let transaction = container.transaction().unwrap();
    let give_up = || {
        kv.put(b"key", b"value", Cond::NONE, Access::Tx(&transaction)).wait().unwrap();
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(transaction.commit()).poll(&mut context).is_pending());
        assert!(!transaction.is_open());
    };
    give_up();
    transaction.restart().unwrap();
    assert!(transaction.is_open());
    give_up();
    transaction.abort().unwrap();
}
