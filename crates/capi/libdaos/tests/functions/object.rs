//! Objects through the C functions.
use crate::common::*;
use daos::abi::{Handle, IOD_ARRAY, IOD_SINGLE, IOMF_DETAIL, Iod, Iom, ObjId, Ptr, Recx, Sgl};
use daos::memory::d_free;
use daos::object::*;
use std::ffi::c_int;

fn open_object(store: &Store, otype: u32) -> Handle {
    let mut oh = NONE;
    let opened = daos_obj_open(store.coh, store.oid(otype, SX), OBJ_RW, at(&mut oh), WAIT);
    assert_eq!(opened, 0);
    oh
}

/// A single value of `size` bytes.
fn single(akey: &[u8], size: u64) -> Iod {
    Iod { name: iov(akey), kind: IOD_SINGLE, size, flags: 0, nr: 1, recxs: Ptr::null() }
}

/// An array value with records of `size` bytes.
fn array(akey: &[u8], size: u64, recxs: &mut [Recx]) -> Iod {
    let nr = recxs.len() as u32;
    Iod { name: iov(akey), kind: IOD_ARRAY, size, flags: 0, nr, recxs: list(recxs) }
}

fn put(oh: Handle, flags: u64, akey: &[u8], value: &[u8]) -> c_int {
    let mut iovs = [iov(value)];
    let mut iod = single(akey, value.len() as u64);
    let (mut dkey, mut sgl) = (iov(b"dkey"), sgl(&mut iovs));
    daos_obj_update(oh, NONE, flags, at(&mut dkey), 1, at(&mut iod), at(&mut sgl), WAIT)
}

/// Reads a single value. Returns the result of the call, the size, and the number of filled buffers.
fn get(oh: Handle, flags: u64, akey: &[u8], buffer: &mut [u8]) -> (c_int, u64, u32) {
    let mut iovs = [iov_room(buffer)];
    let mut iod = single(akey, 0);
    let (mut dkey, mut sgl) = (iov(b"dkey"), sgl(&mut iovs));
    let (dkey, sgls, iods) = (at(&mut dkey), at(&mut sgl), at(&mut iod));
    let done = daos_obj_fetch(oh, NONE, flags, dkey, 1, iods, sgls, Ptr::null(), WAIT);
    (done, iod.size, sgl.nr_out)
}

#[test]
fn a_stored_single_value_is_read_back() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    assert_eq!(put(oh, 0, b"akey", b"value"), 0);
    let mut buffer = *b"........";
    assert_eq!(get(oh, 0, b"akey", &mut buffer), (0, 5, 1));
    assert_eq!(&buffer, b"value...");
    assert_eq!(get(oh, 0, b"akey", &mut buffer[..3]), (REC2BIG, 5, 0));
    assert_eq!(daos_obj_close(oh, WAIT), 0);
}

#[test]
fn missing_values_fail_only_with_a_condition() {
    const DKEY_FETCH: u64 = 8;
    const AKEY_FETCH: u64 = 0x40;
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let mut buffer = *b"...";
    assert_eq!(get(oh, 0, b"akey", &mut buffer), (0, 0, 0));
    assert_eq!(get(oh, DKEY_FETCH, b"akey", &mut buffer).0, NONEXIST);
    put(oh, 0, b"other", b"value");
    assert_eq!(get(oh, DKEY_FETCH, b"akey", &mut buffer), (0, 0, 0));
    assert_eq!(get(oh, AKEY_FETCH, b"akey", &mut buffer).0, NONEXIST);
    assert_eq!(&buffer, b"...");
}

#[test]
fn a_fetch_that_fails_keeps_the_size_of_the_caller() {
    const AKEY_FETCH: u64 = 0x40;
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let (mut wanted, mut buffer, mut dkey) = ([recx(0, 1)], *b"12345678", iov(b"dkey"));
    let mut iovs = [iov_room(&mut buffer)];
    let mut iods = [array(b"array", 8, &mut wanted), single(b"akey", 3)];
    let mut sgls = [sgl(&mut iovs), Sgl { nr: 0, nr_out: 0, iovs: Ptr::null() }];
    let (at_dkey, at_iods, at_sgls) = (at(&mut dkey), list(&mut iods), list(&mut sgls));
    for count in [1, 2] {
        let (iods, ioms) = (at_iods, Ptr::null());
        let fetched =
            daos_obj_fetch(oh, NONE, AKEY_FETCH, at_dkey, count, iods, at_sgls, ioms, WAIT);
        assert_eq!(fetched, NONEXIST);
    }
    assert_eq!(iods.each_ref().map(|iod| iod.size), [8, 3]);
    // With a size of 0 it would punch the records.
    assert_eq!(daos_obj_update(oh, NONE, 0, at_dkey, 1, at_iods, at_sgls, WAIT), 0);
    let mut found = [0; 8];
    assert_eq!(fetch_records(oh, &mut iods[0], &mut found, Ptr::null()), 0);
    assert_eq!(&found, b"12345678");
}

#[test]
fn without_buffers_a_fetch_returns_sizes() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    put(oh, 0, b"akey", b"value");
    let (mut dkey, mut iod) = (iov(b"dkey"), single(b"akey", 0));
    let (dkey, iods, none) = (at(&mut dkey), at(&mut iod), Ptr::null());
    assert_eq!(daos_obj_fetch(oh, NONE, 0, dkey, 1, iods, none, Ptr::null(), WAIT), 0);
    assert_eq!(iod.size, 5);
}

#[test]
fn an_empty_single_value_exists() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    assert_eq!(put(oh, 0, b"akey", b""), 0);
    // With `DAOS_COND_AKEY_FETCH`, a missing value would be an error.
    assert_eq!(get(oh, 0x40, b"akey", &mut [0; 4]).0, 0);
}

#[test]
fn several_akeys_are_updated_atomically() {
    const INSERT: u64 = 0x10;
    const PER_AKEY: u64 = 0x80;
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    put(oh, 0, b"b", b"old");
    let mut iovs = [[iov(b"new")], [iov(b"new")]];
    let mut iods = [single(b"a", 3), single(b"b", 3)];
    let [first, second] = &mut iovs;
    let mut sgls = [sgl(first), sgl(second)];
    let mut dkey = iov(b"dkey");
    let (dkey, iods, sgls) = (at(&mut dkey), list(&mut iods), list(&mut sgls));
    let update = |flags| daos_obj_update(oh, NONE, flags, dkey, 2, iods, sgls, WAIT);
    assert_eq!(update(INSERT), EXIST);
    let mut buffer = [0; 3];
    assert_eq!(get(oh, 0, b"a", &mut buffer).1, 0, "nothing was written");
    let mut first = iods.get().unwrap();
    first.flags = INSERT;
    iods.set(first);
    assert_eq!(update(PER_AKEY), 0, "the condition applies only to the first");
    get(oh, 0, b"b", &mut buffer);
    assert_eq!(&buffer, b"new");
}

#[test]
fn updates_check_conditions_on_their_dkey() {
    const INSERT: u64 = 0x2;
    const UPDATE: u64 = 0x4;
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    assert_eq!(put(oh, UPDATE, b"a", b"x"), NONEXIST);
    assert_eq!(put(oh, INSERT, b"a", b"x"), 0);
    assert_eq!(put(oh, INSERT, b"b", b"x"), EXIST);
    assert_eq!(put(oh, UPDATE, b"b", b"x"), 0);
}

#[test]
fn conditions_of_other_operations_are_refused() {
    const PUNCH: u64 = 0x1;
    const DKEY_INSERT: u64 = 0x2;
    const DKEY_UPDATE: u64 = 0x4;
    const DKEY_FETCH: u64 = 0x8;
    const AKEY_FETCH: u64 = 0x40;
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    for flags in [PUNCH, DKEY_FETCH, AKEY_FETCH, DKEY_INSERT | PUNCH] {
        assert_eq!(put(oh, flags, b"a", b"x"), INVAL, "{flags:#x}");
    }
    assert_eq!(put(oh, 1 << 40, b"a", b"x"), 0, "an unknown flag");
    for flags in [DKEY_INSERT, DKEY_UPDATE, DKEY_FETCH | DKEY_UPDATE] {
        assert_eq!(get(oh, flags, b"a", &mut [0; 1]).0, INVAL, "{flags:#x}");
    }
}

#[test]
fn an_id_without_a_class_is_refused() {
    let (store, mut oh) = (Store::new(), NONE);
    let oid = ObjId { lo: 1, hi: 0 };
    assert_eq!(daos_obj_open(store.coh, oid, OBJ_RW, at(&mut oh), WAIT), INVAL);
}

/// Writes records of `size` bytes to ranges of the akey `array`.
fn records(oh: Handle, size: u64, recxs: &mut [Recx], data: &[u8]) -> c_int {
    let mut iovs = [iov(data)];
    let mut iod = array(b"array", size, recxs);
    let (mut dkey, mut sgl) = (iov(b"dkey"), sgl(&mut iovs));
    daos_obj_update(oh, NONE, 0, at(&mut dkey), 1, at(&mut iod), at(&mut sgl), WAIT)
}

fn fetch_records(oh: Handle, iod: &mut Iod, buffer: &mut [u8], iom: Ptr<Iom>) -> c_int {
    let mut iovs = [iov_room(buffer)];
    let (mut dkey, mut sgl) = (iov(b"dkey"), sgl(&mut iovs));
    daos_obj_fetch(oh, NONE, 0, at(&mut dkey), 1, at(iod), at(&mut sgl), iom, WAIT)
}

fn recx(idx: u64, nr: u64) -> Recx {
    Recx { idx, nr }
}

/// An empty map with room for `nr` ranges.
fn map(nr: u32, flags: u32, recxs: Ptr<Recx>) -> Iom {
    Iom { kind: 0, nr, nr_out: 0, flags, size: 0, recx_lo: recx(0, 0), recx_hi: recx(0, 0), recxs }
}

#[test]
fn holes_leave_the_buffer_unchanged_and_the_map_lists_extents() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    assert_eq!(records(oh, 2, &mut [recx(1, 2), recx(6, 1)], b"aabbcc"), 0);
    let mut wanted = [recx(0, 8)];
    let mut iod = array(b"array", 0, &mut wanted);
    let mut buffer = [b'.'; 16];
    let mut iom = map(0, IOMF_DETAIL, Ptr::null());
    assert_eq!(fetch_records(oh, &mut iod, &mut buffer, at(&mut iom)), 0);
    assert_eq!(&buffer, b"..aabb......cc..");
    assert_eq!((iod.size, iom.size, iom.kind, iom.nr_out), (2, 2, IOD_ARRAY, 2));
    assert_eq!((iom.recx_lo, iom.recx_hi), (recx(1, 2), recx(6, 1)));
    assert_eq!(iom.recxs.list(2).unwrap(), [recx(1, 2), recx(6, 1)]);
    d_free(iom.recxs.cast());
    let mut found = [recx(9, 9)];
    let mut iom = map(1, IOMF_DETAIL, list(&mut found));
    fetch_records(oh, &mut iod, &mut buffer, at(&mut iom));
    assert_eq!((iom.nr_out, found[0]), (2, recx(1, 2)));
}

#[test]
fn a_range_without_records_has_no_record_size() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    assert_eq!(records(oh, 2, &mut [recx(4, 2)], b"aabb"), 0);
    for (idx, size) in [(0, 0), (2, 2), (6, 0), (100, 0)] {
        for believed in [0, 2] {
            let mut wanted = [recx(idx, 3)];
            let mut iod = array(b"array", believed, &mut wanted);
            assert_eq!(fetch_records(oh, &mut iod, &mut [0; 6], Ptr::null()), 0);
            assert_eq!(iod.size, size, "from {idx}");
            let (mut dkey, none) = (iov(b"dkey"), Ptr::null());
            let mut iod = array(b"array", believed, &mut wanted);
            let (dkey, iods) = (at(&mut dkey), at(&mut iod));
            assert_eq!(daos_obj_fetch(oh, NONE, 0, dkey, 1, iods, none, Ptr::null(), WAIT), 0);
            assert_eq!(iod.size, size, "from {idx}, without a buffer");
        }
    }
}

#[test]
fn record_sizes_and_lengths_must_match() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    assert_eq!(records(oh, 2, &mut [recx(0, 4)], b"1234567"), REC2BIG);
    assert_eq!(records(oh, u64::MAX, &mut [recx(0, 4)], b"12345678"), INVAL);
    assert_eq!(records(oh, 2, &mut [recx(u64::MAX, 4)], b"12345678"), INVAL);
    assert_eq!(records(oh, 2, &mut [], b""), INVAL);
    assert_eq!(records(oh, 2, &mut [recx(0, 4)], b"12345678"), 0);
    let mut wanted = [recx(0, 4)];
    for believed in [1, 2] {
        let (mut iod, mut buffer) = (array(b"array", believed, &mut wanted), [0; 8]);
        assert_eq!(fetch_records(oh, &mut iod, &mut buffer, Ptr::null()), 0);
        assert_eq!((iod.size, &buffer), (2, b"12345678"), "the stored size is returned");
    }
    let mut iod = array(b"array", 3, &mut wanted);
    assert_eq!(fetch_records(oh, &mut iod, &mut [0; 8], Ptr::null()), REC2BIG);
    let mut iod = array(b"array", 0, &mut wanted);
    assert_eq!(fetch_records(oh, &mut iod, &mut [0; 7], Ptr::null()), REC2BIG);
}

#[test]
fn overlapping_ranges_of_an_akey_are_refused() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    for bad in [
        [recx(0, 4), recx(3, 4)],
        [recx(4, 4), recx(0, 5)],
        [recx(0, 0), recx(1, 8)],
        [recx(0, 4), recx(1 << 63, 4)],
    ] {
        let mut bad = bad;
        assert_eq!(records(oh, 1, &mut bad, b"12345678"), INVAL, "{bad:?}");
        let mut iod = array(b"array", 1, &mut bad);
        assert_eq!(fetch_records(oh, &mut iod, &mut [0; 8], Ptr::null()), INVAL);
    }
    assert_eq!(records(oh, 1, &mut [recx(4, 4), recx(0, 4), recx(9, 1)], b"abcd1234x"), 0);
    let (mut wanted, mut buffer) = ([recx(8, 2), recx(0, 8)], *b"..........");
    assert_eq!(
        fetch_records(oh, &mut array(b"array", 0, &mut wanted), &mut buffer, Ptr::null()),
        0
    );
    assert_eq!(&buffer, b".x1234abcd");
}

#[test]
fn number_of_extents_is_limited() {
    const MOST: usize = 65536;
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let mut recxs: Vec<_> = (0..=MOST as u64).map(|index| recx(2 * index, 1)).collect();
    let mut data = vec![b'x'; MOST + 1];
    assert_eq!(records(oh, 1, &mut recxs, &data), NOTSUPPORTED);
    let mut iod = array(b"array", 1, &mut recxs);
    assert_eq!(fetch_records(oh, &mut iod, &mut data, Ptr::null()), NOTSUPPORTED);
    assert_eq!(records(oh, 1, &mut recxs[..MOST], &data[..MOST]), 0);
}

#[test]
fn a_record_size_of_zero_punches() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    records(oh, 1, &mut [recx(0, 6)], b"abcdef");
    let mut recxs = [recx(2, 2)];
    let mut iod = array(b"array", 0, &mut recxs);
    let mut dkey = iov(b"dkey");
    let none = Ptr::null();
    assert_eq!(daos_obj_update(oh, NONE, 0, at(&mut dkey), 1, at(&mut iod), none, WAIT), 0);
    let mut wanted = [recx(0, 6)];
    let mut buffer = *b"......";
    fetch_records(oh, &mut array(b"array", 1, &mut wanted), &mut buffer, Ptr::null());
    assert_eq!(&buffer, b"ab..ef");
}

#[test]
fn punches_remove_keys_and_check_their_condition() {
    const PUNCH: u64 = 1;
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let mut dkeys = [iov(b"dkey"), iov(b"none")];
    let mut akeys = [iov(b"a"), iov(b"b")];
    let (dkey, both) = (at(&mut dkeys[0]), list(&mut akeys));
    put(oh, 0, b"a", b"x");
    assert_eq!(daos_obj_punch_akeys(oh, NONE, PUNCH, dkey, 2, both, WAIT), NONEXIST);
    assert_eq!(get(oh, 0, b"a", &mut [0; 1]).1, 1, "none was removed");
    assert_eq!(daos_obj_punch_akeys(oh, NONE, 0, dkey, 2, both, WAIT), 0);
    assert_eq!(get(oh, 0, b"a", &mut [0; 1]).1, 0);
    assert_eq!(daos_obj_punch_dkeys(oh, NONE, 0, 2, list(&mut dkeys), WAIT), INVAL);
    assert_eq!(daos_obj_punch_dkeys(oh, NONE, 0, 0, list(&mut dkeys), WAIT), INVAL);
    assert_eq!(daos_obj_punch_dkeys(oh, NONE, PUNCH, 1, at(&mut dkeys[1]), WAIT), NONEXIST);
    assert_eq!(daos_obj_punch_dkeys(oh, NONE, 0, 1, at(&mut dkeys[1]), WAIT), 0);
    assert_eq!(daos_obj_punch(oh, NONE, PUNCH, WAIT), NONEXIST);
    assert_eq!(daos_obj_punch(oh, NONE, 0, WAIT), 0);
}

#[test]
fn bad_arguments_are_refused() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let mut iovs = [iov(b"x")];
    let (mut dkey, mut iod, mut sgl) = (iov(b"dkey"), single(b"a", 1), sgl(&mut iovs));
    let (dkey, iods, sgls) = (at(&mut dkey), at(&mut iod), at(&mut sgl));
    let update = |nr, iods, sgls| daos_obj_update(oh, NONE, 0, dkey, nr, iods, sgls, WAIT);
    assert_eq!(update(0, iods, sgls), INVAL);
    assert_eq!(update(u32::MAX, iods, sgls), INVAL);
    assert_eq!(update(1, Ptr::null(), sgls), INVAL);
    assert_eq!(update(1, iods, Ptr::null()), INVAL);
    let none = Ptr::null();
    assert_eq!(daos_obj_update(oh, NONE, 0, none, 1, iods, sgls, WAIT), INVAL);
    for bad in [
        Iod { kind: 0, ..single(b"a", 1) },
        Iod { kind: 3, ..single(b"a", 1) },
        Iod { nr: 2, ..single(b"a", 1) },
        single(b"", 1),
        Iod { kind: IOD_ARRAY, ..single(b"a", 1) },
    ] {
        let mut bad = bad;
        assert_eq!(update(1, at(&mut bad), sgls), INVAL);
    }
    assert_eq!(update(1, at(&mut single(b"a", 2)), sgls), REC2BIG, "a short buffer");
    let mut oh = NONE;
    let oid = ObjId::default();
    assert_eq!(daos_obj_open(store.coh, oid, OBJ_RW, Ptr::null(), WAIT), INVAL);
    assert_eq!(daos_obj_open(store.poh, oid, OBJ_RW, at(&mut oh), WAIT), NO_HDL);
}

#[test]
fn identifiers_are_generated() {
    let store = Store::new();
    let generate = |hi, otype, class, hints| {
        let mut oid = ObjId { lo: 5, hi };
        let done = daos_obj_generate_oid(store.coh, at(&mut oid), otype, class, hints, 0);
        (done, oid.hi)
    };
    assert_eq!(generate(0xdead_beef_0000_0009, ARRAY, S2, 0), (0, 0x0b01_0002_0000_0009));
    assert_eq!(generate(9, KV_HASHED, SX, 0), (0, 0x0801_0004_0000_0009), "adapted to 4 targets");
    assert_eq!(generate(9, ARRAY, 0, 0), (0, 0x0b01_0004_0000_0009), "chosen by the library");
    assert_eq!(generate(9, MULTI_HASHED, 0, 0), (0, 0x0001_0001_0000_0009));
    assert_eq!(generate(9, MULTI_HASHED, 0, 0x200), (0, 0x0001_0004_0000_0009), "hints");
    assert_eq!(generate(9, 15, S1, 0).0, INVAL);
    assert_eq!(generate(9, u32::MAX, S1, 0).0, INVAL);
    assert_eq!(generate(9, ARRAY, 0x0100_0020, 0).0, INVAL, "32 groups do not fit");
    assert_eq!(generate(9, ARRAY, 7, 0).0, INVAL);
    let mut oid = ObjId::default();
    assert_eq!(daos_obj_generate_oid2(NONE, at(&mut oid), ARRAY, S1, 0, 0), NO_HDL);
    assert_eq!(daos_obj_generate_oid2(store.coh, Ptr::null(), ARRAY, S1, 0, 0), INVAL);
}

#[test]
fn unimplemented_functions_return_an_error() {
    assert_eq!(daos::init::daos_init(), 0);
    assert_eq!(daos_obj_query(NONE, Ptr::null(), Ptr::null(), WAIT), NOSYS);
    let none = Ptr::null();
    assert_eq!(daos::oclass::daos_obj_register_class(NONE, 0, none, WAIT), NOSYS);
    assert_eq!(daos::oclass::daos_obj_query_class(NONE, 0, none, WAIT), NOSYS);
    assert_eq!(daos::oclass::daos_obj_list_class(NONE, none, Ptr::null(), WAIT), NOSYS);
    assert_eq!(daos::init::daos_fini(), 0);
}
