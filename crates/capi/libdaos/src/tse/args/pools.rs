//! Calls on the system, pools, containers, transactions.
use super::{calls, now};
use crate::abi::{
    Anchor, Bytes, ContInfo, EpochRange, Filter, Handle, PoolContInfo, PoolContInfo2, PoolInfo,
    Prop, Ptr, RankList, Str, UuidBytes,
};
use crate::attribute::*;
use crate::container::{access::*, *};
use crate::mgmt::{self, ListedPool};
use crate::pool::*;
use crate::snapshot::*;
use crate::tx::*;
use esker::types::Uuid;
use std::ffi::c_int;

/// Runs `call` with a name, or if that is null with a UUID as text.
fn named<T>(name: Str, uuid: UuidBytes, call: impl FnOnce(Str) -> T) -> T {
    if !name.is_null() {
        return call(name);
    }
    let mut text = Uuid(uuid).to_string().into_bytes();
    text.push(0);
    // SAFETY: the text ends in NUL and outlives the call.
    call(unsafe { Ptr::new(text.as_mut_ptr().cast()) })
}

calls! {
    2 { group: Str, pools: Ptr<ListedPool>, count: Ptr<u64> }
        => mgmt::daos_mgmt_list_pools(group, count, pools, now());
    3 { group: Str, rank: u32, key: u32, value: u64, extra: u64 }
        => mgmt::daos_debug_set_params(group, rank, key, value, extra, now());
    5 { uuid: UuidBytes, sys: Str, flags: u32, poh: Ptr<Handle>, about: Ptr<PoolInfo>, pool: Str }
        => named(pool, uuid, |pool| daos_pool_connect2(pool, sys, flags, poh, about, now()));
    6 { poh: Handle } => daos_pool_disconnect(poh, now());
    10 { poh: Handle, ranks: Ptr<Ptr<RankList>>, about: Ptr<PoolInfo>, prop: Ptr<Prop> }
        => daos_pool_query(poh, ranks, about, prop, now());
    12 { poh: Handle, buf: Str, size: Ptr<u64> } => daos_pool_list_attr(poh, buf, size, now());
    13 { poh: Handle, n: c_int, names: Ptr<Str>, values: Ptr<Bytes>, sizes: Ptr<u64> }
        => daos_pool_get_attr(poh, n, names, values, sizes, now());
    14 { poh: Handle, n: c_int, names: Ptr<Str>, values: Ptr<Bytes>, sizes: Ptr<u64> }
        => daos_pool_set_attr(poh, n, names, values, sizes, now());
    15 { poh: Handle, n: c_int, names: Ptr<Str> } => daos_pool_del_attr(poh, n, names, now());
    16 { poh: Handle } => mgmt::daos_pool_stop_svc(poh, now());
    17 { poh: Handle, count: Ptr<u64>, list: Ptr<PoolContInfo> }
        => daos_pool_list_cont(poh, count, list, now());
    18 { poh: Handle, uuid: UuidBytes, prop: Ptr<Prop>, out: Ptr<UuidBytes> }
        => create_as(poh, uuid, prop, out, now());
    19 {
        poh: Handle, uuid: UuidBytes, flags: u32, coh: Ptr<Handle>, about: Ptr<ContInfo>,
        cont: Str
    } => named(cont, uuid, |cont| daos_cont_open2(poh, cont, flags, coh, about, now()));
    20 { coh: Handle } => daos_cont_close(coh, now());
    21 { poh: Handle, uuid: UuidBytes, force: c_int, cont: Str }
        => named(cont, uuid, |cont| daos_cont_destroy2(poh, cont, force, now()));
    22 { coh: Handle, about: Ptr<ContInfo>, prop: Ptr<Prop> }
        => daos_cont_query(coh, about, prop, now());
    23 { coh: Handle, prop: Ptr<Prop> } => daos_cont_set_prop(coh, prop, now());
    24 { coh: Handle, acl: Bytes } => daos_cont_update_acl(coh, acl, now());
    25 { coh: Handle, kind: u8, name: Str }
        => daos_cont_delete_acl(coh, u32::from(kind), name, now());
    26 { coh: Handle, epoch: u64 } => daos_cont_aggregate(coh, epoch, now());
    27 { coh: Handle, epoch: u64 } => daos_cont_rollback(coh, epoch, now());
    28 { coh: Handle, epoch: Ptr<u64> } => daos_cont_subscribe(coh, epoch, now());
    29 { coh: Handle, buf: Str, size: Ptr<u64> } => daos_cont_list_attr(coh, buf, size, now());
    30 { coh: Handle, n: c_int, names: Ptr<Str>, values: Ptr<Bytes>, sizes: Ptr<u64> }
        => daos_cont_get_attr(coh, n, names, values, sizes, now());
    31 { coh: Handle, n: c_int, names: Ptr<Str>, values: Ptr<Bytes>, sizes: Ptr<u64> }
        => daos_cont_set_attr(coh, n, names, values, sizes, now());
    32 { coh: Handle, n: c_int, names: Ptr<Str> } => daos_cont_del_attr(coh, n, names, now());
    33 { coh: Handle, count: u64, oid: Ptr<u64> } => daos_cont_alloc_oids(coh, count, oid, now());
    34 { coh: Handle, nr: Ptr<c_int>, epochs: Ptr<u64>, names: Ptr<Str>, anchor: Ptr<Anchor> }
        => daos_cont_list_snap(coh, nr, epochs, names, anchor, now());
    35 { coh: Handle, opts: u32, epoch: Ptr<u64>, name: Str }
        => daos_cont_create_snap_opt(coh, epoch, name, opts, now());
    36 { coh: Handle, epr: EpochRange } => daos_cont_destroy_snap(coh, epr, now());
    37 { coh: Handle, th: Ptr<Handle>, flags: u64 } => daos_tx_open(coh, th, flags, now());
    38 { th: Handle, _flags: u32 } => daos_tx_commit(th, now());
    39 { th: Handle } => daos_tx_abort(th, now());
    40 { coh: Handle, epoch: u64, th: Ptr<Handle> } => daos_tx_open_snap(coh, epoch, th, now());
    41 { th: Handle } => daos_tx_close(th, now());
    42 { th: Handle } => daos_tx_restart(th, now());
    77 { poh: Handle, filter: Ptr<Filter>, count: Ptr<u64>, list: Ptr<PoolContInfo2> }
        => daos_pool_filter_cont(poh, filter, count, list, now());
    79 { coh: Handle, epoch: u64, name: Str } => daos_cont_snap_oit_create(coh, epoch, name, now());
}
