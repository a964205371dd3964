//! Every kind of search shows the store at one moment: a flush to several databases is visible completely or not at
//! all.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker_conformance::place::Place;
use esker_fields::request::Request;
use esker_fields::{Date, Field, FieldStore, Key, Schema};
use esker_types::info::OpenMode;
use std::sync::atomic::{AtomicBool, Ordering};

const STREAMS: [&str; 4] = ["oper", "enda", "wave", "enfo"];
const ROUNDS: u32 = 300;

/// The key of a field in the database of a stream.
fn key(stream: &str, step: u32) -> Key {
    let text = format!(
        "class=od,expver=0001,stream={stream},date=20240610,time=0000,type=fc,levtype=sfc,step={step},param=167"
    );
    Key::parse(&text).unwrap()
}

/// Archives one field anew in each database, and a new one, and flushes all of it at once.
fn write(store: &FieldStore) {
    let mut writer = store.writer();
    for round in 0..ROUNDS {
        for stream in STREAMS {
            writer.archive(&key(stream, 0), &round.to_le_bytes()).unwrap();
            writer.archive(&key(stream, 1 + round), &round.to_le_bytes()).unwrap();
        }
        writer.flush().unwrap();
    }
}

/// The round in which a field was archived.
fn round(field: &Field) -> u32 {
    u32::from_le_bytes(field.read().unwrap().try_into().unwrap())
}

/// The round of the fields, which must be one for all databases, or of none.
fn same(fields: &[Field], databases: usize) -> Option<u32> {
    let rounds: Vec<u32> = fields.iter().map(round).collect();
    assert!(rounds.is_empty() || rounds.len() == databases, "{rounds:?}");
    assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
    rounds.first().copied()
}

#[test]
fn searches_see_flushes_completely_or_not_at_all() {
    let place = Place::new("moment");
    let (pool, label) = (place.pool(), &place.label);
    let store = FieldStore::create(&pool, label, &Schema::default_mars().unwrap()).unwrap();
    let reader = FieldStore::open(&pool, label, OpenMode::ReadOnly).unwrap();
    let today = Date::new(2024, 6, 15).unwrap();
    let select =
        |request: &str| Request::parse(request).unwrap().expand(store.schema(), today).unwrap();
    let by_key = select(
        "class=od,expver=1,stream=oper/enda/wave/enfo,date=20240610,time=0,type=fc,levtype=sfc,step=0,param=167",
    );
    let by_listing = select("step=0");
    let all = select("class=od");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write(&store);
            over.store(true, Ordering::Release);
        });
        loop {
            let last = over.load(Ordering::Acquire);
            let some = same(&reader.find(&by_key).unwrap().fields, STREAMS.len());
            let later = same(&reader.find(&by_listing).unwrap().fields, STREAMS.len());
            assert!(some <= later, "{some:?} then {later:?}");
            let listed = reader.list(&all).unwrap().len();
            assert_eq!(listed % STREAMS.len(), 0);
            assert!(later.is_none_or(|round| listed >= STREAMS.len() * (round as usize + 2)));
            if last {
                assert_eq!(
                    (later, listed),
                    (Some(ROUNDS - 1), STREAMS.len() * (ROUNDS as usize + 1))
                );
                return;
            }
        }
    });
}
