//! Filters of containers.
use crate::abi::{ContInfo, Filter, FilterPart, Ptr};
use crate::code::{self, Code, Result};
use crate::edge::guard;
use crate::memory;
use std::ffi::c_int;

/// `DAOS_POOL_CONT_FILTER_MAX_NPARTS`.
const PARTS_MAX: u32 = 8;
/// Parts that are kept; who lists is told that they are too many.
const KEPT_MAX: u32 = 1 << 16;
const FUNCTIONS: u32 = 6;
const KEYS: u32 = 4;
const AND: u32 = 0;
const OR: u32 = 1;

/// A filter, read and checked.
pub(super) struct Parts {
    all: bool,
    parts: Vec<FilterPart>,
}

impl Parts {
    pub(super) fn read(filter: Ptr<Filter>) -> Result<Self> {
        if filter.is_null() {
            return Ok(Self { all: true, parts: Vec::new() });
        }
        let filter = filter.get()?;
        if filter.combine > OR || filter.nparts > PARTS_MAX {
            return Err(Code::INVAL);
        }
        let parts = filter.parts.list(filter.nparts as usize)?.into_iter().map(Ptr::get);
        let parts = parts.collect::<Result<Vec<_>>>()?;
        match parts.iter().all(is_valid) {
            true => Ok(Self { all: filter.combine == AND, parts }),
            false => Err(Code::INVAL),
        }
    }

    pub(super) fn pass(&self, about: &ContInfo) -> bool {
        let mut results = self.parts.iter().map(|part| holds(part, about));
        match self.all || self.parts.is_empty() {
            true => results.all(|holds| holds),
            false => results.any(|holds| holds),
        }
    }
}

fn is_valid(part: &FilterPart) -> bool {
    part.func < FUNCTIONS && part.key < KEYS
}

fn holds(part: &FilterPart, about: &ContInfo) -> bool {
    let value = match part.key {
        0 => about.md_otime,
        1 => about.md_mtime,
        2 => u64::from(about.nsnapshots),
        _ => u64::from(about.nhandles),
    };
    match part.func {
        0 => value == part.value,
        1 => value != part.value,
        2 => value < part.value,
        3 => value <= part.value,
        4 => value > part.value,
        _ => value >= part.value,
    }
}

/// Makes a filter without parts.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_cont_filter_init(filter: Ptr<Filter>, combine: u32) -> c_int {
    if filter.is_null() || combine > OR {
        return Code::INVAL.0;
    }
    filter.set(Filter { combine, nparts: 0, parts: Ptr::null() });
    0
}

/// Adds a copy of a part.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_cont_filter_add(filter: Ptr<Filter>, part: Ptr<FilterPart>) -> c_int {
    guard(Code::MISC.0, || code::of(add(filter, part)))
}

fn add(at: Ptr<Filter>, part: Ptr<FilterPart>) -> Result<()> {
    let (filter, part) = (at.get()?, part.get()?);
    if filter.nparts >= KEPT_MAX || !is_valid(&part) {
        return Err(Code::INVAL);
    }
    let mut parts = filter.parts.list(filter.nparts as usize)?;
    parts.push(memory::one(part)?);
    let longer = memory::copy(&parts)?;
    memory::free(filter.parts);
    at.set(Filter { nparts: parts.len() as u32, parts: longer, ..filter });
    Ok(())
}

/// Frees the parts of a filter.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_cont_filter_fini(filter: Ptr<Filter>) {
    guard((), || {
        let Ok(known) = filter.get() else { return };
        let parts = known.parts.list(known.nparts.min(KEPT_MAX) as usize).unwrap_or_default();
        parts.into_iter().for_each(memory::free);
        memory::free(known.parts);
        filter.set(Filter { nparts: 0, parts: Ptr::null(), ..known });
    });
}
