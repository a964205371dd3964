//! Key-Values (`daos_kv.h`).
use crate::abi::{Anchor, Bytes, Event, Handle, KeyDesc, ObjId, Ptr, Sgl, Str};
use crate::code::{Code, Result};
use crate::handles::{self, Entry, Opened, kind};
use crate::{boundary, conditions, convert, list, object};
use esker::types::ErrorKind;
use esker::types::limits::{KEY_MAX, SINGLE_VALUE_MAX};
use esker::types::ops::Sink;
use esker::{Access, Kv};
use std::ffi::c_int;

/// Opens a Key-Value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_kv_open(
    coh: Handle,
    oid: ObjId,
    mode: u32,
    oh: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::complete_now(ev, || {
        let container = handles::container(coh)?;
        oh.needed()?;
        let kv = container.container.kv(oid.into())?;
        let kv = if convert::is_read_only(mode) { kv.read_only() } else { kv };
        oh.set(handles::open(Entry::Kv(Opened::new(kv)))?);
        Ok(())
    })
}

/// Closes a Key-Value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_kv_close(oh: Handle, ev: Ptr<Event>) -> c_int {
    object::close(oh, &[kind::KV], ev)
}

/// Removes all keys.
#[unsafe(no_mangle)]
pub extern "C" fn daos_kv_destroy(oh: Handle, th: Handle, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let (kv, via) = (handles::kv(oh)?, handles::via(th)?);
        Ok(async move { Ok(kv.destroy(via.access()).await?) })
    })
}

/// Reads a key: 1 to [`KEY_MAX`] bytes. `INVAL` if it is empty.
fn key<'a>(key: Str) -> Result<&'a [u8]> {
    match key.bytes()? {
        [] => Err(Code::INVAL),
        long if long.len() > KEY_MAX => Err(ErrorKind::KeyTooBig.into()),
        key => Ok(key),
    }
}

/// Stores a value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_kv_put(
    oh: Handle,
    th: Handle,
    flags: u64,
    name: Str,
    size: u64,
    buf: Bytes,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (kv, via) = (handles::kv(oh)?, handles::via(th)?);
        Ok(async move {
            let (key, cond) = (key(name)?, convert::cond(flags, Kv::INSERT.union(Kv::UPDATE)));
            convert::check_cond(flags, convert::NOT_OF_UPDATES)?;
            let value = buf.read_at_most(size, SINGLE_VALUE_MAX, Code::REC2BIG)?;
            let (object, access) = (kv.object(), via.access());
            let cond = conditions::check_update(object, key, cond, &mut [], access).await?;
            Ok(kv.put(key, value, cond, access).await?)
        })
    })
}

/// Reads a value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_kv_get(
    oh: Handle,
    th: Handle,
    flags: u64,
    name: Str,
    size: Ptr<u64>,
    buf: Bytes,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (kv, via) = (handles::kv(oh)?, handles::via(th)?);
        Ok(async move { get(&kv, key(name)?, flags, size, buf, via.access()).await })
    })
}

/// Reads a value. `size` becomes its length, also if the buffer is too short.
async fn get(
    kv: &Kv,
    key: &[u8],
    flags: u64,
    size: Ptr<u64>,
    buf: Bytes,
    access: Access<'_>,
) -> Result<()> {
    convert::check_cond(flags, convert::NOT_OF_FETCHES)?;
    let room = if buf.is_null() { 0 } else { size.get()? };
    let sink = if room == 0 { Sink::None } else { Sink::One(buf.write(room)?) };
    size.needed()?;
    let fetched = kv.fetch(key, sink, convert::cond(flags, Kv::GET), access).await;
    match &fetched {
        Ok(len) => size.set(*len),
        Err(error) if error.kind() == ErrorKind::RecordTooBig => {
            size.set(error.needed().unwrap_or_default());
        }
        Err(_) => {}
    }
    fetched?;
    Ok(())
}

/// Removes a key.
#[unsafe(no_mangle)]
pub extern "C" fn daos_kv_remove(
    oh: Handle,
    th: Handle,
    flags: u64,
    name: Str,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let (kv, via) = (handles::kv(oh)?, handles::via(th)?);
        Ok(async move {
            let (key, cond) = (key(name)?, convert::cond(flags, Kv::REMOVE));
            let (object, access) = (kv.object(), via.access());
            let cond = conditions::check_punch(object, key, &[], cond, access).await?;
            Ok(kv.remove(key, cond, access).await?)
        })
    })
}

/// Lists keys.
#[unsafe(no_mangle)]
pub extern "C" fn daos_kv_list(
    oh: Handle,
    th: Handle,
    nr: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl: Ptr<Sgl>,
    anchor: Ptr<Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    match handles::is(oh, kind::KV) {
        true => list::daos_obj_list_dkey(oh, th, nr, kds, sgl, anchor, ev),
        false => boundary::complete_now(ev, || Err(Code::NO_HDL)),
    }
}
