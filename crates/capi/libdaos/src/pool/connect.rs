//! Connecting to pools and leaving them.
use crate::abi::{Event, Handle, PoolInfo, Ptr, Str};
use crate::code::{Code, Result};
use crate::handles::{self, Entry, OpenPool, kind};
use crate::{convert, edge};
use esker::Pool;
use esker::memory::Memory;
use esker::types::info::OpenMode;
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// Connects to a pool.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_connect2(
    pool: Str,
    _sys: Str,
    flags: u32,
    poh: Ptr<Handle>,
    info: Ptr<PoolInfo>,
    ev: Ptr<Event>,
) -> c_int {
    edge::run(ev, || {
        Ok(move || {
            poh.needed()?;
            let pool = open(pool.text()?, convert::open_mode(flags)?)?;
            let _ = info;
            poh.set(handles::open(Entry::Pool(OpenPool::new(pool)))?);
            Ok(())
        })
    })
}

/// As [`daos_pool_connect2`], by its name of old.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_connect(
    pool: Str,
    sys: Str,
    flags: u32,
    poh: Ptr<Handle>,
    info: Ptr<PoolInfo>,
    ev: Ptr<Event>,
) -> c_int {
    daos_pool_connect2(pool, sys, flags, poh, info, ev)
}

/// Leaves a pool.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_disconnect(poh: Handle, ev: Ptr<Event>) -> c_int {
    edge::run(ev, || {
        Ok(move || {
            if handles::pool(poh)?.is_used() {
                return Err(Code::BUSY);
            }
            handles::close(poh.cookie, &[kind::POOL]).map(drop)
        })
    })
}

static MEMORIES: Mutex<BTreeMap<String, Arc<Memory>>> = Mutex::new(BTreeMap::new());

/// Opens a pool by label, UUID or URL.
pub(crate) fn open(name: &str, mode: OpenMode) -> Result<Pool> {
    let memory = name.strip_prefix("memory:").ok_or(Code::NONEXIST)?;
    let mut memories = MEMORIES.lock().unwrap_or_else(PoisonError::into_inner);
    let memory = memories.entry(memory.to_owned()).or_insert_with(|| Arc::new(Memory::new(4)));
    Ok(Pool::from_backend(Arc::clone(memory) as _, mode))
}
