//! Calls on objects, arrays, Key-Values.
use super::{calls, now};
use crate::abi::{
    Anchor, ArrayIod, ArrayStbuf, Bytes, EpochRange, Handle, Iod, Iom, Iov, KeyDesc, ObjId, Ptr,
    RankList, Recx, Sgl, Str,
};
use crate::array::*;
use crate::code::Result;
use crate::kv::*;
use crate::list::*;
use crate::object::*;
use std::ffi::{c_int, c_void};

/// `daos_obj_rw_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Values {
    th: Handle,
    oh: Handle,
    flags: u64,
    dkey: Ptr<Iov>,
    nr: u32,
    extra_flags: u32,
    iods: Ptr<Iod>,
    sgls: Ptr<Sgl>,
    ioms: Ptr<Iom>,
    extra: Bytes,
    csum: Ptr<Iov>,
}

/// `daos_obj_list_t`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Listing {
    oh: Handle,
    th: Handle,
    dkey: Ptr<Iov>,
    akey: Ptr<Iov>,
    nr: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl: Ptr<Sgl>,
    size: Ptr<u64>,
    kind: u32,
    recxs: Ptr<Recx>,
    eprs: Ptr<EpochRange>,
    anchor: Ptr<Anchor>,
    dkey_anchor: Ptr<Anchor>,
    akey_anchor: Ptr<Anchor>,
    versions: Ptr<u32>,
    csum: Ptr<Iov>,
    incr_order: u8,
}

impl Listing {
    /// The anchor of the listing: the one for its level, or if that is null the plain one. Callers use either.
    fn at(&self, level: Ptr<Anchor>) -> Ptr<Anchor> {
        if level.is_null() { self.anchor } else { level }
    }
}

/// Opens an array. With `sizes`, its cell and chunk size are read from there. Without, the stored ones are used and
/// written to `given`.
fn open_array(
    coh: Handle,
    oid: ObjId,
    th: Handle,
    mode: u32,
    sizes: Option<(Ptr<u64>, Ptr<u64>)>,
    given: (Ptr<u64>, Ptr<u64>),
    oh: Ptr<Handle>,
) -> Result<c_int> {
    match sizes {
        None => Ok(daos_array_open(coh, oid, th, mode, given.0, given.1, oh, now())),
        Some((cell, chunk)) => {
            let (cell, chunk) = (cell.get()?, chunk.get()?);
            Ok(daos_array_open_with_attr(coh, oid, th, mode, cell, chunk, oh, now()))
        }
    }
}

calls! {
    44 { coh: Handle, cid: u32, attr: Bytes }
        => crate::oclass::daos_obj_query_class(coh, cid, attr, now());
    45 { coh: Handle, list: Bytes, anchor: Ptr<Anchor> }
        => crate::oclass::daos_obj_list_class(coh, list, anchor, now());
    46 { coh: Handle, oid: ObjId, mode: u32, oh: Ptr<Handle> }
        => daos_obj_open(coh, oid, mode, oh, now());
    47 { oh: Handle } => daos_obj_close(oh, now());
    48 { th: Handle, oh: Handle, _dkey: Ptr<Iov>, _akeys: Ptr<Iov>, flags: u64, _nr: u32 }
        => daos_obj_punch(oh, th, flags, now());
    49 { th: Handle, oh: Handle, dkey: Ptr<Iov>, _akeys: Ptr<Iov>, flags: u64, _nr: u32 }
        => daos_obj_punch_dkeys(oh, th, flags, 1, dkey, now());
    50 { th: Handle, oh: Handle, dkey: Ptr<Iov>, akeys: Ptr<Iov>, flags: u64, nr: u32 }
        => daos_obj_punch_akeys(oh, th, flags, dkey, nr, akeys, now());
    51 { oh: Handle, _th: Handle, attr: Ptr<c_void>, ranks: Ptr<RankList> }
        => daos_obj_query(oh, attr, ranks, now());
    52 {
        oh: Handle, th: Handle, dkey: Ptr<Iov>, akey: Ptr<Iov>, recx: Ptr<Recx>, flags: u64,
        max_epoch: Ptr<u64>
    } => match daos_obj_query_key(oh, th, flags, dkey, akey, recx, now()) {
        0 if !max_epoch.is_null() => daos_obj_query_max_epoch(oh, th, max_epoch, now()),
        code => code,
    };
    54 { a: Values }
        => daos_obj_fetch(a.oh, a.th, a.flags, a.dkey, a.nr, a.iods, a.sgls, a.ioms, now());
    55 { a: Values } => daos_obj_update(a.oh, a.th, a.flags, a.dkey, a.nr, a.iods, a.sgls, now());
    56 { a: Listing }
        => daos_obj_list_dkey(a.oh, a.th, a.nr, a.kds, a.sgl, a.at(a.dkey_anchor), now());
    57 { a: Listing }
        => daos_obj_list_akey(a.oh, a.th, a.dkey, a.nr, a.kds, a.sgl, a.at(a.akey_anchor), now());
    58 { a: Listing } => daos_obj_list_recx(
        a.oh, a.th, a.dkey, a.akey, a.size, a.nr, a.recxs, a.eprs, a.anchor, a.incr_order, now()
    );
    60 {
        coh: Handle, oid: ObjId, th: Handle, cell_size: u64, chunk_size: u64, oh: Ptr<Handle>
    } => daos_array_create(coh, oid, th, cell_size, chunk_size, oh, now());
    61 {
        coh: Handle, oid: ObjId, th: Handle, mode: u32, with_sizes: u32, cell: Ptr<u64>,
        chunk: Ptr<u64>, oh: Ptr<Handle>
    } => open_array(
        coh, oid, th, mode, (with_sizes != 0).then_some((cell, chunk)), (cell, chunk), oh
    )?;
    62 { oh: Handle } => daos_array_close(oh, now());
    63 { oh: Handle, th: Handle } => daos_array_destroy(oh, th, now());
    64 { oh: Handle, th: Handle, iod: Ptr<ArrayIod>, sgl: Ptr<Sgl> }
        => daos_array_read(oh, th, iod, sgl, now());
    65 { oh: Handle, th: Handle, iod: Ptr<ArrayIod>, sgl: Ptr<Sgl> }
        => daos_array_write(oh, th, iod, sgl, now());
    66 { oh: Handle, th: Handle, iod: Ptr<ArrayIod>, _sgl: Ptr<Sgl> }
        => daos_array_punch(oh, th, iod, now());
    67 { oh: Handle, th: Handle, size: Ptr<u64> } => daos_array_get_size(oh, th, size, now());
    68 { oh: Handle, th: Handle, size: u64 } => daos_array_set_size(oh, th, size, now());
    69 { oh: Handle, th: Handle, stbuf: Ptr<ArrayStbuf> }
        => daos_array_stat(oh, th, stbuf, now());
    70 { coh: Handle, oid: ObjId, mode: u32, oh: Ptr<Handle> }
        => daos_kv_open(coh, oid, mode, oh, now());
    71 { oh: Handle } => daos_kv_close(oh, now());
    72 { oh: Handle, th: Handle } => daos_kv_destroy(oh, th, now());
    73 { oh: Handle, th: Handle, flags: u64, key: Str, size: Ptr<u64>, buf: Bytes }
        => daos_kv_get(oh, th, flags, key, size, buf, now());
    74 { oh: Handle, th: Handle, flags: u64, key: Str, size: u64, buf: Bytes }
        => daos_kv_put(oh, th, flags, key, size, buf, now());
    75 { oh: Handle, th: Handle, flags: u64, key: Str }
        => daos_kv_remove(oh, th, flags, key, now());
    76 {
        oh: Handle, th: Handle, nr: Ptr<u32>, kds: Ptr<KeyDesc>, sgl: Ptr<Sgl>,
        anchor: Ptr<Anchor>
    } => daos_kv_list(oh, th, nr, kds, sgl, anchor, now());
    78 { a: Listing }
        => daos_obj_key2anchor(a.oh, a.th, a.dkey, a.akey, a.anchor, now());
}
