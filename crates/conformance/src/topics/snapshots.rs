//! Snapshots: states that later writes do not change.
use super::long_keys::snapshots_work_with_long_keys;
use super::store::{Store, checks, dkeys, get, get_with, objects, put, put_with, refused, run};
use super::{Make, Outcome};
use esker::{Access, Object, Wait};
use esker_testing::Random;
use esker_types::ops::{Cond, Edge, Fetch, KeyQuery, Sink, Source, Update, Value};
use esker_types::{Epoch, ErrorKind, Extent, Result};
use std::collections::BTreeMap;

/// Checks snapshots, if the backend supports them.
///
/// # Panics
/// If the backend violates a requirement.
pub fn snapshots(make: Make<'_>) -> Outcome {
    let pool = make();
    if !pool.capabilities().snapshots {
        return Outcome::Skipped { capability: "snapshots" };
    }
    run(
        "snapshots",
        &pool,
        checks![
            snapshots_are_listed_by_age,
            missing_snapshots_are_not_found,
            a_snapshot_does_not_change,
            a_snapshot_cannot_be_written,
            listings_see_the_snapshot,
            snapshots_of_arrays_do_not_change,
            queries_see_the_snapshot,
            every_snapshot_shows_its_state,
            destroying_a_snapshot_keeps_the_others,
            a_transaction_reads_a_snapshot,
            snapshots_work_with_long_keys,
        ],
    )
}

/// Takes a snapshot without a name.
fn snap(store: &Store) -> Result<Epoch> {
    store.container.create_snapshot("").wait()
}

fn snapshots_are_listed_by_age(store: &Store) -> Result<()> {
    assert_eq!(store.container.snapshots().wait()?, []);
    let first = store.container.create_snapshot("first").wait()?;
    let second = snap(store)?;
    assert!(first < second);
    let all = store.container.snapshots().wait()?;
    let all: Vec<_> = all.iter().map(|info| (info.epoch, info.name.as_str())).collect();
    assert_eq!(all, [(first, "first"), (second, "")]);
    store.container.destroy_snapshot(first).wait()?;
    assert_eq!(store.container.snapshots().wait()?.len(), 1);
    Ok(())
}

fn missing_snapshots_are_not_found(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"a", b"v")?;
    let epoch = snap(store)?;
    let other = Epoch(epoch.0 + 1);
    refused(store.container.destroy_snapshot(other).wait(), ErrorKind::NotFound);
    refused(store.container.at(other).wait().map(drop), ErrorKind::NotFound);
    store.container.destroy_snapshot(epoch).wait()?;
    refused(store.container.destroy_snapshot(epoch).wait(), ErrorKind::NotFound);
    let mut fetch = Fetch::single(b"a", Sink::None);
    let fetches = std::slice::from_mut(&mut fetch);
    let read = object.fetch(b"d", Cond::NONE, fetches, Access::Snapshot(epoch)).wait();
    refused(read, ErrorKind::NotFound);
    Ok(())
}

fn a_snapshot_does_not_change(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"kept", b"old")?;
    put(&object, b"d", b"changed", &[1; 5000])?;
    put(&object, b"d", b"removed", b"old")?;
    let at = store.container.at(snap(store)?).wait()?;
    put(&object, b"d", b"changed", &[2; 70])?;
    put(&object, b"d", b"changed", &[3; 9000])?;
    put(&object, b"d", b"added", b"new")?;
    object.punch_akeys(b"d", &[b"removed"], Cond::NONE, Access::Latest).wait()?;
    let then = |akey| get_with(&object, b"d", akey, at);
    assert_eq!(then(b"kept")?.as_deref(), Some(b"old".as_slice()));
    assert_eq!(then(b"changed")?, Some(vec![1; 5000]));
    assert_eq!(then(b"removed")?.as_deref(), Some(b"old".as_slice()));
    assert_eq!(then(b"added")?, None);
    assert_eq!(get(&object, b"d", b"changed")?, Some(vec![3; 9000]));
    assert_eq!(get(&object, b"d", b"removed")?, None);
    object.punch(Cond::NONE, Access::Latest).wait()?;
    assert_eq!(then(b"changed")?, Some(vec![1; 5000]));
    Ok(())
}

fn a_snapshot_cannot_be_written(store: &Store) -> Result<()> {
    let object = store.object()?;
    let at = Access::Snapshot(snap(store)?);
    refused(put_with(&object, b"d", b"a", b"v", at), ErrorKind::NoPermission);
    refused(object.punch(Cond::NONE, at).wait(), ErrorKind::NoPermission);
    Ok(())
}

fn listings_see_the_snapshot(store: &Store) -> Result<()> {
    let (object, later) = (store.object()?, store.object()?);
    (0..30u8).try_for_each(|number| put(&object, &[number], b"a", b"v"))?;
    let at = Access::Snapshot(snap(store)?);
    put(&later, b"d", b"a", b"v")?;
    (20..50u8).try_for_each(|number| put(&object, &[number], b"a", b"v"))?;
    object.punch_dkey(&[3], Cond::NONE, Access::Latest).wait()?;
    let wanted: Vec<_> = (0..30u8).map(|number| vec![number]).collect();
    assert_eq!(dkeys(&object, 4, at)?, wanted);
    assert_eq!(dkeys(&object, 4, Access::Latest)?.len(), 49);
    let seen: Vec<_> = objects(&store.container, 1, at)?.into_keys().collect();
    assert_eq!(seen, [object.oid()]);
    object.punch(Cond::NONE, Access::Latest).wait()?;
    assert_eq!(dkeys(&object, 4, at)?, wanted);
    Ok(())
}

/// Writes an extent of the array in which every byte is `fill`.
fn write(object: &Object, extent: Extent, fill: u8) -> Result<()> {
    let data = vec![fill; extent.count as usize];
    let value = Value::Array { record_size: 1, extents: &[extent], data: Source::One(&data) };
    let update = Update { akey: b"a", value, cond: Cond::NONE };
    object.update(b"d", Cond::NONE, &[update], Access::Latest).wait()
}

/// The first `len` bytes of the array.
fn read(object: &Object, len: usize, access: Access<'_>) -> Result<Vec<u8>> {
    let mut buffer = vec![0; len];
    let extents = [Extent::new(0, len as u64)];
    let mut fetch = Fetch::array(b"a", 1, &extents, Sink::One(&mut buffer));
    let fetches = std::slice::from_mut(&mut fetch);
    object.fetch(b"d", Cond::NONE, fetches, access).wait()?;
    Ok(buffer)
}

/// Overlapping writes, with a snapshot after each.
fn snapshots_of_arrays_do_not_change(store: &Store) -> Result<()> {
    let object = store.object()?;
    let mut random = Random::new(5, 0);
    let mut naive = vec![0; 4000];
    let mut frozen = Vec::new();
    for step in 1..30 {
        let extent = Extent::new(random.below(3000), 1 + random.below(1000));
        write(&object, extent, step)?;
        naive[extent.start as usize..extent.end() as usize].fill(step);
        if random.one_in(2) {
            frozen.push((snap(store)?, naive.clone()));
        }
    }
    assert!(read(&object, 4000, Access::Latest)? == naive, "the latest state");
    while !frozen.is_empty() {
        for (epoch, bytes) in &frozen {
            let found = read(&object, 4000, Access::Snapshot(*epoch))?;
            assert!(found == *bytes, "array at snapshot {epoch:?}");
        }
        let (gone, _) = frozen.swap_remove(random.below(frozen.len() as u64) as usize);
        store.container.destroy_snapshot(gone).wait()?;
    }
    assert!(read(&object, 4000, Access::Latest)? == naive, "the latest state");
    Ok(())
}

fn queries_see_the_snapshot(store: &Store) -> Result<()> {
    let object = store.object()?;
    write(&object, Extent::new(0, 10), 1)?;
    let before = object.epoch(Access::Latest).wait()?;
    let taken = snap(store)?;
    let at = Access::Snapshot(taken);
    write(&object, Extent::new(5, 50), 2)?;
    let query = KeyQuery {
        edge: Edge::Max,
        dkey: None,
        after: None,
        akey: Some(b"a"),
        want_akey: false,
        want_extent: true,
    };
    let end = |access| -> Result<_> {
        let found = object.query_key(query, access).wait()?;
        Ok(found.and_then(|found| found.extent).map(Extent::end))
    };
    assert_eq!((end(at)?, end(Access::Latest)?), (Some(10), Some(55)));
    let epoch = object.epoch(at).wait()?;
    match store.pool.capabilities().late_epochs {
        true => assert!((before..=taken).contains(&epoch), "{before:?} to {taken:?}: {epoch:?}"),
        false => assert_eq!(epoch, before),
    }
    Ok(())
}

fn every_snapshot_shows_its_state(store: &Store) -> Result<()> {
    let object = store.object()?;
    let mut random = Random::new(6, 0);
    let mut naive = BTreeMap::<Vec<u8>, Vec<u8>>::new();
    let mut frozen = Vec::new();
    for _ in 0..300 {
        let key = vec![random.below(12) as u8];
        match random.one_in(4) {
            true => {
                object.punch_dkey(&key, Cond::NONE, Access::Latest).wait()?;
                naive.remove(&key);
            }
            false => {
                let len = random.below(3000);
                let value = random.bytes(len as usize);
                put(&object, &key, b"a", &value)?;
                naive.insert(key, value);
            }
        }
        if random.one_in(20) {
            frozen.push((snap(store)?, naive.clone()));
        }
        if random.one_in(40) && !frozen.is_empty() {
            let (gone, _) = frozen.swap_remove(random.below(frozen.len() as u64) as usize);
            store.container.destroy_snapshot(gone).wait()?;
        }
    }
    for (epoch, values) in frozen {
        let at = Access::Snapshot(epoch);
        assert_eq!(dkeys(&object, 5, at)?, values.keys().cloned().collect::<Vec<_>>());
        for (key, value) in values {
            assert!(get_with(&object, &key, b"a", at)? == Some(value), "key {key:?} at {epoch:?}");
        }
    }
    Ok(())
}

fn destroying_a_snapshot_keeps_the_others(store: &Store) -> Result<()> {
    let object = store.object()?;
    let mut epochs = Vec::new();
    for number in 0..5u8 {
        put(&object, b"d", b"a", &[number; 2000])?;
        epochs.push(snap(store)?);
    }
    for gone in [2, 0, 4] {
        store.container.destroy_snapshot(epochs[gone]).wait()?;
    }
    for kept in [1, 3] {
        let found = get_with(&object, b"d", b"a", Access::Snapshot(epochs[kept]))?;
        assert_eq!(found, Some(vec![kept as u8; 2000]));
    }
    assert_eq!(get(&object, b"d", b"a")?, Some(vec![4; 2000]));
    Ok(())
}

fn a_transaction_reads_a_snapshot(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"a", b"old")?;
    let epoch = snap(store)?;
    put(&object, b"d", b"a", b"new")?;
    let transaction = store.container.transaction_at(epoch).wait()?;
    let found = get_with(&object, b"d", b"a", Access::Tx(&transaction))?;
    assert_eq!(found.as_deref(), Some(b"old".as_slice()));
    assert_eq!(transaction.epoch(), Some(epoch));
    let write = put_with(&object, b"d", b"a", b"v", Access::Tx(&transaction));
    refused(write, ErrorKind::NoPermission);
    transaction.commit().wait()
}
