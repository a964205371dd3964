//! Requests and replies: several dkeys at once, and replies that are dropped.
use super::store::{Store, checks, get, opened, put, refused, run, single};
use super::{Make, Outcome};
use esker::{Access, Object, Wait};
use esker_types::ops::{Change, ChangeId, Cond, DkeyFetch, Fetch, Sink, Write, WriteOp};
use esker_types::{ErrorKind, Result};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

/// Checks requests and replies.
///
/// # Panics
/// If the backend violates a requirement.
pub fn replies(make: Make<'_>) -> Outcome {
    run(
        "replies",
        &make(),
        checks![
            several_dkeys_are_fetched_together,
            a_failed_condition_on_one_dkey_fails_the_fetch,
            change_ids_are_remembered_or_refused,
            a_dropped_write_is_atomic,
            a_dropped_fetch_has_no_effect,
        ],
    )
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

/// A backend that does not remember changes must not apply one that may be a copy.
fn change_ids_are_remembered_or_refused(store: &Store) -> Result<()> {
    let (container, object) = (opened(store)?, store.object()?);
    let updates = [single(b"a", b"value")];
    let op = WriteOp::Update { dkey: b"d", cond: Cond::NONE, updates: &updates };
    let writes = [Write { oid: object.oid(), op }];
    let id = Some(ChangeId { session: 1, slot: 0, sequence: 1 });
    let written = container.write(Change { id, ..Change::from_writes(&writes) }).wait();
    if !store.pool.capabilities().change_ids {
        refused(written, ErrorKind::NotSupported);
        assert_eq!(get(&object, b"d", b"a")?, None, "a refused change was done");
    }
    container.close().wait()
}

/// Polls an operation once, and drops it without waiting for the result.
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

/// Size and buffer of the akeys `one` and `two`, which one fetch reads from the same state.
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
