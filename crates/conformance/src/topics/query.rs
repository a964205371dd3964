//! The smallest and largest dkey, akey and extent.
use super::store::{Store, checks, put, refused, run};
use super::{Make, Outcome};
use esker::{Access, Object, Wait};
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{Cond, Edge, KeyFound, KeyQuery, ReadAt, Source, Update, Value};
use esker_types::{Epoch, ErrorKind, Extent, ObjectType, Result};

/// Checks queries.
///
/// # Panics
/// If the backend violates a requirement.
pub fn query(make: Make<'_>) -> Outcome {
    run(
        "query",
        &make(),
        checks![
            queries_of_a_missing_object_find_nothing,
            dkeys_are_found_over_all_targets,
            dkeys_after_a_given_one_are_found,
            akeys_are_found,
            extents_are_found,
            the_outermost_dkey_with_the_rest_counts,
            removed_keys_do_not_count,
            an_extent_needs_an_akey,
            many_objects_are_asked_at_once,
            epochs_grow,
        ],
    )
}

/// Queries the last existing dkey.
pub(super) const ANY: KeyQuery<'static> = KeyQuery {
    edge: Edge::Max,
    dkey: None,
    after: None,
    akey: None,
    want_akey: false,
    want_extent: false,
};

fn object(store: &Store) -> Result<Object> {
    store.object_of(ObjectType::MultiInteger)
}

fn put_at(object: &Object, dkey: u64, akey: u64) -> Result<()> {
    put(object, &dkey.to_ne_bytes(), &akey.to_ne_bytes(), b"v")
}

/// Writes records of 2 bytes to an array.
fn write_at(object: &Object, dkey: u64, akey: u64, extent: Extent) -> Result<()> {
    let data = vec![7; 2 * extent.count as usize];
    let data = Source::One(&data);
    let value = Value::Array { record_size: 2, extents: &[extent], data };
    let update = Update { akey: &akey.to_ne_bytes(), value, cond: Cond::NONE };
    object.update(&dkey.to_ne_bytes(), Cond::NONE, &[update], Access::Latest).wait()
}

fn ask(object: &Object, query: KeyQuery<'_>) -> Result<Option<KeyFound>> {
    object.query_key(query, Access::Latest).wait()
}

/// Answers to `query` for both edges: the smallest key, then the largest.
fn both(object: &Object, query: KeyQuery<'_>) -> Result<[Option<KeyFound>; 2]> {
    let at = |edge| ask(object, KeyQuery { edge, ..query });
    Ok([at(Edge::Min)?, at(Edge::Max)?])
}

fn number(key: &[u8]) -> Option<u64> {
    key.try_into().ok().map(u64::from_ne_bytes)
}

fn dkeys_of(found: &[Option<KeyFound>; 2]) -> [Option<u64>; 2] {
    found.each_ref().map(|found| number(&found.as_ref()?.dkey))
}

fn akeys_of(found: &[Option<KeyFound>; 2]) -> [Option<u64>; 2] {
    found.each_ref().map(|found| number(&found.as_ref()?.akey))
}

fn queries_of_a_missing_object_find_nothing(store: &Store) -> Result<()> {
    let object = object(store)?;
    let akey = 0u64.to_ne_bytes();
    for query in [
        ANY,
        KeyQuery { want_akey: true, ..ANY },
        KeyQuery { dkey: Some(&akey), akey: Some(&akey), want_extent: true, ..ANY },
    ] {
        assert_eq!(both(&object, query)?, [None, None]);
    }
    Ok(())
}

fn dkeys_are_found_over_all_targets(store: &Store) -> Result<()> {
    let object = object(store)?;
    for dkey in [300u64, 2, 70_000, 255, 256, 40] {
        put_at(&object, dkey, 0)?;
    }
    assert_eq!(dkeys_of(&both(&object, ANY)?), [Some(2), Some(70_000)]);
    Ok(())
}

fn dkeys_after_a_given_one_are_found(store: &Store) -> Result<()> {
    let object = object(store)?;
    for dkey in [300u64, 2, 70_000, 255, 256, 40] {
        put_at(&object, dkey, 0)?;
    }
    write_at(&object, 300, 4, Extent::new(10, 5))?;
    for (after, least) in [(0, 2), (2, 40), (3, 40), (255, 256), (300, 70_000)] {
        let after = u64::to_ne_bytes(after);
        let found = both(&object, KeyQuery { after: Some(&after), ..ANY })?;
        assert_eq!(dkeys_of(&found), [Some(least), Some(70_000)]);
    }
    let (after, akey) = (40u64.to_ne_bytes(), 4u64.to_ne_bytes());
    let query = KeyQuery { after: Some(&after), akey: Some(&akey), want_extent: true, ..ANY };
    assert_eq!(dkeys_of(&both(&object, query)?), [Some(300), Some(300)]);
    let after = 70_000u64.to_ne_bytes();
    assert_eq!(both(&object, KeyQuery { after: Some(&after), ..ANY })?, [None, None]);
    refused(ask(&object, KeyQuery { after: Some(b"word"), ..ANY }), ErrorKind::Invalid);
    Ok(())
}

fn akeys_are_found(store: &Store) -> Result<()> {
    let object = object(store)?;
    for (dkey, akey) in [(1, 5), (1, 600), (1, 7), (2, 1), (2, 300)] {
        put_at(&object, dkey, akey)?;
    }
    let dkey = 1u64.to_ne_bytes();
    let found = both(&object, KeyQuery { dkey: Some(&dkey), want_akey: true, ..ANY })?;
    assert_eq!(akeys_of(&found), [Some(5), Some(600)]);
    assert_eq!(dkeys_of(&found), [Some(1), Some(1)]);
    let found = both(&object, KeyQuery { want_akey: true, ..ANY })?;
    assert_eq!((dkeys_of(&found), akeys_of(&found)), ([Some(1), Some(2)], [Some(5), Some(300)]));
    Ok(())
}

fn extents_are_found(store: &Store) -> Result<()> {
    let object = object(store)?;
    for extent in [Extent::new(50, 10), Extent::new(7, 3), Extent::new(55, 2), Extent::new(90, 4)] {
        write_at(&object, 3, 4, extent)?;
    }
    let (dkey, akey) = (3u64.to_ne_bytes(), 4u64.to_ne_bytes());
    let query = KeyQuery { dkey: Some(&dkey), akey: Some(&akey), want_extent: true, ..ANY };
    let [min, max] = both(&object, query)?;
    assert_eq!(min.and_then(|found| found.extent).map(|extent| extent.start), Some(7));
    let max = max.and_then(|found| found.extent);
    assert_eq!(max.map(Extent::end), Some(94));
    Ok(())
}

fn the_outermost_dkey_with_the_rest_counts(store: &Store) -> Result<()> {
    let object = object(store)?;
    put_at(&object, 0, 4)?;
    write_at(&object, 2, 4, Extent::new(10, 5))?;
    write_at(&object, 5, 4, Extent::new(1, 2))?;
    put_at(&object, 9, 8)?;
    let akey = 4u64.to_ne_bytes();
    let query = KeyQuery { akey: Some(&akey), want_extent: true, ..ANY };
    let found = both(&object, query)?;
    assert_eq!(dkeys_of(&found), [Some(2), Some(5)], "dkeys that have an extent there");
    let [min, max] = found.map(|found| found.and_then(|found| found.extent));
    assert_eq!((min.map(|e| e.start), max.map(Extent::end)), (Some(10), Some(3)));
    assert_eq!(
        dkeys_of(&both(&object, KeyQuery { akey: Some(&akey), ..ANY })?),
        [Some(0), Some(5)]
    );
    assert_eq!(dkeys_of(&both(&object, ANY)?), [Some(0), Some(9)]);
    Ok(())
}

fn removed_keys_do_not_count(store: &Store) -> Result<()> {
    let object = object(store)?;
    for dkey in [1u64, 5, 9] {
        write_at(&object, dkey, 0, Extent::new(dkey, 10))?;
    }
    object.punch_dkey(&9u64.to_ne_bytes(), Cond::NONE, Access::Latest).wait()?;
    let akey = 0u64.to_ne_bytes();
    let punch = Value::PunchExtents(&[Extent::new(0, 8)]);
    let update = Update { akey: &akey, value: punch, cond: Cond::NONE };
    object.update(&1u64.to_ne_bytes(), Cond::NONE, &[update], Access::Latest).wait()?;
    let query = KeyQuery { akey: Some(&akey), want_extent: true, ..ANY };
    let found = both(&object, query)?;
    assert_eq!(dkeys_of(&found), [Some(1), Some(5)]);
    let [min, max] = found.map(|found| found.and_then(|found| found.extent));
    assert_eq!((min.map(|e| e.start), max.map(Extent::end)), (Some(8), Some(15)));
    Ok(())
}

fn an_extent_needs_an_akey(store: &Store) -> Result<()> {
    let object = object(store)?;
    let dkey = 1u64.to_ne_bytes();
    let query = KeyQuery { dkey: Some(&dkey), want_extent: true, ..ANY };
    refused(ask(&object, query), ErrorKind::Invalid);
    Ok(())
}

/// One query of 50 objects finds for each what a query of that object finds: largest and smallest dkey, largest akey.
fn many_objects_are_asked_at_once(store: &Store) -> Result<()> {
    let objects: Vec<Object> = (0..50).map(|_| object(store)).collect::<Result<_>>()?;
    for (number, object) in (0_u64..).zip(&objects).filter(|(number, _)| number % 3 > 0) {
        put_at(object, number, 7)?;
        put_at(object, 2 * number, 7)?;
    }
    let oids: Vec<_> = objects.iter().map(Object::oid).collect();
    let name = ContainerRef::Uuid(store.container.info().uuid);
    let opened = store.pool.backend().open_container(name, OpenMode::ReadOnly).wait()?;
    for query in [ANY, KeyQuery { edge: Edge::Min, ..ANY }, KeyQuery { want_akey: true, ..ANY }] {
        let each = opened.query_keys(&oids, query, ReadAt::LATEST).wait()?;
        let one_by_one = objects.iter().map(|object| ask(object, query));
        assert_eq!(each, one_by_one.collect::<Result<Vec<_>>>()?);
    }
    assert!(opened.query_keys(&[], ANY, ReadAt::LATEST).wait()?.is_empty());
    opened.close().wait()
}

/// Each write to a dkey has a higher epoch than the one before; writes to dkeys on other targets may have the same.
fn epochs_grow(store: &Store) -> Result<()> {
    let object = object(store)?;
    let epoch = || object.epoch(Access::Latest).wait();
    assert_eq!(epoch()?.0, 0, "a missing object has no epoch");
    put_at(&object, 1, 1)?;
    let first = epoch()?;
    put_at(&object, 2, 1)?;
    let second = epoch()?;
    write_at(&object, 1, 2, Extent::new(0, 1))?;
    let third = epoch()?;
    assert!(
        Epoch(0) < first && first <= second && second <= third,
        "{first:?} {second:?} {third:?}"
    );
    assert!(first < third, "{third:?} is later than {first:?}");
    let of_dkey = |dkey: u64| object.dkey_epoch(&dkey.to_ne_bytes(), Access::Latest).wait();
    assert_eq!((of_dkey(1)?, of_dkey(3)?), (epoch()?, Epoch(0)));
    assert!(Epoch(0) < of_dkey(2)? && of_dkey(2)? <= epoch()?);
    Ok(())
}
