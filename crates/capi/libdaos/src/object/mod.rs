//! Objects (`daos_obj.h`).
mod fetch;
mod found;
mod query;
mod update;

pub use fetch::daos_obj_fetch;
pub use query::{daos_obj_query, daos_obj_query_key, daos_obj_query_max_epoch, daos_obj_verify};
pub use update::{daos_obj_punch, daos_obj_punch_akeys, daos_obj_punch_dkeys, daos_obj_update};

use crate::abi::{Event, Handle, ObjId, Ptr};
use crate::code::{Code, Result};
use crate::handles::{self, Entry, Opened, kind};
use crate::list::Parked;
use crate::{convert, edge};
use esker::Object;
use esker::types::{ObjectClass, ObjectType};
use std::ffi::c_int;

/// The akey of the values of Key-Values and arrays.
pub(crate) const AKEY: &[u8] = b"0";

/// The object behind a handle that can be listed, and where its listings stand.
pub(crate) fn listed(entry: &Entry) -> Result<(&Object, &Parked)> {
    entry.object().zip(entry.parked()).ok_or(Code::NO_HDL)
}

/// Completes an object's identifier.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_generate_oid2(
    coh: Handle,
    oid: Ptr<ObjId>,
    otype: u32,
    cid: u32,
    hints: u16,
    _args: u32,
) -> c_int {
    edge::now(|| {
        let code = u8::try_from(otype).map_err(|_| Code::INVAL)?;
        let otype = ObjectType::from_code(code).ok_or(Code::INVAL)?;
        let user = oid.get()?;
        let container = handles::container(coh)?;
        let class = (cid != 0).then(|| ObjectClass::from_code(cid));
        let made =
            container.container.generate_oid(user.hi, user.lo, otype, class, u32::from(hints))?;
        oid.set(made.into());
        Ok(())
    })
}

/// As [`daos_obj_generate_oid2`], by its name of old.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_generate_oid(
    coh: Handle,
    oid: Ptr<ObjId>,
    otype: u32,
    cid: u32,
    hints: u16,
    args: u32,
) -> c_int {
    daos_obj_generate_oid2(coh, oid, otype, cid, hints, args)
}

/// Opens an object.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_open(
    coh: Handle,
    oid: ObjId,
    mode: u32,
    oh: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    edge::done(ev, || {
        let container = handles::container(coh)?;
        oh.needed()?;
        let object = container.container.object(oid.into());
        let object = if convert::is_read_only(mode) { object.read_only() } else { object };
        oh.set(handles::open(Entry::Object(Opened::new(object)))?);
        Ok(())
    })
}

/// Closes an object, Key-Value or array.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_close(oh: Handle, ev: Ptr<Event>) -> c_int {
    close(oh, &[kind::OBJECT, kind::KV, kind::ARRAY], ev)
}

/// Closes a handle of one of these types.
pub(crate) fn close(oh: Handle, kinds: &[u64], ev: Ptr<Event>) -> c_int {
    edge::done(ev, || handles::close(oh.cookie, kinds).map(drop))
}
