//! Connecting to pools and leaving them.
use super::query;
use crate::abi::{Event, Handle, PoolInfo, Ptr, Str};
use crate::code::Code;
use crate::handles::{self, Entry, OpenPool};
use crate::{convert, edge, event};
use esker::Pool;
use std::ffi::c_int;

/// Connects to a pool, by label, UUID or URL. With an event, one of the threads for blocking work opens the pool.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_connect2(
    pool: Str,
    _sys: Str,
    flags: u32,
    poh: Ptr<Handle>,
    about: Ptr<PoolInfo>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        Ok(async move {
            poh.needed()?;
            let name = pool.text()?;
            let mode = convert::open_mode(flags)?;
            let pool = event::blocking(move || Ok(Pool::connect(name, mode)?)).await?;
            query::tell(&pool, about).await?;
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

/// Disconnects from a pool. With an event, one of the threads for blocking work closes it.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_disconnect(poh: Handle, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let pool = handles::close_pool(poh, |pool| match pool.is_used() {
            true => Err(Code::BUSY),
            false => Ok(()),
        })?;
        Ok(event::drop_blocking(pool))
    })
}
