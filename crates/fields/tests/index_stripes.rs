//! Indexes with several stripes: every operation has the result that it has with one.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, missing_docs)]

mod support;

use esker::backend::NewContainer;
use esker::{Pool, Wait};
use esker_conformance::place::Place;
use esker_fields::request::Request;
use esker_fields::{Date, FieldStore, Key, Moving, NewFields, Schema, Selection};
use esker_testing::Random;
use esker_types::ErrorKind;
use esker_types::info::OpenMode;
use std::path::Path;
use std::time::Duration;
use support::for_random;

const DATABASE: &str = "class=od,expver=0001,stream=oper,date=20240610,time=0000";

/// A new store with this number of stripes, its pool, and its label.
fn create(stripes: u32) -> (Pool, String, FieldStore) {
    let place = Place::new("stripes");
    let (pool, label) = (place.pool(), place.label);
    let new = NewFields { stripes: Some(stripes) };
    let schema = Schema::default_mars().unwrap();
    let store = FieldStore::create_with(&pool, &label, &schema, new).unwrap();
    (pool, label, store)
}

/// The key of a field in the database of the tests.
fn key(levtype: &str, step: u64, param: u64) -> Key {
    let text = format!("{DATABASE},domain=g,type=fc,levtype={levtype},step={step},param={param}");
    Key::parse(&text).unwrap()
}

/// The fields of the database that a request selects.
fn select(store: &FieldStore, request: &str) -> Selection {
    let comma = if request.is_empty() { "" } else { "," };
    let text = format!("{DATABASE}{comma}{request}");
    Request::parse(&text).unwrap().expand(store.schema(), Date::new(2024, 6, 15).unwrap()).unwrap()
}

fn everything(store: &FieldStore) -> Selection {
    Selection::everything(store.schema())
}

/// Keys and bytes of the fields of a request, in the order of the listing, which must be sorted.
fn contents(store: &FieldStore, request: &Selection) -> Vec<(String, Vec<u8>)> {
    let listed = store.list(request).unwrap();
    assert!(listed.is_sorted_by_key(|listed| listed.key.clone()));
    let read = |listed: esker_fields::Listed| {
        (listed.key.to_string(), store.listed(listed).read().unwrap())
    };
    listed.into_iter().map(read).collect()
}

/// Keys and lengths of the fields of a request.
fn listed(store: &FieldStore, request: &Selection) -> Vec<(String, u64)> {
    let listed = store.list(request).unwrap();
    listed.into_iter().map(|listed| (listed.key.to_string(), listed.location.bytes)).collect()
}

#[test]
fn striped_store_is_used_like_others() {
    let (pool, label, store) = create(4);
    assert_eq!(store.stripes(), 4);
    let property = |name| store.container().properties().get(name).wait().unwrap();
    assert_eq!(property("fields_layout").unwrap(), b"3");
    assert_eq!(property("fields_stripes").unwrap(), b"4");
    let mut watch = store.watch(&everything(&store), false).unwrap();
    let mut writer = store.writer();
    for step in 0..40 {
        writer.archive(&key("sfc", step, 167), format!("{step}").as_bytes()).unwrap();
    }
    assert!(store.list(&everything(&store)).unwrap().is_empty());
    writer.flush().unwrap();

    let other = FieldStore::open(&pool, &label, OpenMode::ReadWrite).unwrap();
    assert_eq!(other.stripes(), 4);
    assert_eq!(contents(&other, &everything(&other)).len(), 40);
    let found = other.retrieve(&select(&other, "type=fc,levtype=sfc,step=39/to/0/by/-1,param=167"));
    let steps: Vec<_> =
        found.unwrap().iter().map(|field| field.key().get("step").unwrap().to_owned()).collect();
    assert!(
        steps.iter().eq((0..40).rev().map(|step: u32| step.to_string()).collect::<Vec<_>>().iter())
    );
    let missing = other.retrieve(&select(&other, "type=fc,levtype=sfc,step=39/40,param=167"));
    assert!(missing.err().unwrap().message().contains("step=40"));
    assert_eq!(other.axes(&everything(&other)).unwrap().values("step").count(), 40);
    let mut yielded = 0;
    while watch.next(Duration::ZERO).unwrap().is_some() {
        yielded += 1;
    }
    assert_eq!(yielded, 40);
    assert_eq!(other.check(&everything(&other), true).unwrap().fields, 40);
}

#[test]
fn number_of_stripes_is_limited_and_one_stripe_is_the_older_layout() {
    let (pool, label, store) = create(1);
    let property = |name| store.container().properties().get(name).wait().unwrap();
    assert_eq!(property("fields_layout").unwrap(), b"2");
    assert_eq!(property("fields_stripes"), None);
    let schema = Schema::default_mars().unwrap();
    for stripes in [0, 65] {
        let new = NewFields { stripes: Some(stripes) };
        let refused = FieldStore::create_with(&pool, "refused", &schema, new).err().unwrap();
        assert_eq!(refused.kind(), ErrorKind::Invalid);
        assert!(refused.message().contains("INDEX_STRIPES_MAX"), "{refused}");
    }
    // Options do not change a store that exists.
    let new = NewFields { stripes: Some(7) };
    let opened = FieldStore::open_or_create_with(&pool, &label, &schema, new).unwrap();
    assert_eq!(opened.stripes(), 1);
}

#[test]
fn processes_that_begin_in_an_empty_container_agree_on_the_stripes() {
    let place = Place::new("stripes");
    let (pool, label) = (place.pool(), place.label.as_str());
    pool.create_container(&NewContainer::named(label)).wait().unwrap();
    let schema = Schema::default_mars().unwrap();
    let begun: Vec<u32> = std::thread::scope(|scope| {
        let begin = |stripes| {
            let new = NewFields { stripes: Some(stripes) };
            FieldStore::open_or_create_with(&pool, label, &schema, new).unwrap().stripes()
        };
        let begun: Vec<_> = (2..6).map(|stripes| scope.spawn(move || begin(stripes))).collect();
        begun.into_iter().map(|begun| begun.join().unwrap()).collect()
    });
    assert!(begun.iter().all(|stripes| *stripes == begun[0]), "{begun:?}");
}

/// More fields than one batch of a listing, in each stripe.
#[test]
fn long_listing_of_stripes_is_sorted_and_complete() {
    let (_, _, store) = create(3);
    let mut writer = store.writer();
    for number in 0..30_000 {
        let key = key("sfc", number % 200, number / 200);
        writer.adopt(&key, Path::new("/nowhere"), number, 1).unwrap();
    }
    writer.flush().unwrap();
    let mut keys: Vec<String> = Vec::new();
    store
        .visit(&everything(&store), false, |listed| {
            keys.push(listed.key.to_string());
            Ok(true)
        })
        .unwrap();
    assert_eq!(keys.len(), 30_000);
    assert!(keys.is_sorted(), "each key once, in order");
    keys.dedup();
    assert_eq!(keys.len(), 30_000);
    assert_eq!(store.list(&everything(&store)).unwrap().len(), 30_000);
    let stats = store.stats(&everything(&store)).unwrap();
    assert_eq!((stats.indexes, stats.fields, stats.adopted), (1, 30_000, 30_000));
}

/// A random change of both stores.
fn change(stores: [&FieldStore; 2], random: &mut Random) {
    let levtype = ["sfc", "pl"][random.below(2) as usize];
    let step = random.below(12);
    match random.below(8) {
        0 => {
            let request = format!("type=fc,levtype={levtype},step={step}");
            let wiped = stores.map(|store| {
                let wiped = store.wipe(&select(store, &request), true, |_| Ok(())).unwrap();
                (wiped.fields, wiped.masked, wiped.bytes)
            });
            assert_eq!(wiped[0], wiped[1]);
        }
        1 => {
            let purged = stores.map(|store| {
                let purged = store.purge(&everything(store), true, |_| Ok(())).unwrap();
                (purged.masked, purged.unflushed, purged.removed)
            });
            assert_eq!(purged[0], purged[1]);
        }
        _ => {
            let fields: Vec<_> = (0..1 + random.below(20))
                .map(|_| (key(levtype, random.below(12), 100 + random.below(3)), random.below(100)))
                .collect();
            for store in stores {
                let mut writer = store.writer();
                for (key, content) in &fields {
                    writer.archive(key, &vec![7; 1 + *content as usize]).unwrap();
                }
                writer.flush().unwrap();
            }
        }
    }
}

/// The keys of all masked fields.
fn masked(store: &FieldStore) -> Vec<String> {
    let mut masked = Vec::new();
    store
        .visit(&everything(store), true, |listed| {
            masked.push(listed.key.to_string());
            Ok(true)
        })
        .unwrap();
    masked
}

#[test]
fn random_changes_leave_what_a_store_with_one_stripe_has() {
    for_random(5, |random| {
        let (one, other) = (create(1).2, create(2 + random.below(6) as u32).2);
        let stores = [&one, &other];
        let mut watches = stores.map(|store| store.watch(&everything(store), true).unwrap());
        for _ in 0..25 {
            change(stores, random);
            let step = random.below(12);
            for request in [String::new(), format!("step={step}"), "levtype=pl".to_owned()] {
                let [a, b] = stores.map(|store| listed(store, &select(store, &request)));
                assert_eq!(a, b);
            }
            let exact =
                format!("type=fc,levtype=sfc,step=0/to/{step}/by/1,param=100/101,expect=any");
            let [a, b] = stores.map(|store| {
                let found = store.find(&select(store, &exact)).unwrap();
                let keys: Vec<_> = found.fields.iter().map(|field| field.key().clone()).collect();
                (keys, found.missing_count)
            });
            assert_eq!(a, b);
        }
        let [a, b] = stores.map(|store| contents(store, &everything(store)));
        assert_eq!(a, b);
        assert_eq!(masked(&one), masked(&other));
        let [a, b] = stores.map(|store| store.axes(&everything(store)).unwrap().to_map());
        assert_eq!(a, b);
        let [a, b] = stores.map(|store| store.by_index(&everything(store)).unwrap());
        assert_eq!(a, b);
        let [a, b] = stores.map(|store| store.stats(&everything(store)).unwrap());
        assert_eq!(a, b);
        for (watch, store) in watches.iter_mut().zip(stores) {
            let mut seen = std::collections::BTreeSet::new();
            while let Some(field) = watch.next(Duration::ZERO).unwrap() {
                seen.insert(field.key().clone());
            }
            let now = store.list(&everything(store)).unwrap();
            assert!(now.iter().all(|listed| seen.contains(&listed.key)));
        }
    });
}

#[test]
fn fields_move_between_layouts() {
    let (one, striped) = (create(1).2, create(5).2);
    let mut writer = one.writer();
    for step in 0..100 {
        writer.archive(&key("sfc", step, 167), &step.to_le_bytes()).unwrap();
    }
    writer.flush().unwrap();
    let before = contents(&one, &everything(&one));
    let how = Moving { workers: 2, keep: false };
    for (from, to) in [(&one, &striped), (&striped, &one)] {
        let moved = from.move_to(&select(from, ""), to, how, |_| Ok(())).unwrap();
        assert_eq!((moved.fields, moved.left), (100, 0));
        assert!(from.list(&everything(from)).unwrap().is_empty());
        assert_eq!(contents(to, &everything(to)), before);
    }
}

/// Writers of the same steps flush at the same time. No flush of new fields conflicts with another.
#[test]
fn readers_see_each_flush_over_stripes_completely() {
    const WRITERS: u64 = 3;
    const FLUSHES: u64 = 60;
    let (pool, label, store) = create(4);
    let reader = FieldStore::open(&pool, &label, OpenMode::ReadOnly).unwrap();
    // Each writer archives one field of each step, again and again.
    let steps = 0..8;
    let write = |writer: u64| {
        let mut writing = store.writer();
        for round in 0..FLUSHES {
            for step in steps.clone() {
                writing.archive(&key("sfc", step, 100 + writer), &round.to_le_bytes()).unwrap();
            }
            writing.flush().unwrap();
        }
    };
    let request = "type=fc,levtype=sfc,step=0/to/7/by/1,expect=any,param=";
    let look = |param: u64, listed: bool| {
        let selection = select(&reader, &format!("{request}{param}"));
        let fields = match listed {
            true => {
                reader.list(&selection).unwrap().into_iter().map(|one| reader.listed(one)).collect()
            }
            false => reader.retrieve(&selection).unwrap(),
        };
        let rounds: Vec<Vec<u8>> = fields.iter().map(|field| field.read().unwrap()).collect();
        assert!(rounds.is_empty() || rounds.len() == 8, "{rounds:?}");
        assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
        rounds.first().is_some_and(|round| **round == (FLUSHES - 1).to_le_bytes())
    };
    std::thread::scope(|scope| {
        (0..WRITERS).for_each(|writer| drop(scope.spawn(move || write(writer))));
        for listed in [true, false] {
            scope.spawn(move || while !(0..WRITERS).all(|writer| look(100 + writer, listed)) {});
        }
    });
    let stats = store.stats(&everything(&store)).unwrap();
    assert_eq!((stats.fields, stats.masked), (24, 24 * (FLUSHES - 1)));
}
