//! Many fields, read by several threads: into one buffer, and ahead of their use.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker_conformance::place::Place;
use esker_fields::request::Request;
use esker_fields::{Date, Field, FieldStore, Key, Schema, bytes_of, read_ahead, read_together};
use esker_types::{Error, ErrorKind};

const STEPS: usize = 40;

/// Fields of up to 3 MiB, enough for several threads.
fn field(step: usize) -> Vec<u8> {
    (0..step * 80_000 + 1).map(|n| (n * 31 / 7 + step) as u8).collect()
}

/// A store with a field for each step.
fn store(name: &str) -> FieldStore {
    let place = Place::new(name);
    let schema = Schema::default_mars().unwrap();
    let store = FieldStore::create(&place.pool(), &place.label, &schema).unwrap();
    let mut writer = store.writer();
    for step in 0..STEPS {
        let text = format!(
            "class=od,expver=0001,stream=oper,date=20240610,time=0000,type=fc,levtype=sfc,step={step},param=167"
        );
        writer.archive(&Key::parse(&text).unwrap(), &field(step)).unwrap();
    }
    writer.flush().unwrap();
    store
}

/// The fields of a request.
fn find(store: &FieldStore, request: &str) -> Vec<Field> {
    let today = Date::new(2024, 6, 15).unwrap();
    let selection = Request::parse(request).unwrap().expand(store.schema(), today).unwrap();
    store.retrieve(&selection).unwrap()
}

#[test]
fn buffer_has_all_fields_in_order() {
    let store = store("together");
    let fields = find(&store, "class=od,step=all");
    let mut wanted: Vec<u8> = (0..STEPS).flat_map(field).collect();
    let mut read = vec![0xee; bytes_of(&fields) as usize];
    read_together(&fields, &mut read).unwrap();
    assert!(read == wanted);
    let (first, rest) = fields.split_first().unwrap();
    read_together(std::slice::from_ref(first), &mut read[..1]).unwrap();
    read_together(&[], &mut []).unwrap();
    let error = read_together(rest, &mut wanted).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

/// The fields of a store that has lost them all since.
fn lost(name: &str) -> Vec<Field> {
    let store = store(name);
    let fields = find(&store, "class=od,step=all");
    let today = Date::new(2024, 6, 15).unwrap();
    let database = Request::parse("class=od,expver=0001,stream=oper,date=20240610,time=0000");
    let database = database.unwrap().expand(store.schema(), today).unwrap();
    store.wipe(&database, true, |_| Ok(())).unwrap();
    fields
}

#[test]
fn error_names_the_unreadable_field() {
    let fields = lost("together-gone");
    let mut read = vec![0; bytes_of(&fields) as usize];
    let error = read_together(&fields, &mut read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("step="), "{error}");
}

/// The first fields are read together, each of the others by itself.
#[test]
fn fields_that_are_read_ahead_come_in_their_order() {
    let store = store("ahead");
    let fields = find(&store, "class=od,step=all");
    for part in [&fields[..], &fields[..3], &fields[..1], &fields[STEPS - 1..], &[]] {
        let mut seen = Vec::new();
        let visit = |field: &Field, bytes: &[u8]| {
            seen.push((field.key().clone(), bytes.to_vec()));
            Ok(())
        };
        read_ahead(part, visit).unwrap();
        assert_eq!(seen.len(), part.len());
        for (field, (key, bytes)) in part.iter().zip(seen) {
            assert!(*field.key() == key && field.read().unwrap() == bytes, "{key}");
        }
    }
}

#[test]
fn reading_ahead_ends_at_the_first_error() {
    let good = find(&store("ahead-good"), "class=od,step=all");
    for (at, gone) in [(0, 0), (1, 1), (2, 30), (20, 1), (STEPS, 39)] {
        let mut fields = good.clone();
        fields.insert(at, lost("ahead-gone")[gone].clone());
        let mut seen = 0;
        let error = read_ahead(&fields, |_, _| {
            seen += 1;
            Ok(())
        });
        assert_eq!(error.unwrap_err().kind(), ErrorKind::NotFound);
        assert_eq!(seen, at);
    }
    let mut seen = 0;
    let error = read_ahead(&good, |_, _| {
        seen += 1;
        if seen < 10 { Ok(()) } else { Err(Error::new(ErrorKind::Canceled, "enough")) }
    });
    assert_eq!((error.unwrap_err().kind(), seen), (ErrorKind::Canceled, 10));
}
