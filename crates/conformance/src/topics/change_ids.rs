//! Changes with an id, which may be sent again.
use super::store::{Store, checks, get, opened, refused, run, single};
use super::{Make, Outcome};
use esker::Object;
use esker_types::ops::{
    Change, ChangeId, Cond, DkeyFetch, Fetch, ReadAt, ReadTokens, Sink, Update, Write, WriteOp,
};
use esker_types::{ErrorKind, Result};

/// Checks changes that are sent again, if the backend remembers their ids.
///
/// # Panics
/// If the backend violates a requirement.
pub fn change_ids(make: Make<'_>) -> Outcome {
    let pool = make();
    if !pool.capabilities().change_ids {
        return Outcome::Skipped { capability: "change_ids" };
    }
    run(
        "change_ids",
        &pool,
        checks![
            a_change_that_is_sent_again_is_done_once,
            a_repeated_transaction_is_applied_once,
            a_late_copy_is_refused_on_every_target,
        ],
    )
}

/// A write that inserts the dkey `d`: it fails if the dkey exists.
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
