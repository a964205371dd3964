//! Workers of `tx` on a pool in memory.
use super::*;
use crate::job::{Member, Workload};
use crate::worker::{Order, execute};
use esker::Wait;
use esker::backend::NewContainer;
use esker::backend::memory::Memory;
use esker_types::ErrorKind;
use std::sync::Arc;

fn job(rank: u32) -> TxJob {
    let member = Member { rank, procs: 2, cpu: None, seed: 1 };
    let job = Job { size_bytes: 64, ..Job::for_test(member, Workload::Kv) };
    TxJob { job, every: 10, counters: 6, targets: 2 }
}

fn two_workers() -> [Worker; 2] {
    let pool = Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite);
    pool.create_container(&NewContainer::named("bench")).wait().unwrap();
    [0, 1].map(|rank| Worker::in_pool(&pool, job(rank)).unwrap())
}

fn all(workers: &mut [Worker], step: TxStep) -> Vec<TxDone> {
    workers.iter_mut().map(|worker| worker.take(step).unwrap()).collect()
}

#[test]
fn one_operation_in_ten_is_a_transaction_and_all_data_is_right() {
    let mut workers = two_workers();
    for round in [1, 2] {
        all(&mut workers, TxStep::Reset);
        for done in all(&mut workers, TxStep::Mix(round)) {
            assert_eq!(done.kinds.each_ref().map(|kind| kind.ops), [20, 20, 4]);
            assert_eq!(done.kinds.each_ref().map(|kind| kind.bytes), [20 * 64, 20 * 64, 4 * 128]);
            assert_eq!((done.all.ops, done.all.latency.len(), done.conflicts), (44, 44, 0));
        }
        all(&mut workers, TxStep::Load(LoadStep::Verify(round)));
        all(&mut workers, TxStep::Sum { increments: 2 * 2 * 4 });
        all(&mut workers, TxStep::Load(LoadStep::Remove(round)));
    }
}

fn begin(step: TxStep) -> Order<TxStep> {
    Order::Begin { step, start_ns: 0 }
}

#[test]
fn failed_step_is_named() {
    let mut workers = two_workers();
    all(&mut workers, TxStep::Reset);
    let error = execute(&mut workers[0], begin(TxStep::Sum { increments: 1 })).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().starts_with("sum: "), "{error}");
    let error = execute(&mut workers[0], begin(TxStep::Load(LoadStep::Verify(1)))).unwrap_err();
    assert!(error.message().starts_with("verify: "), "{error}");
}

#[test]
fn job_without_a_store_is_refused() {
    let without = TxJob { job: Job { store: None, ..job(0).job }, ..job(0) };
    assert_eq!(Worker::begin(without).err().unwrap().kind(), ErrorKind::Invalid);
}
