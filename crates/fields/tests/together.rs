//! Many fields in one buffer, read by several threads.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker_fields::request::Request;
use esker_fields::{Date, Field, FieldStore, Key, Schema, bytes_of, read_together};
use esker_testkit::place::Place;
use esker_types::ErrorKind;

const STEPS: usize = 40;

/// Fields of up to 3 MiB, enough for several threads.
fn field(step: usize) -> Vec<u8> {
    (0..step * 80_000 + 1).map(|n| (n * 31 / 7 + step) as u8).collect()
}

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

fn find(store: &FieldStore, request: &str) -> Vec<Field> {
    let today = Date::new(2024, 6, 15).unwrap();
    let selection = Request::parse(request).unwrap().expand(store.schema(), today).unwrap();
    store.retrieve(&selection).unwrap()
}

#[test]
fn all_fields_stand_one_behind_the_other() {
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

#[test]
fn what_cannot_be_read_is_named() {
    let store = store("together-gone");
    let fields = find(&store, "class=od,step=all");
    let today = Date::new(2024, 6, 15).unwrap();
    let database = Request::parse("class=od,expver=0001,stream=oper,date=20240610,time=0000");
    let database = database.unwrap().expand(store.schema(), today).unwrap();
    store.wipe(&database, true, |_| Ok(())).unwrap();
    let mut read = vec![0; bytes_of(&fields) as usize];
    let error = read_together(&fields, &mut read).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(error.message().contains("step="), "{error}");
}
