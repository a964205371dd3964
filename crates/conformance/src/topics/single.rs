//! Single values: replaced atomically, of any size up to the limit.
use super::store::{Store, checks, get, put, refused, run, single};
use super::{Make, Outcome};
use esker::{Access, Wait};
use esker_testing::Random;
use esker_types::limits::{KEY_MAX, KEY_WHOLE_MAX, SINGLE_VALUE_MAX};
use esker_types::ops::{Cond, Fetch, Sink, Source, Update, Value};
use esker_types::{ErrorKind, Extent, ObjectType, Result};

/// Checks single values.
///
/// # Panics
/// If the backend violates a requirement.
pub fn single_values(make: Make<'_>) -> Outcome {
    run(
        "single values",
        &make(),
        checks![
            values_of_many_sizes_round_trip,
            a_value_is_replaced_as_a_whole,
            an_empty_value_differs_from_a_missing_one,
            a_missing_value_leaves_the_sink_unchanged,
            a_too_short_sink_reports_the_size,
            several_akeys_are_punched_together,
            several_buffers_make_one_value,
            keys_of_any_bytes,
            integer_keys,
            bad_keys_are_refused,
            the_size_of_values_is_limited,
            an_akey_holds_one_kind_of_value,
            key_values_accept_or_reject_other_akeys,
        ],
    )
}

const SIZES: [u64; 12] = [
    1,
    7,
    64,
    1023,
    1024,
    1025,
    4096,
    32 << 10,
    (32 << 10) + 1,
    1 << 20,
    3_000_001,
    SINGLE_VALUE_MAX,
];

fn values_of_many_sizes_round_trip(store: &Store) -> Result<()> {
    let object = store.object()?;
    let mut random = Random::new(1, 0);
    let values: Vec<_> = SIZES.iter().map(|size| random.bytes(*size as usize)).collect();
    for (size, value) in SIZES.iter().zip(&values) {
        put(&object, b"d", &size.to_le_bytes(), value)?;
    }
    for (size, value) in SIZES.iter().zip(&values) {
        let found = get(&object, b"d", &size.to_le_bytes())?;
        assert!(found.as_ref() == Some(value), "a value of {size} bytes round-trips");
    }
    Ok(())
}

fn a_value_is_replaced_as_a_whole(store: &Store) -> Result<()> {
    let object = store.object()?;
    for size in [10, 100_000, 3, 2000, 0, 5, 100_001, 1] {
        let value = Random::new(size, 0).bytes(size as usize);
        put(&object, b"d", b"a", &value)?;
        assert!(get(&object, b"d", b"a")?.as_ref() == Some(&value), "{size} bytes replace others");
    }
    Ok(())
}

fn an_empty_value_differs_from_a_missing_one(store: &Store) -> Result<()> {
    let object = store.object()?;
    put(&object, b"d", b"empty", b"")?;
    assert_eq!(get(&object, b"d", b"empty")?, Some(Vec::new()));
    assert_eq!(get(&object, b"d", b"missing")?, None);
    assert_eq!(get(&object, b"missing", b"empty")?, None);
    Ok(())
}

fn a_missing_value_leaves_the_sink_unchanged(store: &Store) -> Result<()> {
    let object = store.object()?;
    let mut buffer = *b"untouched";
    let mut fetch = Fetch::single(b"a", Sink::One(&mut buffer));
    fetch.reply.size = 99;
    let fetches = std::slice::from_mut(&mut fetch);
    object.fetch(b"d", Cond::NONE, fetches, Access::Latest).wait()?;
    assert_eq!((fetch.reply.size, fetch.reply.filled_bytes), (0, 0), "size of a missing value");
    assert_eq!(&buffer, b"untouched");
    Ok(())
}

fn a_too_short_sink_reports_the_size(store: &Store) -> Result<()> {
    let object = store.object()?;
    for size in [9u64, 100_000] {
        put(&object, b"d", b"a", &vec![7; size as usize])?;
        let mut buffer = [0; 8];
        let mut fetch = Fetch::single(b"a", Sink::One(&mut buffer));
        let fetches = std::slice::from_mut(&mut fetch);
        let result = object.fetch(b"d", Cond::NONE, fetches, Access::Latest).wait();
        assert_eq!(refused(result, ErrorKind::RecordTooBig).needed(), Some(size));
        assert_eq!(fetch.reply.size, size, "the fetch returns the size as well");
    }
    let mut buffer = vec![0xee; 200_000];
    let mut fetch = Fetch::single(b"a", Sink::One(&mut buffer));
    let fetches = std::slice::from_mut(&mut fetch);
    object.fetch(b"d", Cond::NONE, fetches, Access::Latest).wait()?;
    assert_eq!((fetch.reply.size, fetch.reply.filled_bytes), (100_000, 100_000));
    assert!(buffer[100_000..].iter().all(|byte| *byte == 0xee), "the rest is unchanged");
    Ok(())
}

fn several_akeys_are_punched_together(store: &Store) -> Result<()> {
    let object = store.object()?;
    let updates = [single(b"a", b"1"), single(b"b", b"22"), single(b"c", b"333")];
    object.update(b"d", Cond::NONE, &updates, Access::Latest).wait()?;
    let (mut first, mut third) = ([0; 3], [0; 3]);
    let mut fetches = [
        Fetch::single(b"c", Sink::One(&mut third)),
        Fetch::single(b"missing", Sink::None),
        Fetch::single(b"b", Sink::None),
        Fetch::single(b"a", Sink::One(&mut first)),
    ];
    object.fetch(b"d", Cond::NONE, &mut fetches, Access::Latest).wait()?;
    assert_eq!(fetches.map(|fetch| fetch.reply.size), [3, 0, 2, 1]);
    assert_eq!((&first, &third), (b"1\0\0", b"333"));
    Ok(())
}

fn several_buffers_make_one_value(store: &Store) -> Result<()> {
    let object = store.object()?;
    let whole = Random::new(3, 0).bytes(100_000);
    let (head, tail) = whole.split_at(33_333);
    let parts = [head, &[], tail];
    let value = Value::Single(Source::Many(&parts));
    let update = [Update { akey: b"a", value, cond: Cond::NONE }];
    object.update(b"d", Cond::NONE, &update, Access::Latest).wait()?;
    let (mut first, mut second) = (vec![0; 1], vec![0; 99_999]);
    let sink = Sink::Many(vec![&mut first, &mut second]);
    let mut fetch = Fetch::single(b"a", sink);
    let fetches = std::slice::from_mut(&mut fetch);
    object.fetch(b"d", Cond::NONE, fetches, Access::Latest).wait()?;
    assert!([first, second].concat() == whole, "a value read in other pieces");
    Ok(())
}

/// Keys may consist of any bytes, and stay distinct.
fn keys_of_any_bytes(store: &Store) -> Result<()> {
    let object = store.object()?;
    let longest = vec![b'k'; KEY_WHOLE_MAX];
    let keys: [&[u8]; 9] =
        [b"\0", b"\0\0", b"\0\xff", b"\xff", b"a", b"a\0", b"a\0b", b"ab", &longest];
    for dkey in keys {
        for akey in keys {
            put(&object, dkey, akey, &[dkey, akey].concat())?;
        }
    }
    for dkey in keys {
        for akey in keys {
            assert_eq!(get(&object, dkey, akey)?, Some([dkey, akey].concat()));
        }
    }
    Ok(())
}

/// Keys of an object with integer keys have 8 bytes; others are refused.
fn integer_keys(store: &Store) -> Result<()> {
    let object = store.object_of(ObjectType::MultiInteger)?;
    for number in [0u64, 1, 255, 256, 1 << 40, u64::MAX] {
        put(&object, &number.to_ne_bytes(), &(!number).to_ne_bytes(), &number.to_be_bytes())?;
    }
    for number in [0u64, 1, 255, 256, 1 << 40, u64::MAX] {
        let found = get(&object, &number.to_ne_bytes(), &(!number).to_ne_bytes())?;
        assert_eq!(found, Some(number.to_be_bytes().to_vec()));
    }
    refused(put(&object, b"short", &[0; 8], b""), ErrorKind::Invalid);
    refused(put(&object, &[0; 8], b"much too long", b""), ErrorKind::Invalid);
    Ok(())
}

fn bad_keys_are_refused(store: &Store) -> Result<()> {
    let object = store.object()?;
    let long = vec![b'k'; KEY_MAX + 1];
    refused(put(&object, b"", b"a", b""), ErrorKind::Invalid);
    refused(put(&object, b"d", b"", b""), ErrorKind::Invalid);
    refused(put(&object, &long, b"a", b""), ErrorKind::KeyTooBig);
    refused(put(&object, b"d", &long, b""), ErrorKind::KeyTooBig);
    refused(get(&object, b"", b"a"), ErrorKind::Invalid);
    refused(get(&object, b"d", &long), ErrorKind::KeyTooBig);
    Ok(())
}

fn the_size_of_values_is_limited(store: &Store) -> Result<()> {
    let object = store.object()?;
    let value = vec![0; SINGLE_VALUE_MAX as usize + 1];
    refused(put(&object, b"d", b"a", &value), ErrorKind::RecordTooBig);
    assert_eq!(get(&object, b"d", b"a")?, None);
    Ok(())
}

fn an_akey_holds_one_kind_of_value(store: &Store) -> Result<()> {
    let object = store.object()?;
    let extents = [Extent::new(0, 4)];
    let value = Value::Array { record_size: 1, extents: &extents, data: Source::One(b"abcd") };
    let array = |akey| [Update { akey, value, cond: Cond::NONE }];
    put(&object, b"d", b"single", b"value")?;
    object.update(b"d", Cond::NONE, &array(b"array"), Access::Latest).wait()?;
    let mixed = object.update(b"d", Cond::NONE, &array(b"single"), Access::Latest).wait();
    refused(mixed, ErrorKind::NoPermission);
    refused(put(&object, b"d", b"array", b"value"), ErrorKind::NoPermission);
    let mut fetches = [
        Fetch::single(b"array", Sink::None),
        Fetch::array(b"single", 1, &extents, Sink::None),
        Fetch::single(b"single", Sink::None),
    ];
    object.fetch(b"d", Cond::NONE, &mut fetches, Access::Latest).wait()?;
    assert_eq!(
        fetches.map(|fetch| fetch.reply.size),
        [0, 0, 5],
        "the other kind counts as missing"
    );
    Ok(())
}

/// The object type either has no influence, or akeys outside its convention are rejected.
fn key_values_accept_or_reject_other_akeys(store: &Store) -> Result<()> {
    let object = store.object_of(ObjectType::KvHashed)?;
    let written = put(&object, b"d", b"a", b"value");
    match store.pool.capabilities().any_akeys {
        true => written?,
        false => drop(refused(written, ErrorKind::NotSupported)),
    }
    put(&object, b"d", b"0", b"own")?;
    assert_eq!(get(&object, b"d", b"0")?.as_deref(), Some(&b"own"[..]));
    let other = get(&object, b"d", b"a")?;
    assert_eq!(other.is_some(), store.pool.capabilities().any_akeys);
    Ok(())
}
