//! The containers of a pool.
use super::filter::Parts;
use crate::abi::{Event, Filter, Handle, PoolContInfo, PoolContInfo2, Ptr};
use crate::code::{Code, Result};
use crate::container::info;
use crate::{edge, handles};
use esker::Pool;
use esker::types::info::{ContainerInfo, OpenMode};
use std::ffi::c_int;

fn listed(about: &ContainerInfo) -> PoolContInfo {
    let mut info = PoolContInfo { uuid: about.uuid.0, label: [0; 128] };
    let last = info.label.len() - 1;
    for (place, byte) in info.label[..last].iter_mut().zip(about.label.bytes()) {
        *place = byte as _;
    }
    info
}

/// Puts entries into a list of C, and how many there are in place of how many fit.
fn put<T: Copy>(entries: &[T], count: Ptr<u64>, list: Ptr<T>) -> Result<()> {
    let room = count.get()?;
    count.set(entries.len() as u64);
    if list.is_null() || room == 0 {
        return Ok(());
    }
    if (entries.len() as u64) > room {
        return Err(Code::TRUNC);
    }
    for (index, entry) in entries.iter().enumerate() {
        list.at(index).set(*entry);
    }
    Ok(())
}

/// Lists containers.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_list_cont(
    poh: Handle,
    count: Ptr<u64>,
    list: Ptr<PoolContInfo>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            count.needed()?;
            let all: Vec<_> = pool.pool.containers().await?.iter().map(listed).collect();
            put(&all, count, list)
        })
    })
}

/// Lists containers that a filter lets through.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_filter_cont(
    poh: Handle,
    filter: Ptr<Filter>,
    count: Ptr<u64>,
    list: Ptr<PoolContInfo2>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            count.needed()?;
            let parts = Parts::read(filter)?;
            let mut found = Vec::new();
            for about in pool.pool.containers().await? {
                let described = described(&pool.pool, &about).await?;
                found.extend(described.filter(|info| parts.pass(&info.cinfo)));
            }
            put(&found, count, list)
        })
    })
}

/// A container that is gone meanwhile, or that somebody else has for himself, is left out.
async fn described(pool: &Pool, about: &ContainerInfo) -> Result<Option<PoolContInfo2>> {
    let name = about.uuid.to_string();
    let container = match pool.open_container(&name, OpenMode::ReadOnly).await.map_err(Code::from) {
        Ok(container) => container,
        Err(Code::NONEXIST | Code::BUSY) => return Ok(None),
        Err(code) => return Err(code),
    };
    let told = info::of(&container).await;
    container.close().await?;
    let mut cinfo = told?;
    cinfo.nhandles = about.handles;
    Ok(Some(PoolContInfo2 { id: listed(about), cinfo, reserved: [Ptr::null(); 2] }))
}
