//! Calls every function with random arguments; none may crash. The test prints its seed, and takes it from
//! `ESKER_SEED` if that is set; `ESKER_FUZZ_ROUNDS` sets the number of rounds.
mod arguments;

use crate::common::*;
use arguments::Fuzz;
use daos::abi::*;
use daos::acl::{ace, list as acl_list, perms, principal};
use daos::array::*;
use daos::attribute::*;
use daos::container::{access::*, *};
use daos::event::*;
use daos::global::*;
use daos::kv::*;
use daos::list::*;
use daos::mgmt::*;
use daos::object::*;
use daos::oclass::*;
use daos::oit::*;
use daos::pool::*;
use daos::property::*;
use daos::snapshot::*;
use daos::tx::*;

/// Builds `CALLS`: a closure for each function, which calls it with a random argument of each kind that is listed.
macro_rules! throw {
    ($fuzz:ident; $($function:ident($($kind:ident),*);)*) => {
        const CALLS: &[fn(&mut Fuzz)] = &[
            $(|$fuzz| { $function($(throw!(@ $fuzz $kind)),*); },)*
        ];
    };
    (@ $fuzz:ident mode) => { $fuzz.random.one_of(&[0, 1, 2, 4, 6, 0x80, u32::MAX]) };
    (@ $fuzz:ident n64) => { $fuzz.random.number() };
    (@ $fuzz:ident len) => { $fuzz.random.one_of(&[0, 1, 5, 64, 400]) };
    (@ $fuzz:ident flags) => { $fuzz.random.word() & 0x1ff };
    (@ $fuzz:ident flags32) => { ($fuzz.random.word() & 0xf) as u32 };
    (@ $fuzz:ident n16) => { $fuzz.n32() as u16 };
    (@ $fuzz:ident n8) => { $fuzz.n32() as u8 };
    (@ $fuzz:ident $kind:ident) => { $fuzz.$kind() };
}

mod files;
mod stores;

throw! { fuzz;
    daos_kv_open(handle, oid, mode, ptr, ev);
    daos_kv_put(handle, th, flags, str, len, ptr, ev);
    daos_kv_put(handle, th, flags, str, n64, ptr, ev);
    daos_kv_get(handle, th, flags, str, sizes, ptr, ev);
    daos_kv_remove(handle, th, flags, str, ev);
    daos_kv_list(handle, th, sizes32, kds, sgl, anchor, ev);
    daos_kv_destroy(handle, th, ev);
    daos_array_create(handle, oid, th, n64, n64, ptr, ev);
    daos_array_open(handle, oid, th, mode, ptr, ptr, ptr, ev);
    daos_array_open_with_attr(handle, oid, th, mode, n64, n64, ptr, ev);
    daos_array_read(handle, th, array_iod, sgl, ev);
    daos_array_write(handle, th, array_iod, sgl, ev);
    daos_array_punch(handle, th, array_iod, ev);
    daos_array_get_size(handle, th, ptr, ev);
    daos_array_stat(handle, th, ptr, ev);
    daos_array_set_size(handle, th, len, ev);
    daos_array_destroy(handle, th, ev);
    daos_array_get_attr(handle, ptr, ptr);
    daos_array_update_chunk_size(handle, n64);
    daos_array_local2global(handle, iov_ptr);
    daos_array_global2local(handle, iov, mode, ptr);
    daos_pool_local2global(handle, iov_ptr);
    daos_pool_global2local(iov, ptr);
    daos_cont_local2global(handle, iov_ptr);
    daos_cont_global2local(handle, iov, ptr);
    daos_obj_generate_oid2(handle, ptr, n32, n32, n16, n32);
    daos_obj_open(handle, oid, mode, ptr, ev);
    daos_obj_fetch(handle, th, flags, iov_ptr, small, iods, sgl, ioms, ev);
    daos_obj_update(handle, th, flags, iov_ptr, small, iods, sgl, ev);
    daos_obj_punch(handle, th, flags, ev);
    daos_obj_punch_dkeys(handle, th, flags, small, iov_ptr, ev);
    daos_obj_punch_akeys(handle, th, flags, iov_ptr, small, iov_ptr, ev);
    daos_obj_query_key(handle, th, flags, iov_ptr, iov_ptr, recxs, ev);
    daos_obj_query_max_epoch(handle, th, ptr, ev);
    daos_obj_verify(handle, oid, n64);
    daos_obj_list_dkey(handle, th, sizes32, kds, sgl, anchor, ev);
    daos_obj_list_akey(handle, th, iov_ptr, sizes32, kds, sgl, anchor, ev);
    daos_obj_list_recx(handle, th, iov_ptr, iov_ptr, ptr, sizes32, ptr, ptr, anchor, n8, ev);
    daos_obj_anchor_split(handle, sizes32, anchor);
    daos_obj_anchor_set(handle, n32, anchor);
    daos_obj_key2anchor(handle, th, iov_ptr, iov_ptr, anchor, ev);
    daos_cont_create2(handle, ptr, prop, ev);
    daos_cont_create_with_label(handle, str, prop, ptr, ev);
    daos_cont_open2(handle, str, mode, ptr, ptr, ev);
    daos_cont_destroy2(handle, missing_name, small_int, ev);
    daos_cont_query(handle, ptr, prop, ev);
    daos_cont_set_prop(handle, prop, ev);
    daos_cont_alloc_oids(handle, len, ptr, ev);
    daos_cont_get_acl(handle, ptr, ev);
    daos_cont_overwrite_acl(handle, ptr, ev);
    daos_cont_update_acl(handle, ptr, ev);
    daos_cont_delete_acl(handle, n32, str, ev);
    daos_cont_set_owner(handle, str, str, ev);
    daos_cont_set_owner_no_check(handle, str, str, ev);
    daos_cont_list_attr(handle, ptr, sizes, ev);
    daos_cont_get_attr(handle, small_int, strs, buffers, sizes, ev);
    daos_cont_set_attr(handle, small_int, strs, buffers, sizes, ev);
    daos_cont_del_attr(handle, small_int, strs, ev);
    daos_pool_list_attr(handle, ptr, sizes, ev);
    daos_pool_get_attr(handle, small_int, strs, buffers, sizes, ev);
    daos_pool_connect2(missing_name, str, mode, ptr, ptr, ev);
    daos_pool_query(handle, ptr, ptr, prop, ev);
    daos_pool_query_target(handle, n32, n32, ptr, ev);
    daos_pool_list_cont(handle, ptr, ptr_null, ev);
    daos_pool_filter_cont(handle, ptr_null, ptr, ptr_null, ev);
    daos_pool_cont_filter_init(ptr, n32);
    daos_tx_open(handle, ptr, flags, ev);
    daos_tx_open_snap(handle, n64, ptr, ev);
    daos_tx_commit(handle, ev);
    daos_tx_abort(handle, ev);
    daos_tx_restart(handle, ev);
    daos_tx_hdl2epoch(handle, ptr);
    daos_cont_create_snap_opt(handle, ptr, str, n32, ev);
    daos_cont_create_snap_opt(handle, ptr, ptr_null, one, ev);
    daos_cont_list_snap(handle, ints, ptr, ptr_null, anchor, ev);
    daos_cont_destroy_snap(handle, epr, ev);
    daos_cont_snap_oit_create(handle, n64, str, ev);
    daos_cont_snap_oit_destroy(handle, handle, ev);
    daos_oit_open(handle, n64, ptr, ev);
    daos_oit_list(handle, ptr, sizes32, anchor, ev);
    daos_oit_list_unmarked(handle, ptr, sizes32, anchor, ev);
    daos_oit_mark(handle, oid, iov_ptr, ev);
    daos_eq_create(ptr);
    daos_eq_poll(handle, small_int, zero, small, places_ev);
    daos_eq_query(handle, n32, small, places_ev);
    daos_event_init(ev, handle, ev);
    daos_event_fini(ev);
    daos_event_test(ev, zero, ptr);
    daos_event_abort(ev);
    daos_event_parent_barrier(ev);
    daos_prop_merge(prop, prop);
    daos_prop_entry_get(prop, n32);
    daos_oclass_name2id(str);
    daos_oclass_id2name(n32, ptr);
    daos_mgmt_get_sys_info(str, ptr);
    daos_kv_close(wild, ev);
    daos_obj_close(wild, ev);
    daos_array_close(wild, ev);
    daos_cont_close(wild, ev);
    daos_pool_disconnect(wild, ev);
    daos_tx_close(wild, ev);
    daos_oit_close(wild, ev);
    daos_eq_destroy(wild, small_int);
    ace_from_str(str, ptr);
    ace_verbose(str, ptr, len_usize);
    acl_validate(ptr);
    ace_valid(ptr);
    principal_valid(str);
    cont_perms(prop, n32, ptr, len_usize, ptr);
}

fn ace_from_str(words: Str, ace: Ptr<Bytes>) {
    ace::daos_ace_from_str(words, ace);
}

fn ace_verbose(words: Str, buf: Str, len: usize) {
    ace::daos_ace_str_get_verbose(words, buf, len);
}

fn acl_validate(acl: Bytes) {
    acl_list::daos_acl_validate(acl);
    acl_list::daos_acl_free(acl_list::daos_acl_dup(acl));
}

fn ace_valid(ace: Bytes) {
    ace::daos_ace_is_valid(ace);
    ace::daos_ace_get_size(ace);
}

fn principal_valid(name: Str) {
    principal::daos_acl_principal_is_valid(name);
}

fn cont_perms(prop: Ptr<Prop>, uid: u32, gids: Ptr<u32>, count: usize, to: Ptr<u64>) {
    perms::daos_cont_get_perms(prop, uid, gids, count, to);
}

/// The number in an environment variable, or `default`.
fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn no_argument_crashes_the_library() {
    let seed = esker_testing::seed();
    let rounds = setting("ESKER_FUZZ_ROUNDS", 200_000);
    let store = Store::new();
    let (mut kv, mut array, mut object, mut eq, mut th) = (NONE, NONE, NONE, NONE, NONE);
    let oids = [store.oid(KV_HASHED, SX), store.oid(ARRAY_BYTE, SX), store.oid(MULTI_HASHED, SX)];
    daos_kv_open(store.coh, oids[0], OBJ_RW, at(&mut kv), WAIT);
    daos_array_open_with_attr(store.coh, oids[1], NONE, OBJ_RW, 1, 9, at(&mut array), WAIT);
    daos_obj_open(store.coh, oids[2], OBJ_RW, at(&mut object), WAIT);
    daos_eq_create(at(&mut eq));
    daos_tx_open(store.coh, at(&mut th), 0, WAIT);
    let handles = [store.poh, store.coh, kv, array, object, eq, th];
    let mut fuzz = Fuzz::new(seed, &handles, &oids);
    for _ in 0..rounds {
        let call = fuzz.random.below(CALLS.len());
        CALLS[call](&mut fuzz);
    }
    assert_eq!(daos_kv_close(kv, WAIT), 0, "nothing was closed that nobody closed");
    assert_eq!(daos_tx_close(th, WAIT), 0);
}
