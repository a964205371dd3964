//! In strict mode, the library refuses the calls that DAOS refuses. There is one test: the mode is for the process.
#![allow(unsafe_code, missing_docs)]
#[allow(dead_code)]
#[path = "functions/common.rs"]
mod common;

use common::*;
use daos::abi::{EpochRange, Handle, IOD_ARRAY, IOD_SINGLE, Iod, KeyDesc, ObjId, Ptr, Recx};
use daos::container::daos_cont_close;
use daos::dfs::create::dfs_cont_create_with_label;
use daos::dfs::mount::dfs_umount;
use daos::list::{daos_obj_list_akey, daos_obj_list_recx};
use daos::object::*;
use daos::pool::{daos_pool_connect2, daos_pool_disconnect};
use daos::snapshot::daos_cont_create_snap;
use daos::tx::{daos_tx_close, daos_tx_commit, daos_tx_open, daos_tx_open_snap};
use std::ffi::{CStr, c_int};

/// `DAOS_OT_MULTI_LEXICAL`, `DAOS_COND_PUNCH`, `DAOS_COND_PER_AKEY`, and `DAOS_COND_DKEY_INSERT |
/// DAOS_COND_AKEY_INSERT`.
const MULTI_LEXICAL: u32 = 7;
const COND_PUNCH: u64 = 1;
const COND_PER_AKEY: u64 = 0x80;
const COND_MIXED: u64 = 0x12;
/// The classes `OC_TINY`, which DAOS names but does not have, and `OC_S1`.
const TINY: u64 = 51 << 32;
const S1: u64 = 0x0001_0001 << 32;
const SMALL: u32 = common::S1;

/// Opens a new object of this type.
fn opened(store: &Store, otype: u32) -> Handle {
    let mut oh = NONE;
    let opened = daos_obj_open(store.coh, store.oid(otype, SX), OBJ_RW, at(&mut oh), WAIT);
    assert_eq!(opened, 0);
    oh
}

/// Writes a value of one byte to each akey. Returns the result of the call.
fn put(oh: Handle, dkey: &[u8], akeys: &[&[u8]]) -> c_int {
    put_in(oh, NONE, 0, dkey, akeys)
}

/// Writes a value of one byte to each akey, in the transaction `th`. Returns the result of the call.
fn put_in(oh: Handle, th: Handle, flags: u64, dkey: &[u8], akeys: &[&[u8]]) -> c_int {
    let iod = |akey: &&[u8]| Iod {
        name: iov(akey),
        kind: IOD_SINGLE,
        size: 1,
        flags: 0,
        nr: 1,
        recxs: Ptr::null(),
    };
    let mut iods: Vec<_> = akeys.iter().map(iod).collect();
    let mut iovs = vec![iov(b"v"); akeys.len()];
    let mut sgls: Vec<_> = iovs.chunks_mut(1).map(sgl).collect();
    let (mut dkey, nr) = (iov(dkey), akeys.len() as u32);
    daos_obj_update(oh, th, flags, at(&mut dkey), nr, list(&mut iods), list(&mut sgls), WAIT)
}

/// Writes records of `size` bytes, or removes them if `size` is 0.
fn put_records(oh: Handle, th: Handle, akey: &[u8], recx: Recx, size: u64) -> c_int {
    let (mut dkey, mut recxs, data) = (iov(b"d"), [recx], [7; 64]);
    let (kind, recxs) = (IOD_ARRAY, list(&mut recxs));
    let mut iods = [Iod { name: iov(akey), kind, size, flags: 0, nr: 1, recxs }];
    let mut iovs = [iov(&data[..(recx.nr * size) as usize])];
    let mut sgls = [sgl(&mut iovs)];
    let sgls = if size == 0 { Ptr::null() } else { list(&mut sgls) };
    daos_obj_update(oh, th, 0, at(&mut dkey), 1, list(&mut iods), sgls, WAIT)
}

/// An akey keeps its kind of value and its record size when it is removed. A punch of records neither leaves nor makes
/// an akey without records, as it does in DAOS.
fn check_akeys(store: &Store) {
    let oh = opened(store, MULTI_HASHED);
    let (all, some) = (Recx { idx: 0, nr: 8 }, Recx { idx: 0, nr: 3 });
    let (mut dkey, mut akey) = (iov(b"d"), iov(b"a"));
    let mut punch = |th| daos_obj_punch_akeys(oh, th, 0, at(&mut dkey), 1, at(&mut akey), WAIT);
    assert_eq!(put_records(oh, NONE, b"a", all, 2), 0);
    assert_eq!(put_records(oh, NONE, b"a", some, 0), 0);
    assert_eq!(punch(NONE), 0);
    assert_eq!((put(oh, b"d", &[b"a"]), put_records(oh, NONE, b"a", all, 4)), (NO_PERM, INVAL));
    assert_eq!(put_records(oh, NONE, b"a", all, 2), 0);
    assert_eq!(put_records(oh, NONE, b"absent", some, 0), INVAL);
    assert_eq!(put_records(oh, NONE, b"a", all, 0), INVAL, "it leaves an akey without records");
    // Records may all be punched in a transaction that also punches the akey.
    for is_right in [true, false] {
        assert_eq!(put_records(oh, NONE, b"a", all, 2), 0);
        let mut th = NONE;
        assert_eq!(daos_tx_open(store.coh, at(&mut th), 0, WAIT), 0);
        assert_eq!(put_records(oh, th, b"a", all, 0), 0);
        assert_eq!(if is_right { punch(th) } else { 0 }, 0);
        assert_eq!(daos_tx_commit(th, WAIT), if is_right { 0 } else { INVAL });
        assert_eq!(daos_tx_close(th, WAIT), 0);
    }
}

/// A key that a transaction has punched is not updated in it: later updates that depend on the key would find it
/// absent.
fn check_replaced(store: &Store) {
    let oh = opened(store, MULTI_HASHED);
    let punch_object = |th| daos_obj_punch(oh, th, 0, WAIT);
    let punch_dkey = |th| daos_obj_punch_dkeys(oh, th, 0, 1, at(&mut iov(b"d")), WAIT);
    let punch_akey =
        |th| daos_obj_punch_akeys(oh, th, 0, at(&mut iov(b"d")), 1, at(&mut iov(b"a")), WAIT);
    let punches: [&dyn Fn(Handle) -> c_int; 3] = [&punch_object, &punch_dkey, &punch_akey];
    for (punch, others) in punches.iter().zip([[INVAL, INVAL], [INVAL, 0], [0, 0]]) {
        let mut th = NONE;
        assert_eq!(put(oh, b"d", &[b"a"]), 0);
        assert_eq!(daos_tx_open(store.coh, at(&mut th), 0, WAIT), 0);
        assert_eq!(punch(th), 0);
        assert_eq!(put_in(oh, th, 0, b"d", &[b"a"]), INVAL);
        assert_eq!([put_in(oh, th, 0, b"d", &[b"b"]), put_in(oh, th, 0, b"e", &[b"a"])], others);
        assert_eq!(daos_tx_close(th, WAIT), 0);
    }
}

/// A reader of a snapshot gets the epoch of the latest change of an object. Transactions do not query it.
fn check_epoch(store: &Store) {
    let oh = opened(store, MULTI_HASHED);
    assert_eq!(put(oh, b"d", &[b"a"]), 0);
    let (mut taken, mut th, mut epoch) = (0, NONE, 0);
    assert_eq!(daos_cont_create_snap(store.coh, at(&mut taken), Ptr::null(), WAIT), 0);
    assert_eq!(put(oh, b"d", &[b"a"]), 0);
    assert_eq!(daos_tx_open_snap(store.coh, taken, at(&mut th), WAIT), 0);
    assert_eq!(daos_obj_query_max_epoch(oh, th, at(&mut epoch), WAIT), 0);
    assert!(epoch > taken);
    assert_eq!(daos_tx_close(th, WAIT), 0);
    assert_eq!(daos_tx_open(store.coh, at(&mut th), 0, WAIT), 0);
    assert_eq!(daos_obj_query_max_epoch(oh, th, at(&mut epoch), WAIT), INVAL);
    assert_eq!(daos_tx_close(th, WAIT), 0);
}

/// Lists the records of an akey with room for `room` extents. Returns the result of the call.
fn list_records(oh: Handle, akey: &[u8], room: usize) -> c_int {
    let (mut dkey, mut akey, mut anchor) = (iov(b"d"), iov(akey), start());
    let (mut size, mut nr) = (0, room as u32);
    let mut found = vec![Recx::default(); room];
    let mut eprs = vec![EpochRange::default(); room];
    let (keys, counts) = ((at(&mut dkey), at(&mut akey)), (at(&mut size), at(&mut nr)));
    let (found, eprs) = (list(&mut found), list(&mut eprs));
    daos_obj_list_recx(
        oh,
        NONE,
        keys.0,
        keys.1,
        counts.0,
        counts.1,
        found,
        eprs,
        at(&mut anchor),
        1,
        WAIT,
    )
}

/// Lists the akeys of a dkey. Returns the result of the call.
fn list_akeys(oh: Handle, th: Handle) -> c_int {
    let (mut dkey, mut anchor, mut nr, mut buffer) = (iov(b"d"), start(), 4, [0; 64]);
    let (mut kds, mut iovs) = ([KeyDesc::default(); 4], [iov_room(&mut buffer)]);
    let (mut sgl, kds) = (sgl(&mut iovs), list(&mut kds));
    let (dkey, nr, anchor) = (at(&mut dkey), at(&mut nr), at(&mut anchor));
    daos_obj_list_akey(oh, th, dkey, nr, kds, at(&mut sgl), anchor, WAIT)
}

#[test]
fn library_refuses_what_daos_refuses() {
    let store = Store::new();
    daos::strict::esker_libdaos_be_strict();
    let (many, flat) = (opened(&store, MULTI_HASHED), opened(&store, KV_HASHED));

    assert_eq!(
        (list_records(many, b"records", 128), list_records(many, b"records", 129)),
        (0, INVAL)
    );

    assert_eq!(put(many, b"d", &[b"a", b"b"]), 0);
    assert_eq!(put(flat, b"d", &[b"a", b"b"]), NO_PERM);
    assert_eq!(put(flat, b"d", &[b"a"]), 0);
    assert_eq!(put(flat, b"d", &[b"a"]), 0);
    assert_eq!(put(flat, b"d", &[b"b"]), INVAL);
    assert_eq!((list_records(flat, b"a", 1), list_records(many, b"a", 1)), (NO_HDL, 0));
    let (mut dkey, mut akey) = (iov(b"d"), iov(b"a"));
    let mut punch = |oh| daos_obj_punch_akeys(oh, NONE, 0, at(&mut dkey), 1, at(&mut akey), WAIT);
    assert_eq!((punch(many), punch(flat)), (0, INVAL));

    let mut th = NONE;
    assert_eq!(daos_tx_open(store.coh, at(&mut th), 0, WAIT), 0);
    assert_eq!((list_akeys(flat, NONE), list_akeys(flat, th)), (0, INVAL));
    assert_eq!(list_akeys(many, th), 0);
    assert_eq!(put_in(many, NONE, COND_PER_AKEY, b"d", &[b"a", b"b"]), 0);
    assert_eq!(put_in(many, th, COND_PER_AKEY, b"d", &[b"a", b"b"]), INVAL);
    assert_eq!(daos_tx_close(th, WAIT), 0);

    let sorted = opened(&store, MULTI_LEXICAL);
    let (longest, long) = ([b'k'; 100], [b'k'; 101]);
    assert_eq!(put(sorted, &longest, &[&longest]), 0);
    assert_eq!((put(sorted, &long, &[b"a"]), put(sorted, b"d", &[&long])), (KEY2BIG, KEY2BIG));
    assert_eq!(put(many, &long, &[&long]), 0);

    let connect = |system: &CStr| {
        let (mut poh, name) = (NONE, text(&store.name));
        match daos_pool_connect2(name, text(system), 1, at(&mut poh), Ptr::null(), WAIT) {
            0 => daos_pool_disconnect(poh, WAIT),
            code => code,
        }
    };
    assert_eq!((connect(c"daos_server"), connect(c"other")), (0, INVAL));

    check_akeys(&store);
    check_replaced(&store);
    check_epoch(&store);
    assert_eq!(put_in(many, NONE, COND_MIXED, b"new", &[b"a"]), INVAL);

    let absent = opened(&store, MULTI_HASHED);
    assert_eq!(daos_obj_punch(absent, NONE, COND_PUNCH, WAIT), 0);

    let mut oh = NONE;
    let oid = store.oid(MULTI_HASHED, SX);
    let wide = ObjId { hi: oid.hi | 0xfff0 << 32, ..oid };
    assert_eq!(daos_obj_open(store.coh, wide, OBJ_RW, at(&mut oh), WAIT), INVAL);
    let mut open = |class| {
        let oid = ObjId { hi: (MULTI_HASHED as u64) << 56 | class | 7, lo: 0 };
        daos_obj_open(store.coh, oid, OBJ_RW, at(&mut oh), WAIT)
    };
    assert_eq!((open(S1), open(TINY)), (0, INVAL));

    directories_have_names_only(&store);
}

/// In a file system, strict mode refuses a dkey of a directory that is not a name: DAOS could not list it. The
/// superblock may have the dkey `/`.
fn directories_have_names_only(store: &Store) {
    let (label, mut coh) = (text(c"files"), NONE);
    let (none, mut dfs) = (Ptr::null(), Ptr::null());
    let made =
        dfs_cont_create_with_label(store.poh, label, none, Ptr::null(), at(&mut coh), at(&mut dfs));
    assert_eq!(made, 0);
    let open = |hi: u64, otype: u32, class| {
        let (mut oid, mut oh) = (ObjId { hi, lo: hi }, NONE);
        assert_eq!(daos_obj_generate_oid2(coh, at(&mut oid), otype, class, 0, 0), 0);
        assert_eq!(daos_obj_open(coh, oid, OBJ_RW, at(&mut oh), WAIT), 0);
        oh
    };
    let directory = open(20, MULTI_HASHED, SX);
    assert_eq!(put(directory, &[b'n'; 255], &[b"DFS_INODE"]), 0);
    for dkey in [&b"/"[..], b"a/b", b"a\0", b".", b"..", &[b'n'; 256]] {
        assert_eq!(put(directory, dkey, &[b"DFS_INODE"]), INVAL, "{dkey:?}");
    }
    assert_eq!(put(open(0, MULTI_HASHED, SMALL), b"/", &[b"x:user.a"]), 0);
    assert_eq!(put(open(21, KV_HASHED, SX), b"/", &[b"0"]), 0);
    assert_eq!(put(opened(store, MULTI_HASHED), b"/", &[b"a"]), 0);
    assert_eq!(dfs_umount(dfs), 0);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
}
