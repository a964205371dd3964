//! Tests of a worker on a pool in memory, and of its messages.
use super::*;
use crate::job::{Index, Member, Workload};
use crate::worker::{Answer, parse, serve_work};
use esker::Wait;
use esker::backend::NewContainer;
use esker::backend::memory::Memory;
use esker::types::info::OpenMode;
use std::sync::Arc;

fn job(rank: u32, procs: u32, workload: Workload) -> Job {
    Job::for_test(Member { rank, procs, cpu: None, seed: 1 }, workload)
}

fn pool() -> Pool {
    let pool = Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite);
    let new = NewContainer::named("bench");
    pool.create_container(&new).wait().unwrap();
    pool
}

fn two_workers(pool: &Pool, workload: Workload) -> [Worker; 2] {
    [0, 1].map(|rank| Worker::in_pool(pool, job(rank, 2, workload)).unwrap())
}

const WORKLOADS: [Workload; 4] = [
    Workload::Array(Index::None),
    Workload::Array(Index::Own),
    Workload::Array(Index::Shared),
    Workload::Kv,
];

#[test]
fn each_workload_reads_what_the_other_process_wrote() {
    for workload in WORKLOADS {
        let pool = pool();
        let mut workers = two_workers(&pool, workload);
        for step in [
            LoadStep::Write(WARM_UP),
            LoadStep::Remove(WARM_UP),
            LoadStep::Write(1),
            LoadStep::Read(1),
            LoadStep::Verify(1),
        ] {
            for worker in &mut workers {
                let measured = worker.take(step).unwrap();
                let ops = if matches!(step, LoadStep::Write(WARM_UP) | LoadStep::Remove(WARM_UP)) {
                    22
                } else {
                    20
                };
                assert_eq!(
                    (measured.ops, measured.bytes),
                    (ops, ops * 2000),
                    "{workload:?} {step:?}"
                );
            }
        }
    }
}

#[test]
fn reading_removed_or_absent_data_fails() {
    for workload in WORKLOADS {
        let pool = pool();
        let [mut one, mut other] = two_workers(&pool, workload);
        one.take(LoadStep::Write(1)).unwrap();
        assert_eq!(
            one.take(LoadStep::Read(1)).unwrap_err().kind(),
            ErrorKind::NotFound,
            "{workload:?}"
        );
        other.take(LoadStep::Read(1)).unwrap();
        one.take(LoadStep::Remove(1)).unwrap();
        assert_eq!(other.take(LoadStep::Read(1)).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn corrupted_data_fails_verification() {
    for workload in WORKLOADS {
        let pool = pool();
        let other = Job::for_test(Member { procs: 1, seed: 2, ..Member::default() }, workload);
        Worker::in_pool(&pool, other).unwrap().take(LoadStep::Write(1)).unwrap();
        let mut reader = Worker::in_pool(&pool, job(0, 1, workload)).unwrap();
        reader.take(LoadStep::Read(1)).unwrap();
        assert_eq!(reader.take(LoadStep::Verify(1)).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

fn answers_of(lines: &[String]) -> Vec<Answer<Measured>> {
    let mut output = Vec::new();
    serve_work::<Worker>(lines.join("\n").as_bytes(), &mut output).unwrap();
    String::from_utf8(output).unwrap().lines().map(|line| parse(line).unwrap()).collect()
}

#[test]
fn a_worker_answers_line_by_line() {
    let job = Job { store: None, ..job(0, 1, Workload::Kv) };
    let job = serde_json::to_string(&job).unwrap();
    let order = |step: &str| format!(r#"{{"begin":{{"step":{step},"start_ns":0}}}}"#);
    let answers = answers_of(&[job, order(r#""Pwrite""#), order(r#"{"Read":1}"#)]);
    let [Answer::Done(ready), Answer::Done(written), Answer::Error(kind, why)] = answers.as_slice()
    else {
        unreachable!("{answers:?}");
    };
    assert_eq!((ready.ops, written.ops), (0, 20));
    assert_eq!((*kind, &why[..]), (ErrorKind::Invalid, "read: this job has no store"));
}

#[test]
fn worker_reports_failed_job() {
    let job = Job { folder: "/nowhere".into(), store: None, ..job(0, 1, Workload::Kv) };
    let answers = answers_of(&[serde_json::to_string(&job).unwrap()]);
    assert!(matches!(&answers[..], [Answer::Error(_, why)] if why.contains("/nowhere")));
    assert!(answers_of(&[]).is_empty());
    assert!(serve_work::<Worker>("no json\n".as_bytes(), Vec::new()).is_err());
}
