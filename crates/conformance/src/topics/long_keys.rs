//! Keys of any length. A backend that indexes only part of a long key must not show that.
use super::extents::Twin;
use super::query::ANY;
use super::store::{
    Store, akeys, checks, dkeys, get, get_with, put, put_with, refused, run, single,
};
use super::{Make, Outcome};
use esker::{Access, Object, Wait};
use esker_types::limits::{DAOS_LEXICAL_KEY_MAX, KEY_MAX, KEY_PAIR_MAX, KEY_WHOLE_MAX};
use esker_types::ops::{AkeyRef, Anchor, Cond, KeyQuery, ListLimit, Update};
use esker_types::{ErrorKind, Extent, ObjectClass, ObjectType, Result};

/// Checks keys of any length.
///
/// # Panics
/// If the backend violates a requirement.
pub fn long_keys(make: Make<'_>) -> Outcome {
    run(
        "long keys",
        &make(),
        checks![
            keys_of_any_length,
            the_longest_keys,
            keys_with_a_common_prefix_are_distinct,
            long_keys_are_listed_whole,
            first_bytes_sort_long_keys,
            long_keys_are_found,
            conditions_work_with_long_keys,
            values_under_long_keys_are_punched,
            arrays_work_with_long_keys,
            key_values_work_with_long_keys,
        ],
    )
}

/// A key of `len` bytes with the same start as all others; it ends with its length and contains zeros.
fn key(len: usize) -> Vec<u8> {
    let end = format!("-{len}");
    let start = b"a long key\0".iter().cycle().take(len.saturating_sub(end.len()));
    start.copied().chain(end.bytes()).collect()
}

/// Keys with lengths around the limits of an index, for dkey and akey separately and together.
fn keys() -> Vec<Vec<u8>> {
    let most = [KEY_WHOLE_MAX, KEY_PAIR_MAX / 2, KEY_PAIR_MAX].map(|len| [len - 1, len, len + 1]);
    [5, 20_000].into_iter().chain(most.into_iter().flatten()).map(key).collect()
}

fn keys_of_any_length(store: &Store) -> Result<()> {
    let object = store.object()?;
    let keys = keys();
    let value = |dkey: &[u8], akey: &[u8], len| {
        let text = format!("{} {}", dkey.len(), akey.len()).into_bytes();
        text.into_iter().cycle().take(len).collect::<Vec<_>>()
    };
    for len in [30, 3000, 12] {
        for (dkey, akey) in keys.iter().flat_map(|dkey| keys.iter().map(move |akey| (dkey, akey))) {
            put(&object, dkey, akey, &value(dkey, akey, len))?;
        }
        for (dkey, akey) in keys.iter().flat_map(|dkey| keys.iter().map(move |akey| (dkey, akey))) {
            assert_eq!(get(&object, dkey, akey)?, Some(value(dkey, akey, len)));
        }
    }
    Ok(())
}

fn the_longest_keys(store: &Store) -> Result<()> {
    let object = store.object()?;
    let (longest, too_long) = (vec![b'k'; KEY_MAX], vec![b'k'; KEY_MAX + 1]);
    put(&object, &longest, &longest, b"v")?;
    assert_eq!(get(&object, &longest, &longest)?.as_deref(), Some(b"v".as_slice()));
    assert_eq!(dkeys(&object, 1, Access::Latest)?, [longest.as_slice()]);
    assert_eq!(akeys(&object, &longest, 1)?, [longest.as_slice()]);
    refused(put(&object, &too_long, b"a", b"v"), ErrorKind::KeyTooBig);
    refused(put(&object, b"d", &too_long, b"v"), ErrorKind::KeyTooBig);
    object.punch(Cond::PUNCH, Access::Latest).wait()
}

fn keys_with_a_common_prefix_are_distinct(store: &Store) -> Result<()> {
    let object = store.object()?;
    let keys = [b'a', b'b', b'c'].map(|end| [key(9000), vec![end]].concat());
    for one in &keys {
        put(&object, one, b"a", &one[8990..])?;
        put(&object, b"d", one, &one[8990..])?;
    }
    object.punch_dkey(&keys[1], Cond::PUNCH, Access::Latest).wait()?;
    object.punch_akeys(b"d", &[&keys[1]], Cond::PUNCH, Access::Latest).wait()?;
    for (at, one) in keys.iter().enumerate() {
        let value = (at != 1).then(|| one[8990..].to_vec());
        assert_eq!(get(&object, one, b"a")?, value);
        assert_eq!(get(&object, b"d", one)?, value);
    }
    Ok(())
}

fn long_keys_are_listed_whole(store: &Store) -> Result<()> {
    let object = store.object()?;
    let mut keys = keys();
    for one in &keys {
        put(&object, one, b"a", b"v")?;
        put(&object, one, b"b", b"v")?;
        put(&object, &key(4000), one, b"v")?;
    }
    keys.sort();
    for entries in [1, 3, 100] {
        let mut found = akeys(&object, &key(4000), entries)?;
        found.sort();
        assert_eq!(found, keys, "in steps of {entries}");
        let mut found = dkeys(&object, entries, Access::Latest)?;
        found.retain(|found| *found != key(4000));
        assert_eq!(found, keys, "in steps of {entries}");
    }
    Ok(())
}

fn first_bytes_sort_long_keys(store: &Store) -> Result<()> {
    let oid = store.oid_of_class(ObjectType::MultiLexical, ObjectClass::S1)?;
    let object = store.container.object(oid);
    if store.pool.capabilities().short_lexical_keys {
        let longest = &key(5000)[..DAOS_LEXICAL_KEY_MAX];
        put(&object, longest, longest, b"v")?;
        refused(put(&object, &key(2000), b"a", b"v"), ErrorKind::KeyTooBig);
        refused(put(&object, b"d", &key(2000), b"v"), ErrorKind::KeyTooBig);
        return object.punch(Cond::PUNCH, Access::Latest).wait();
    }
    let keys: [&[u8]; 5] =
        [b"a", &[b"a", &key(5000)[..]].concat(), b"b", &[b"b", &key(3000)[..]].concat(), b"c"];
    for one in keys.iter().rev() {
        put(&object, one, b"a", b"v")?;
        put(&object, &key(2000), one, b"v")?;
    }
    assert_eq!(akeys(&object, &key(2000), 2)?, keys);
    object.punch_dkey(&key(2000), Cond::PUNCH, Access::Latest).wait()?;
    let mut anchor = Anchor::Start;
    let limit = ListLimit::entries(10);
    let found = object.list_dkeys(&mut anchor, limit, Access::Latest).wait()?;
    assert!(found.iter().eq(keys), "dkeys in their order");
    Ok(())
}

fn long_keys_are_found(store: &Store) -> Result<()> {
    let object = store.object()?;
    let (largest, akey) = ([b"z", &key(7000)[..]].concat(), [b"z", &key(5000)[..]].concat());
    for dkey in [key(3000), largest.clone(), b"small".to_vec()] {
        put(&object, &dkey, &akey, b"v")?;
        put(&object, &dkey, b"a", b"v")?;
    }
    let query = KeyQuery { want_akey: true, ..ANY };
    let found = object.query_key(query, Access::Latest).wait()?;
    assert_eq!(found.map(|found| (found.dkey, found.akey)), Some((largest, akey)));
    Ok(())
}

fn update(object: &Object, dkey: &[u8], cond: Cond, update: Update<'_>) -> Result<()> {
    object.update(dkey, cond, &[update], Access::Latest).wait()
}

fn conditions_work_with_long_keys(store: &Store) -> Result<()> {
    let object = store.object()?;
    let (one, other) = (key(3000), key(3001));
    let value = single(&one, b"v");
    refused(update(&object, &one, Cond::DKEY_UPDATE, value), ErrorKind::NotFound);
    update(&object, &one, Cond::DKEY_INSERT, value)?;
    refused(update(&object, &one, Cond::DKEY_INSERT, value), ErrorKind::Exists);
    update(&object, &other, Cond::DKEY_INSERT, value)?;
    let insert = Update { cond: Cond::AKEY_INSERT, ..value };
    refused(update(&object, &one, Cond::NONE, insert), ErrorKind::Exists);
    update(&object, &one, Cond::NONE, Update { akey: &other, ..insert })
}

fn values_under_long_keys_are_punched(store: &Store) -> Result<()> {
    let object = store.object()?;
    let (one, other) = (key(3000), key(3001));
    for dkey in [&one, &other] {
        put(&object, dkey, &one, b"v")?;
        put(&object, dkey, &other, &[b'v'; 5000])?;
    }
    object.punch_akeys(&one, &[&one], Cond::PUNCH, Access::Latest).wait()?;
    assert_eq!(akeys(&object, &one, 10)?, [other.as_slice()]);
    object.punch_akeys(&one, &[&other], Cond::PUNCH, Access::Latest).wait()?;
    assert_eq!(dkeys(&object, 10, Access::Latest)?, [other.as_slice()]);
    object.punch(Cond::PUNCH, Access::Latest).wait()?;
    assert_eq!(dkeys(&object, 10, Access::Latest)?.len(), 0);
    put(&object, &one, &one, b"again")?;
    assert_eq!(get(&object, &one, &one)?.as_deref(), Some(b"again".as_slice()));
    Ok(())
}

fn arrays_work_with_long_keys(store: &Store) -> Result<()> {
    let mut twin = Twin::with_keys(store, 4, key(3000), key(20_000))?;
    let extent = Extent::new;
    for (start, count) in [(0, 50), (50, 3000), (3050, 20), (10, 5), (1000, 2100), (3060, 1)] {
        let data: Vec<_> = (0..4 * count).map(|byte| (byte ^ start) as u8).collect();
        twin.write(&[extent(start, count)], &data)?;
        twin.compare()?;
    }
    twin.punch(&[extent(40, 20), extent(2000, 10)])?;
    twin.compare()?;
    let (dkey, akey) = (key(3000), key(20_000));
    assert_eq!(akeys(&twin.object, &dkey, 1)?, [akey.as_slice()]);
    let (key, mut anchor) = (AkeyRef { dkey: &dkey, akey: &akey }, Anchor::Start);
    let first = twin.object.list_extents(key, &mut anchor, 1, Access::Latest).wait()?;
    assert_eq!(first.first().map(|first| first.extent.start), Some(0));
    Ok(())
}

pub(super) fn snapshots_work_with_long_keys(store: &Store) -> Result<()> {
    let object = store.object()?;
    let (one, other) = (key(3000), key(20_000));
    put(&object, &one, &other, b"old")?;
    put(&object, b"short", &other, &[b'o'; 3000])?;
    let epoch = store.container.create_snapshot("").wait()?;
    object.punch_dkey(&one, Cond::PUNCH, Access::Latest).wait()?;
    put(&object, b"short", &other, b"new")?;
    put(&object, &other, &one, b"new")?;
    let access = store.container.at(epoch).wait()?;
    assert_eq!(get_with(&object, &one, &other, access)?.as_deref(), Some(b"old".as_slice()));
    assert_eq!(get_with(&object, b"short", &other, access)?, Some(vec![b'o'; 3000]));
    assert_eq!(dkeys(&object, 1, access)?, [one.as_slice(), b"short"]);
    assert_eq!(dkeys(&object, 1, Access::Latest)?, [other.as_slice(), b"short"]);
    let found = object.query_key(KeyQuery { want_akey: true, ..ANY }, access).wait()?;
    assert_eq!(found.map(|found| found.akey), Some(other));
    store.container.destroy_snapshot(epoch).wait()
}

pub(super) fn transactions_work_with_long_keys(store: &Store) -> Result<()> {
    let (first, second) = (store.object()?, store.object()?);
    let transaction = store.container.transaction()?;
    for number in 0..8 {
        let dkey = key(3000 + number);
        put_with(&first, &dkey, &key(2000), b"v", Access::Tx(&transaction))?;
        put_with(&second, &dkey, &key(4000), &[b'v'; 3000], Access::Tx(&transaction))?;
    }
    transaction.commit().wait()?;
    for number in 0..8 {
        let dkey = key(3000 + number);
        assert_eq!(get(&first, &dkey, &key(2000))?.as_deref(), Some(b"v".as_slice()));
        assert_eq!(get(&second, &dkey, &key(4000))?, Some(vec![b'v'; 3000]));
    }
    Ok(())
}

fn key_values_work_with_long_keys(store: &Store) -> Result<()> {
    let kv = store.container.kv(store.oid(ObjectType::KvHashed)?)?;
    let long = key(100_000);
    kv.put(&long, b"v", Cond::NONE, Access::Latest).wait()?;
    assert_eq!(kv.get(&long, Access::Latest).wait()?.as_deref(), Some(b"v".as_slice()));
    let mut anchor = Anchor::Start;
    let batch = kv.list(&mut anchor, ListLimit::entries(9), Access::Latest).wait()?;
    assert!(batch.iter().eq([long.as_slice()]));
    kv.remove(&long, Cond::NONE, Access::Latest).wait()?;
    assert_eq!(kv.get(&long, Access::Latest).wait()?, None);
    Ok(())
}
