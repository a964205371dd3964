//! Requests and replies: several dkeys at once, changes that are sent again, and replies that are dropped.
use super::Make;
use super::store::{Store, checks, get, put, refused, run, single};
use esker::{Access, Object, Wait};
use esker_backend::OpenContainer;
use esker_types::info::{ContainerRef, OpenMode};
use esker_types::ops::{
    Change, ChangeId, Cond, DkeyFetch, Fetch, ReadAt, ReadTokens, Sink, Update, Write, WriteOp,
};
use esker_types::{ErrorKind, Result};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

/// Checks requests and replies.
///
/// # Panics
/// If the backend violates a requirement.
pub fn replies(make: Make<'_>) {
    run(
        "replies",
        make,
        checks![
            several_dkeys_are_fetched_together,
            a_failed_condition_on_one_dkey_fails_the_fetch,
            a_change_that_is_sent_again_is_done_once,
            a_repeated_transaction_is_applied_once,
            a_late_copy_is_refused_on_every_target,
            a_dropped_write_is_atomic,
            a_dropped_fetch_has_no_effect,
        ],
    );
}

/// The container as the backend returns it.
fn opened(store: &Store) -> Result<Box<dyn OpenContainer>> {
    let name = ContainerRef::Uuid(store.container.info().uuid);
    store.pool.backend().open_container(name, OpenMode::ReadWrite).wait()
}

fn several_dkeys_are_fetched_together(store: &Store) -> Result<()> {
    let object = store.object()?;
    let keys: Vec<_> = (0..40u8).map(|number| [number]).collect();
    for key in keys.iter().step_by(2) {
        put(&object, key, b"a", &[key[0]; 2000])?;
    }
    let mut values = vec![[0xff; 2000]; keys.len()];
    let fetch = |value| [Fetch::single(b"a", Sink::One(value))];
    let mut fetches: Vec<_> = values.iter_mut().map(|value| fetch(&mut value[..])).collect();
    let mut dkeys: Vec<_> = keys
        .iter()
        .zip(&mut fetches)
        .map(|(dkey, akeys)| DkeyFetch { dkey, cond: Cond::NONE, akeys })
        .collect();
    object.fetch_dkeys(&mut dkeys, Access::Latest).wait()?;
    let sizes: Vec<_> = fetches.iter().map(|[fetch]| fetch.reply.size).collect();
    for ((key, size), value) in keys.iter().zip(sizes).zip(&values) {
        let expected = if key[0] % 2 == 0 { (2000, [key[0]; 2000]) } else { (0, [0xff; 2000]) };
        assert!((size, *value) == expected, "dkey {key:?}");
    }
    Ok(())
}

fn a_failed_condition_on_one_dkey_fails_the_fetch(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"there", b"a", b"value")?;
    let mut akeys = [[Fetch::single(b"a", Sink::None)], [Fetch::single(b"a", Sink::None)]];
    let [first, second] = &mut akeys;
    let mut dkeys = [
        DkeyFetch { dkey: b"there", cond: Cond::DKEY_FETCH, akeys: first },
        DkeyFetch { dkey: b"missing", cond: Cond::DKEY_FETCH, akeys: second },
    ];
    refused(object.fetch_dkeys(&mut dkeys, Access::Latest).wait(), ErrorKind::NotFound);
    Ok(())
}

fn insert<'a>(object: &Object, updates: &'a [Update<'a>]) -> Write<'a> {
    let op = WriteOp::Update { dkey: b"d", cond: Cond::DKEY_INSERT, updates };
    Write { oid: object.oid(), op }
}

fn a_change_that_is_sent_again_is_done_once(store: &Store) -> Result<()> {
    let (container, object) = (opened(store)?, store.object()?);
    let updates = [single(b"a", b"value")];
    let writes = [insert(&object, &updates)];
    let id = |slot, sequence| ChangeId { session: u64::MAX, slot, sequence };
    let with =
        |slot, sequence| Change { id: Some(id(slot, sequence)), ..Change::from_writes(&writes) };
    if !store.pool.capabilities().change_ids {
        refused(container.write(with(0, 1)).wait(), ErrorKind::NotSupported);
        return container.close().wait();
    }
    let epoch = container.write(with(0, 1)).wait()?;
    assert_eq!(container.write(with(0, 1)).wait()?, epoch, "the same change, sent again");
    refused(container.write(with(1, 1)).wait(), ErrorKind::Exists);
    refused(container.write(with(0, 2)).wait(), ErrorKind::Exists);
    refused(container.write(Change::from_writes(&writes)).wait(), ErrorKind::Exists);
    assert_eq!(container.write(with(0, 1)).wait()?, epoch, "failed changes are not remembered");
    container.close().wait()
}

/// A change of many objects, and so of several targets, that depends on reads.
fn a_repeated_transaction_is_applied_once(store: &Store) -> Result<()> {
    let container = opened(store)?;
    if !store.pool.capabilities().change_ids {
        return container.close().wait();
    }
    let objects = (0..8).map(|_| store.object()).collect::<Result<Vec<_>>>()?;
    let tokens = ReadTokens::default();
    let read = ReadAt { tokens: Some(&tokens), ..ReadAt::LATEST };
    for object in &objects {
        let mut akeys = [Fetch::single(b"a", Sink::None)];
        let mut dkeys = [DkeyFetch { dkey: b"d", cond: Cond::NONE, akeys: &mut akeys }];
        container.fetch(object.oid(), &mut dkeys, read).wait()?;
    }
    let updates = [single(b"a", b"value")];
    let writes: Vec<_> = objects.iter().map(|object| insert(object, &updates)).collect();
    let id = |sequence| Some(ChangeId { session: 5, slot: 9, sequence });
    let change = Change { tokens: Some(&tokens), id: id(6), ..Change::from_writes(&writes) };
    let epoch = container.write(change).wait()?;
    assert_eq!(
        container.write(change).wait()?,
        epoch,
        "its own write does not count as a conflict"
    );
    let next = Change { id: id(7), ..change };
    refused(container.write(next).wait(), ErrorKind::TxRestart);
    let punches: Vec<_> = objects
        .iter()
        .map(|it| Write { oid: it.oid(), op: WriteOp::PunchObject { cond: Cond::NONE } })
        .collect();
    container.write(Change { id: id(7), ..Change::from_writes(&punches) }).wait()?;
    refused(container.write(change).wait(), ErrorKind::Invalid);
    assert_eq!(get(&objects[0], b"d", b"a")?, None, "a late duplicate was applied");
    container.close().wait()
}

/// The later change of the slot and the late copy have different dkeys, which may be on different targets.
fn a_late_copy_is_refused_on_every_target(store: &Store) -> Result<()> {
    let (container, object) = (opened(store)?, store.object()?);
    if !store.pool.capabilities().change_ids {
        return container.close().wait();
    }
    let updates = [single(b"a", b"value")];
    let change = |dkey: &[u8], sequence| {
        let op = WriteOp::Update { dkey, cond: Cond::NONE, updates: &updates };
        let writes = [Write { oid: object.oid(), op }];
        let id = Some(ChangeId { session: 6, slot: 3, sequence });
        container.write(Change { id, ..Change::from_writes(&writes) }).wait()
    };
    change(b"later", 2)?;
    for dkey in 0..32u8 {
        refused(change(&[dkey], 1), ErrorKind::Invalid);
        assert_eq!(get(&object, &[dkey], b"a")?, None, "a late copy was done");
    }
    container.close().wait()
}

/// Starts an operation and does not wait for it.
fn begin_and_drop(work: impl Future) {
    let _ = pin!(work).poll(&mut Context::from_waker(Waker::noop()));
}

fn a_dropped_write_is_atomic(store: &Store) -> Result<()> {
    let object = store.object()?;
    for round in 0..20u8 {
        let value = vec![round; ROOM / 20 * usize::from(round)];
        let updates = [single(b"one", &value), single(b"two", &value)];
        begin_and_drop(object.update(b"d", Cond::NONE, &updates, Access::Latest));
        // It may still be in progress in the background, but must never be partly visible.
        for _ in 0..3 {
            let [one, two] = both(&object)?;
            assert!(one == two, "round {round}: half of a change is visible");
        }
    }
    put(&object, b"e", b"a", b"goes on")?;
    assert_eq!(get(&object, b"e", b"a")?.as_deref(), Some(&b"goes on"[..]));
    Ok(())
}

const ROOM: usize = 60_000;

/// Reads two akeys from one state.
fn both(object: &Object) -> Result<[(u64, Vec<u8>); 2]> {
    let (mut one, mut two) = (vec![0; ROOM], vec![0; ROOM]);
    let mut fetches =
        [Fetch::single(b"one", Sink::One(&mut one)), Fetch::single(b"two", Sink::One(&mut two))];
    object.fetch(b"d", Cond::NONE, &mut fetches, Access::Latest).wait()?;
    let [first, second] = fetches.map(|fetch| fetch.reply.size);
    Ok([(first, one), (second, two)])
}

fn a_dropped_fetch_has_no_effect(store: &Store) -> Result<()> {
    let object = store.object()?;
    let value = vec![7; 1 << 20];
    put(&object, b"d", b"a", &value)?;
    for _ in 0..20 {
        let mut buffer = vec![0; value.len()];
        let mut fetch = [Fetch::single(b"a", Sink::One(&mut buffer))];
        begin_and_drop(object.fetch(b"d", Cond::NONE, &mut fetch, Access::Latest));
    }
    assert!(get(&object, b"d", b"a")?.as_ref() == Some(&value));
    Ok(())
}
