use super::*;
use crate::ContainerSpec;
use crate::tests::Scratch;
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{Cond, Source, Update, Value, Write, WriteOp};
use esker_types::{ObjectClass, ObjectId, ObjectType};
use std::sync::atomic::Ordering;

#[test]
fn lost_bytes_are_named_and_found_again() {
    let pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
    let state = pool.state();
    let words = state.targets[1].words();
    let segment = words.segment(2);
    segment.published.store(1119, Ordering::Release);
    segment.store(SegmentState::Sealed);
    let check = |repair| Pool::check(&pool.path(), repair, &mut |_, _| {}).unwrap();
    let (found, where_they_are) =
        (check(false), "target 1, segment 2: 0 bytes named, 1119 counted, 0 dead, Sealed");
    assert_eq!((found.lost_bytes, &found.lost[..]), (1119, &[where_they_are.to_owned()][..]));
    assert_eq!(found.problems, ["1119 bytes are alive that nothing names"]);
    let mended = check(true);
    assert_eq!((mended.lost_bytes, mended.lost.len()), (0, 0));
    assert!(mended.repaired.iter().any(|line| line == where_they_are), "{mended:?}");
    assert_eq!(check(false).lost_bytes, 0);
}

/// A pool with a value on each of its two targets, closed.
fn with_values() -> Scratch {
    let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
    {
        let state = pool.state();
        let spec = ContainerSpec { label: Some("c"), ..ContainerSpec::default() };
        state.create_container(&spec).unwrap();
        let label = ContainerRef::Label("c");
        let container = state.open_container(label, OpenMode::ReadWrite).unwrap();
        let oid = ObjectId::generate(0, 1, ObjectType::MultiHashed, ObjectClass::S1);
        let value = Value::Single(Source::One(&[7; 4000]));
        let updates = [Update { akey: b"a", value, cond: Cond::NONE }];
        let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
        for target in 0..2 {
            state.write(&container, target, &[Write { oid, op }], &[]).unwrap();
        }
    }
    pool.close();
    pool
}

#[test]
fn an_index_that_lost_its_bytes_is_refused_and_left_alone() {
    let pool = with_values();
    let file = pool.path().join("target-1/index/data.mdb");
    let whole = std::fs::metadata(&file).unwrap().len();
    for len in [0, 4096, whole - 1] {
        std::fs::File::options().write(true).open(&file).unwrap().set_len(len).unwrap();
        let refused = Pool::open(&pool.path()).map(drop).unwrap_err();
        assert_eq!(refused.kind(), esker_types::ErrorKind::Corrupt, "{len}: {refused}");
        let found = Pool::check(&pool.path(), false, &mut |_, _| {}).unwrap().problems;
        assert!(found[0].contains(&format!("{len} bytes of {whole}")), "{len}: {found:?}");
        assert_eq!(std::fs::metadata(&file).unwrap().len(), len);
    }
    std::fs::remove_file(&file).unwrap();
    assert!(Pool::open(&pool.path()).is_err());
    assert!(Pool::check(&pool.path(), false, &mut |_, _| {}).is_err());
    assert!(!file.exists());
}

#[test]
fn an_index_of_another_time_is_noticed_by_the_bytes_that_nothing_names() {
    let empty = {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        std::fs::read(pool.path().join("target-1/index/data.mdb")).unwrap()
    };
    let pool = with_values();
    let check = || Pool::check(&pool.path(), false, &mut |_, _| {}).unwrap();
    assert_eq!(check().problems, [""; 0]);
    std::fs::write(pool.path().join("target-1/index/data.mdb"), empty).unwrap();
    assert_eq!(check().problems, ["4000 bytes are alive that nothing names"]);
}
