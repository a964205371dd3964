//! Listings and queries through the C functions.
use crate::common::*;
use daos::abi::{EpochRange, Handle, IOD_ARRAY, IOD_SINGLE, Iod, KeyDesc, Ptr, Recx, Sgl};
use daos::list::*;
use daos::object::*;

fn open_object(store: &Store, otype: u32) -> Handle {
    let mut oh = NONE;
    assert_eq!(daos_obj_open(store.coh, store.oid(otype, S1), OBJ_RW, at(&mut oh), WAIT), 0);
    oh
}

/// Stores a value of one byte.
fn put(oh: Handle, dkey: &[u8], akey: &[u8]) {
    let mut iovs = [iov(b"v")];
    let none = Ptr::null();
    let mut iod = Iod { name: iov(akey), kind: IOD_SINGLE, size: 1, flags: 0, nr: 1, recxs: none };
    let (mut dkey, mut sgl) = (iov(dkey), sgl(&mut iovs));
    let done = daos_obj_update(oh, NONE, 0, at(&mut dkey), 1, at(&mut iod), at(&mut sgl), WAIT);
    assert_eq!(done, 0);
}

/// Stores records of one byte in an array value.
fn put_records(oh: Handle, dkey: &[u8], akey: &[u8], recxs: &mut [Recx]) {
    let bytes = vec![1; recxs.iter().map(|recx| recx.nr as usize).sum()];
    let mut iovs = [iov(&bytes)];
    let (nr, recxs) = (recxs.len() as u32, list(recxs));
    let mut iod = Iod { name: iov(akey), kind: IOD_ARRAY, size: 1, flags: 0, nr, recxs };
    let (mut dkey, mut sgl) = (iov(dkey), sgl(&mut iovs));
    let done = daos_obj_update(oh, NONE, 0, at(&mut dkey), 1, at(&mut iod), at(&mut sgl), WAIT);
    assert_eq!(done, 0);
}

/// Lists keys from an anchor: akeys if a dkey is given, otherwise dkeys.
fn keys(oh: Handle, dkey: Option<&[u8]>, mut anchor: daos::abi::Anchor) -> Vec<Vec<u8>> {
    let (mut kds, mut buffer) = ([KeyDesc::default(); 3], [0; 64]);
    let mut keys = Vec::new();
    while anchor.kind != 3 {
        let mut nr = kds.len() as u32;
        let mut iovs = [iov_room(&mut buffer)];
        let mut sgl = sgl(&mut iovs);
        let (nr_at, kds_at, sgl, to) = (at(&mut nr), list(&mut kds), at(&mut sgl), at(&mut anchor));
        let listed = match dkey {
            None => daos_obj_list_dkey(oh, NONE, nr_at, kds_at, sgl, to, WAIT),
            Some(dkey) => {
                let mut dkey = iov(dkey);
                daos_obj_list_akey(oh, NONE, at(&mut dkey), nr_at, kds_at, sgl, to, WAIT)
            }
        };
        assert_eq!(listed, 0);
        let mut rest = &buffer[..];
        for kd in &kds[..nr as usize] {
            let (key, behind) = rest.split_at(kd.key_len as usize);
            keys.push(key.to_vec());
            rest = behind;
        }
    }
    keys
}

#[test]
fn dkeys_and_akeys_are_listed() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    for dkey in [b"d1", b"d2", b"d3", b"d4"] {
        for akey in [b"a1", b"a2", b"a3", b"a4", b"a5"] {
            put(oh, dkey, akey);
        }
    }
    assert_eq!(keys(oh, None, start()), [b"d1", b"d2", b"d3", b"d4"]);
    assert_eq!(keys(oh, Some(b"d2"), start()), [b"a1", b"a2", b"a3", b"a4", b"a5"]);
    assert!(keys(oh, Some(b"none"), start()).is_empty());
}

#[test]
fn a_listing_continues_at_a_key() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    [b"d1", b"d2", b"d3", b"d4"].iter().for_each(|dkey| put(oh, *dkey, b"a"));
    for (key, expected) in [(b"d3", &[b"d3", b"d4"][..]), (b"d1", &[b"d1", b"d2", b"d3", b"d4"])] {
        let (mut anchor, mut dkey) = (start(), iov(key));
        let (dkey, to) = (at(&mut dkey), at(&mut anchor));
        assert_eq!(daos_obj_key2anchor(oh, NONE, dkey, Ptr::null(), to, WAIT), 0);
        assert_eq!(keys(oh, None, anchor), expected);
    }
    let (mut anchor, mut dkey) = (start(), iov(b"none"));
    let (dkey, to) = (at(&mut dkey), at(&mut anchor));
    assert_eq!(daos_obj_key2anchor(oh, NONE, dkey, Ptr::null(), to, WAIT), NONEXIST);
}

/// Lists one dkey into a buffer of `room` bytes. Returns the result of the call, the length of the key, and the key.
fn one_dkey(oh: Handle, room: usize) -> (i32, u64, Vec<u8>) {
    let (mut nr, mut kd, mut anchor) = (1, KeyDesc::default(), start());
    let mut buffer = vec![0; room];
    let count = at(&mut nr);
    let mut iovs = [iov_room(&mut buffer)];
    let mut sgl = sgl(&mut iovs);
    let (kds, sgl, to) = (at(&mut kd), at(&mut sgl), at(&mut anchor));
    let listed = daos_obj_list_dkey(oh, NONE, count, kds, sgl, to, WAIT);
    assert_eq!(count.get(), Ok(1), "the number stays if the key is too big");
    buffer.truncate(kd.key_len as usize);
    (listed, kd.key_len, buffer)
}

#[test]
fn a_key_of_half_a_mebibyte_is_listed() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let long = vec![b'L'; (512 << 10) - 1];
    put(oh, &long, b"a");
    let (listed, needed, _) = one_dkey(oh, 1000);
    assert_eq!((listed, needed), (KEY2BIG, long.len() as u64));
    let (listed, _, found) = one_dkey(oh, long.len() + 9);
    assert!(listed == 0 && found == long);
    put(oh, b"d", &long);
    let (mut anchor, mut dkey, mut akey) = (start(), iov(b"d"), iov(&long));
    let (dkey, akey, to) = (at(&mut dkey), at(&mut akey), at(&mut anchor));
    assert_eq!(daos_obj_key2anchor(oh, NONE, dkey, akey, to, WAIT), 0);
}

#[test]
fn key_never_spans_two_buffers() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    [b"key1", b"key2", b"key3"].iter().for_each(|dkey| put(oh, *dkey, b"a"));
    let (mut nr, mut kds, mut anchor) = (3, [KeyDesc::default(); 3], start());
    let (mut first, mut second) = ([0; 7], [0; 6]);
    let mut iovs = [iov_room(&mut first), iov_room(&mut second)];
    let mut sgl = sgl(&mut iovs);
    let (nr_at, kds_at, sgl_at, to) = (at(&mut nr), list(&mut kds), at(&mut sgl), at(&mut anchor));
    assert_eq!(daos_obj_list_dkey(oh, NONE, nr_at, kds_at, sgl_at, to, WAIT), 0);
    assert_eq!((nr, sgl.nr_out, anchor.kind), (2, 2, 2), "13 bytes have room for two of them");
    assert_eq!(iovs.map(|iov| iov.len), [4, 4]);
    assert_eq!((&first[..4], &second[..4]), (&b"key1"[..], &b"key2"[..]));
    assert_eq!(keys(oh, None, anchor), [b"key3"]);
    let mut small = [iov_room(&mut first[..3]), iov_room(&mut second[..3])];
    let mut sgl = Sgl { nr: 2, nr_out: 0, iovs: list(&mut small) };
    let (nr_at, sgl_at) = (at(&mut nr), at(&mut sgl));
    let listed = daos_obj_list_dkey(oh, NONE, nr_at, kds_at, sgl_at, at(&mut start()), WAIT);
    assert_eq!((listed, nr, kds[0].key_len), (KEY2BIG, 2, 4));
}

#[test]
fn a_listing_has_one_part() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let (mut nr, mut anchor) = (0, start());
    assert_eq!(daos_obj_anchor_split(oh, at(&mut nr), Ptr::null()), 0);
    assert_eq!(nr, 1);
    anchor.kind = 9;
    assert_eq!(daos_obj_anchor_split(oh, at(&mut nr), at(&mut anchor)), 0);
    assert_eq!(anchor.kind, 0);
    assert_eq!(daos_obj_anchor_set(oh, 0, at(&mut anchor)), 0);
    assert_eq!(daos_obj_anchor_set(oh, 1, at(&mut anchor)), INVAL);
    assert_eq!(daos_obj_anchor_split(oh, Ptr::null(), Ptr::null()), INVAL);
}

#[test]
fn bad_listings_are_refused() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    put(oh, b"d", b"a");
    let (mut nr, mut kd, mut anchor, mut buffer) = (1, KeyDesc::default(), start(), [0; 8]);
    let mut iovs = [iov_room(&mut buffer)];
    let mut sgl = sgl(&mut iovs);
    let (nr_at, kds, sgl, to) = (at(&mut nr), at(&mut kd), at(&mut sgl), at(&mut anchor));
    let list = |nr, kds, sgl, to| daos_obj_list_dkey(oh, NONE, nr, kds, sgl, to, WAIT);
    assert_eq!(list(Ptr::null(), kds, sgl, to), INVAL);
    assert_eq!(list(nr_at, Ptr::null(), sgl, to), INVAL);
    assert_eq!(list(nr_at, kds, Ptr::null(), to), KEY2BIG, "there is no room for a key");
    assert_eq!(list(nr_at, kds, sgl, Ptr::null()), INVAL);
    to.set(daos::abi::Anchor { kind: 77, ..start() });
    assert_eq!(list(nr_at, kds, sgl, to), INVAL);
    to.set(daos::abi::Anchor { kind: 2, buf: [0xff; 104], ..start() });
    assert_eq!(list(nr_at, kds, sgl, to), INVAL, "no position is stored under that number");
    nr_at.set(0);
    to.set(start());
    assert_eq!(list(nr_at, kds, sgl, to), INVAL);
}

/// All extents of an akey, listed `step` at a time in ascending or descending order, and the size of a record.
fn recxs(oh: Handle, upwards: u8, step: usize) -> (Vec<Recx>, u64) {
    let (mut dkey, mut akey, mut anchor) = (iov(b"d"), iov(b"a"), start());
    let (mut found, mut size, mut all) = (vec![Recx::default(); step], 0, Vec::new());
    let mut eprs = vec![EpochRange::default(); step];
    while anchor.kind != 3 {
        let mut nr = step as u32;
        let listed = daos_obj_list_recx(
            oh,
            NONE,
            at(&mut dkey),
            at(&mut akey),
            at(&mut size),
            at(&mut nr),
            list(&mut found),
            list(&mut eprs),
            at(&mut anchor),
            upwards,
            WAIT,
        );
        assert_eq!(listed, 0);
        all.extend_from_slice(&found[..nr as usize]);
        assert!(eprs[..nr as usize].iter().all(|epr| epr.lo > 0 && epr.lo == epr.hi));
    }
    (all, size)
}

#[test]
fn records_are_listed_in_both_orders() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let mut expected: Vec<_> = (0..7).map(|index| Recx { idx: index * 10, nr: 2 }).collect();
    put_records(oh, b"d", b"a", &mut expected.clone());
    for step in [1, 3, 100] {
        assert_eq!(recxs(oh, 1, step).0, expected);
    }
    assert_eq!(recxs(oh, 1, 100).1, 1);
    expected.reverse();
    for step in [1, 3, 100] {
        assert_eq!(recxs(oh, 0, step).0, expected);
    }
}

/// `DAOS_GET_*`.
const MAX: u64 = 0x1;
const MIN: u64 = 0x2;
const DKEY: u64 = 0x4;
const AKEY: u64 = 0x8;
const RECX: u64 = 0x10;

/// Runs a query. Returns the result of the call, the dkey, the akey and the extent. Keys that it does not find stay 77.
fn query(oh: Handle, flags: u64) -> (i32, u64, u64, Recx) {
    let (mut dkey, mut akey, mut recx) =
        (77u64.to_ne_bytes(), 77u64.to_ne_bytes(), Recx::default());
    let (mut dkey_iov, mut akey_iov) = (iov_room(&mut dkey), iov_room(&mut akey));
    let (dkey_at, akey_at, recx_at) = (at(&mut dkey_iov), at(&mut akey_iov), at(&mut recx));
    let done = daos_obj_query_key(oh, NONE, flags, dkey_at, akey_at, recx_at, WAIT);
    (done, u64::from_ne_bytes(dkey), u64::from_ne_bytes(akey), recx)
}

#[test]
fn the_smallest_and_largest_keys_and_records_are_found() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_UINT64);
    assert_eq!(query(oh, MAX | DKEY).0, 0, "an empty result is not an error");
    assert_eq!(query(oh, MAX | DKEY).1, 77, "and it leaves the arguments unchanged");
    for (dkey, akey) in [(3u64, 1u64), (3, 8), (77, 77), (300, 2)] {
        let mut recxs = [Recx { idx: dkey, nr: 2 }, Recx { idx: dkey + 10, nr: 5 }];
        put_records(oh, &dkey.to_ne_bytes(), &akey.to_ne_bytes(), &mut recxs);
    }
    assert_eq!(query(oh, MAX | DKEY).1, 300);
    assert_eq!(query(oh, MIN | DKEY).1, 3);
    let (_, dkey, akey, recx) = query(oh, MIN | DKEY | AKEY | RECX);
    assert_eq!((dkey, akey, recx), (3, 1, Recx { idx: 3, nr: 2 }));
    let (done, .., recx) = query(oh, MAX | RECX);
    assert_eq!((done, recx.idx + recx.nr), (0, 92), "within the given dkey and akey");
}

#[test]
fn bad_queries_are_refused() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_UINT64);
    for flags in [0, MAX, MAX | MIN | DKEY, DKEY, RECX] {
        assert_eq!(query(oh, flags).0, INVAL, "{flags:#x}");
    }
    let hashed = open_object(&store, MULTI_HASHED);
    assert_eq!(query(hashed, MAX | DKEY).0, INVAL, "hashed keys have no order");
    let none = Ptr::null();
    let ask = |flags| daos_obj_query_key(oh, NONE, flags, none, Ptr::null(), Ptr::null(), WAIT);
    for flags in [MAX | DKEY, MAX | AKEY, MAX | RECX] {
        assert_eq!(ask(flags), INVAL);
    }
}

#[test]
fn the_latest_change_has_an_epoch() {
    let store = Store::new();
    let oh = open_object(&store, MULTI_HASHED);
    let mut epoch = 9;
    assert_eq!(daos_obj_query_max_epoch(oh, NONE, at(&mut epoch), WAIT), 0);
    assert_eq!(epoch, 0);
    put(oh, b"d", b"a");
    daos_obj_query_max_epoch(oh, NONE, at(&mut epoch), WAIT);
    assert!(epoch > 0);
    assert_eq!(daos_obj_verify(store.coh, store.oid(MULTI_HASHED, S1), epoch), 0);
    assert_eq!(daos_obj_verify(NONE, store.oid(MULTI_HASHED, S1), epoch), NO_HDL);
}
