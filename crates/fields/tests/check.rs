//! Checks of a store list unreadable fields and the causes.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker::{Access, Wait};
use esker_conformance::place::Place;
use esker_fields::request::{Request, Selection};
use esker_fields::{Checked, Date, FieldStore, Holder, Key, Schema};
use esker_types::ObjectId;
use esker_types::ops::Cond;

/// Bytes of a chunk of a field.
const CHUNK: usize = 4 << 20;

const DATABASE: &str = "class=od,expver=0001,stream=oper,date=20240610,time=0000";

/// A new store with the default schema.
fn store() -> FieldStore {
    let place = Place::new("check");
    FieldStore::create(&place.pool(), &place.label, &Schema::default_mars().unwrap()).unwrap()
}

/// The key of the field of a step.
fn key(step: u32) -> Key {
    Key::parse(&format!("{DATABASE},type=fc,levtype=sfc,step={step},param=167")).unwrap()
}

/// The fields that a request selects.
fn select(store: &FieldStore, request: &str) -> Selection {
    Request::parse(request).unwrap().expand(store.schema(), Date::today()).unwrap()
}

/// Archives fields of these lengths, one for each step from 0 on, and flushes them.
fn archive(store: &FieldStore, lengths: &[usize]) {
    let mut writer = store.writer();
    for (step, length) in lengths.iter().enumerate() {
        writer.archive(&key(step as u32), &vec![7; *length]).unwrap();
    }
    writer.flush().unwrap();
}

fn everything(store: &FieldStore) -> Selection {
    Selection::everything(store.schema())
}

/// Checks all fields of a store; with `data`, reads them.
fn check(store: &FieldStore, data: bool) -> Checked {
    store.check(&everything(store), data).unwrap()
}

/// The array that holds the field of a step.
fn array_of(store: &FieldStore, step: u32) -> ObjectId {
    match store.field(&key(step)).unwrap().location().holder {
        Holder::Array(oid) => oid,
        Holder::File { .. } => panic!("a field in the store"),
    }
}

/// The steps of the lost fields; none of the losses may be a database.
fn lost(checked: &Checked) -> Vec<&str> {
    assert!(checked.lost.iter().all(|lost| !lost.is_database));
    checked.lost.iter().map(|lost| lost.key.get("step").unwrap()).collect()
}

#[test]
fn check_finds_all_fields_of_an_intact_store() {
    let store = store();
    assert_eq!(check(&store, true), Checked::default());
    let lengths = [1, CHUNK, CHUNK + 1, 100];
    archive(&store, &lengths);
    let (fields, bytes) = (4, lengths.iter().sum::<usize>() as u64);
    for data in [false, true] {
        assert_eq!(check(&store, data), Checked { fields, bytes, lost: Vec::new() });
    }
}

#[test]
fn fields_without_all_their_bytes_are_listed() {
    let store = store();
    archive(&store, &[10, 10, 3 * CHUNK, 3 * CHUNK, 10]);
    let object = |step| store.container().object(array_of(&store, step));
    object(1).punch(Cond::NONE, Access::Latest).wait().unwrap();
    // The middle chunk, without which the length stays the same; and the last one. Dkeys of chunks count from 1.
    for (step, chunk) in [(2, 2_u64), (3, 3)] {
        let dkey = chunk.to_ne_bytes();
        object(step).punch_dkey(&dkey, Cond::NONE, Access::Latest).wait().unwrap();
    }
    let checked = check(&store, false);
    assert_eq!((lost(&checked), checked.fields, checked.bytes), (vec!["1", "2", "3"], 2, 20));
    let (from, to) = (CHUNK, 2 * CHUNK);
    assert_eq!(checked.lost[1].why, format!("its bytes from {from} to {to} are missing"));
    assert_eq!(check(&store, true), checked);

    assert_eq!(lost(&store.check(&select(&store, "step=2/4"), false).unwrap()), ["2"]);
    // Fields that are archived again are readable, and wiped fields are not reported.
    archive(&store, &[10, 10, 10]);
    store.wipe(&select(&store, &format!("{DATABASE},step=3")), true, |_| Ok(())).unwrap();
    assert_eq!(lost(&check(&store, true)), [""; 0]);
}

#[test]
fn adopted_files_that_are_gone_or_cut_are_listed() {
    let store = store();
    let path = std::env::temp_dir().join(format!("esker-fields-check-{}", std::process::id()));
    std::fs::write(&path, [7; 300]).unwrap();
    let mut writer = store.writer();
    for step in 0..3 {
        writer.adopt(&key(step), &path, u64::from(step) * 100, 100).unwrap();
    }
    writer.flush().unwrap();
    assert_eq!(check(&store, true).fields, 3);
    std::fs::File::options().write(true).open(&path).unwrap().set_len(250).unwrap();
    assert_eq!(lost(&check(&store, false)), ["2"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(lost(&check(&store, false)), ["0", "1", "2"]);
}
