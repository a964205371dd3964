//! Object classes by name (`daos_obj_class.h`).
use crate::abi::{Anchor, Event, Handle, Ptr, Str};
use crate::boundary::{self, guard};
use crate::code::Code;
use esker::types::ObjectClass;
use std::ffi::{c_int, c_void};

/// `MAX_OBJ_CLASS_NAME_LEN`.
const NAME_BYTES: u64 = 24;

/// Returns the id of a class; 0 if the name is unknown.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oclass_name2id(name: Str) -> c_int {
    guard(0, || {
        let class = name.text().ok().and_then(ObjectClass::from_name);
        class.map_or(0, |class| class.code().cast_signed())
    })
}

/// Writes the name of a class to a buffer of 24 bytes. For an unknown class writes `UNKNOWN`, and returns -1.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oclass_id2name(id: u32, name: Str) -> c_int {
    guard(-1, || {
        let known =
            ObjectClass::from_code(id).name().filter(|name| name.len() < NAME_BYTES as usize);
        let text = known.as_deref().unwrap_or("UNKNOWN");
        let Ok(room) = name.needed().and_then(|name| name.cast::<c_void>().write(NAME_BYTES))
        else {
            return -1;
        };
        room[..text.len()].copy_from_slice(text.as_bytes());
        room[text.len()] = 0;
        if known.is_some() { 0 } else { -1 }
    })
}

/// Writes the names of all classes, each followed by a comma and a blank. Returns their length in bytes, or a code.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oclass_names_list(size: usize, text: Str) -> isize {
    guard(Code::MISC.0 as isize, || {
        let names: String = ObjectClass::named().map(|(name, _)| name + ", ").collect();
        if text.is_null() || size == 0 {
            return Code::INVAL.0 as isize;
        }
        if size <= names.len() {
            return Code::OVERFLOW.0 as isize;
        }
        let Ok(room) = text.cast::<c_void>().write(names.len() as u64 + 1) else {
            return Code::INVAL.0 as isize;
        };
        room[..names.len()].copy_from_slice(names.as_bytes());
        room[names.len()] = 0;
        names.len() as isize
    })
}

/// Returns the number of classes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_oclass_nr(_opts: c_int) -> c_int {
    guard(0, || ObjectClass::named().count() as c_int)
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_register_class(
    _coh: Handle,
    _cid: u32,
    _attr: Ptr<c_void>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::not_offered(ev)
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_query_class(
    _coh: Handle,
    _cid: u32,
    _attr: Ptr<c_void>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::not_offered(ev)
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_obj_list_class(
    _coh: Handle,
    _list: Ptr<c_void>,
    _anchor: Ptr<Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::not_offered(ev)
}
