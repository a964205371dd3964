//! Listings: complete, in steps, and stable under concurrent changes.
use super::store::{Store, akeys, checks, dkeys, objects, put, run};
use super::{Make, Outcome};
use esker::{Access, Object, Wait};
use esker_types::ops::{AkeyRef, Anchor, Cond, ListLimit, Source, Update, Value};
use esker_types::{Extent, ObjectClass, ObjectId, ObjectType, Result};
use std::collections::BTreeMap;

/// Checks listings.
///
/// # Panics
/// If the backend violates a requirement.
pub fn listing(make: Make<'_>) -> Outcome {
    run(
        "listing",
        &make(),
        checks![
            listings_of_a_missing_object_are_empty,
            every_dkey_is_listed_once,
            akeys_are_sorted,
            dkeys_on_one_target_are_sorted,
            integer_keys_round_trip,
            limits_are_kept,
            a_page_of_no_entries_does_not_end_a_listing,
            an_ended_listing_stays_ended,
            permanent_keys_are_listed_once_during_changes,
            a_listing_continues_after_a_removed_key,
            objects_are_listed_once,
            objects_are_listed_in_the_order_of_their_ids_from_any,
            permanent_objects_are_listed_once_during_changes,
            rewritten_extents_are_not_listed_twice,
        ],
    )
}

fn key(number: u64) -> Vec<u8> {
    format!("key-{number:05}").into_bytes()
}

/// A new object with `count` dkeys.
fn filled(store: &Store, count: u64) -> Result<Object> {
    let object = store.object()?;
    (0..count).try_for_each(|number| put(&object, &key(number), b"a", b"v"))?;
    Ok(object)
}

fn listings_of_a_missing_object_are_empty(store: &Store) -> Result<()> {
    let object = store.object()?;
    assert_eq!(dkeys(&object, 10, Access::Latest)?.len(), 0);
    assert_eq!(akeys(&object, b"d", 10)?.len(), 0);
    assert_eq!(objects(&store.container, 10, Access::Latest)?.len(), 0);
    Ok(())
}

fn every_dkey_is_listed_once(store: &Store) -> Result<()> {
    let object = filled(store, 300)?;
    let wanted: Vec<_> = (0..300).map(key).collect();
    for entries in [1, 7, 300, 1000] {
        assert_eq!(dkeys(&object, entries, Access::Latest)?, wanted, "in steps of {entries}");
    }
    Ok(())
}

fn akeys_are_sorted(store: &Store) -> Result<()> {
    let object = store.object()?;
    let keys: [&[u8]; 8] = [b"\0", b"\0\0", b"\x01", b"a", b"a\0", b"a\0b", b"ab", b"\xff"];
    for akey in keys.iter().rev() {
        put(&object, b"d", akey, b"v")?;
        put(&object, b"d\0", akey, b"v")?;
    }
    for entries in [1, 3, 100] {
        assert_eq!(akeys(&object, b"d", entries)?, keys.map(<[u8]>::to_vec));
    }
    Ok(())
}

fn dkeys_on_one_target_are_sorted(store: &Store) -> Result<()> {
    let oid = store.oid_of_class(ObjectType::KvLexical, ObjectClass::S1)?;
    let kv = store.container.kv(oid)?;
    for number in (0..50).rev() {
        kv.put(&key(number), b"v", Cond::NONE, Access::Latest).wait()?;
    }
    let mut anchor = Anchor::Start;
    let batch = kv.list(&mut anchor, ListLimit::entries(100), Access::Latest).wait()?;
    assert!(batch.iter().eq((0..50).map(key).collect::<Vec<_>>().iter().map(Vec::as_slice)));
    Ok(())
}

fn integer_keys_round_trip(store: &Store) -> Result<()> {
    let object = store.object_of(ObjectType::DkeyInteger)?;
    let numbers = [0u64, 1, 255, 256, 1 << 33, u64::MAX];
    numbers.iter().try_for_each(|number| put(&object, &number.to_ne_bytes(), b"a", b"v"))?;
    let mut found: Vec<_> = dkeys(&object, 2, Access::Latest)?;
    found.sort_by_key(|key| key.as_slice().try_into().map(u64::from_ne_bytes).ok());
    assert_eq!(found, numbers.map(|number| number.to_ne_bytes().to_vec()));
    Ok(())
}

/// A listing stops at the limit of entries or of bytes, but returns at least one key.
fn limits_are_kept(store: &Store) -> Result<()> {
    let object = filled(store, 20)?;
    let list = |anchor: &mut Anchor, entries, bytes| {
        object.list_dkeys(anchor, ListLimit { entries, bytes }, Access::Latest).wait()
    };
    let mut anchor = Anchor::Start;
    let batch = list(&mut anchor, 100, 20)?;
    assert!((1..=2).contains(&batch.len()), "{} keys of 9 bytes in 20", batch.len());
    assert!(!anchor.is_end());
    let next = list(&mut anchor, 100, 1)?;
    assert_eq!(next.len(), 1, "the first key is returned even if it exceeds the limit");
    assert!(batch.iter().all(|key| next.iter().all(|other| key != other)));
    let mut rest = 0;
    while !anchor.is_end() {
        rest += list(&mut anchor, 3, usize::MAX)?.len();
    }
    assert_eq!(batch.len() + 1 + rest, 20);
    Ok(())
}

fn a_page_of_no_entries_does_not_end_a_listing(store: &Store) -> Result<()> {
    let object = store.object()?;
    let (extents, key) = ([Extent::new(7, 3)], AkeyRef { dkey: b"d", akey: b"a" });
    let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(b"abc") };
    let update = Update { akey: b"a", value, cond: Cond::NONE };
    object.update(b"d", Cond::NONE, &[update], Access::Latest).wait()?;
    let mut anchor = Anchor::Start;
    let list = |anchor: &mut Anchor, entries| {
        object.list_extents(key, anchor, entries, Access::Latest).wait()
    };
    assert!(list(&mut anchor, 0)?.is_empty() && !anchor.is_end());
    let rest = list(&mut anchor, 9)?;
    assert_eq!(rest.iter().map(|stored| stored.extent).collect::<Vec<_>>(), extents);
    let mut anchor = Anchor::Start;
    let keys = object.list_dkeys(&mut anchor, ListLimit::entries(0), Access::Latest).wait()?;
    assert!(keys.is_empty() && !anchor.is_end());
    Ok(())
}

fn an_ended_listing_stays_ended(store: &Store) -> Result<()> {
    let object = filled(store, 3)?;
    let mut anchor = Anchor::End;
    let batch = object.list_dkeys(&mut anchor, ListLimit::entries(9), Access::Latest).wait()?;
    assert!(batch.is_empty() && anchor.is_end());
    let list = store.container.list_objects(&mut anchor, 9, Access::Latest).wait()?;
    assert!(list.is_empty() && anchor.is_end());
    Ok(())
}

/// Even keys stay; odd ones are added and removed between the steps.
fn permanent_keys_are_listed_once_during_changes(store: &Store) -> Result<()> {
    let object = filled(store, 200)?;
    let mut seen = BTreeMap::<Vec<u8>, usize>::new();
    let mut anchor = Anchor::Start;
    let mut step = 0;
    while !anchor.is_end() {
        let limit = ListLimit::entries(7);
        for key in object.list_dkeys(&mut anchor, limit, Access::Latest).wait()?.iter() {
            *seen.entry(key.to_vec()).or_default() += 1;
        }
        for number in (0..20).map(|index| (step * 37 + index * 11) % 100 * 2 + 1) {
            object.punch_dkey(&key(number), Cond::NONE, Access::Latest).wait()?;
            put(&object, &key(number + 1000), b"a", b"v")?;
        }
        step += 1;
    }
    for number in (0..200).step_by(2) {
        assert_eq!(seen.get(&key(number)), Some(&1), "key {number} existed all the time");
    }
    assert!(seen.values().all(|times| *times == 1), "no key is listed twice");
    Ok(())
}

fn a_listing_continues_after_a_removed_key(store: &Store) -> Result<()> {
    let object = filled(store, 30)?;
    let mut anchor = Anchor::Start;
    let mut count = 0;
    while !anchor.is_end() {
        let batch = object.list_dkeys(&mut anchor, ListLimit::entries(1), Access::Latest).wait()?;
        count += batch.len();
        for key in batch.iter() {
            object.punch_dkey(key, Cond::NONE, Access::Latest).wait()?;
        }
    }
    assert_eq!(count, 30, "a listing that removes what it sees is complete");
    Ok(())
}

fn objects_are_listed_once(store: &Store) -> Result<()> {
    let mut wanted = BTreeMap::new();
    for (index, otype) in [ObjectType::MultiHashed, ObjectType::KvInteger].into_iter().enumerate() {
        for class in [ObjectClass::S1, ObjectClass::SX] {
            for dkey in 0..20u64 {
                let object = store.container.object(store.oid_of_class(otype, class)?);
                for number in 0..=dkey % 3 {
                    put(&object, &(number + index as u64).to_ne_bytes(), b"0", b"v")?;
                }
                wanted.insert(object.oid(), 1);
            }
        }
    }
    for entries in [1, 9, 1000] {
        let found = objects(&store.container, entries, Access::Latest)?;
        assert_eq!(found, wanted, "in steps of {entries}");
    }
    Ok(())
}

fn objects_are_listed_in_the_order_of_their_ids_from_any(store: &Store) -> Result<()> {
    let mut all: Vec<_> = (0..40).map(|_| store.object()).collect::<Result<_>>()?;
    all.iter().try_for_each(|object| put(object, b"d", b"a", b"v"))?;
    all.sort_by_key(Object::oid);
    let all: Vec<_> = all.iter().map(Object::oid).collect();
    let list = |mut anchor: Anchor, entries| {
        store.container.list_objects(&mut anchor, entries, Access::Latest).wait()
    };
    assert_eq!(list(Anchor::Start, 100)?, all);
    for from in [39, 0, 1, 20] {
        for entries in [1, 7, 100] {
            let wanted = &all[from..all.len().min(from + entries)];
            assert_eq!(list(Anchor::at_object(all[from]), entries)?, wanted, "from {from}");
        }
    }
    let ObjectId { hi, lo } = all[39];
    assert!(list(Anchor::at_object(ObjectId { hi, lo: lo + 1 }), 9)?.is_empty());
    assert_eq!(list(Anchor::at_object(ObjectId::default()), 1)?, all[..1]);
    Ok(())
}

fn permanent_objects_are_listed_once_during_changes(store: &Store) -> Result<()> {
    let all: Vec<_> = (0..60).map(|_| store.object()).collect::<Result<_>>()?;
    all.iter().try_for_each(|object| put(object, b"d", b"a", b"v"))?;
    let mut seen = BTreeMap::<ObjectId, usize>::new();
    let mut anchor = Anchor::Start;
    let mut leaving = all.iter().step_by(2);
    while !anchor.is_end() {
        for oid in store.container.list_objects(&mut anchor, 4, Access::Latest).wait()? {
            *seen.entry(oid).or_default() += 1;
        }
        for object in leaving.by_ref().take(3) {
            object.punch(Cond::NONE, Access::Latest).wait()?;
        }
        put(&store.object()?, b"d", b"a", b"v")?;
        put(&all[1], b"more", b"a", b"v")?;
    }
    for object in all.iter().skip(1).step_by(2) {
        assert_eq!(
            seen.get(&object.oid()),
            Some(&1),
            "object {} existed all the time",
            object.oid()
        );
    }
    assert!(seen.values().all(|times| *times == 1), "no object is listed twice");
    Ok(())
}

fn rewritten_extents_are_not_listed_twice(store: &Store) -> Result<()> {
    let object = store.object()?;
    let write = |start, count| {
        let (extents, data) = ([Extent::new(start, count)], vec![7; count as usize]);
        let data = Source::One(&data);
        let value = Value::Array { record_size: 1, extents: &extents, data };
        let update = Update { akey: b"a", value, cond: Cond::NONE };
        object.update(b"d", Cond::NONE, &[update], Access::Latest).wait()
    };
    (0..20).try_for_each(|index| write(index * 10, 5))?;
    let key = AkeyRef { dkey: b"d", akey: b"a" };
    let (mut anchor, mut end, mut records) = (Anchor::Start, 0, 0);
    while !anchor.is_end() {
        for stored in object.list_extents(key, &mut anchor, 3, Access::Latest).wait()? {
            assert!(stored.extent.start >= end, "record {} is listed twice", stored.extent.start);
            end = stored.extent.end();
            records += stored.extent.count;
        }
        write(0, 195)?;
    }
    assert!(records >= 20 * 5, "{records} records of at least 100");
    Ok(())
}
