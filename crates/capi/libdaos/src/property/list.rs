//! Lists of properties, which belong to C.
use super::table::{self, Sort};
use super::value;
use crate::abi::{ByteVal, Bytes, Prop, PropEntry, Ptr, Roots, Str};
use crate::code::{self, Code, Result};
use crate::edge::guard;
use crate::memory;
use std::ffi::c_int;

/// `DAOS_PROP_ENTRIES_MAX_NR`.
const ENTRIES_MAX: u32 = 128;

/// Calls that need no initialised library.
fn pure(work: impl FnOnce() -> Result<()>) -> c_int {
    guard(Code::MISC.0, || code::of(work()))
}

/// The entries of a list.
pub(crate) fn entries(prop: Ptr<Prop>) -> Result<Vec<Ptr<PropEntry>>> {
    let list = prop.get()?;
    match list.nr {
        0 => Ok(Vec::new()),
        1..=ENTRIES_MAX if !list.entries.is_null() => {
            Ok((0..list.nr as usize).map(|index| list.entries.at(index)).collect())
        }
        _ => Err(Code::INVAL),
    }
}

pub(crate) fn sort_of(kind: u32) -> Option<Sort> {
    table::by_id(kind).map(|property| property.sort)
}

/// A list of `nr` zeroed entries.
pub(crate) fn alloc(nr: u32) -> Result<Ptr<Prop>> {
    if nr > ENTRIES_MAX {
        return Err(Code::INVAL);
    }
    memory::one(Prop { nr, reserved: 0, entries: memory::zeroed(nr as usize)? })
}

/// Makes a list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_alloc(nr: u32) -> Ptr<Prop> {
    guard(Ptr::null(), || alloc(nr).unwrap_or(Ptr::null()))
}

/// Frees the entries of a list with their values.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_fini(prop: Ptr<Prop>) {
    guard((), || {
        let Ok(list) = prop.get() else { return };
        for entry in entries(prop).unwrap_or_default().into_iter().filter_map(|at| at.get().ok()) {
            value::free(sort_of(entry.kind), entry);
        }
        memory::free(list.entries);
        prop.set(Prop { nr: 0, entries: Ptr::null(), ..list });
    });
}

/// Frees a list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_free(prop: Ptr<Prop>) {
    daos_prop_fini(prop);
    memory::free(prop);
}

fn find(prop: Ptr<Prop>, kind: u32) -> Option<Ptr<PropEntry>> {
    let mut all = entries(prop).ok()?.into_iter();
    all.find(|at| at.get().is_ok_and(|entry| entry.kind == kind))
}

/// The entry of a type.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_get(prop: Ptr<Prop>, kind: u32) -> Ptr<PropEntry> {
    guard(Ptr::null(), || find(prop, kind).unwrap_or(Ptr::null()))
}

/// What both lists have; the new one wins.
fn merge(old: Ptr<Prop>, new: Ptr<Prop>) -> Result<Ptr<Prop>> {
    let of = |prop: Ptr<Prop>| if prop.is_null() { Ok(Vec::new()) } else { entries(prop) };
    let read = |all: Vec<Ptr<PropEntry>>| all.into_iter().map(Ptr::get).collect::<Result<Vec<_>>>();
    let (old, new) = (read(of(old)?)?, read(of(new)?)?);
    let is_new = |kind| new.iter().any(|entry: &PropEntry| entry.kind == kind);
    let mut all: Vec<PropEntry> = old.into_iter().filter(|entry| !is_new(entry.kind)).collect();
    all.extend(&new);
    let merged = alloc(all.len() as u32)?;
    for (at, entry) in entries(merged)?.into_iter().zip(all) {
        if let Err(code) = value::duplicate(sort_of(entry.kind), entry, at) {
            daos_prop_free(merged);
            return Err(code);
        }
    }
    Ok(merged)
}

/// A list of what both lists have.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_merge2(old: Ptr<Prop>, new: Ptr<Prop>, out: Ptr<Ptr<Prop>>) -> c_int {
    pure(|| {
        out.needed()?.set(merge(old, new)?);
        Ok(())
    })
}

/// A list of what both lists have, or no list.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_merge(old: Ptr<Prop>, new: Ptr<Prop>) -> Ptr<Prop> {
    guard(Ptr::null(), || merge(old, new).unwrap_or(Ptr::null()))
}

/// Puts a pointer into an entry in place of the one before.
fn put<T>(at: Ptr<PropEntry>, pointer: Ptr<T>) -> Result<()> {
    let entry = at.get()?;
    value::free(sort_of(entry.kind), entry);
    at.set(PropEntry { value: pointer.into(), flags: 0, ..entry });
    Ok(())
}

fn copy_of(bytes: Bytes, len: u64) -> Result<Ptr<u8>> {
    match len {
        0 => Err(Code::INVAL),
        _ => memory::copy(bytes.read(len)?),
    }
}

/// Sets an entry to a copy of a string.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_set_str(entry: Ptr<PropEntry>, text: Str, len: u64) -> c_int {
    pure(|| {
        let (entry, text) = (entry.needed()?, text.needed()?.cast::<std::ffi::c_void>());
        if entry.get()?.kind == 0 || sort_of(entry.get()?.kind) != Some(Sort::Text) {
            return Err(Code::INVAL);
        }
        put(entry, memory::string(until_nul(text.read(len)?))?)
    })
}

fn until_nul(text: &[u8]) -> &[u8] {
    text.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Sets the entry of a type to a copy of a string.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_set_str(prop: Ptr<Prop>, kind: u32, text: Str, len: u64) -> c_int {
    match (prop.is_null(), daos_prop_entry_get(prop, kind)) {
        (true, _) => Code::INVAL.0,
        (_, entry) if entry.is_null() => Code::NONEXIST.0,
        (_, entry) => daos_prop_entry_set_str(entry, text, len),
    }
}

/// Sets an entry to a copy of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_set_ptr(entry: Ptr<PropEntry>, bytes: Bytes, size: u64) -> c_int {
    pure(|| put(entry.needed()?, copy_of(bytes, size)?))
}

/// Sets the entry of a type to a copy of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_set_ptr(prop: Ptr<Prop>, kind: u32, bytes: Bytes, size: u64) -> c_int {
    pure(|| {
        prop.needed()?;
        put(find(prop, kind).ok_or(Code::NONEXIST)?, copy_of(bytes, size)?)
    })
}

/// Sets an entry to a copy of what another points at.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_dup_ptr(
    dst: Ptr<PropEntry>,
    src: Ptr<PropEntry>,
    len: usize,
) -> c_int {
    pure(|| {
        let copy = copy_of(src.get()?.value.pointer(), len as u64)?;
        let entry = dst.get()?;
        dst.set(PropEntry { value: copy.into(), flags: 0, ..entry });
        Ok(())
    })
}

fn byte_value(bytes: Bytes, len: usize) -> Result<Ptr<ByteVal>> {
    let data = copy_of(bytes, len as u64)?.cast();
    memory::one(ByteVal { data, len })
}

/// Sets an entry to a copy of bytes with their length.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_set_byteval(
    entry: Ptr<PropEntry>,
    bytes: Bytes,
    len: usize,
) -> c_int {
    pure(|| put(entry.needed()?, byte_value(bytes, len)?))
}

/// Sets the entry of a type to a copy of bytes with their length.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_set_byteval(
    prop: Ptr<Prop>,
    kind: u32,
    bytes: Bytes,
    len: usize,
) -> c_int {
    pure(|| {
        prop.needed()?;
        put(find(prop, kind).ok_or(Code::NONEXIST)?, byte_value(bytes, len)?)
    })
}

/// Sets an entry to a copy of the bytes of another.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_dup_byteval(dst: Ptr<PropEntry>, src: Ptr<PropEntry>) -> c_int {
    pure(|| {
        let bytes = src.get()?.value.pointer::<ByteVal>().get()?;
        let copy = byte_value(bytes.data, bytes.len)?;
        dst.set(PropEntry { value: copy.into(), flags: 0, ..dst.get()? });
        Ok(())
    })
}

/// Sets an entry to a copy of the roots of another.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_dup_co_roots(dst: Ptr<PropEntry>, src: Ptr<PropEntry>) -> c_int {
    pure(|| {
        let copy = memory::one(src.get()?.value.pointer::<Roots>().get()?)?;
        dst.set(PropEntry { value: copy.into(), flags: 0, ..dst.get()? });
        Ok(())
    })
}

fn has(entry: Ptr<PropEntry>, sorts: &[Sort]) -> bool {
    let sort = entry.get().ok().and_then(|entry| sort_of(entry.kind));
    sort.is_some_and(|sort| sorts.contains(&sort))
}

/// Whether the value is a string.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_has_str(entry: Ptr<PropEntry>) -> bool {
    has(entry, &[Sort::Text])
}

/// Whether the value is a pointer.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_has_ptr(entry: Ptr<PropEntry>) -> bool {
    has(entry, &[Sort::Acl, Sort::Roots, Sort::Ranks])
}

/// Whether the value is bytes with their length: there is no such property.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_has_byteval(_entry: Ptr<PropEntry>) -> bool {
    false
}
