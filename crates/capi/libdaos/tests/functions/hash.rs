//! Hash tables through the C functions.
use crate::common::*;
use daos::abi::{Link, Ptr};
use daos::hash::*;
use std::ffi::{c_int, c_void};

/// A record as programs define it: a link, a key, references.
#[repr(C)]
struct Record {
    link: Link,
    key: u64,
    references: i32,
    freed: i32,
}

/// A record that is in no table.
fn record(key: u64) -> Box<Record> {
    let none = Ptr::null();
    let mut made =
        Box::new(Record { link: Link { next: none, prev: none }, key, references: 0, freed: 0 });
    at(&mut made.link).reset();
    made
}

/// The record whose link this is.
fn record_of(link: Ptr<Link>) -> &'static mut Record {
    // SAFETY: every link of these tests is the first field of a record that outlives the table.
    unsafe { &mut *link.raw().cast() }
}

extern "C" fn compare(_: Ptr<Table>, link: Ptr<Link>, key: *const c_void, len: u32) -> bool {
    // SAFETY: keys of these tests are 8 bytes.
    len == 8 && record_of(link).key == unsafe { key.cast::<u64>().read_unaligned() }
}

extern "C" fn hash(_: Ptr<Table>, link: Ptr<Link>) -> u32 {
    d_hash_string_u32(bytes(&record_of(link).key.to_ne_bytes()).cast(), 8)
}

extern "C" fn add(_: Ptr<Table>, link: Ptr<Link>) {
    record_of(link).references += 1;
}

extern "C" fn drop_one(_: Ptr<Table>, link: Ptr<Link>) -> bool {
    record_of(link).references -= 1;
    record_of(link).references == 0
}

extern "C" fn free(_: Ptr<Table>, link: Ptr<Link>) {
    record_of(link).freed += 1;
}

extern "C" fn init(_: Ptr<Table>, link: Ptr<Link>, arg: *mut c_void) {
    // SAFETY: the argument of these tests is a number.
    record_of(link).key = unsafe { arg.cast::<u64>().read() };
}

fn ops() -> Box<Ops> {
    Box::new(Ops {
        key_cmp: Some(compare),
        key_init: Some(init),
        key_hash: None,
        rec_hash: Some(hash),
        rec_addref: Some(add),
        rec_decref: Some(drop_one),
        rec_ndecref: None,
        rec_free: Some(free),
    })
}

/// A new table of 4 buckets.
fn table(feats: u32, ops: &mut Ops) -> Ptr<Table> {
    let mut made = Ptr::null();
    assert_eq!(d_hash_table_create(feats, 2, bytes(b"mine"), at(ops), at(&mut made)), 0);
    assert_eq!(made.get().unwrap().private.raw(), bytes(b"mine").raw());
    made
}

/// Inserts a record unless its key exists.
fn insert(table: Ptr<Table>, record: &mut Record) -> c_int {
    let key = record.key.to_ne_bytes();
    d_hash_rec_insert(table, bytes(&key), 8, at(&mut record.link), true)
}

fn find(table: Ptr<Table>, key: u64) -> Ptr<Link> {
    d_hash_rec_find(table, bytes(&key.to_ne_bytes()), 8)
}

const NO_LOCK: u32 = 0x1;
const EPHEMERAL: u32 = 0x8;
const LRU: u32 = 0x10;

#[test]
fn hashes_match_known_values() {
    assert_eq!(d_hash_string_u32(text(c""), 0), 5381);
    assert_eq!(d_hash_string_u32(text(c"a"), 1), 5381 * 33 + 97);
    assert_eq!(d_hash_string_u32(Ptr::null(), 1), 0);
    let murmur = |len| d_hash_murmur64(bytes(b"0123456789abcdefghijklmn"), len, 5381);
    assert_eq!(murmur(0), 0x62f6_5c69_0342_0d05);
    assert_eq!(murmur(7), 0x9b03_6bb6_a881_a0eb);
    assert_eq!(murmur(8), 0x5cb7_10aa_e320_6cc6);
    assert_eq!(murmur(17), 0x4936_9833_7ddb_7259);
    assert_eq!(d_hash_murmur64(Ptr::null(), 1, 0), 0);
}

#[test]
fn records_are_found() {
    for feats in [NO_LOCK, 0, 0x2, 0x4, 0x8000, LRU] {
        let mut ops = ops();
        let table = table(feats, &mut ops);
        let mut records: Vec<_> = (0..20).map(record).collect();
        records.iter_mut().for_each(|record| assert_eq!(insert(table, record), 0));
        let mut twin = record(3);
        assert_eq!(insert(table, &mut twin), EXIST);
        for key in 0..20 {
            let found = find(table, key);
            assert_eq!((record_of(found).key, record_of(found).references), (key, 2));
            d_hash_rec_decref(table, found);
        }
        assert!(find(table, 99).is_null());
        assert_eq!(d_hash_table_destroy(table, false), BUSY);
        assert!(d_hash_rec_delete(table, bytes(&3u64.to_ne_bytes()), 8));
        assert!(!d_hash_rec_delete(table, bytes(&3u64.to_ne_bytes()), 8));
        assert!(d_hash_rec_unlinked(at(&mut records[3].link)));
        assert!(d_hash_rec_delete_at(table, at(&mut records[4].link)));
        assert!(!d_hash_rec_delete_at(table, at(&mut records[4].link)));
        assert_eq!((records[3].freed, records[4].freed, records[5].freed), (1, 1, 0));
        assert!(!d_hash_rec_first(table).is_null());
        assert_eq!(d_hash_table_destroy(table, true), 0);
        assert!(records.iter().all(|record| record.freed == 1));
    }
}

#[test]
fn find_insert_returns_an_existing_record() {
    let mut ops = ops();
    let table = table(0, &mut ops);
    let (mut first, mut second) = (record(1), record(1));
    let key = 1u64.to_ne_bytes();
    let put =
        |record: &mut Record| d_hash_rec_find_insert(table, bytes(&key), 8, at(&mut record.link));
    assert!(put(&mut first) == at(&mut first.link));
    assert!(put(&mut second) == at(&mut first.link));
    assert_eq!((first.references, second.references), (2, 0));
    let mut third = record(0);
    let anonym = |table, record: &mut Record, key: &mut u64| {
        d_hash_rec_insert_anonym(table, at(&mut record.link), at(key).cast())
    };
    assert_eq!(anonym(table, &mut third, &mut 7), 0);
    assert_eq!(record_of(find(table, 7)).key, 7);
    assert_eq!(d_hash_rec_ndecref(table, 1, at(&mut third.link)), 0);
    d_hash_rec_addref(table, at(&mut third.link));
    assert_eq!(third.references, 2);
    assert_eq!(d_hash_table_destroy(table, true), 0);
}

#[test]
fn ephemeral_records_are_removed_with_their_last_reference() {
    let mut ops = ops();
    let table = table(EPHEMERAL, &mut ops);
    let mut one = record(1);
    one.references = 1;
    insert(table, &mut one);
    assert_eq!(one.references, 1, "the table does not hold a reference");
    d_hash_rec_decref(table, at(&mut one.link));
    assert_eq!(one.freed, 1);
    assert!(find(table, 1).is_null());
    assert_eq!(d_hash_table_destroy(table, false), 0);
}

/// Counts the visited records, and ends the traversal at the second.
extern "C" fn stop_at_two(link: Ptr<Link>, arg: *mut c_void) -> c_int {
    // SAFETY: the argument of this test is a number.
    let count = unsafe { &mut *arg.cast::<c_int>() };
    *count += 1;
    assert!(record_of(link).key < 5);
    if *count == 2 { 77 } else { 0 }
}

#[test]
fn traversal_stops_at_a_result_other_than_zero() {
    let mut ops = ops();
    let table = table(LRU, &mut ops);
    let mut records: Vec<_> = (0..5).map(record).collect();
    records.iter_mut().for_each(|record| assert_eq!(insert(table, record), 0));
    let mut count = 0;
    assert_eq!(d_hash_table_traverse(table, Some(stop_at_two), at(&mut count).cast()), 77);
    assert_eq!(count, 2);
    assert!(d_hash_rec_evict(table, bytes(&1u64.to_ne_bytes()), 8));
    assert!(d_hash_rec_evict_at(table, at(&mut records[2].link)));
    assert!(!d_hash_rec_evict(table, bytes(&9u64.to_ne_bytes()), 8));
    assert_eq!(d_hash_table_traverse(table, None, Ptr::null()), INVAL);
    assert_eq!(d_hash_table_destroy(table, true), 0);
}

#[test]
fn bad_tables_are_refused() {
    let mut ops = ops();
    let mut made = Ptr::null();
    let (none, ops_at) = (Ptr::null(), at(&mut *ops));
    assert_eq!(d_hash_table_create(0, 31, none, ops_at, at(&mut made)), INVAL);
    assert_eq!(d_hash_table_create(0, 3, none, Ptr::null(), at(&mut made)), INVAL);
    assert_eq!(d_hash_table_create(0, 3, none, ops_at, Ptr::null()), INVAL);
    assert!(d_hash_rec_find(Ptr::null(), none, 3).is_null());
    assert_eq!(d_hash_table_destroy(Ptr::null(), true), INVAL);
    let table = table(0, &mut ops);
    let mut one = record(1);
    let link = at(&mut one.link);
    assert_eq!(d_hash_rec_insert(table, none, 8, link, false), INVAL);
    assert_eq!(d_hash_rec_insert(table, bytes(b"12345678"), 0, link, false), INVAL);
    assert_eq!(d_hash_rec_insert(table, bytes(b"12345678"), 8, Ptr::null(), false), INVAL);
    assert_eq!(d_hash_table_destroy(table, false), 0);
}
