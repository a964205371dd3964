//! Throws arguments of all sorts at every function: none may crash. The seed is printed, and taken
//! from `ESKER_FUZZ_SEED` where that is set; `ESKER_FUZZ_ROUNDS` says how long to go on.
use crate::common::*;
use daos::abi::*;
use daos::acl::{entry, list as acl_list, perms, principal};
use daos::array::*;
use daos::attribute::*;
use daos::container::{access::*, daos_cont_alloc_oids, info::*, open::*};
use daos::event::*;
use daos::global::*;
use daos::kv::*;
use daos::list::*;
use daos::mgmt::*;
use daos::object::*;
use daos::oclass::*;
use daos::oit::*;
use daos::pool::{connect::*, containers::*, filter::*, query::*};
use daos::property::list::*;
use daos::snapshot::*;
use daos::tx::*;
use std::ffi::c_void;

/// Bytes of the room that pointers lead into; counts that are believed stay well below.
const ROOM: usize = 8 << 20;

struct Random(u64);

impl Random {
    fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb) ^ mixed >> 31
    }

    fn below(&mut self, end: usize) -> usize {
        (self.word() % end as u64) as usize
    }

    fn one_of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len())]
    }

    /// Small numbers mostly, sometimes absurd ones.
    fn number(&mut self) -> u64 {
        let small = self.word() % 9;
        let odd = [u64::MAX, 1 << 63, u64::from(u32::MAX), 1 << 40, 4097, 65537];
        if self.below(5) == 0 { self.one_of(&odd) } else { small }
    }
}

/// What arguments are drawn from.
struct Fuzz {
    random: Random,
    room: Vec<u64>,
    handles: Vec<Handle>,
    oids: Vec<ObjId>,
}

impl Fuzz {
    fn n32(&mut self) -> u32 {
        self.random.number() as u32
    }

    fn handle(&mut self) -> Handle {
        let known = self.random.one_of(&self.handles.clone());
        match self.random.below(8) {
            0 => NONE,
            1 => Handle { cookie: self.random.word() },
            2 => Handle { cookie: known.cookie ^ 1 << self.random.below(64) },
            _ => known,
        }
    }

    fn th(&mut self) -> Handle {
        if self.random.below(2) == 0 { NONE } else { self.handle() }
    }

    fn oid(&mut self) -> ObjId {
        let wild = ObjId { lo: self.random.word(), hi: self.random.word() };
        if self.random.below(4) == 0 { wild } else { self.random.one_of(&self.oids.clone()) }
    }

    /// No pointer, or one into the room with zeros, noise or ones behind it.
    fn ptr<T>(&mut self) -> Ptr<T> {
        if self.random.below(6) == 0 {
            return Ptr::null();
        }
        let start = self.random.below(64) * 8;
        let noise = [0, u64::MAX, self.random.word(), 1];
        let fill = self.random.one_of(&noise);
        self.room[start..start + 64].fill(fill);
        list(&mut self.room[start..]).cast()
    }

    /// Structures with pointers in them are made of pieces that are sound or null.
    fn iov(&mut self) -> Iov {
        let len = self.random.one_of(&[0, 1, 8, 8, 24, 72, 100, 5000]);
        let buf_len = self.random.one_of(&[len, len, len, len + 1, 0]);
        let buf = self.ptr::<c_void>();
        Iov { buf, buf_len, len }
    }

    fn boxed<T>(&mut self, value: T) -> Ptr<T> {
        if self.random.below(8) == 0 { Ptr::null() } else { at(Box::leak(Box::new(value))) }
    }

    fn iov_ptr(&mut self) -> Ptr<Iov> {
        let many: Vec<_> = (0..9).map(|_| self.iov()).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn small(&mut self) -> u32 {
        self.random.one_of(&[0, 1, 1, 1, 2, 3, 8, u32::MAX])
    }

    fn sgl(&mut self) -> Ptr<Sgl> {
        let many: Vec<_> = (0..9)
            .map(|_| Sgl { nr: self.small(), nr_out: self.n32(), iovs: self.iov_ptr() })
            .collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn recxs(&mut self) -> Ptr<Recx> {
        let many: Vec<_> =
            (0..9).map(|_| Recx { idx: self.random.number(), nr: self.random.number() }).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn iods(&mut self) -> Ptr<Iod> {
        let many: Vec<_> = (0..9)
            .map(|_| Iod {
                name: self.iov(),
                kind: self.random.one_of(&[0, 1, 1, 2, 2, 77]),
                size: self.random.number(),
                flags: self.random.number(),
                nr: self.small(),
                recxs: self.recxs(),
            })
            .collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn ioms(&mut self) -> Ptr<Iom> {
        let recx = Recx::default();
        let many: Vec<_> = (0..9)
            .map(|_| {
                let recxs = self.recxs();
                let nr = if recxs.is_null() { self.small() } else { self.small().min(9) };
                let flags = self.n32();
                let (kind, nr_out, size) = (0, 0, 0);
                Iom { kind, nr, nr_out, flags, size, recx_lo: recx, recx_hi: recx, recxs }
            })
            .collect();
        if self.random.below(2) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn array_iod(&mut self) -> Ptr<ArrayIod> {
        let rgs = self.recxs().cast();
        let nr = u64::from(self.small());
        let noise = self.random.word();
        self.boxed(ArrayIod { nr, rgs, nr_short_read: noise, nr_read: noise })
    }

    fn anchor(&mut self) -> Ptr<Anchor> {
        let kind = self.random.one_of(&[0, 0, 1, 2, 3, 9]);
        let (shard, noise) = (self.random.word() as u16, self.random.word() as u8);
        let sub_anchors = self.random.number();
        self.boxed(Anchor { kind, shard, flags: 0, sub_anchors, buf: [noise; 104] })
    }

    fn str(&mut self) -> Str {
        let names = [c"key", c"", c"test", c"S1", c"bob@", c"A::bob@:r", c"label:x", c"1:2"];
        let long = c"0123456789012345678901234567890123456789012345678901234567890123456789";
        match self.random.below(10) {
            0 => Ptr::null(),
            1 => text(long),
            2 => text(c"\xff\xfe"),
            _ => text(self.random.one_of(&names)),
        }
    }

    fn strs(&mut self) -> Ptr<Str> {
        let many: Vec<_> = (0..9).map(|_| self.str()).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn places(&mut self) -> Ptr<Bytes> {
        let many: Vec<_> = (0..9).map(|_| self.ptr()).collect();
        if self.random.below(4) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    fn sizes(&mut self) -> Ptr<u64> {
        let many: Vec<_> = (0..9).map(|_| self.random.one_of(&[0, 1, 5, 64, 400])).collect();
        if self.random.below(8) == 0 { Ptr::null() } else { list(Vec::leak(many)) }
    }

    /// Lists of properties that hold numbers: what they point at is the caller's to vouch for.
    fn prop(&mut self) -> Ptr<Prop> {
        let numbers = [3, 4, 0x1002, 0x1004, 0x1007, 0x1009, 0x1012, 0x1013, 0x1017, 0x7777];
        let entries: Vec<_> = (0..5)
            .map(|_| PropEntry {
                kind: self.random.one_of(&numbers),
                value: self.random.number(),
                flags: (self.random.below(4) == 0).into(),
                reserved: 0,
            })
            .collect();
        let entries = list(Vec::leak(entries));
        let broken = self.random.below(8) == 0;
        let nr = self.random.one_of(&[0, 1, 2, 5, u32::MAX]);
        self.boxed(Prop { nr, reserved: 0, entries: if broken { Ptr::null() } else { entries } })
    }

    fn small_int(&mut self) -> i32 {
        self.random.one_of(&[0, 1, 2, 9, -1, i32::MIN, i32::MAX])
    }

    fn epr(&mut self) -> EpochRange {
        EpochRange { lo: self.random.number(), hi: self.random.number() }
    }

    /// No event, or memory that is none.
    fn ev(&mut self) -> Ptr<Event> {
        if self.random.below(10) > 0 {
            return WAIT;
        }
        let noise = self.random.word();
        at(Box::leak(Box::new(Event { error: 1, space: [noise; 20], debug: noise })))
    }
}

/// One function of each kind of argument list, with random arguments.
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
    (@ $fuzz:ident n16) => { $fuzz.n32() as u16 };
    (@ $fuzz:ident n8) => { $fuzz.n32() as u8 };
    (@ $fuzz:ident $kind:ident) => { $fuzz.$kind() };
}

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
    daos_cont_destroy2(handle, missing, small_int, ev);
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
    daos_cont_get_attr(handle, small_int, strs, places, sizes, ev);
    daos_cont_set_attr(handle, small_int, strs, places, sizes, ev);
    daos_cont_del_attr(handle, small_int, strs, ev);
    daos_pool_list_attr(handle, ptr, sizes, ev);
    daos_pool_get_attr(handle, small_int, strs, places, sizes, ev);
    daos_pool_connect2(missing, str, mode, ptr, ptr, ev);
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
    entry::daos_ace_from_str(words, ace);
}

fn ace_verbose(words: Str, buf: Str, len: usize) {
    daos::acl::daos_ace_str_get_verbose(words, buf, len);
}

fn acl_validate(acl: Bytes) {
    acl_list::daos_acl_validate(acl);
    acl_list::daos_acl_free(acl_list::daos_acl_dup(acl));
}

fn ace_valid(ace: Bytes) {
    entry::daos_ace_is_valid(ace);
    entry::daos_ace_get_size(ace);
}

fn principal_valid(name: Str) {
    principal::daos_acl_principal_is_valid(name);
}

fn cont_perms(prop: Ptr<Prop>, uid: u32, gids: Ptr<u32>, count: usize, to: Ptr<u64>) {
    perms::daos_cont_get_perms(prop, uid, gids, count, to);
}

impl Fuzz {
    fn sizes32(&mut self) -> Ptr<u32> {
        let count = self.random.one_of(&[0, 1, 8, 8]);
        self.boxed(count)
    }

    fn ints(&mut self) -> Ptr<i32> {
        let count = self.random.one_of(&[0, 1, 8, -1]);
        self.boxed(count)
    }

    fn kds(&mut self) -> Ptr<KeyDesc> {
        if self.random.below(8) == 0 {
            Ptr::null()
        } else {
            list(Vec::leak(vec![KeyDesc::default(); 16]))
        }
    }

    fn places_ev(&mut self) -> Ptr<Ptr<Event>> {
        Ptr::null()
    }

    fn ptr_null<T>(&mut self) -> Ptr<T> {
        Ptr::null()
    }

    fn zero(&mut self) -> i64 {
        0
    }

    fn one(&mut self) -> u32 {
        1
    }

    fn len_usize(&mut self) -> usize {
        self.random.one_of(&[0, 1, 5, 64])
    }

    /// Names that nothing has: what is open stays.
    fn missing(&mut self) -> Str {
        let names = [c"none", c"", c"01234567-89ab-cdef-0123-456789abcdef", c"a/b"];
        if self.random.below(4) == 0 { Ptr::null() } else { text(self.random.one_of(&names)) }
    }

    /// Handles that are not open.
    fn wild(&mut self) -> Handle {
        let known = self.random.one_of(&self.handles.clone());
        let bit = self.random.below(28);
        let wild = [Handle { cookie: self.random.word() }, NONE];
        let shifted = Handle { cookie: known.cookie ^ 1 << (bit + 32) };
        if self.random.below(2) == 0 { shifted } else { self.random.one_of(&wild) }
    }
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

#[test]
fn no_argument_crashes_the_library() {
    let seed = setting("ESKER_FUZZ_SEED", std::process::id().into());
    let rounds = setting("ESKER_FUZZ_ROUNDS", 20_000);
    println!("seed {seed}");
    let store = Store::new();
    let (mut kv, mut array, mut object, mut eq, mut th) = (NONE, NONE, NONE, NONE, NONE);
    let oids = [store.oid(KV_HASHED, SX), store.oid(ARRAY_BYTE, SX), store.oid(MULTI_HASHED, SX)];
    daos_kv_open(store.coh, oids[0], OBJ_RW, at(&mut kv), WAIT);
    daos_array_open_with_attr(store.coh, oids[1], NONE, OBJ_RW, 1, 9, at(&mut array), WAIT);
    daos_obj_open(store.coh, oids[2], OBJ_RW, at(&mut object), WAIT);
    daos_eq_create(at(&mut eq));
    daos_tx_open(store.coh, at(&mut th), 0, WAIT);
    let mut fuzz = Fuzz {
        random: Random(seed),
        room: vec![0; ROOM / 8],
        handles: vec![store.poh, store.coh, kv, array, object, eq, th],
        oids: oids.to_vec(),
    };
    for _ in 0..rounds {
        let call = fuzz.random.below(CALLS.len());
        CALLS[call](&mut fuzz);
    }
    assert_eq!(daos_kv_close(kv, WAIT), 0, "nothing was closed that nobody closed");
    assert_eq!(daos_tx_close(th, WAIT), 0);
}
