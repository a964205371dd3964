//! Transactions, snapshots and object tables through the C functions.
use crate::common::*;
use daos::abi::{Bytes, EpochRange, Handle, Iov, ObjId, Ptr};
use daos::array::daos_array_create;
use daos::kv::*;
use daos::object::daos_obj_punch;
use daos::oit::*;
use daos::snapshot::*;
use daos::tx::*;
use std::ffi::{CStr, c_int};

fn open_kv(store: &Store) -> Handle {
    let mut oh = NONE;
    assert_eq!(daos_kv_open(store.coh, store.oid(KV_HASHED, SX), OBJ_RW, at(&mut oh), WAIT), 0);
    oh
}

/// Opens a transaction with these flags (`DAOS_TF_*`).
fn begin(store: &Store, flags: u64) -> Handle {
    let mut th = NONE;
    assert_eq!(daos_tx_open(store.coh, at(&mut th), flags, WAIT), 0);
    th
}

fn put(oh: Handle, th: Handle, key: &CStr, value: &[u8]) -> c_int {
    daos_kv_put(oh, th, 0, text(key), value.len() as u64, bytes(value), WAIT)
}

/// Size of the value of a key; 0 if it is missing.
fn size(oh: Handle, th: Handle, key: &CStr) -> u64 {
    let mut size = 0;
    assert_eq!(daos_kv_get(oh, th, 0, text(key), at(&mut size), Ptr::null(), WAIT), 0);
    size
}

#[test]
fn writes_appear_with_the_commit() {
    let store = Store::new();
    let oh = open_kv(&store);
    let th = begin(&store, 0);
    assert_eq!(put(oh, th, c"a", b"1"), 0);
    assert_eq!(put(oh, th, c"b", b"22"), 0);
    assert_eq!(
        (size(oh, th, c"a"), size(oh, NONE, c"a")),
        (0, 0),
        "invisible before the commit, also in the transaction"
    );
    let mut epoch = 0;
    assert_eq!(daos_tx_hdl2epoch(th, at(&mut epoch)), UNINIT);
    assert_eq!(daos_tx_commit(th, WAIT), 0);
    assert_eq!((size(oh, NONE, c"a"), size(oh, NONE, c"b")), (1, 2));
    assert_eq!(daos_tx_hdl2epoch(th, at(&mut epoch)), 0);
    assert!(epoch > 0);
    assert_eq!(daos_tx_commit(th, WAIT), ALREADY);
    assert_eq!(daos_tx_abort(th, WAIT), NO_PERM);
    assert_eq!(daos_tx_restart(th, WAIT), NO_PERM);
    assert_eq!(put(oh, th, c"a", b"1"), NO_PERM);
    assert_eq!(daos_tx_close(th, WAIT), 0);
    assert_eq!(daos_tx_close(th, WAIT), NO_HDL);
    assert_eq!(put(oh, th, c"a", b"1"), NO_HDL);
}

#[test]
fn an_aborted_transaction_does_nothing() {
    let store = Store::new();
    let oh = open_kv(&store);
    let th = begin(&store, 0);
    put(oh, th, c"a", b"1");
    assert_eq!(daos_tx_restart(th, WAIT), NO_PERM, "it has not failed");
    assert_eq!(daos_tx_abort(th, WAIT), 0);
    assert_eq!(daos_tx_abort(th, WAIT), ALREADY);
    assert_eq!(daos_tx_commit(th, WAIT), NO_PERM);
    assert_eq!(size(oh, NONE, c"a"), 0);
    let empty = begin(&store, 0);
    assert_eq!(daos_tx_commit(empty, WAIT), 0);
}

#[test]
fn a_conflicting_transaction_restarts() {
    let store = Store::new();
    let oh = open_kv(&store);
    let th = begin(&store, 0);
    size(oh, th, c"counter");
    put(oh, th, c"counter", b"mine");
    put(oh, NONE, c"counter", b"other's");
    assert_eq!(daos_tx_commit(th, WAIT), TX_RESTART);
    assert_eq!(size(oh, NONE, c"counter"), 7);
    assert_eq!(daos_tx_restart(th, WAIT), 0);
    size(oh, th, c"counter");
    put(oh, th, c"counter", b"mine");
    assert_eq!(daos_tx_commit(th, WAIT), 0);
    assert_eq!(size(oh, NONE, c"counter"), 4);
}

#[test]
fn a_read_only_transaction_does_not_write() {
    let store = Store::new();
    let oh = open_kv(&store);
    let th = begin(&store, 1);
    assert_eq!(put(oh, th, c"a", b"1"), NO_PERM);
    assert_eq!(daos_tx_commit(th, WAIT), 0);
    let mut th = NONE;
    // An unknown flag.
    assert_eq!(daos_tx_open(store.coh, at(&mut th), 4, WAIT), INVAL);
    assert_eq!(daos_tx_open(store.coh, Ptr::null(), 0, WAIT), INVAL);
    assert_eq!(daos_tx_open(NONE, at(&mut th), 0, WAIT), NO_HDL);
    for call in [daos_tx_commit, daos_tx_abort, daos_tx_close, daos_tx_restart] {
        assert_eq!(call(oh, WAIT), NO_HDL);
    }
}

/// The call checks conditions by a read, as in DAOS. It does not see the transaction's own writes, and later changes by
/// others are a conflict.
#[test]
fn conditions_are_checked_at_the_call() {
    const INSERT: u64 = 0x2;
    const UPDATE: u64 = 0x4;
    const REMOVE: u64 = 0x1;
    let store = Store::new();
    let oh = open_kv(&store);
    let put_if = |th, flags, key| daos_kv_put(oh, th, flags, text(key), 1, bytes(b"v"), WAIT);
    let remove_if = |th, key| daos_kv_remove(oh, th, REMOVE, text(key), WAIT);
    put(oh, NONE, c"a", b"1");
    let th = begin(&store, 0);
    assert_eq!((put_if(th, INSERT, c"a"), put_if(th, UPDATE, c"b")), (EXIST, NONEXIST));
    assert_eq!((put_if(th, UPDATE, c"a"), put_if(th, INSERT, c"b")), (0, 0));
    assert_eq!((put_if(th, INSERT, c"b"), put_if(th, UPDATE, c"b")), (0, NONEXIST));
    assert_eq!((remove_if(th, c"b"), remove_if(th, c"a")), (NONEXIST, 0));
    assert_eq!(daos_tx_commit(th, WAIT), 0);
    assert_eq!((size(oh, NONE, c"a"), size(oh, NONE, c"b")), (0, 1));
    let th = begin(&store, 0);
    assert_eq!(put_if(th, INSERT, c"c"), 0);
    put(oh, NONE, c"c", b"1");
    assert_eq!(daos_tx_commit(th, WAIT), TX_RESTART);
    daos_tx_close(th, WAIT);
}

/// A failed creation leaves the transaction as it is. As in DAOS, a second one in the same transaction succeeds, since it
/// does not see the first.
#[test]
fn creation_of_existing_array_fails_at_the_call() {
    let store = Store::new();
    let (oh, known, new) = (open_kv(&store), store.oid(ARRAY, S1), store.oid(ARRAY, S1));
    let create = |oid, th| {
        let mut oh = NONE;
        daos_array_create(store.coh, oid, th, 1, 8, at(&mut oh), WAIT)
    };
    assert_eq!(create(known, NONE), 0);
    let th = begin(&store, 0);
    assert_eq!(put(oh, th, c"a", b"1"), 0);
    assert_eq!(create(known, th), EXIST);
    assert_eq!((create(new, th), create(new, th)), (0, 0));
    assert_eq!((create(store.oid(KV_HASHED, S1), th), create(known, th)), (INVAL, EXIST));
    assert_eq!(daos_tx_commit(th, WAIT), 0);
    assert_eq!((size(oh, NONE, c"a"), create(new, NONE)), (1, EXIST));
    let (th, other) = (begin(&store, 0), store.oid(ARRAY, S1));
    assert_eq!((create(other, th), create(other, NONE)), (0, 0));
    assert_eq!(daos_tx_commit(th, WAIT), TX_RESTART);
}

#[test]
fn conditional_punch_of_missing_object_fails_at_the_call() {
    const PUNCH: u64 = 0x1;
    let store = Store::new();
    let (known, missing) = (open_kv(&store), open_kv(&store));
    put(known, NONE, c"a", b"1");
    let th = begin(&store, 0);
    let punch = |oh| daos_obj_punch(oh, th, PUNCH, WAIT);
    assert_eq!((punch(missing), punch(known)), (NONEXIST, 0));
    assert_eq!(daos_tx_commit(th, WAIT), 0);
    assert_eq!(size(known, NONE, c"a"), 0);
    let th = begin(&store, 0);
    assert_eq!(daos_obj_punch(missing, th, 0, WAIT), 0);
    assert_eq!(daos_tx_commit(th, WAIT), 0);
}

/// Creates a snapshot with these options (`DAOS_SNAP_OPT_*`), and returns its epoch.
fn snapshot(store: &Store, opts: u32) -> u64 {
    let mut epoch = 0;
    let none = Ptr::null();
    assert_eq!(daos_cont_create_snap_opt(store.coh, at(&mut epoch), none, opts, WAIT), 0);
    epoch
}

fn destroy(store: &Store, lo: u64, hi: u64) -> c_int {
    daos_cont_destroy_snap(store.coh, EpochRange { lo, hi }, WAIT)
}

#[test]
fn snapshots_do_not_change() {
    let store = Store::new();
    let oh = open_kv(&store);
    put(oh, NONE, c"a", b"1");
    let epoch = snapshot(&store, 1);
    put(oh, NONE, c"a", b"222");
    let mut th = NONE;
    assert_eq!(daos_tx_open_snap(store.coh, epoch, at(&mut th), WAIT), 0);
    assert_eq!((size(oh, th, c"a"), size(oh, NONE, c"a")), (1, 3));
    assert_eq!(put(oh, th, c"a", b"1"), NO_PERM);
    let mut at_epoch = 0;
    assert_eq!(daos_tx_hdl2epoch(th, at(&mut at_epoch)), 0);
    assert_eq!(at_epoch, epoch);
    daos_tx_close(th, WAIT);
    assert_eq!(daos_tx_open_snap(store.coh, epoch + 1, at(&mut th), WAIT), NONEXIST);
    assert_eq!(daos_tx_open_snap(store.coh, 0, at(&mut th), WAIT), INVAL);
    assert_eq!(destroy(&store, epoch + 1, epoch + 1), NONEXIST);
    assert_eq!(destroy(&store, epoch, epoch - 1), INVAL);
    assert_eq!(destroy(&store, epoch, epoch + 1), INVAL, "a range");
    assert_eq!(destroy(&store, 0, 0), INVAL);
    assert_eq!(destroy(&store, epoch, epoch), 0);
    assert_eq!(daos_tx_open_snap(store.coh, epoch, at(&mut th), WAIT), NONEXIST);
}

#[test]
fn snapshots_are_listed() {
    let store = Store::new();
    let made = [snapshot(&store, 1), snapshot(&store, 3), snapshot(&store, 1)];
    let (mut nr, mut epochs, mut anchor) = (2, [0; 3], start());
    let mut ask =
        |nr, epochs| daos_cont_list_snap(store.coh, nr, epochs, Ptr::null(), at(&mut anchor), WAIT);
    assert_eq!(ask(at(&mut nr), Ptr::null()), 0);
    assert_eq!(nr, 3);
    nr = 2;
    assert_eq!(ask(at(&mut nr), list(&mut epochs)), 0);
    assert_eq!((nr, epochs), (3, [made[0], made[1], 0]));
    assert_eq!(ask(at(&mut nr), list(&mut epochs)), 0);
    assert_eq!(epochs, made);
    assert_eq!(ask(Ptr::null(), list(&mut epochs)), INVAL);
    assert_eq!(anchor.kind, 3);
}

#[test]
fn unimplemented_snapshot_functions_return_an_error() {
    let store = Store::new();
    let mut epoch = 0;
    let none = Ptr::null();
    assert_eq!(daos_cont_create_snap_opt(store.coh, at(&mut epoch), none, 2, WAIT), NOSYS);
    assert_eq!(daos_cont_create_snap(store.coh, at(&mut epoch), text(c"name"), WAIT), NOSYS);
    assert_eq!(daos_cont_create_snap(store.coh, Ptr::null(), Ptr::null(), WAIT), INVAL);
    let epoch = snapshot(&store, 1);
    assert_eq!(daos_cont_snap_oit_create(store.coh, epoch, text(c"name"), WAIT), NOSYS);
    assert_eq!(daos_cont_snap_oit_create(store.coh, epoch, Ptr::null(), WAIT), 0);
    assert_eq!(daos_cont_snap_oit_create(store.coh, 5, Ptr::null(), WAIT), NONEXIST);
    assert_eq!(daos_cont_rollback(store.coh, epoch, WAIT), NOSYS);
    assert_eq!(daos_cont_subscribe(store.coh, Ptr::null(), WAIT), NOSYS);
    assert_eq!(daos_cont_aggregate(store.coh, u64::MAX, WAIT), 0);
    assert_eq!(daos_cont_aggregate(NONE, u64::MAX, WAIT), NO_HDL);
}

/// A function that lists object ids, with the arguments for ids, number and anchor.
type List = dyn Fn(Ptr<ObjId>, Ptr<u32>, Ptr<daos::abi::Anchor>) -> c_int;

/// All object ids that a function lists, sorted.
fn all(next: &List) -> Vec<ObjId> {
    let (mut oids, mut anchor, mut all) = ([ObjId::default(); 3], start(), Vec::new());
    while anchor.kind != 3 {
        let mut nr = 3;
        assert_eq!(next(list(&mut oids), at(&mut nr), at(&mut anchor)), 0);
        all.extend_from_slice(&oids[..nr as usize]);
    }
    all.sort_by_key(|oid| oid.lo);
    all
}

/// The number of objects of a container, by the table of a snapshot.
pub(crate) fn objects(coh: Handle) -> usize {
    let (mut epoch, mut oit) = (0, NONE);
    assert_eq!(daos_cont_create_snap_opt(coh, at(&mut epoch), Ptr::null(), 3, WAIT), 0);
    assert_eq!(daos_oit_open(coh, epoch, at(&mut oit), WAIT), 0);
    let count = all(&move |o, n, a| daos_oit_list(oit, o, n, a, WAIT)).len();
    assert_eq!(daos_oit_close(oit, WAIT), 0);
    assert_eq!(daos_cont_destroy_snap(coh, EpochRange { lo: epoch, hi: epoch }, WAIT), 0);
    count
}

/// Filter that accepts objects with a mark.
extern "C" fn marked_only(_oid: ObjId, marker: *mut Iov) -> c_int {
    // SAFETY: the library passes a marker that is valid during the call.
    let marker: Iov = unsafe { marker.read() };
    c_int::from(marker.len > 0)
}

/// Filter that fails.
extern "C" fn refuse(_oid: ObjId, _marker: *mut Iov) -> c_int {
    BUSY
}

#[test]
fn the_objects_of_a_snapshot_are_listed_and_marked() {
    let store = Store::new();
    let mut oids: Vec<_> = (0..10).map(|_| store.oid(KV_HASHED, SX)).collect();
    for oid in &oids {
        let mut oh = NONE;
        daos_kv_open(store.coh, *oid, OBJ_RW, at(&mut oh), WAIT);
        put(oh, NONE, c"a", b"1");
    }
    let epoch = snapshot(&store, 3);
    open_kv(&store);
    let mut oit = NONE;
    assert_eq!(daos_oit_open(store.coh, epoch + 1, at(&mut oit), WAIT), NONEXIST);
    assert_eq!(daos_oit_open(store.coh, epoch, at(&mut oit), WAIT), 0);
    oids.sort_by_key(|oid| oid.lo);
    assert_eq!(all(&move |o, n, a| daos_oit_list(oit, o, n, a, WAIT)), oids);
    let marked = oids.remove(4);
    let mark = |oid, marker: &[u8]| daos_oit_mark(oit, oid, at(&mut iov(marker)), WAIT);
    assert_eq!(mark(marked, b"seen"), 0);
    assert_eq!(mark(marked, &[0; 33]), INVAL);
    assert_eq!(mark(store.oid(KV_HASHED, S1), b"seen"), NONEXIST);
    assert_eq!(all(&move |o, n, a| daos_oit_list_unmarked(oit, o, n, a, WAIT)), oids);
    let filtered = move |o, n, a| daos_oit_list_filter(oit, o, n, a, Some(marked_only), WAIT);
    assert_eq!(all(&filtered), [marked]);
    let (mut oid, mut nr, mut anchor) = (ObjId::default(), 1, start());
    let (o, n, a) = (at(&mut oid), at(&mut nr), at(&mut anchor));
    assert_eq!(daos_oit_list_filter(oit, o, n, a, Some(refuse), WAIT), BUSY);
    assert_eq!(daos_oit_list_filter(oit, o, n, a, None, WAIT), INVAL);
    assert_eq!(daos_oit_list(oit, Ptr::null(), n, a, WAIT), INVAL);
    assert_eq!(daos_oit_mark(oit, marked, Ptr::null(), WAIT), 0, "no marker removes it");
    assert_eq!(all(&move |o, n, a| daos_oit_list_unmarked(oit, o, n, a, WAIT)).len(), 10);
    mark(marked, b"seen");
    assert_eq!(daos_cont_snap_oit_destroy(store.coh, oit, WAIT), 0);
    assert_eq!(all(&move |o, n, a| daos_oit_list_unmarked(oit, o, n, a, WAIT)).len(), 10);
    assert_eq!(daos_oit_close(oit, WAIT), 0);
    assert_eq!(daos_oit_close(oit, WAIT), NO_HDL);
    let open = |oit| daos_oit_open(store.coh, epoch, oit, WAIT);
    assert_eq!(open(at(&mut oit)), NONEXIST, "the table was destroyed");
    assert_eq!(daos_cont_snap_oit_create(store.coh, epoch, Ptr::null(), WAIT), 0);
    assert_eq!(open(at(&mut oit)), 0);
    assert_eq!(all(&move |o, n, a| daos_oit_list_unmarked(oit, o, n, a, WAIT)).len(), 10);
    assert_eq!(daos_oit_close(oit, WAIT), 0);
}

#[test]
fn table_of_destroyed_snapshot_does_not_exist() {
    let store = Store::new();
    let kv = open_kv(&store);
    put(kv, NONE, c"a", b"1");
    let epoch = snapshot(&store, 3);
    let (mut open, mut oit) = (NONE, NONE);
    assert_eq!(daos_oit_open(store.coh, epoch, at(&mut open), WAIT), 0);
    let range = EpochRange { lo: epoch, hi: epoch };
    assert_eq!(daos_cont_destroy_snap(store.coh, range, WAIT), 0);
    assert_eq!(daos_oit_open(store.coh, epoch, at(&mut oit), WAIT), NONEXIST);
    assert_eq!(oit, NONE);
    let (mut oid, mut nr, mut anchor) = (ObjId::default(), 1, start());
    let (o, n, a) = (at(&mut oid), at(&mut nr), at(&mut anchor));
    assert_eq!(daos_oit_list(open, o, n, a, WAIT), NONEXIST);
    assert_eq!(daos_oit_close(open, WAIT), 0);
}

#[test]
fn transactions_belong_to_one_process() {
    let store = Store::new();
    assert_eq!(daos::mgmt::daos_tx_local2global(store.coh, Bytes::null()), NOSYS);
    assert_eq!(daos::mgmt::daos_tx_global2local(store.coh, iov(b""), Ptr::null()), NOSYS);
}
