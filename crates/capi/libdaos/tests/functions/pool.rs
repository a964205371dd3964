//! Pools through the C functions.
use crate::common::*;
use daos::abi::{ContInfo, Filter, FilterPart, PoolContInfo, PoolContInfo2, PoolInfo, Ptr};
use daos::abi::{Handle, RankList, TargetInfo};
use daos::container::{daos_cont_close, daos_cont_create_with_label};
use daos::pool::*;
use daos::ranks::d_rank_list_free;

/// An uninitialised structure, as some programs pass it.
fn garbage() -> PoolInfo {
    PoolInfo { ntargets: 77, bits: u64::MAX, ..PoolInfo::default() }
}

#[test]
fn a_query_needs_no_initialised_structure() {
    let store = Store::new();
    for bits in [0, 1, 0x18, u64::MAX] {
        let mut info = PoolInfo { bits, ..garbage() };
        let mut ranks = Ptr::null();
        let (ranks_at, none) = (at(&mut ranks), Ptr::null());
        assert_eq!(daos_pool_query(store.poh, ranks_at, at(&mut info), none, WAIT), 0);
        assert_eq!((info.ntargets, info.nnodes, info.ndisabled, info.leader), (4, 1, 0, 0));
        assert_eq!((info.space.ntargets, info.rebuild_st.state), (4, 1));
        let expected = if bits == 0x18 { 0 } else { 1 };
        assert_eq!(ranks.get().unwrap().nr, expected);
        d_rank_list_free(ranks);
    }
    let (no_ranks, none) = (Ptr::<Ptr<RankList>>::null(), Ptr::null());
    assert_eq!(daos_pool_query(store.poh, no_ranks, Ptr::null(), none, WAIT), 0);
    assert_eq!(daos_pool_query(NONE, no_ranks, Ptr::null(), Ptr::null(), WAIT), NO_HDL);
}

#[test]
fn connecting_returns_information_about_the_pool() {
    let store = Store::new();
    let (mut poh, mut info) = (NONE, garbage());
    let name = text(&store.name);
    let connect = |name, flags, poh| {
        daos_pool_connect2(name, Ptr::null(), flags, poh, at(&mut garbage()), WAIT)
    };
    assert_eq!(connect(name, RO, at(&mut poh)), 0);
    daos_pool_disconnect(poh, WAIT);
    let connected = daos_pool_connect(name, text(c"sys"), RW, at(&mut poh), at(&mut info), WAIT);
    assert_eq!((connected, info.ntargets), (0, 4));
    daos_pool_disconnect(poh, WAIT);
    assert_eq!(connect(Ptr::null(), RO, at(&mut poh)), INVAL);
    assert_eq!(connect(name, 0, at(&mut poh)), INVAL);
    assert_eq!(connect(name, RO, Ptr::null()), INVAL);
    assert_eq!(connect(text(c"no-such-pool"), RW, at(&mut poh)), NONEXIST);
    let uuid = c"01234567-89ab-cdef-0123-456789abcdef";
    assert_eq!(connect(text(uuid), RW, at(&mut poh)), NONEXIST);
}

/// Sets an attribute of a container, and returns the result of the call.
fn set_attribute(coh: Handle) -> i32 {
    let (mut name, mut value, mut size) = (text(c"name"), bytes(b"value"), 5);
    let (name, value, size): (_, _, Ptr<u64>) = (at(&mut name), at(&mut value), at(&mut size));
    daos::attribute::daos_cont_set_attr(coh, 1, name, value, size, WAIT)
}

#[test]
fn a_read_only_pool_refuses_new_containers() {
    let store = Store::new();
    let mut poh = NONE;
    let name = text(&store.name);
    daos_pool_connect2(name, Ptr::null(), RO, at(&mut poh), Ptr::null(), WAIT);
    let made = daos_cont_create_with_label(poh, text(c"x"), Ptr::null(), Ptr::null(), WAIT);
    assert_eq!(made, NO_PERM);
    let destroyed = daos::container::daos_cont_destroy2(poh, text(c"test"), 1, WAIT);
    assert_eq!(destroyed, NO_PERM);
    let coh = open(poh, RW);
    assert_eq!(set_attribute(coh), 0, "a container has permissions of its own");
    assert_eq!(daos_cont_close(coh, WAIT), 0);
    assert_eq!(daos_pool_disconnect(poh, WAIT), 0);
}

#[test]
fn targets_are_queried_one_by_one() {
    let store = Store::new();
    let mut info = TargetInfo::default();
    let mut query =
        |target, rank| daos_pool_query_target(store.poh, target, rank, at(&mut info), WAIT);
    assert_eq!(query(3, 0), 0);
    assert_eq!(query(4, 0), NONEXIST);
    assert_eq!(query(0, 1), NONEXIST);
    assert_eq!(info.state, 4);
    assert_eq!(daos_pool_query_target(store.poh, 0, 0, Ptr::null(), WAIT), INVAL);
}

fn label_of(info: &PoolContInfo) -> String {
    let bytes = info.label.iter().take_while(|byte| **byte != 0);
    bytes.map(|byte| char::from(*byte as u8)).collect()
}

#[test]
fn containers_are_listed() {
    let store = Store::new();
    for label in [c"a", c"b"] {
        daos_cont_create_with_label(store.poh, text(label), Ptr::null(), Ptr::null(), WAIT);
    }
    daos::container::daos_cont_create2(store.poh, Ptr::null(), Ptr::null(), WAIT);
    let mut count = 0;
    let ask = |count, list| daos_pool_list_cont(store.poh, count, list, WAIT);
    assert_eq!(ask(at(&mut count), Ptr::null()), 0);
    assert_eq!(count, 4);
    let mut found = [PoolContInfo { uuid: [0; 16], label: [1; 128] }; 5];
    count = 0;
    assert_eq!(
        (ask(at(&mut count), list(&mut found)), count),
        (0, 4),
        "a capacity of 0 asks for the count"
    );
    count = 3;
    assert_eq!((ask(at(&mut count), list(&mut found)), count), (TRUNC, 4));
    count = 5;
    assert_eq!((ask(at(&mut count), list(&mut found)), count), (0, 4));
    let mut labels: Vec<_> = found[..4].iter().map(label_of).collect();
    labels.sort();
    assert_eq!(labels, ["", "a", "b", "test"]);
    assert_eq!(ask(Ptr::null(), list(&mut found)), INVAL);
}

/// Lists containers by a filter. Returns the result of the call and the number of containers.
fn filtered(store: &Store, filter: Ptr<Filter>) -> (i32, u64) {
    let id = PoolContInfo { uuid: [0; 16], label: [0; 128] };
    let cinfo = ContInfo::default();
    let mut found = [PoolContInfo2 { id, cinfo, reserved: [Ptr::null(); 2] }; 4];
    let mut count = 4;
    let done = daos_pool_filter_cont(store.poh, filter, at(&mut count), list(&mut found), WAIT);
    (done, count)
}

#[test]
fn exclusively_open_containers_are_filtered_too() {
    let store = Store::new();
    daos_cont_close(store.coh, WAIT);
    let coh = open(store.poh, EX);
    assert_eq!(filtered(&store, Ptr::null()), (0, 1));
    daos_cont_close(coh, WAIT);
}

#[test]
fn containers_are_filtered() {
    const HANDLES: u32 = 3;
    let store = Store::new();
    daos_cont_create_with_label(store.poh, text(c"a"), Ptr::null(), Ptr::null(), WAIT);
    assert_eq!(filtered(&store, Ptr::null()), (0, 2));
    let mut filter = Filter { combine: 9, nparts: 9, parts: Ptr::null() };
    assert_eq!(daos_pool_cont_filter_init(at(&mut filter), 0), 0);
    assert_eq!(filtered(&store, at(&mut filter)), (0, 2));
    // At least one handle.
    let mut open = FilterPart { func: 5, key: HANDLES, value: 1 };
    assert_eq!(daos_pool_cont_filter_add(at(&mut filter), at(&mut open)), 0);
    assert_eq!(filtered(&store, at(&mut filter)), (0, 1));
    // Not one handle.
    let mut never = FilterPart { func: 1, key: HANDLES, value: 1 };
    daos_pool_cont_filter_add(at(&mut filter), at(&mut never));
    assert_eq!(filtered(&store, at(&mut filter)), (0, 0));
    // One of the parts is enough.
    filter.combine = 1;
    assert_eq!(filtered(&store, at(&mut filter)), (0, 2));
    let mut bad = FilterPart { func: 6, key: 0, value: 0 };
    assert_eq!(daos_pool_cont_filter_add(at(&mut filter), at(&mut bad)), INVAL);
    for _ in 2..8 {
        assert_eq!(daos_pool_cont_filter_add(at(&mut filter), at(&mut open)), 0);
    }
    assert_eq!(daos_pool_cont_filter_add(at(&mut filter), at(&mut open)), 0);
    assert_eq!(filtered(&store, at(&mut filter)).0, INVAL, "more parts than a listing accepts");
    daos_pool_cont_filter_fini(at(&mut filter));
    assert_eq!(filter.nparts, 0);
    assert_eq!(daos_pool_cont_filter_init(at(&mut filter), 2), INVAL);
    assert_eq!(daos_pool_cont_filter_init(Ptr::null(), 0), INVAL);
}
