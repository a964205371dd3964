//! Creating, opening, closing, destroying containers.
use super::rights::{self, Rights};
use super::times::Time;
use super::{info, properties};
use crate::abi::{ContInfo, Event, Handle, Prop, Ptr, Str, UuidBytes};
use crate::code::{Code, Result};
use crate::handles::{self, Entry, OpenPool, kind};
use crate::{convert, edge};
use esker::types::Uuid;
use esker::types::info::{ContainerInfo, OpenMode};
use std::ffi::c_int;

/// Creates a container.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_create2(
    poh: Handle,
    uuid: Ptr<UuidBytes>,
    prop: Ptr<Prop>,
    ev: Ptr<Event>,
) -> c_int {
    create_as(poh, [0; 16], prop, uuid, ev)
}

/// As [`daos_cont_create2`], with this UUID unless it is nil.
pub(crate) fn create_as(
    poh: Handle,
    wanted: UuidBytes,
    prop: Ptr<Prop>,
    uuid: Ptr<UuidBytes>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let pool = handles::pool(poh)?;
        let own = (wanted != [0; 16]).then_some(Uuid(wanted));
        Ok(async move { create(&pool, None, own, prop, uuid).await })
    })
}

/// As [`daos_cont_create2`], by its name of old.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_create(
    poh: Handle,
    uuid: Ptr<UuidBytes>,
    prop: Ptr<Prop>,
    ev: Ptr<Event>,
) -> c_int {
    daos_cont_create2(poh, uuid, prop, ev)
}

/// Creates a container with a label.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_create_with_label(
    poh: Handle,
    label: Str,
    prop: Ptr<Prop>,
    uuid: Ptr<UuidBytes>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move { create(&pool, Some(label.text()?), None, prop, uuid).await })
    })
}

/// A label among the properties must be the one given beside them.
async fn create(
    pool: &OpenPool,
    label: Option<&str>,
    own: Option<Uuid>,
    prop: Ptr<Prop>,
    uuid: Ptr<UuidBytes>,
) -> Result<()> {
    let wanted = properties::Wanted { uuid: own, ..properties::Wanted::read(prop)? };
    if label.is_some() && wanted.label.as_deref().is_some_and(|other| Some(other) != label) {
        return Err(Code::INVAL);
    }
    let metadata = wanted.pairs();
    let info = pool.pool.create_container(&wanted.describe(label, &metadata)).await?;
    uuid.set(info.uuid.0);
    Ok(())
}

/// Opens a container.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_open2(
    poh: Handle,
    cont: Str,
    flags: u32,
    coh: Ptr<Handle>,
    about: Ptr<ContInfo>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            coh.needed()?;
            let (mode, name) = (mode_of(flags)?, cont.text()?);
            if flags & (EVICT | EVICT_ALL) != 0 {
                evict(&pool, name, mode == OpenMode::Exclusive).await?;
            }
            let open = rights::open(&pool, name, mode).await?;
            let open = if flags & QUIETLY == QUIETLY { open.untimed() } else { open };
            if open.is_timed {
                Time::Opened.touch(&open).await;
            }
            if !about.is_null() {
                about.set(info::of(&open.container).await?);
            }
            coh.set(handles::open(Entry::Container(open))?);
            Ok(())
        })
    })
}

/// `DAOS_COO_EVICT` and `DAOS_COO_EVICT_ALL`.
const EVICT: u32 = 0x20;
const EVICT_ALL: u32 = 0x40;
/// `DAOS_COO_RO` with `DAOS_COO_RO_MDSTATS`: the times of the container stay as they are.
const QUIETLY: u32 = 0x11;
/// `DAOS_COO_MASK`.
const KNOWN: u32 = 0xff;

/// The mode of flags that go together.
fn mode_of(flags: u32) -> Result<OpenMode> {
    let mode = convert::open_mode(flags)?;
    let evicts_all = match flags & (EVICT | EVICT_ALL) {
        0 => return if flags & !KNOWN == 0 { Ok(mode) } else { Err(Code::INVAL) },
        EVICT => false,
        EVICT_ALL => true,
        _ => return Err(Code::INVAL),
    };
    match flags & !KNOWN == 0 && evicts_all == (mode == OpenMode::Exclusive) {
        true => Ok(mode),
        false => Err(Code::INVAL),
    }
}

/// Ends what handles of this process stand for, where it is this container. All of them the owner may end
/// only.
async fn evict(pool: &OpenPool, name: &str, all_users: bool) -> Result<()> {
    let all = pool.pool.containers().await?;
    let named = |about: &&ContainerInfo| about.label == name || about.uuid.to_string() == name;
    let Some(about) = all.iter().find(named) else { return Err(Code::NONEXIST) };
    let pool = pool.pool.info().await?.uuid;
    for entry in handles::open_entries() {
        if let Entry::Container(open) = &*entry
            && open.container.info().uuid == about.uuid
            && open.pool.info().await?.uuid == pool
        {
            if all_users && !Rights::of(&open.container).await?.is_owner() {
                return Err(Code::NO_PERM);
            }
            open.evict().await?;
        }
    }
    Ok(())
}

/// As [`daos_cont_open2`], by its name of old.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_open(
    poh: Handle,
    cont: Str,
    flags: u32,
    coh: Ptr<Handle>,
    about: Ptr<ContInfo>,
    ev: Ptr<Event>,
) -> c_int {
    daos_cont_open2(poh, cont, flags, coh, about, ev)
}

/// Closes a container.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_close(coh: Handle, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let entry = handles::close(coh.cookie, &[kind::CONTAINER])?;
        let container = entry.pick(|entry| match entry {
            Entry::Container(container) => Some(container),
            _ => None,
        })?;
        Ok(async move {
            if container.is_timed {
                Time::Changed.touch(&container).await;
            }
            container.close().await
        })
    })
}

/// Destroys a container and all that is in it.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_destroy2(
    poh: Handle,
    cont: Str,
    force: c_int,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move { Ok(pool.pool.destroy_container(cont.text()?, force != 0).await?) })
    })
}

/// As [`daos_cont_destroy2`], by its name of old.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_destroy(poh: Handle, cont: Str, force: c_int, ev: Ptr<Event>) -> c_int {
    daos_cont_destroy2(poh, cont, force, ev)
}
