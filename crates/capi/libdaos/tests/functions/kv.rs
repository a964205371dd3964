//! Key-Values through the C functions.
use crate::common::*;
use daos::abi::{Handle, KeyDesc, Ptr};
use daos::kv::*;
use daos::object::{daos_obj_close, daos_obj_open};
use std::ffi::CStr;

fn open_kv(store: &Store) -> Handle {
    let mut oh = NONE;
    assert_eq!(daos_kv_open(store.coh, store.oid(KV_HASHED, SX), OBJ_RW, at(&mut oh), WAIT), 0);
    oh
}

fn put(oh: Handle, flags: u64, key: &CStr, value: &[u8]) -> i32 {
    daos_kv_put(oh, NONE, flags, text(key), value.len() as u64, bytes(value), WAIT)
}

/// Reads a value into a buffer. `size` is its room, and becomes the length of the value.
fn get(oh: Handle, flags: u64, key: &CStr, size: &mut u64, buffer: &mut [u8]) -> i32 {
    daos_kv_get(oh, NONE, flags, text(key), at(size), room(buffer), WAIT)
}

const INSERT: u64 = 2;
const UPDATE: u64 = 4;
const GET: u64 = 8;
const REMOVE: u64 = 1;

#[test]
fn a_stored_value_is_read_back() {
    let store = Store::new();
    let oh = open_kv(&store);
    assert_eq!(put(oh, 0, c"key", b"value"), 0);
    let mut room = [0xee; 8];
    let mut size = room.len() as u64;
    assert_eq!(get(oh, 0, c"key", &mut size, &mut room), 0);
    assert_eq!((size, &room), (5, b"value\xee\xee\xee"));
    assert_eq!(daos_kv_close(oh, WAIT), 0);
}

#[test]
fn the_size_can_be_queried_without_a_buffer() {
    let store = Store::new();
    let oh = open_kv(&store);
    put(oh, 0, c"key", b"value");
    for garbage in [0, 1, u64::MAX] {
        let mut size = garbage;
        let asked = daos_kv_get(oh, NONE, 0, text(c"key"), at(&mut size), Ptr::null(), WAIT);
        assert_eq!((asked, size), (0, 5));
    }
    let mut size = 0;
    assert_eq!(get(oh, 0, c"key", &mut size, &mut [0; 8]), 0);
    assert_eq!(size, 5);
    assert_eq!(daos_kv_get(oh, NONE, 0, text(c"key"), Ptr::null(), Ptr::null(), WAIT), INVAL);
}

#[test]
fn a_missing_key_fails_only_with_a_condition() {
    let store = Store::new();
    let oh = open_kv(&store);
    let mut room = [7; 4];
    let mut size = 4;
    assert_eq!(get(oh, 0, c"none", &mut size, &mut room), 0);
    assert_eq!((size, room), (0, [7; 4]));
    size = 4;
    assert_eq!(get(oh, GET, c"none", &mut size, &mut room), NONEXIST);
    assert_eq!(room, [7; 4]);
}

#[test]
fn conditions_of_other_operations_are_refused() {
    let store = Store::new();
    let oh = open_kv(&store);
    assert_eq!(put(oh, GET, c"key", b"value"), INVAL);
    assert_eq!(put(oh, REMOVE, c"key", b"value"), INVAL);
    assert_eq!(get(oh, INSERT, c"key", &mut 4, &mut [0; 4]), INVAL);
}

#[test]
fn a_short_buffer_returns_the_size() {
    let store = Store::new();
    let oh = open_kv(&store);
    put(oh, 0, c"key", b"value");
    let mut size = 3;
    assert_eq!(get(oh, 0, c"key", &mut size, &mut [0; 3]), REC2BIG);
    assert_eq!(size, 5);
}

#[test]
fn empty_values_exist() {
    let store = Store::new();
    let oh = open_kv(&store);
    assert_eq!(daos_kv_put(oh, NONE, 0, text(c"key"), 0, Ptr::null(), WAIT), 0);
    let mut size = 9;
    assert_eq!(get(oh, GET, c"key", &mut size, &mut [0; 9]), 0);
    assert_eq!(size, 0);
    assert_eq!(put(oh, INSERT, c"key", b"x"), EXIST);
}

#[test]
fn puts_and_removes_check_their_conditions() {
    let store = Store::new();
    let oh = open_kv(&store);
    assert_eq!(put(oh, UPDATE, c"key", b"x"), NONEXIST);
    assert_eq!(put(oh, INSERT, c"key", b"x"), 0);
    assert_eq!(put(oh, INSERT, c"key", b"y"), EXIST);
    assert_eq!(put(oh, UPDATE, c"key", b"y"), 0);
    assert_eq!(daos_kv_remove(oh, NONE, REMOVE, text(c"key"), WAIT), 0);
    assert_eq!(daos_kv_remove(oh, NONE, REMOVE, text(c"key"), WAIT), NONEXIST);
    assert_eq!(daos_kv_remove(oh, NONE, 0, text(c"key"), WAIT), 0);
}

#[test]
fn bad_arguments_are_refused() {
    let store = Store::new();
    let oh = open_kv(&store);
    assert_eq!(daos_kv_put(oh, NONE, 0, Ptr::null(), 1, bytes(b"x"), WAIT), INVAL);
    assert_eq!(put(oh, 0, c"", b"x"), INVAL);
    assert_eq!(daos_kv_put(oh, NONE, 0, text(c"key"), 5, Ptr::null(), WAIT), INVAL);
    assert_eq!(daos_kv_put(oh, NONE, 0, text(c"key"), u64::MAX, bytes(b"x"), WAIT), INVAL);
    assert_eq!(daos_kv_put(oh, NONE, 0, text(c"key"), 1 << 40, bytes(b"x"), WAIT), REC2BIG);
    let long = std::ffi::CString::new(vec![b'k'; (512 << 10) + 1]).unwrap();
    assert_eq!(put(oh, 0, &long, b"x"), KEY2BIG);
    let mut size = 5;
    let asked = daos_kv_get(oh, NONE, 0, Ptr::null(), at(&mut size), Ptr::null(), WAIT);
    assert_eq!(asked, INVAL);
    assert_eq!(daos_kv_remove(oh, NONE, 0, Ptr::null(), WAIT), INVAL);
    let mut other = NONE;
    let array = store.oid(ARRAY, S1);
    assert_eq!(daos_kv_open(store.coh, array, OBJ_RW, at(&mut other), WAIT), INVAL);
    let kv = store.oid(KV_HASHED, S1);
    assert_eq!(daos_kv_open(store.coh, kv, OBJ_RW, Ptr::null(), WAIT), INVAL);
    assert_eq!(daos_kv_open(NONE, kv, OBJ_RW, at(&mut other), WAIT), NO_HDL);
}

#[test]
fn handles_are_checked_by_type_and_generation() {
    let store = Store::new();
    let oh = open_kv(&store);
    let mut size = 0;
    for wild in [0, 1, 13, oh.cookie ^ 0x6, oh.cookie + (1 << 32), oh.cookie ^ 0x10, u64::MAX] {
        let wild = Handle { cookie: wild };
        assert_eq!(get(wild, 0, c"key", &mut size, &mut []), NO_HDL, "{wild:?}");
    }
    assert_eq!(daos_kv_close(store.coh, WAIT), NO_HDL);
    assert_eq!(daos_obj_close(oh, WAIT), 0, "daos_obj_close accepts Key-Values");
    assert_eq!(daos_obj_close(oh, WAIT), NO_HDL);
    assert_eq!(get(oh, 0, c"key", &mut size, &mut []), NO_HDL);
    let again = open_kv(&store);
    assert_ne!(again, oh, "a reused slot has another generation");
    assert_eq!(put(oh, 0, c"key", b"x"), NO_HDL);
    let mut object = NONE;
    let oid = store.oid(KV_HASHED, S1);
    assert_eq!(daos_obj_open(store.coh, oid, OBJ_RW, at(&mut object), WAIT), 0);
    assert_eq!(put(object, 0, c"key", b"x"), NO_HDL, "an object is not a Key-Value");
}

#[test]
fn a_read_only_handle_does_not_write() {
    let store = Store::new();
    let mut oh = NONE;
    let oid = store.oid(KV_HASHED, S1);
    assert_eq!(daos_kv_open(store.coh, oid, OBJ_RO, at(&mut oh), WAIT), 0);
    assert_eq!(put(oh, 0, c"key", b"x"), NO_PERM);
    let reader = open(store.poh, RO);
    assert_eq!(daos_kv_open(reader, oid, OBJ_RW, at(&mut oh), WAIT), 0);
    assert_eq!(put(oh, 0, c"key", b"x"), NO_PERM);
    assert_eq!(daos::container::daos_cont_close(reader, WAIT), 0);
}

/// All keys, sorted. Lists up to `entries` at a time, into a buffer of `bytes` bytes.
fn all_keys(oh: Handle, entries: usize, bytes: usize) -> Vec<Vec<u8>> {
    let mut anchor = start();
    let mut kds = vec![KeyDesc::default(); entries];
    let mut buffer = vec![0; bytes];
    let mut keys = Vec::new();
    while anchor.kind != 3 {
        let mut nr = entries as u32;
        let mut iovs = [iov_room(&mut buffer)];
        let mut sgl = sgl(&mut iovs);
        let listed = daos_kv_list(
            oh,
            NONE,
            at(&mut nr),
            list(&mut kds),
            at(&mut sgl),
            at(&mut anchor),
            WAIT,
        );
        assert_eq!(listed, 0);
        let mut begin = 0;
        for kd in &kds[..nr as usize] {
            let end = begin + kd.key_len as usize;
            keys.push(buffer[begin..end].to_vec());
            begin = end;
        }
    }
    keys.sort();
    keys
}

#[test]
fn a_listing_stops_when_entries_or_bytes_run_out() {
    let store = Store::new();
    let oh = open_kv(&store);
    let mut expected = Vec::new();
    for index in 0..300 {
        let key = format!("key-{index:04}");
        put(oh, 0, &std::ffi::CString::new(key.clone()).unwrap(), b"v");
        expected.push(key.into_bytes());
    }
    assert_eq!(all_keys(oh, 1024, 1024), expected);
    assert_eq!(all_keys(oh, 7, 1024), expected);
    assert_eq!(all_keys(oh, 1000, 9), expected);
    assert_eq!(daos_kv_destroy(oh, NONE, WAIT), 0);
    assert!(all_keys(oh, 16, 1024).is_empty());
    assert_eq!(put(oh, 0, c"key", b"v"), 0, "the handle stays open");
}

#[test]
fn positions_too_long_for_an_anchor_are_stored_with_the_handle() {
    let store = Store::new();
    let oh = open_kv(&store);
    let mut expected = Vec::new();
    for index in 0..40 {
        let key = vec![b'a' + (index % 26) as u8; 300 + index];
        put(oh, 0, &std::ffi::CString::new(key.clone()).unwrap(), b"v");
        expected.push(key);
    }
    expected.sort();
    assert_eq!(all_keys(oh, 3, 4096), expected);
}

#[test]
fn a_key_larger_than_the_buffer_returns_its_size() {
    let store = Store::new();
    let oh = open_kv(&store);
    put(oh, 0, c"a long key", b"v");
    let mut anchor = start();
    let (mut nr, mut kd, mut buffer) = (4, [KeyDesc::default(); 4], [0; 4]);
    let mut iovs = [iov_room(&mut buffer)];
    let mut sgl = sgl(&mut iovs);
    let listed =
        daos_kv_list(oh, NONE, at(&mut nr), list(&mut kd), at(&mut sgl), at(&mut anchor), WAIT);
    assert_eq!((listed, kd[0].key_len), (KEY2BIG, 10));
    assert_eq!(anchor.kind, 0, "the anchor has not moved");
}
