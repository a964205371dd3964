//! Tests of a worker on a pool in memory, and of its messages.
use super::*;
use crate::job::{Index, StoreJob, WARM_UP, Workload};
use esker::backend::NewContainer;
use esker::backend::memory::Memory;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use std::sync::Arc;

fn job(workload: Workload) -> Job {
    let store = StoreJob {
        pool: "unused".to_owned(),
        container: "bench".to_owned(),
        class: "S1".to_owned(),
        workload,
    };
    let folder = std::env::temp_dir();
    Job {
        rank: 0,
        procs: 1,
        size_bytes: 2000,
        ops: 20,
        seed: 1,
        folder,
        seconds: None,
        store: Some(store),
    }
}

fn pool() -> Pool {
    let pool = Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite);
    let new = NewContainer::named("bench");
    pool.create_container(&new).wait().unwrap();
    pool
}

fn worker(pool: &Pool, job: Job) -> Worker {
    let load = load::load_in(pool, &job, job.store.as_ref().unwrap()).unwrap();
    Worker::with_load(job, Some(load)).unwrap()
}

fn two_workers(pool: &Pool, workload: Workload) -> [Worker; 2] {
    [0, 1].map(|rank| worker(pool, Job { rank, procs: 2, ..job(workload) }))
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
                let measured = worker.run(step).unwrap();
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
        one.run(LoadStep::Write(1)).unwrap();
        assert_eq!(
            one.run(LoadStep::Read(1)).unwrap_err().kind(),
            ErrorKind::NotFound,
            "{workload:?}"
        );
        other.run(LoadStep::Read(1)).unwrap();
        one.run(LoadStep::Remove(1)).unwrap();
        assert_eq!(other.run(LoadStep::Read(1)).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn corrupted_data_fails_verification() {
    for workload in WORKLOADS {
        let pool = pool();
        worker(&pool, Job { seed: 2, ..job(workload) }).run(LoadStep::Write(1)).unwrap();
        let mut reader = worker(&pool, job(workload));
        reader.run(LoadStep::Read(1)).unwrap();
        assert_eq!(reader.run(LoadStep::Verify(1)).unwrap_err().kind(), ErrorKind::Corrupt);
    }
}

fn answers_of(lines: &[String]) -> Vec<Answer<Measured>> {
    let mut output = Vec::new();
    serve_work::<Worker>(lines.join("\n").as_bytes(), &mut output).unwrap();
    String::from_utf8(output).unwrap().lines().map(|line| parse(line).unwrap()).collect()
}

#[test]
fn a_worker_answers_line_by_line() {
    let job = Job { store: None, ..job(Workload::Kv) };
    let job = serde_json::to_string(&job).unwrap();
    let answers = answers_of(&[job, r#""pwrite""#.to_owned(), r#"{"read":1}"#.to_owned()]);
    let [Answer::Done(ready), Answer::Done(written), Answer::Failed(why)] = answers.as_slice()
    else {
        unreachable!("{answers:?}");
    };
    assert_eq!((ready.ops, written.ops), (0, 20));
    assert_eq!(why, "read: this job has no store");
}

#[test]
fn worker_reports_failed_job() {
    let job = Job { folder: "/nowhere".into(), store: None, ..job(Workload::Kv) };
    let answers = answers_of(&[serde_json::to_string(&job).unwrap()]);
    assert!(matches!(&answers[..], [Answer::Failed(why)] if why.contains("/nowhere")));
    assert!(answers_of(&[]).is_empty());
    assert!(serve_work::<Worker>("no json\n".as_bytes(), Vec::new()).is_err());
}
