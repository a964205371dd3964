//! Watches yield each flushed field once while many writers are active.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

mod support;

use esker_conformance::place::Place;
use esker_fields::request::{Request, Selection};
use esker_fields::{Date, FieldStore, Key, Schema, Watch};
use esker_testing::Random;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const WRITERS: u64 = 5;
const FLUSHES: u64 = 150;

/// The key of a field, which no other writer archives.
fn key(writer: u64, step: u64, field: u64) -> Key {
    let (stream, param) = (["oper", "enda"][(field % 2) as usize], 100 + field);
    let text = format!(
        "class=od,expver=0001,stream={stream},date=20240610,time=0000,domain=g,type={},levtype=sfc,step={step},param={param}",
        ["fc", "an", "cf", "pf", "em"][writer as usize]
    );
    Key::parse(&text).unwrap()
}

/// Archives steps of a few fields each and flushes each step.
fn write(store: &FieldStore, writer: u64, seed: u64) -> BTreeMap<Key, u64> {
    let mut random = Random::new(seed ^ writer, 0);
    let (mut writing, mut times) = (store.writer(), BTreeMap::new());
    for step in 0..FLUSHES {
        for field in 0..1 + random.below(6) {
            writing.archive(&key(writer, step, field), b"field").unwrap();
            times.insert(key(writer, step, field), 1);
        }
        writing.flush().unwrap();
        // Soon the store has more writers than logs.
        if random.one_in(3) {
            writing = store.writer();
        }
        if random.one_in(10) {
            esker_testing::pause(random.below(8000));
        }
    }
    times
}

/// Counts how often each field arrives, until none arrives any more.
fn follow(mut watch: Watch, last: &AtomicBool) -> BTreeMap<Key, u64> {
    let mut times = BTreeMap::new();
    loop {
        let over = last.load(Ordering::Acquire);
        match watch.next(Duration::from_millis(20)).unwrap() {
            Some(field) => *times.entry(field.key().clone()).or_default() += 1,
            None if over => return times,
            None => {}
        }
    }
}

/// Lets writers archive while two watches follow, and compares what arrives.
fn run(seed: u64) {
    let place = Place::new("watch");
    let schema = Schema::default_mars().unwrap();
    let store = FieldStore::create(&place.pool(), &place.label, &schema).unwrap();
    let today = Date::new(2024, 6, 15).unwrap();
    let some = Request::parse("param=101/102").unwrap().expand(store.schema(), today).unwrap();
    let watches = [Selection::everything(store.schema()), some];
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watching = watches.each_ref().map(|selection| {
            let watch = store.watch(selection, false).unwrap();
            scope.spawn(|| follow(watch, &over))
        });
        let writing: Vec<_> = (0..WRITERS)
            .map(|writer| {
                scope.spawn({
                    let store = store.clone();
                    move || write(&store, writer, seed)
                })
            })
            .collect();
        let mut flushed = BTreeMap::new();
        writing.into_iter().for_each(|writer| flushed.append(&mut writer.join().unwrap()));
        over.store(true, Ordering::Release);
        for (watching, selection) in watching.into_iter().zip(&watches) {
            let mut wanted = flushed.clone();
            wanted.retain(|key, _| selection.matches(key));
            let came = watching.join().unwrap();
            let differs = |key: &&Key| came.get(key) != wanted.get(key);
            let wrong: Vec<&Key> =
                wanted.keys().chain(came.keys()).filter(differs).take(3).collect();
            assert!(wrong.is_empty(), "missed or twice: {wrong:?}");
        }
    });
}

#[test]
fn watch_yields_each_field_of_many_writers_once() {
    support::for_random(4, |random| run(random.below(u64::MAX)));
}
