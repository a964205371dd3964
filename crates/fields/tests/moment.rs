//! Every kind of search shows the store at one moment: a flush to several databases is visible completely or not at
//! all.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

use esker::backend::memory::Memory;
use esker::backend::{OpenContainer, Pool, Reply};
use esker_conformance::between::{Interceptor, PoolBetween};
use esker_conformance::place::Place;
use esker_fields::request::Request;
use esker_fields::{Date, Field, FieldStore, Key, Schema};
use esker_types::ObjectId;
use esker_types::info::OpenMode;
use esker_types::ops::{DkeyFetch, ReadAt};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

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

/// Counts fetches.
#[derive(Default)]
struct Fetches(AtomicU32);

impl Interceptor for Fetches {
    fn fetch<'a, 'f, 'b>(
        &'a self,
        from: &'a dyn OpenContainer,
        oid: ObjectId,
        dkeys: &'a mut [DkeyFetch<'f, 'b>],
        at: ReadAt<'a>,
    ) -> Reply<'a, ()>
    where
        'b: 'f,
        'f: 'a,
    {
        self.0.fetch_add(1, Ordering::Relaxed);
        from.fetch(oid, dkeys, at)
    }
}

/// One fetch is from one moment, several are not. Locations in files may be longer than the first fetch expects.
#[test]
fn one_fetch_reads_all_long_locations_of_an_index() {
    let fetches = Arc::new(Fetches::default());
    let backend: Arc<dyn Pool> = Arc::new(PoolBetween::before(Arc::new(Memory::new(2)), &fetches));
    let pool = esker::Pool::from_backend(backend, OpenMode::ReadWrite);
    let store = FieldStore::create(&pool, "long", &Schema::default_mars().unwrap()).unwrap();
    let path = format!("/{}", "nowhere/".repeat(20));
    let mut writer = store.writer();
    (0..9).for_each(|step| writer.adopt(&key("oper", step), Path::new(&path), 0, 1).unwrap());
    writer.flush().unwrap();
    let today = Date::new(2024, 6, 15).unwrap();
    let request = "class=od,expver=1,stream=oper,date=20240610,time=0,type=fc,levtype=sfc,step=0/to/8/by/1,param=167";
    let selection = Request::parse(request).unwrap().expand(store.schema(), today).unwrap();
    fetches.0.store(0, Ordering::Relaxed);
    let found = store.find(&selection).unwrap().fields.len();
    assert_eq!((found, fetches.0.load(Ordering::Relaxed)), (9, 2), "a short one and a long one");
}
