//! Connecting to pools and leaving them.
use super::query;
use crate::abi::{Event, Handle, PoolInfo, Ptr, Str};
use crate::code::Code;
use crate::handles::{self, Entry, OpenPool};
use crate::{convert, edge};
use esker::Pool;
use std::ffi::c_int;

/// Connects to a pool, by label, UUID or URL.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_connect2(
    pool: Str,
    _sys: Str,
    flags: u32,
    poh: Ptr<Handle>,
    about: Ptr<PoolInfo>,
    ev: Ptr<Event>,
) -> c_int {
    edge::run(ev, || {
        Ok(move || {
            poh.needed()?;
            let name = pool.text()?;
            let pool = Pool::connect(name, convert::open_mode(flags)?)?;
            query::tell(&pool, about)?;
            poh.set(handles::open(Entry::Pool(OpenPool::new(pool, name)))?);
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
    about: Ptr<PoolInfo>,
    ev: Ptr<Event>,
) -> c_int {
    daos_pool_connect2(pool, sys, flags, poh, about, ev)
}

/// Leaves a pool.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_disconnect(poh: Handle, ev: Ptr<Event>) -> c_int {
    edge::run(ev, || {
        let pool = handles::close_pool(poh, |pool| match pool.is_used() {
            true => Err(Code::BUSY),
            false => Ok(()),
        })?;
        Ok(move || {
            drop(pool);
            Ok(())
        })
    })
}
