//! Removing objects, dkeys and akeys.
use super::store::{Store, checks, dkeys, get, objects, put, run};
use super::{Make, Outcome};
use esker::{Access, Wait};
use esker_types::ops::{Cond, Source, Update, Value};
use esker_types::{Epoch, ErrorKind, Extent, Result};

/// Checks punches.
///
/// # Panics
/// If the backend violates a requirement.
pub fn punch(make: Make<'_>) -> Outcome {
    run(
        "punch",
        &make(),
        checks![
            punching_a_missing_key_is_not_an_error,
            punching_an_akey_keeps_the_others,
            punching_a_dkey_removes_its_akeys,
            punching_an_object_removes_its_dkeys,
            removing_the_last_akey_removes_dkey_and_object,
            punched_values_can_be_written_again,
            removed_akeys_take_another_kind,
        ],
    )
}

fn punching_a_missing_key_is_not_an_error(store: &Store) -> Result<()> {
    let object = store.object()?;
    object.punch(Cond::NONE, Access::Latest).wait()?;
    object.punch_dkey(b"d", Cond::NONE, Access::Latest).wait()?;
    object.punch_akeys(b"d", &[b"a", b"b"], Cond::NONE, Access::Latest).wait()?;
    assert_eq!(objects(&store.container, 10, Access::Latest)?.len(), 0);
    Ok(())
}

fn punching_an_akey_keeps_the_others(store: &Store) -> Result<()> {
    let object = store.object()?;
    for akey in [b"a", b"b", b"c"] {
        put(&object, b"d", akey, b"v")?;
    }
    object.punch_akeys(b"d", &[b"a", b"c", b"missing"], Cond::NONE, Access::Latest).wait()?;
    assert_eq!(get(&object, b"d", b"a")?, None);
    assert!(get(&object, b"d", b"b")?.is_some());
    assert_eq!(get(&object, b"d", b"c")?, None);
    Ok(())
}

fn punching_a_dkey_removes_its_akeys(store: &Store) -> Result<()> {
    let object = store.object()?;
    for dkey in [b"d".as_slice(), b"dd", b"d\0"] {
        for akey in [b"a".as_slice(), &[b'v'; 100]] {
            put(&object, dkey, akey, &[7; 3000])?;
        }
    }
    object.punch_dkey(b"d", Cond::NONE, Access::Latest).wait()?;
    assert_eq!(dkeys(&object, 10, Access::Latest)?, [b"d\0".to_vec(), b"dd".to_vec()]);
    assert_eq!(get(&object, b"d", b"a")?, None);
    assert!(get(&object, b"dd", b"a")?.is_some());
    Ok(())
}

fn punching_an_object_removes_its_dkeys(store: &Store) -> Result<()> {
    let (object, other) = (store.object()?, store.object()?);
    for number in 0..100u8 {
        put(&object, &[number], b"a", b"v")?;
        put(&other, &[number], b"a", b"v")?;
    }
    object.punch(Cond::NONE, Access::Latest).wait()?;
    assert_eq!(dkeys(&object, 7, Access::Latest)?.len(), 0);
    assert_eq!(object.epoch(Access::Latest).wait()?, Epoch::default());
    assert_eq!(dkeys(&other, 7, Access::Latest)?.len(), 100);
    let left: Vec<_> = objects(&store.container, 10, Access::Latest)?.into_keys().collect();
    assert_eq!(left, [other.oid()]);
    Ok(())
}

fn removing_the_last_akey_removes_dkey_and_object(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"a", b"v")?;
    put(&object, b"e", b"a", b"v")?;
    object.punch_akeys(b"d", &[b"a"], Cond::NONE, Access::Latest).wait()?;
    assert_eq!(dkeys(&object, 10, Access::Latest)?, [b"e".to_vec()]);
    object.punch_akeys(b"e", &[b"a"], Cond::NONE, Access::Latest).wait()?;
    assert_eq!(dkeys(&object, 10, Access::Latest)?.len(), 0);
    assert_eq!(objects(&store.container, 10, Access::Latest)?.len(), 0);
    Ok(())
}

fn punched_values_can_be_written_again(store: &Store) -> Result<()> {
    let object = store.object()?;
    for round in 0..3u8 {
        put(&object, b"d", b"a", &[round; 2000])?;
        assert_eq!(get(&object, b"d", b"a")?, Some(vec![round; 2000]));
        object.punch(Cond::PUNCH, Access::Latest).wait()?;
        assert_eq!(get(&object, b"d", b"a")?, None);
    }
    Ok(())
}

/// Backends that declare it refuse another kind of value for a time.
fn removed_akeys_take_another_kind(store: &Store) -> Result<()> {
    let object = store.object()?;
    let extents = [Extent::new(0, 4)];
    let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(b"abcd") };
    let array = [Update { akey: b"a", value, cond: Cond::NONE }];
    let keeps = store.pool.capabilities().lasting_kinds;
    let removals: [&dyn Fn() -> Result<()>; 3] = [
        &|| object.punch_akeys(b"d", &[b"a"], Cond::NONE, Access::Latest).wait(),
        &|| object.punch_dkey(b"d", Cond::NONE, Access::Latest).wait(),
        &|| object.punch(Cond::NONE, Access::Latest).wait(),
    ];
    for remove in removals {
        put(&object, b"d", b"a", b"v")?;
        remove()?;
        match object.update(b"d", Cond::NONE, &array, Access::Latest).wait() {
            Err(error) if keeps => assert_eq!(error.kind(), ErrorKind::NoPermission),
            outcome => outcome?,
        }
        remove()?;
    }
    Ok(())
}
