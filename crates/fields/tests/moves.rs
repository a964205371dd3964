//! Moves of fields to another store.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker_conformance::place::Place;
use esker_fields::{FieldStore, Key, Moving, Schema, Selection};
use esker_types::ErrorKind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

const MOVE: Moving = Moving { workers: 3, keep: false };

/// A new store with the default schema.
fn store() -> FieldStore {
    let place = Place::new("moves");
    FieldStore::create(&place.pool(), &place.label, &Schema::default_mars().unwrap()).unwrap()
}

/// The key of the field of a step.
fn key(step: u32) -> Key {
    let text = format!(
        "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=sfc,step={step},param=167"
    );
    Key::parse(&text).unwrap()
}

/// Archives a field for each step, whose bytes name the version, and flushes them.
fn archive(store: &FieldStore, steps: std::ops::Range<u32>, version: u32) {
    let mut writer = store.writer();
    for step in steps {
        writer.archive(&key(step), format!("step {step} version {version}").as_bytes()).unwrap();
    }
    writer.flush().unwrap();
}

/// All fields, by the names of their database, as a move demands.
fn everything(store: &FieldStore) -> Selection {
    let text = "class=od,expver=0001,stream=oper,date=20240610,time=0000";
    let request = esker_fields::request::Request::parse(text).unwrap();
    request.expand(store.schema(), esker_fields::Date::new(2024, 6, 15).unwrap()).unwrap()
}

/// Keys and bytes of all fields.
fn contents(store: &FieldStore) -> BTreeMap<String, String> {
    let all = store.list(&Selection::everything(store.schema())).unwrap();
    let text = |listed: esker_fields::Listed| {
        let bytes = store.listed(listed.clone()).read().unwrap();
        (listed.key.to_string(), String::from_utf8(bytes).unwrap())
    };
    all.into_iter().map(text).collect()
}

/// The bytes of the field of a step.
fn text(store: &FieldStore, step: u32) -> String {
    String::from_utf8(store.field(&key(step)).unwrap().read().unwrap()).unwrap()
}

#[test]
fn move_copies_all_fields_and_removes_them_here() {
    let (from, to) = (store(), store());
    archive(&from, 0..2500, 1);
    archive(&from, 0..100, 2);
    let before = contents(&from);
    let mut heard = 0;
    let moved = from.move_to(&everything(&from), &to, MOVE, |_| {
        heard += 1;
        Ok(())
    });
    assert_eq!((moved.unwrap().fields, heard), (2500, 2500));
    assert_eq!((contents(&to), contents(&from)), (before, BTreeMap::new()));
    let left = from.stats(&Selection::everything(from.schema())).unwrap();
    assert_eq!((left.fields, left.masked), (0, 0));
}

#[test]
fn second_move_of_kept_fields_copies_only_new_ones() {
    let (from, to) = (store(), store());
    archive(&from, 0..50, 1);
    let keep = Moving { keep: true, ..MOVE };
    from.move_to(&everything(&from), &to, keep, |_| Ok(())).unwrap();
    assert_eq!(contents(&from), contents(&to));
    archive(&from, 40..60, 2);
    let again = from.move_to(&everything(&from), &to, MOVE, |_| Ok(())).unwrap();
    assert_eq!((again.fields, again.there, again.left), (60, 40, 0));
    assert!(contents(&from).is_empty());
    assert_eq!(text(&to, 45), "step 45 version 2");
}

#[test]
fn move_to_own_store_or_of_unnamed_databases_is_refused() {
    let (from, to) = (store(), store());
    archive(&from, 0..2, 1);
    let refused = |selection: &Selection, to: &FieldStore| {
        from.move_to(selection, to, MOVE, |_| Ok(())).unwrap_err().kind()
    };
    assert_eq!(refused(&everything(&from), &from), ErrorKind::Invalid);
    let open = Selection::everything(from.schema());
    assert_eq!(refused(&open, &to), ErrorKind::Invalid);
    assert_eq!(contents(&from).len(), 2);
}

/// Stops a move after any number of fields, and repeats it.
#[test]
fn a_move_that_is_stopped_loses_nothing() {
    let (from, to) = (store(), store());
    archive(&from, 0..1500, 1);
    let before = contents(&from);
    for patience in [0, 700, 1200] {
        let mut heard = 0;
        let stopped = from.move_to(&everything(&from), &to, MOVE, |_| {
            heard += 1;
            if heard > patience { Err(ErrorKind::Canceled.into()) } else { Ok(()) }
        });
        if stopped.is_ok() {
            break;
        }
        let mut both = contents(&from);
        both.extend(contents(&to));
        assert_eq!(both, before);
    }
    from.move_to(&everything(&from), &to, MOVE, |_| Ok(())).unwrap();
    assert_eq!((contents(&to), contents(&from).len()), (before, 0));
}

/// The last version of each field is in one of the stores, in any order of archiving and moving.
#[test]
fn fields_archived_during_a_move_are_not_lost() {
    let (from, to) = (store(), store());
    archive(&from, 0..300, 0);
    let done = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut version = 0;
            while !done.load(Ordering::Relaxed) {
                version += 1;
                archive(&from, 0..300, version);
            }
            version
        });
        let mut left = 0;
        for _ in 0..10 {
            left += from.move_to(&everything(&from), &to, MOVE, |_| Ok(())).unwrap().left;
        }
        done.store(true, Ordering::Relaxed);
        println!("{left} stayed");
        writer.join().unwrap()
    });
    from.move_to(&everything(&from), &to, MOVE, |_| Ok(())).unwrap();
    for step in 0..300 {
        assert_eq!(text(&to, step), format!("step {step} version {last}"));
    }
    assert!(contents(&from).is_empty());
}
