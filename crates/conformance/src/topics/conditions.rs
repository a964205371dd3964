//! Conditional updates, fetches and punches.
use super::store::{Store, checks, get, put, refused, run, single};
use super::{Make, Outcome};
use esker::{Access, Object, Wait};
use esker_types::ops::{Cond, Fetch, Sink, Update};
use esker_types::{ErrorKind, Result};

/// Checks conditions.
///
/// # Panics
/// If the backend violates a requirement.
pub fn conditions(make: Make<'_>) -> Outcome {
    run(
        "conditions",
        &make(),
        checks![
            a_dkey_is_inserted_once,
            a_dkey_is_updated_if_it_exists,
            akeys_are_inserted_and_updated,
            one_failed_akey_fails_all,
            fetches_can_demand_keys,
            punches_can_demand_keys,
            a_failed_condition_changes_nothing,
        ],
    )
}

fn update(object: &Object, dkey: &[u8], cond: Cond, updates: &[Update<'_>]) -> Result<()> {
    object.update(dkey, cond, updates, Access::Latest).wait()
}

/// An update of a single value with a condition on its akey.
fn with<'a>(cond: Cond, akey: &'a [u8], value: &'a [u8]) -> Update<'a> {
    Update { cond, ..single(akey, value) }
}

fn a_dkey_is_inserted_once(store: &Store) -> Result<()> {
    let object = store.object()?;
    let insert = |akey| update(&object, b"d", Cond::DKEY_INSERT, &[single(akey, b"v")]);
    insert(b"a")?;
    refused(insert(b"a"), ErrorKind::Exists);
    refused(insert(b"b"), ErrorKind::Exists);
    object.punch_dkey(b"d", Cond::NONE, Access::Latest).wait()?;
    insert(b"b")
}

fn a_dkey_is_updated_if_it_exists(store: &Store) -> Result<()> {
    let object = store.object()?;
    let change = || update(&object, b"d", Cond::DKEY_UPDATE, &[single(b"b", b"v")]);
    refused(change(), ErrorKind::NotFound);
    put(&object, b"d", b"a", b"")?;
    change()?;
    assert_eq!(get(&object, b"d", b"b")?.as_deref(), Some(b"v".as_slice()));
    Ok(())
}

fn akeys_are_inserted_and_updated(store: &Store) -> Result<()> {
    let object = store.object()?;
    let insert = || update(&object, b"d", Cond::NONE, &[with(Cond::AKEY_INSERT, b"a", b"1")]);
    let change = || update(&object, b"d", Cond::NONE, &[with(Cond::AKEY_UPDATE, b"a", b"2")]);
    refused(change(), ErrorKind::NotFound);
    insert()?;
    refused(insert(), ErrorKind::Exists);
    change()?;
    assert_eq!(get(&object, b"d", b"a")?.as_deref(), Some(b"2".as_slice()));
    Ok(())
}

fn one_failed_akey_fails_all(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"b", b"old")?;
    let updates =
        [single(b"a", b"new"), with(Cond::AKEY_INSERT, b"b", b"new"), single(b"c", b"new")];
    refused(update(&object, b"d", Cond::NONE, &updates), ErrorKind::Exists);
    let updates = [single(b"b", b"new"), with(Cond::AKEY_UPDATE, b"c", b"new")];
    refused(update(&object, b"d", Cond::NONE, &updates), ErrorKind::NotFound);
    assert_eq!(get(&object, b"d", b"a")?, None);
    assert_eq!(get(&object, b"d", b"b")?.as_deref(), Some(b"old".as_slice()));
    assert_eq!(get(&object, b"d", b"c")?, None);
    Ok(())
}

fn fetches_can_demand_keys(store: &Store) -> Result<()> {
    let object = store.object()?;
    let fetch = |dkey, cond, akey, akey_cond| {
        let mut fetch = Fetch::single(akey, Sink::None);
        fetch.request.cond = akey_cond;
        object.fetch(dkey, cond, &mut [fetch], Access::Latest).wait()
    };
    put(&object, b"d", b"a", b"v")?;
    fetch(b"other", Cond::NONE, b"a", Cond::NONE)?;
    refused(fetch(b"other", Cond::DKEY_FETCH, b"a", Cond::NONE), ErrorKind::NotFound);
    refused(fetch(b"other", Cond::NONE, b"a", Cond::AKEY_FETCH), ErrorKind::NotFound);
    fetch(b"d", Cond::DKEY_FETCH, b"other", Cond::NONE)?;
    refused(fetch(b"d", Cond::DKEY_FETCH, b"other", Cond::AKEY_FETCH), ErrorKind::NotFound);
    fetch(b"d", Cond::DKEY_FETCH, b"a", Cond::AKEY_FETCH)
}

fn punches_can_demand_keys(store: &Store) -> Result<()> {
    let object = store.object()?;
    refused(object.punch(Cond::PUNCH, Access::Latest).wait(), ErrorKind::NotFound);
    put(&object, b"d", b"a", b"v")?;
    put(&object, b"d", b"b", b"v")?;
    let dkey = |dkey| object.punch_dkey(dkey, Cond::PUNCH, Access::Latest).wait();
    let akeys =
        |akeys: &[&[u8]]| object.punch_akeys(b"d", akeys, Cond::PUNCH, Access::Latest).wait();
    refused(dkey(b"other"), ErrorKind::NotFound);
    refused(akeys(&[b"a", b"other"]), ErrorKind::NotFound);
    assert!(get(&object, b"d", b"a")?.is_some(), "no akey is removed if one is missing");
    akeys(&[b"a"])?;
    refused(akeys(&[b"a"]), ErrorKind::NotFound);
    dkey(b"d")?;
    refused(dkey(b"d"), ErrorKind::NotFound);
    Ok(())
}

fn a_failed_condition_changes_nothing(store: &Store) -> Result<()> {
    let object = store.object()?;
    refused(update(&object, b"d", Cond::DKEY_UPDATE, &[single(b"a", b"v")]), ErrorKind::NotFound);
    update(&object, b"d", Cond::DKEY_INSERT, &[single(b"a", b"v")])
}
