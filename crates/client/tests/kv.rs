//! Key-Values: one test for each documented rule.
use esker::backend::memory::Memory;
use esker::types::info::OpenMode;
use esker::types::ops::{Anchor, Cond, ListLimit, Sink};
use esker::types::{ErrorKind, ObjectType, Result};
use esker::{Access, Container, Kv, Pool, Wait};
use esker_backend::NewContainer;
use std::sync::Arc;

/// A container in a pool in memory.
fn container() -> Container {
    let backend: Arc<dyn esker_backend::Pool> = Arc::new(Memory::new(4));
    let pool = Pool::from_backend(backend, OpenMode::ReadWrite);
    let new = NewContainer::named("test");
    pool.create_container(&new).wait().unwrap();
    pool.open_container("test", OpenMode::ReadWrite).wait().unwrap()
}

/// The Key-Value of the tests.
fn kv_in(container: &Container) -> Kv {
    let oid = container.generate_oid(0, 1, ObjectType::KvHashed, None, 0).unwrap();
    container.kv(oid).unwrap()
}

/// A Key-Value in a container of its own.
fn kv() -> Kv {
    kv_in(&container())
}

fn put(kv: &Kv, key: &[u8], value: &[u8]) {
    kv.put(key, value, Cond::NONE, Access::Latest).wait().unwrap();
}

fn get(kv: &Kv, key: &[u8]) -> Option<Vec<u8>> {
    kv.get(key, Access::Latest).wait().unwrap()
}

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn other_object_types_are_rejected() {
    let container = container();
    for code in 0..=14 {
        let otype = ObjectType::from_code(code).unwrap();
        let oid = container.generate_oid(0, 1, otype, None, 0).unwrap();
        // Codes 8 to 10 are the types of Key-Values.
        let expected = if (8..=10).contains(&code) { None } else { Some(ErrorKind::Invalid) };
        assert_eq!(kind(container.kv(oid)), expected, "{otype:?}");
    }
}

#[test]
fn a_missing_key_leaves_the_buffer_unchanged() {
    let kv = kv();
    let mut buffer = *b"untouched";
    assert_eq!(kv.get_into(b"key", &mut buffer, Access::Latest).wait(), Ok(None));
    assert_eq!(kv.read(b"key", Sink::One(&mut buffer), Access::Latest).wait(), Ok(0));
    assert_eq!(&buffer, b"untouched");
    assert_eq!(kv.size(b"key", Access::Latest).wait(), Ok(None));
    assert_eq!(get(&kv, b"key"), None);
}

#[test]
fn a_too_short_buffer_reports_the_size() {
    let kv = kv();
    put(&kv, b"key", b"value");
    let mut buffer = *b"four";
    let error = kv.get_into(b"key", &mut buffer, Access::Latest).wait().unwrap_err();
    assert_eq!((error.kind(), error.needed()), (ErrorKind::RecordTooBig, Some(5)));
    assert_eq!(&buffer, b"four");
    assert_eq!(kv.size(b"key", Access::Latest).wait(), Ok(Some(5)));
    assert_eq!(kv.read(b"key", Sink::None, Access::Latest).wait(), Ok(5));
}

#[test]
fn values_of_any_size_round_trip() {
    let kv = kv();
    for len in [1, 64, 1023, 1024, 1025, 70_000] {
        let value = vec![7; len];
        put(&kv, b"key", &value);
        assert_eq!(get(&kv, b"key"), Some(value));
        let mut buffer = vec![0; len + 3];
        let found = kv.get_into(b"key", &mut buffer, Access::Latest).wait();
        assert_eq!(found, Ok(Some(len as u64)));
        assert_eq!(&buffer[len..], [0; 3]);
    }
}

#[test]
fn an_empty_value_exists() {
    let kv = kv();
    put(&kv, b"key", b"");
    assert_eq!(get(&kv, b"key"), Some(Vec::new()));
    assert_eq!(kv.get_into(b"key", &mut [], Access::Latest).wait(), Ok(Some(0)));
    assert_eq!(kv.size(b"key", Access::Latest).wait(), Ok(Some(0)));
    let insert = kv.put(b"key", b"v", Kv::INSERT, Access::Latest).wait();
    assert_eq!(kind(insert), Some(ErrorKind::Exists));
}

/// A put or removal fails if its condition does.
#[test]
fn conditions_of_puts_and_removals() {
    let kv = kv();
    let put = |cond| kind(kv.put(b"key", b"v", cond, Access::Latest).wait());
    let remove = |cond| kind(kv.remove(b"key", cond, Access::Latest).wait());
    assert_eq!(put(Kv::UPDATE), Some(ErrorKind::NotFound));
    assert_eq!(put(Kv::INSERT), None);
    assert_eq!(put(Kv::INSERT), Some(ErrorKind::Exists));
    assert_eq!(put(Kv::UPDATE), None);
    assert_eq!(remove(Kv::REMOVE), None);
    assert_eq!(remove(Kv::REMOVE), Some(ErrorKind::NotFound));
    assert_eq!(remove(Cond::NONE), None);
}

/// Keys have 1 to `KEY_MAX` bytes.
#[test]
fn bad_keys_are_refused() {
    let kv = kv();
    let long = vec![b'k'; esker::types::limits::KEY_MAX + 1];
    let put = |key| kind(kv.put(key, b"v", Cond::NONE, Access::Latest).wait());
    assert_eq!(put(b""), Some(ErrorKind::Invalid));
    assert_eq!(put(&long), Some(ErrorKind::KeyTooBig));
    assert_eq!(kind(kv.get(b"", Access::Latest).wait()), Some(ErrorKind::Invalid));
}

#[test]
fn a_listing_stops_at_the_first_limit_reached() {
    let kv = kv();
    (0..100u32).for_each(|number| put(&kv, format!("key-{number:06}").as_bytes(), b"v"));
    let mut anchor = Anchor::Start;
    let mut all = Vec::new();
    while !anchor.is_end() {
        let limit = ListLimit { entries: 1024, bytes: 105 };
        let batch = kv.list(&mut anchor, limit, Access::Latest).wait().unwrap();
        assert!(batch.byte_len() <= 105);
        all.extend(batch.iter().map(<[u8]>::to_vec));
    }
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 100);
}

#[test]
fn destroying_leaves_the_handle_usable() {
    let kv = kv();
    put(&kv, b"key", b"v");
    kv.destroy(Access::Latest).wait().unwrap();
    assert_eq!(get(&kv, b"key"), None);
    put(&kv, b"key", b"w");
    assert_eq!(get(&kv, b"key").as_deref(), Some(b"w".as_slice()));
}

#[test]
fn a_read_only_key_value_refuses_writes() {
    let kv = kv();
    put(&kv, b"key", b"v");
    let reader = kv.clone().read_only();
    let denied = Some(ErrorKind::NoPermission);
    assert_eq!(kind(reader.put(b"key", b"w", Cond::NONE, Access::Latest).wait()), denied);
    assert_eq!(kind(reader.remove(b"key", Cond::NONE, Access::Latest).wait()), denied);
    assert_eq!(kind(reader.destroy(Access::Latest).wait()), denied);
    assert_eq!(get(&reader, b"key").as_deref(), Some(b"v".as_slice()));
}

#[test]
fn key_values_work_in_transactions_and_snapshots() {
    let container = container();
    let kv = kv_in(&container);
    put(&kv, b"key", b"old");
    let then = Access::Snapshot(container.create_snapshot("").wait().unwrap());
    let transaction = container.transaction().unwrap();
    kv.put(b"key", b"new", Kv::UPDATE, Access::Tx(&transaction)).wait().unwrap();
    kv.put(b"other", b"new", Kv::UPDATE, Access::Tx(&transaction)).wait().unwrap();
    assert_eq!(get(&kv, b"key").as_deref(), Some(b"old".as_slice()));
    assert_eq!(kind(transaction.commit().wait()), Some(ErrorKind::NotFound));
    transaction.restart().unwrap();
    kv.put(b"key", b"new", Kv::UPDATE, Access::Tx(&transaction)).wait().unwrap();
    transaction.commit().wait().unwrap();
    assert_eq!(get(&kv, b"key").as_deref(), Some(b"new".as_slice()));
    assert_eq!(kv.get(b"key", then).wait().unwrap().as_deref(), Some(b"old".as_slice()));
    assert_eq!(
        kind(kv.get(b"key", Access::Snapshot(esker::types::Epoch(1))).wait()),
        Some(ErrorKind::NotFound)
    );
}

#[test]
fn operations_can_be_sent_to_other_threads() {
    /// Compiles only for a type that can be sent.
    fn check<T: Send>(_: &T) {}
    let kv = kv();
    let mut buffer = [0; 8];
    check(&kv.put(b"key", b"v", Cond::NONE, Access::Latest));
    check(&kv.get_into(b"key", &mut buffer, Access::Latest));
    check(&kv.get(b"key", Access::Latest));
}
