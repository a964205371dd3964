//! Creating, opening, closing, destroying containers.
use super::{info, properties};
use crate::abi::{ContInfo, Event, Handle, Prop, Ptr, Str, UuidBytes};
use crate::code::{Code, Result};
use crate::handles::{self, Entry, OpenPool, kind};
use crate::{convert, edge};
use esker::Wait;
use esker::types::Uuid;
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
    edge::run(ev, || {
        let pool = handles::pool(poh)?;
        Ok(move || create(&pool, None, (wanted != [0; 16]).then_some(Uuid(wanted)), prop, uuid))
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
    edge::run(ev, || {
        let pool = handles::pool(poh)?;
        Ok(move || create(&pool, Some(label.text()?), None, prop, uuid))
    })
}

/// A label among the properties must be the one given beside them.
fn create(
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
    let info = wanted.describe(label, |new| pool.pool.create_container(new).wait())?;
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
    edge::run(ev, || {
        let pool = handles::pool(poh)?;
        Ok(move || {
            coh.needed()?;
            let mode = convert::open_mode(flags)?;
            let container = pool.pool.open_container(cont.text()?, mode).wait()?;
            if !about.is_null() {
                about.set(info::of(&container)?);
            }
            coh.set(handles::open(Entry::Container(pool.with(container)))?);
            Ok(())
        })
    })
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
    edge::run(ev, || {
        let entry = handles::close(coh.cookie, &[kind::CONTAINER])?;
        let container = entry.pick(|entry| match entry {
            Entry::Container(container) => Some(container),
            _ => None,
        })?;
        Ok(move || Ok(container.container.close().wait()?))
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
    edge::run(ev, || {
        let pool = handles::pool(poh)?;
        Ok(move || Ok(pool.pool.destroy_container(cont.text()?, force != 0).wait()?))
    })
}

/// As [`daos_cont_destroy2`], by its name of old.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_destroy(poh: Handle, cont: Str, force: c_int, ev: Ptr<Event>) -> c_int {
    daos_cont_destroy2(poh, cont, force, ev)
}
