//! Properties of pools and containers (`daos_prop.h`): lists of them, which C owns, and their values.
use crate::abi::{ByteVal, Bytes, Prop, PropEntry, PropValue, Ptr, RankList, Roots, Str};
use crate::boundary::guard;
use crate::code::{Code, Result};
use crate::{acl, boundary, memory};
use std::ffi::c_int;
use table::{Property, Sort};

pub(crate) mod table;
mod text;

pub use text::daos_prop_from_str;

/// `DAOS_PROP_ENTRIES_MAX_NR`.
const ENTRIES_MAX: u32 = 128;

/// Pointers to the entries of a list of properties, whose length is checked.
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

/// The kind of a property's value, if the property is known.
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

/// Allocates a list.
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
            free(sort_of(entry.kind), entry);
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

/// The entry with this number of a property, if the list has one.
fn find(prop: Ptr<Prop>, kind: u32) -> Option<Ptr<PropEntry>> {
    let mut all = entries(prop).ok()?.into_iter();
    all.find(|at| at.get().is_ok_and(|entry| entry.kind == kind))
}

/// Returns the entry of this type.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_get(prop: Ptr<Prop>, kind: u32) -> Ptr<PropEntry> {
    guard(Ptr::null(), || find(prop, kind).unwrap_or(Ptr::null()))
}

/// Returns a new list with the entries of both lists. If both have an entry of the same kind, that of `new` counts.
fn merge(old: Ptr<Prop>, new: Ptr<Prop>) -> Result<Ptr<Prop>> {
    let entries_of = |prop: Ptr<Prop>| if prop.is_null() { Ok(Vec::new()) } else { entries(prop) };
    let read = |all: Vec<Ptr<PropEntry>>| all.into_iter().map(Ptr::get).collect::<Result<Vec<_>>>();
    let (old, new) = (read(entries_of(old)?)?, read(entries_of(new)?)?);
    let is_new = |kind| new.iter().any(|entry: &PropEntry| entry.kind == kind);
    let mut all: Vec<PropEntry> = old.into_iter().filter(|entry| !is_new(entry.kind)).collect();
    all.extend(&new);
    let merged = alloc(all.len() as u32)?;
    for (at, entry) in entries(merged)?.into_iter().zip(all) {
        if let Err(code) = duplicate(sort_of(entry.kind), entry, at) {
            daos_prop_free(merged);
            return Err(code);
        }
    }
    Ok(merged)
}

/// Merges two lists.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_merge2(old: Ptr<Prop>, new: Ptr<Prop>, out: Ptr<Ptr<Prop>>) -> c_int {
    boundary::always(|| {
        out.needed()?.set(merge(old, new)?);
        Ok(())
    })
}

/// Merges two lists; returns a null pointer on failure.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_merge(old: Ptr<Prop>, new: Ptr<Prop>) -> Ptr<Prop> {
    guard(Ptr::null(), || merge(old, new).unwrap_or(Ptr::null()))
}

/// Sets the value of an entry to `pointer`, and frees the old one.
fn put<T>(at: Ptr<PropEntry>, pointer: Ptr<T>) -> Result<()> {
    let entry = at.get()?;
    free(sort_of(entry.kind), entry);
    at.set(PropEntry { value: pointer.into(), flags: 0, ..entry });
    Ok(())
}

/// Copies bytes of the caller to memory that C frees. `INVAL` if there are none.
fn copy_of(bytes: Bytes, len: u64) -> Result<Ptr<u8>> {
    match len {
        0 => Err(Code::INVAL),
        _ => memory::copy(bytes.read(len)?),
    }
}

/// Sets an entry to a copy of a string.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_set_str(entry: Ptr<PropEntry>, text: Str, len: u64) -> c_int {
    boundary::always(|| {
        let (entry, text) = (entry.needed()?, text.needed()?.cast::<std::ffi::c_void>());
        if entry.get()?.kind == 0 || sort_of(entry.get()?.kind) != Some(Sort::Text) {
            return Err(Code::INVAL);
        }
        put(entry, memory::string(until_nul(text.read(len)?))?)
    })
}

/// The bytes before the first NUL, or all.
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
    boundary::always(|| put(entry.needed()?, copy_of(bytes, size)?))
}

/// Sets the entry of a type to a copy of bytes.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_set_ptr(prop: Ptr<Prop>, kind: u32, bytes: Bytes, size: u64) -> c_int {
    boundary::always(|| {
        prop.needed()?;
        put(find(prop, kind).ok_or(Code::NONEXIST)?, copy_of(bytes, size)?)
    })
}

/// Sets `dst` to a copy of the `len` bytes that `src` points to. Does not free its old value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_dup_ptr(
    dst: Ptr<PropEntry>,
    src: Ptr<PropEntry>,
    len: usize,
) -> c_int {
    boundary::always(|| {
        let copy = copy_of(src.get()?.value.pointer(), len as u64)?;
        let entry = dst.get()?;
        dst.set(PropEntry { value: copy.into(), flags: 0, ..entry });
        Ok(())
    })
}

/// Copies bytes, with their length, to memory that C frees.
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
    boundary::always(|| put(entry.needed()?, byte_value(bytes, len)?))
}

/// Sets the entry of a type to a copy of bytes with their length.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_set_byteval(
    prop: Ptr<Prop>,
    kind: u32,
    bytes: Bytes,
    len: usize,
) -> c_int {
    boundary::always(|| {
        prop.needed()?;
        put(find(prop, kind).ok_or(Code::NONEXIST)?, byte_value(bytes, len)?)
    })
}

/// Sets `dst` to a copy of the bytes of `src`. Does not free its old value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_dup_byteval(dst: Ptr<PropEntry>, src: Ptr<PropEntry>) -> c_int {
    boundary::always(|| {
        let bytes = src.get()?.value.pointer::<ByteVal>().get()?;
        let copy = byte_value(bytes.data, bytes.len)?;
        dst.set(PropEntry { value: copy.into(), flags: 0, ..dst.get()? });
        Ok(())
    })
}

/// Sets `dst` to a copy of the roots of `src`. Does not free its old value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_dup_co_roots(dst: Ptr<PropEntry>, src: Ptr<PropEntry>) -> c_int {
    boundary::always(|| {
        let copy = memory::one(src.get()?.value.pointer::<Roots>().get()?)?;
        dst.set(PropEntry { value: copy.into(), flags: 0, ..dst.get()? });
        Ok(())
    })
}

/// Whether the value of the property is of one of these sorts.
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

/// Whether the value is bytes with their length. No property has such a value.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_has_byteval(_entry: Ptr<PropEntry>) -> bool {
    false
}

/// Compares the access control lists of two entries: 0 if they are equal, otherwise `MISMATCH`.
#[unsafe(no_mangle)]
pub extern "C" fn daos_prop_entry_cmp_acl(a: Ptr<PropEntry>, b: Ptr<PropEntry>) -> c_int {
    let list = |entry: Ptr<PropEntry>| acl::checked(entry.get()?.value.pointer());
    boundary::always(|| match list(a)? == list(b)? {
        true => Ok(()),
        false => Err(Code::MISMATCH),
    })
}

/// Longest owner or label.
const TEXT_MAX: usize = 255;

/// `DAOS_PROP_ENTRY_NOT_SET`.
const NOT_SET: u16 = 1;

/// The value of a property, independent of any list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(u64),
    Text(String),
    /// An access control list, with its header.
    Acl(Vec<u8>),
    Roots(Roots),
    Ranks(Vec<u32>),
}

impl Value {
    /// Reads the value of an entry that a program passes. `INVAL` if it is not set or out of range; `NO_PERM` for a
    /// list of ranks, which a program cannot set.
    pub(crate) fn read(property: &Property, entry: PropEntry) -> Result<Self> {
        if entry.flags & NOT_SET != 0 {
            return Err(Code::INVAL);
        }
        Ok(match property.sort {
            Sort::Number if entry.value.number() > property.max => return Err(Code::INVAL),
            Sort::Number => Self::Number(entry.value.number()),
            Sort::Text => Self::Text(text(property, entry.value.string().text()?)?),
            Sort::Acl => Self::Acl(acl::checked(entry.value.pointer())?.to_vec()),
            Sort::Roots => Self::Roots(entry.value.pointer::<Roots>().get()?),
            Sort::Ranks => return Err(Code::NO_PERM),
        })
    }

    /// Writes the value into an entry; the caller frees its memory.
    pub(crate) fn write(&self, at: Ptr<PropEntry>) -> Result<()> {
        let value = match self {
            // SAFETY: a number is written only for a property that is a number.
            Self::Number(number) => unsafe { PropValue::new(*number) },
            Self::Text(text) => memory::string(text.as_bytes())?.into(),
            Self::Acl(bytes) => memory::copy(bytes)?.into(),
            Self::Roots(roots) => memory::one(*roots)?.into(),
            Self::Ranks(ranks) => rank_list(ranks)?.into(),
        };
        at.set(PropEntry { value, flags: 0, ..at.get()? });
        Ok(())
    }

    /// Encodes the value for the metadata of the pool or container; numbers are little-endian.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        match self {
            Self::Number(number) => number.to_le_bytes().to_vec(),
            Self::Text(text) => text.clone().into_bytes(),
            Self::Acl(bytes) => bytes.clone(),
            Self::Roots(roots) => {
                let words = roots.oids.iter().flat_map(|oid| [oid.lo, oid.hi]);
                words.flat_map(u64::to_le_bytes).collect()
            }
            Self::Ranks(ranks) => ranks.iter().flat_map(|rank| rank.to_le_bytes()).collect(),
        }
    }

    /// Decodes a value that [`Self::to_bytes`] encoded. None if the bytes are not valid, and for lists of ranks, which
    /// are not stored.
    pub(crate) fn from_bytes(sort: Sort, bytes: Vec<u8>) -> Option<Self> {
        let word = |bytes: &[u8]| bytes.try_into().map(u64::from_le_bytes).ok();
        Some(match sort {
            Sort::Number => Self::Number(word(&bytes)?),
            Sort::Text => Self::Text(String::from_utf8(bytes).ok()?),
            Sort::Acl => Self::Acl(bytes),
            Sort::Roots => {
                let mut words = bytes.chunks_exact(8).map(word);
                let mut next = || words.next().flatten();
                let mut roots = Roots::default();
                for oid in &mut roots.oids {
                    (oid.lo, oid.hi) = (next()?, next()?);
                }
                Self::Roots(roots)
            }
            Sort::Ranks => return None,
        })
    }
}

/// Copies the text of a property. `INVAL` if it is longer than [`TEXT_MAX`] bytes, or if it is an owner or owner group
/// and not a principal.
fn text(property: &Property, text: &str) -> Result<String> {
    const PRINCIPALS: [u32; 2] = [table::CO_OWNER, table::CO_OWNER_GROUP];
    let valid = !PRINCIPALS.contains(&property.id) || acl::principal::is_valid(text);
    if valid && text.len() <= TEXT_MAX { Ok(text.to_owned()) } else { Err(Code::INVAL) }
}

/// A list of ranks, which the caller frees.
pub(crate) fn rank_list(ranks: &[u32]) -> Result<Ptr<RankList>> {
    memory::one(RankList { ranks: memory::copy(ranks)?, nr: ranks.len() as u32 })
}

/// Frees the memory an entry points to.
pub(crate) fn free(sort: Option<Sort>, entry: PropEntry) {
    match sort {
        Some(Sort::Text | Sort::Acl | Sort::Roots) => memory::free::<u8>(entry.value.pointer()),
        Some(Sort::Ranks) => crate::ranks::d_rank_list_free(entry.value.pointer()),
        Some(Sort::Number) | None => {}
    }
}

/// Copies an entry with the memory it points to.
pub(crate) fn duplicate(sort: Option<Sort>, entry: PropEntry, at: Ptr<PropEntry>) -> Result<()> {
    let pointer: Bytes = entry.value.pointer();
    let value = match sort {
        _ if pointer.is_null() => entry.value,
        Some(Sort::Text) => memory::string(entry.value.string().bytes()?)?.into(),
        Some(Sort::Acl) => memory::copy(acl::checked(entry.value.pointer())?)?.into(),
        Some(Sort::Roots) => memory::one(entry.value.pointer::<Roots>().get()?)?.into(),
        Some(Sort::Ranks) => crate::ranks::copy(entry.value.pointer())?.into(),
        Some(Sort::Number) | None => entry.value,
    };
    at.set(PropEntry { value, ..entry });
    Ok(())
}
