//! Creating, opening, closing, destroying containers.
use crate::abi::{ContInfo, Event, Handle, Prop, Ptr, Str, UuidBytes};
use crate::handles::{self, Entry, kind};
use crate::{convert, edge};
use esker::Wait;
use esker::backend::NewContainer;
use std::ffi::c_int;

/// Creates a container with a label.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_create_with_label(
    poh: Handle,
    label: Str,
    _cont_prop: Ptr<Prop>,
    uuid: Ptr<UuidBytes>,
    ev: Ptr<Event>,
) -> c_int {
    edge::run(ev, || {
        let pool = handles::pool(poh)?;
        Ok(move || {
            let new = NewContainer { label: Some(label.text()?), ..Default::default() };
            uuid.set(pool.pool.create_container(&new).wait()?.uuid.0);
            Ok(())
        })
    })
}

/// Opens a container.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_open2(
    poh: Handle,
    cont: Str,
    flags: u32,
    coh: Ptr<Handle>,
    _info: Ptr<ContInfo>,
    ev: Ptr<Event>,
) -> c_int {
    edge::run(ev, || {
        let pool = handles::pool(poh)?;
        Ok(move || {
            coh.needed()?;
            let mode = convert::open_mode(flags)?;
            let container = pool.pool.open_container(cont.text()?, mode).wait()?;
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
    info: Ptr<ContInfo>,
    ev: Ptr<Event>,
) -> c_int {
    daos_cont_open2(poh, cont, flags, coh, info, ev)
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
