//! Workers on a pool in memory.
use super::*;
use crate::field_io::Contention;
use crate::field_io::segments::Objects;
use crate::field_io::session;
use esker::backend::NewContainer;
use esker::backend::memory::Memory;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use esker_types::ErrorKind;
use std::sync::Arc;

const BYTES: u64 = 3000;

fn layout(mode: Mode, contention: Contention) -> Layout {
    Layout {
        pool: "unused".to_owned(),
        container: "main".to_owned(),
        mode,
        contention,
        class_kv: "SX".to_owned(),
        class_array: "S1".to_owned(),
    }
}

fn pool() -> Pool {
    let pool = Pool::from_backend(Arc::new(Memory::new(2)), OpenMode::ReadWrite);
    let new = NewContainer::named("main");
    pool.create_container(&new).wait().unwrap();
    pool
}

fn worker(pool: &Pool, process: u32, layout: &Layout, segments: Option<Segments>) -> Worker {
    let session = Session::within(pool.clone(), layout.clone(), 1000).unwrap();
    let layout = layout.clone();
    let (node, io_bytes) = ("n".to_owned(), BYTES);
    let member = Member { rank: process, procs: 2, cpu: None, seed: 1 };
    let job = Job { node, member, layout, segments, io_bytes, repeat: 1 };
    Worker::new(job, session).unwrap()
}

fn step(kind: Kind, pattern: Pattern, owner: u32, count: u32) -> FieldIoStep {
    let verify_before = (kind == Kind::Read).then_some(count);
    FieldIoStep { kind, pattern, owner, first: 0, count, zero_ns: 0, start_ns: 0, verify_before }
}

fn each_layout(check: impl Fn(Layout)) {
    for mode in [Mode::Full, Mode::NoContainers, Mode::NoIndex] {
        for contention in [Contention::Low, Contention::High] {
            check(layout(mode, contention));
        }
    }
}

#[test]
fn fields_are_read_as_another_process_wrote_them() {
    each_layout(|layout| {
        let pool = pool();
        for process in [0, 1] {
            let mut writer = worker(&pool, process, &layout, None);
            let trace = writer.take(step(Kind::Write, Pattern::A, process, 4)).unwrap();
            assert_eq!((trace.process, trace.ios.len(), trace.bytes), (process, 4, BYTES));
            assert!(trace.ios.iter().all(|stamps| stamps.is_sorted() && stamps[0] > 0));
        }
        let mut reader = worker(&pool, 0, &layout, None);
        for owner in [0, 1] {
            let trace = reader.take(step(Kind::Read, Pattern::A, owner, 4)).unwrap();
            assert!(trace.ios.iter().all(|stamps| stamps.is_sorted()), "{layout:?}");
        }
    });
}

#[test]
fn each_mode_creates_its_containers() {
    for (mode, contention, containers) in [
        (Mode::Full, Contention::Low, 1 + 2 * 2),
        (Mode::Full, Contention::High, 1 + 2),
        (Mode::NoContainers, Contention::Low, 1),
        (Mode::NoIndex, Contention::High, 1),
    ] {
        let (pool, layout) = (pool(), layout(mode, contention));
        for process in [0, 1] {
            let mut writer = worker(&pool, process, &layout, None);
            writer.take(step(Kind::Write, Pattern::A, process, 1)).unwrap();
        }
        assert_eq!(pool.containers().wait().unwrap().len(), containers, "{mode:?} {contention:?}");
        session::remove(&pool, &layout, 2).unwrap();
        assert_eq!(pool.containers().wait().unwrap().len(), 0);
    }
}

#[test]
fn rewriting_field_keeps_old_array() {
    for (mode, arrays) in [(Mode::NoContainers, 3), (Mode::NoIndex, 1)] {
        let (pool, layout) = (pool(), layout(mode, Contention::Low));
        let mut writer = worker(&pool, 0, &layout, None);
        writer.take(step(Kind::Write, Pattern::B, 0, 3)).unwrap();
        worker(&pool, 1, &layout, None).take(step(Kind::Read, Pattern::B, 0, 3)).unwrap();
        let container = pool.open_container("main", OpenMode::ReadOnly).wait().unwrap();
        let is_array = |oid: &esker_types::ObjectId| {
            oid.object_type() == Some(esker_types::ObjectType::ArrayByte)
        };
        assert_eq!(
            objects(&container).iter().filter(|oid| is_array(oid)).count(),
            arrays,
            "{mode:?}"
        );
    }
}

fn objects(container: &esker::Container) -> Vec<esker_types::ObjectId> {
    let mut anchor = esker::types::ops::Anchor::default();
    container.list_objects(&mut anchor, 100, esker::Access::Latest).wait().unwrap()
}

#[test]
fn corrupted_data_fails_verification() {
    each_layout(|layout| {
        let pool = pool();
        worker(&pool, 0, &layout, None).take(step(Kind::Write, Pattern::A, 0, 2)).unwrap();
        let mut reader = worker(&pool, 0, &layout, None);
        reader.job.repeat = 2;
        let error = reader.take(step(Kind::Read, Pattern::A, 0, 2)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{layout:?}");
    });
}

#[test]
fn error_names_missing_field() {
    each_layout(|layout| {
        let pool = pool();
        worker(&pool, 0, &layout, None).take(step(Kind::Write, Pattern::A, 0, 1)).unwrap();
        let mut reader = worker(&pool, 0, &layout, None);
        let error = reader.take(step(Kind::Read, Pattern::A, 7, 1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(error.message().contains("fields of process 7"), "{error}");
    });
}

#[test]
fn segments_are_read_as_they_were_written() {
    for objects in [Objects::Own, Objects::Shared] {
        let (pool, layout) = (pool(), layout(Mode::NoIndex, Contention::Low));
        let segments = Segments { objects, count: 3, part_bytes: BYTES / 3, procs: 2 };
        for process in [0, 1] {
            let mut writer = worker(&pool, process, &layout, Some(segments));
            writer.take(step(Kind::Write, Pattern::A, process, 2)).unwrap();
        }
        for owner in [0, 1] {
            let mut reader = worker(&pool, 1 - owner, &layout, Some(segments));
            reader.take(step(Kind::Read, Pattern::A, owner, 2)).unwrap();
        }
        let mut reader = worker(&pool, 0, &layout, Some(segments));
        let error = reader.take(step(Kind::Read, Pattern::A, 0, 3)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
