//! Containers through the C functions.
use crate::common::*;
use daos::abi::{ContInfo, Handle, Iov, Ptr};
use daos::container::daos_cont_alloc_oids;
use daos::container::*;
use daos::global::*;
use daos::kv::{daos_kv_open, daos_kv_put};
use daos::pool::daos_pool_disconnect;
use std::ffi::{CStr, CString};

/// Creates a container, and returns the result of the call.
fn create(store: &Store, label: &CStr) -> i32 {
    daos_cont_create_with_label(store.poh, text(label), Ptr::null(), Ptr::null(), WAIT)
}

/// Opens a container. Returns the result of the call and the handle.
fn try_open(store: &Store, name: &CStr, flags: u32) -> (i32, Handle) {
    let mut coh = NONE;
    let opened = daos_cont_open2(store.poh, text(name), flags, at(&mut coh), Ptr::null(), WAIT);
    (opened, coh)
}

#[test]
fn a_container_is_found_by_label_and_uuid() {
    let store = Store::new();
    let mut uuid = [0; 16];
    let none = Ptr::null();
    let made = daos_cont_create_with_label(store.poh, text(c"one"), none, at(&mut uuid), WAIT);
    assert_eq!(made, 0);
    let name = CString::new(esker::types::Uuid(uuid).to_string()).unwrap();
    let mut info = ContInfo::default();
    let mut coh = NONE;
    let opened = daos_cont_open(store.poh, text(&name), RW, at(&mut coh), at(&mut info), WAIT);
    assert_eq!((opened, info.uuid), (0, uuid));
    assert_eq!((info.nhandles, info.nsnapshots, info.lsnapshot), (1, 0, 0));
    assert!(info.md_mtime > 0);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    assert_eq!(daos_cont_close(coh, WAIT), NO_HDL);
    assert_eq!(try_open(&store, c"one", RW).0, 0);
}

#[test]
fn containers_without_a_label_have_a_uuid() {
    let store = Store::new();
    let mut uuid = [0; 16];
    assert_eq!(daos_cont_create2(store.poh, at(&mut uuid), Ptr::null(), WAIT), 0);
    let name = CString::new(esker::types::Uuid(uuid).to_string()).unwrap();
    assert_eq!(try_open(&store, &name, RO).0, 0);
    assert_eq!(daos_cont_create(store.poh, Ptr::null(), Ptr::null(), WAIT), 0);
}

#[test]
fn names_are_checked() {
    let store = Store::new();
    assert_eq!(create(&store, c"one"), 0);
    assert_eq!(create(&store, c"one"), EXIST);
    for bad in [c"", c"sp ace", c"a/b", c"01234567-89ab-cdef-0123-456789abcdef"] {
        assert_eq!(create(&store, bad), INVAL, "{bad:?}");
    }
    assert_eq!(create(&store, &CString::new(vec![b'x'; 127]).unwrap()), 0);
    assert_eq!(create(&store, &CString::new(vec![b'x'; 128]).unwrap()), INVAL);
    let none = Ptr::null();
    let nameless = daos_cont_create_with_label(store.poh, none, Ptr::null(), Ptr::null(), WAIT);
    assert_eq!(nameless, INVAL);
    assert_eq!(try_open(&store, c"none", RW).0, NONEXIST);
    assert_eq!(try_open(&store, c"one", 0).0, INVAL);
    let nowhere = daos_cont_create_with_label(NONE, text(c"x"), Ptr::null(), Ptr::null(), WAIT);
    assert_eq!(nowhere, NO_HDL);
}

#[test]
fn exclusive_use_excludes_other_handles() {
    let store = Store::new();
    create(&store, c"one");
    let (_, coh) = try_open(&store, c"one", RW);
    assert_eq!(try_open(&store, c"one", EX).0, BUSY);
    daos_cont_close(coh, WAIT);
    let (opened, coh) = try_open(&store, c"one", EX);
    assert_eq!(opened, 0);
    assert_eq!(try_open(&store, c"one", RO).0, BUSY);
    daos_cont_close(coh, WAIT);
}

#[test]
fn an_open_container_is_destroyed_only_by_force() {
    let store = Store::new();
    create(&store, c"one");
    let (_, coh) = try_open(&store, c"one", RW);
    let destroy = |force| daos_cont_destroy2(store.poh, text(c"one"), force, WAIT);
    assert_eq!(destroy(0), BUSY);
    assert_eq!(destroy(1), 0);
    assert_eq!(destroy(1), NONEXIST);
    assert_eq!(daos_cont_destroy(store.poh, text(c"none"), 0, WAIT), NONEXIST);
    let mut oid = 0;
    assert_eq!(daos_cont_alloc_oids(coh, 1, at(&mut oid), WAIT), NO_HDL);
    assert_eq!(daos_cont_close(coh, WAIT), 0, "an evicted handle can be closed");
}

#[test]
fn objects_of_a_closed_container_are_invalid() {
    let store = Store::new();
    let coh = open(store.poh, RW);
    let mut oh = NONE;
    let oid = store.oid(KV_HASHED, S1);
    assert_eq!(daos_kv_open(coh, oid, OBJ_RW, at(&mut oh), WAIT), 0);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    assert_eq!(daos_kv_put(oh, NONE, 0, text(c"key"), 1, bytes(b"v"), WAIT), NO_HDL);
}

#[test]
fn allocated_object_numbers_are_unique() {
    let store = Store::new();
    let (mut first, mut second) = (0, 0);
    assert_eq!(daos_cont_alloc_oids(store.coh, 10, at(&mut first), WAIT), 0);
    assert_eq!(daos_cont_alloc_oids(store.coh, 10, at(&mut second), WAIT), 0);
    assert!(second >= first + 10);
    assert_eq!(daos_cont_alloc_oids(store.coh, 10, Ptr::null(), WAIT), INVAL);
    assert_eq!(daos_cont_alloc_oids(store.coh, 0, at(&mut first), WAIT), INVAL);
    let reader = open(store.poh, RO);
    assert_eq!(daos_cont_alloc_oids(reader, 1, at(&mut first), WAIT), NO_PERM);
    daos_cont_close(reader, WAIT);
}

#[test]
fn a_pool_with_open_containers_is_busy() {
    let store = Store::new();
    let poh = connect(&store.name);
    let coh = open(poh, RW);
    assert_eq!(daos_pool_disconnect(poh, WAIT), BUSY);
    daos_cont_close(coh, WAIT);
    assert_eq!(daos_pool_disconnect(poh, WAIT), 0);
    assert_eq!(daos_pool_disconnect(poh, WAIT), NO_HDL);
    let mut coh = NONE;
    let opened = daos_cont_open2(poh, text(c"test"), RW, at(&mut coh), Ptr::null(), WAIT);
    assert_eq!(opened, NO_HDL);
}

/// The global form of a handle, which `put` returns. Asks for the size first, as programs do.
fn blob(put: impl Fn(Ptr<Iov>) -> i32) -> Vec<u8> {
    let mut glob = Iov { buf: Ptr::null(), buf_len: 3, len: 3 };
    assert_eq!(put(at(&mut glob)), 0);
    let mut blob = vec![0; glob.buf_len];
    let short = blob.len() - 1;
    glob = iov_room(&mut blob[..short]);
    assert_eq!((put(at(&mut glob)), glob.buf_len), (TRUNC, short + 1));
    glob = iov_room(&mut blob);
    assert_eq!((put(at(&mut glob)), glob.len), (0, short + 1));
    assert_eq!(put(Ptr::null()), INVAL);
    blob
}

#[test]
fn pools_and_containers_are_opened_from_global_handles() {
    let store = Store::new();
    let pool = blob(|glob| daos_pool_local2global(store.poh, glob));
    let container = blob(|glob| daos_cont_local2global(store.coh, glob));
    let (mut poh, mut coh) = (NONE, NONE);
    assert_eq!(daos_pool_global2local(iov(&pool), at(&mut poh)), 0);
    assert_eq!(daos_cont_global2local(poh, iov(&container), at(&mut coh)), 0);
    let mut info = ContInfo::default();
    assert_eq!(daos_cont_query(coh, at(&mut info), Ptr::null(), WAIT), 0);
    assert_eq!(info.nhandles, 1, "a global handle does not count as a handle");
    let bad = |blob: &[u8]| daos_cont_global2local(poh, iov(blob), at(&mut NONE.clone()));
    assert_eq!(bad(&container[1..]), INVAL);
    assert_eq!(bad(&container[..39]), INVAL);
    assert_eq!(bad(&pool), INVAL);
    assert_eq!(daos_pool_global2local(iov(&container), at(&mut NONE.clone())), INVAL);
    assert_eq!(daos_pool_global2local(iov(b""), at(&mut NONE.clone())), INVAL);
    assert_eq!(daos_pool_global2local(iov(&pool), Ptr::null()), INVAL);
    assert_eq!(daos_cont_global2local(NONE, iov(&container), at(&mut NONE.clone())), NO_HDL);
    assert_eq!(daos_pool_local2global(NONE, Ptr::null()), NO_HDL);
    daos_cont_close(coh, WAIT);
    daos_pool_disconnect(poh, WAIT);
}

#[test]
fn one_of_several_concurrent_creators_succeeds() {
    let store = Store::new();
    let results: Vec<i32> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(|| create(&store, c"race"))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(results.iter().filter(|result| **result == 0).count(), 1);
    assert!(results.iter().all(|result| [0, EXIST].contains(result)));
}
