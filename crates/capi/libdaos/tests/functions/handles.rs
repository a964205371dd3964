//! Life cycle of container handles: flags, eviction, global handles, and the times they update.
use crate::common::*;
use daos::abi::{ContInfo, EpochRange, Handle, Iov, Ptr};
use daos::attribute::daos_cont_set_attr;
use daos::container::daos_cont_query;
use daos::container::*;
use daos::dfs::check::dfs_cont_check;
use daos::global::*;
use daos::pool::daos_pool_query;
use daos::pool::*;
use daos::snapshot::*;
use esker::types::info::OpenMode;
use esker::{Pool, Wait};
use std::ffi::{CStr, CString, c_int};

const MDSTATS: u32 = 0x10;
const EVICT: u32 = 0x20;
const EVICT_ALL: u32 = 0x40;
/// `DFS_CHECK_EVICT_ALL`.
const CHECK_EVICT_ALL: u64 = 0x10;

/// Opens the container of the store, and returns information about it.
fn try_open(store: &Store, flags: u32) -> (c_int, Handle, ContInfo) {
    let (mut coh, mut info) = (NONE, ContInfo::default());
    let name = text(c"test");
    let opened = daos_cont_open2(store.poh, name, flags, at(&mut coh), at(&mut info), WAIT);
    (opened, coh, info)
}

/// The result of a call on a container: 0 if the handle is valid.
fn works(coh: Handle) -> c_int {
    daos_cont_query(coh, at(&mut ContInfo::default()), Ptr::null(), WAIT)
}

/// Sets an attribute of a container, and returns the result of the call.
fn set_attribute(coh: Handle) -> c_int {
    let (mut name, mut value, mut size) = (text(c"name"), bytes(b"v"), 1);
    daos_cont_set_attr(coh, 1, at(&mut name), at(&mut value), at(&mut size), WAIT)
}

#[test]
fn invalid_combinations_of_flags_are_refused() {
    let store = Store::new();
    for bad in [
        0,
        RO | RW,
        RO | EX,
        RW | EX,
        RW | 0x100,
        RO | EVICT | EVICT_ALL,
        EX | EVICT | EVICT_ALL,
        EX | EVICT,
        RO | EVICT_ALL,
        RW | EVICT_ALL,
    ] {
        assert_eq!(try_open(&store, bad).0, INVAL, "{bad:#x}");
    }
    for bad in [0, RO | RW, RW | EX] {
        let mut poh = NONE;
        let (name, none) = (text(&store.name), Ptr::null());
        let opened = daos_pool_connect2(name, Ptr::null(), bad, at(&mut poh), none, WAIT);
        assert_eq!(opened, INVAL, "{bad:#x}");
    }
}

#[test]
fn handles_are_evicted() {
    let store = Store::new();
    let other = open(store.poh, RO);
    let (opened, coh, info) = try_open(&store, RW | EVICT);
    assert_eq!((opened, info.nhandles), (0, 1));
    assert_eq!((works(store.coh), works(other), works(coh)), (NO_HDL, NO_HDL, 0));
    assert_eq!((set_attribute(store.coh), set_attribute(coh)), (NO_HDL, 0));
    assert_eq!(daos_cont_close(other, WAIT), 0, "an evicted handle can be closed");
    let (opened, alone, info) = try_open(&store, EX | EVICT_ALL);
    assert_eq!((opened, info.nhandles), (0, 1));
    assert_eq!((works(coh), works(alone)), (NO_HDL, 0));
    assert_eq!(try_open(&store, RW).0, BUSY);
    let (opened, last, _) = try_open(&store, RW | EVICT);
    assert_eq!((opened, works(alone), works(last)), (0, NO_HDL, 0));
    for coh in [coh, alone, last] {
        assert_eq!(daos_cont_close(coh, WAIT), 0);
    }
}

/// Another opening of the pool has the container open, like another process.
#[test]
fn exclusive_open_that_is_busy_evicts_no_handle() {
    let store = Store::new();
    let pool = Pool::connect(store.name.to_str().unwrap(), OpenMode::ReadWrite).unwrap();
    let other = pool.open_container("test", OpenMode::ReadOnly).wait().unwrap();
    assert_eq!((try_open(&store, EX | EVICT_ALL).0, works(store.coh)), (BUSY, 0));
    let checked = dfs_cont_check(store.poh, text(c"test"), CHECK_EVICT_ALL, Ptr::null());
    assert_eq!((checked, works(store.coh)), (libc::EBUSY, 0));
    other.close().wait().unwrap();
    let (opened, alone, _) = try_open(&store, EX | EVICT_ALL);
    assert_eq!((opened, works(store.coh), daos_cont_close(alone, WAIT)), (0, NO_HDL, 0));
}

#[test]
fn containers_to_evict_are_named_as_those_to_open() {
    let store = Store::new();
    let mut uuid = [0; 16];
    assert_eq!(daos_cont_create2(store.poh, at(&mut uuid), Ptr::null(), WAIT), 0);
    let name = esker::types::Uuid(uuid).to_string().to_uppercase();
    let name = CString::new(name).unwrap();
    let try_open = |name: &CStr, flags| {
        let mut coh = NONE;
        let opened = daos_cont_open2(store.poh, text(name), flags, at(&mut coh), Ptr::null(), WAIT);
        (opened, coh)
    };
    let (_, first) = try_open(&name, RW);
    assert_eq!(try_open(c"", RW | EVICT).0, NONEXIST);
    assert_eq!(works(first), 0, "an empty name is not that of a container without a label");
    let (opened, second) = try_open(&name, RW | EVICT);
    assert_eq!((opened, works(first), works(second)), (0, NO_HDL, 0));
    for coh in [first, second] {
        assert_eq!(daos_cont_close(coh, WAIT), 0);
    }
}

/// The global form of a handle, which `put` returns.
fn bytes_of(put: impl Fn(Ptr<Iov>) -> c_int) -> Vec<u8> {
    let mut glob = Iov { buf: Ptr::null(), buf_len: 0, len: 0 };
    assert_eq!(put(at(&mut glob)), 0);
    let mut bytes = vec![0; glob.buf_len];
    glob = iov_room(&mut bytes);
    assert_eq!(put(at(&mut glob)), 0);
    bytes
}

#[test]
fn handles_in_the_same_process_close_with_their_original() {
    let store = Store::new();
    let own = open(store.poh, RW);
    let container = bytes_of(|glob| daos_cont_local2global(own, glob));
    let again = || {
        let mut coh = NONE;
        let opened = daos_cont_global2local(store.poh, iov(&container), at(&mut coh));
        (opened, coh)
    };
    let ((_, first), (_, second)) = (again(), again());
    assert_eq!(daos_cont_close(first, WAIT), 0);
    assert_eq!((works(own), works(second)), (0, 0), "closing one does not close the others");
    assert_eq!(daos_cont_close(own, WAIT), 0);
    assert_eq!((works(second), again().0), (NO_HDL, NO_HDL));
    assert_eq!(set_attribute(second), NO_HDL);
    assert_eq!(daos_cont_close(second, WAIT), 0);

    let own = connect(&store.name);
    let pool = bytes_of(|glob| daos_pool_local2global(own, glob));
    let mut poh = NONE;
    assert_eq!(daos_pool_global2local(iov(&pool), at(&mut poh)), 0);
    let query = |poh| daos_pool_query(poh, Ptr::null(), Ptr::null(), Ptr::null(), WAIT);
    assert_eq!(query(poh), 0);
    assert_eq!(daos_pool_disconnect(own, WAIT), 0);
    assert_eq!(query(poh), NO_HDL);
    assert_eq!(daos_pool_disconnect(poh, WAIT), 0);
    assert_eq!(daos_pool_global2local(iov(&pool), at(&mut poh)), NO_HDL);
}

#[test]
fn global_handles_of_another_process_open_anew() {
    let store = Store::new();
    let mut container = bytes_of(|glob| daos_cont_local2global(store.coh, glob));
    // Changes the number of the process that made the blob.
    container[8] ^= 1;
    let mut coh = NONE;
    assert_eq!(daos_cont_global2local(store.poh, iov(&container), at(&mut coh)), 0);
    assert_eq!((works(coh), daos_cont_close(coh, WAIT), works(store.coh)), (0, 0, 0));
    // Changes the UUID of the container.
    container[24] ^= 1;
    let gone = daos_cont_global2local(store.poh, iov(&container), at(&mut coh));
    assert_eq!(gone, NO_HDL, "the container does not exist");
}

#[test]
fn opening_and_changing_update_the_times() {
    let store = Store::new();
    let times = |info: &ContInfo| (info.md_otime, info.md_mtime);
    let (mut coh, mut fresh, name) = (NONE, ContInfo::default(), text(c"fresh"));
    let made = daos_cont_create_with_label(store.poh, name, Ptr::null(), Ptr::null(), WAIT);
    assert_eq!(made, 0);
    let (flags, about) = (RO | MDSTATS, at(&mut fresh));
    assert_eq!(daos_cont_open2(store.poh, name, flags, at(&mut coh), about, WAIT), 0);
    assert!(fresh.md_otime == 0 && fresh.md_mtime > 0, "nobody has opened it");
    daos_cont_close(coh, WAIT);
    let (_, coh, before) = try_open(&store, RO | MDSTATS);
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    let (_, coh, info) = try_open(&store, RO | MDSTATS);
    assert_eq!(times(&info), times(&before), "a handle with RO_MDSTATS does not update the times");
    daos_cont_close(coh, WAIT);
    let (_, coh, info) = try_open(&store, RO);
    assert!(info.md_otime > before.md_otime && info.md_mtime == before.md_mtime);
    daos_cont_close(coh, WAIT);
    let (_, coh, closed) = try_open(&store, RW);
    assert!(closed.md_otime > info.md_otime && closed.md_mtime > info.md_mtime);
    let mut last = closed;
    let mut changed = |done: c_int| {
        let mut now = ContInfo::default();
        assert_eq!((done, daos_cont_query(coh, at(&mut now), Ptr::null(), WAIT)), (0, 0));
        assert!(now.md_otime == last.md_otime && now.md_mtime > last.md_mtime);
        last = now;
    };
    let mut epoch = 0;
    changed(daos_cont_create_snap(coh, at(&mut epoch), Ptr::null(), WAIT));
    changed(daos_cont_destroy_snap(coh, EpochRange { lo: epoch, hi: epoch }, WAIT));
    changed(set_attribute(coh));
}
