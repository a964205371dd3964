//! What is told about containers.
use super::properties;
use super::times::Time;
use crate::abi::{ContInfo, Event, Handle, Prop, Ptr};
use crate::code::Result;
use crate::property::table::CONTAINER;
use crate::{edge, handles};
use esker::{Container, Wait};
use std::ffi::c_int;

/// What is told of a container that is open.
pub(crate) fn of(container: &Container) -> Result<ContInfo> {
    let about = container.query().wait()?;
    let snapshots = container.snapshots().wait()?;
    Ok(ContInfo {
        uuid: about.uuid.0,
        lsnapshot: snapshots.last().map_or(0, |snapshot| snapshot.epoch.0),
        nhandles: about.handles,
        nsnapshots: snapshots.len() as u32,
        md_otime: Time::Opened.of(container, about.created)?.0,
        md_mtime: Time::Changed.of(container, about.created)?.0,
    })
}

/// Tells about an open container.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_query(
    coh: Handle,
    about: Ptr<ContInfo>,
    prop: Ptr<Prop>,
    ev: Ptr<Event>,
) -> c_int {
    edge::run(ev, || {
        let open = handles::any_container(coh)?;
        Ok(move || {
            if !about.is_null() {
                about.set(of(&open.container)?);
            }
            properties::fill(prop, &CONTAINER, |property| properties::show(&open, property))
        })
    })
}

/// Changes properties.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_set_prop(coh: Handle, prop: Ptr<Prop>, ev: Ptr<Event>) -> c_int {
    edge::run(ev, || {
        let container = handles::any_container(coh)?;
        Ok(move || properties::set(&container, prop))
    })
}

/// Calls a container healthy.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_status_clear(coh: Handle, ev: Ptr<Event>) -> c_int {
    edge::run(ev, || {
        let container = handles::any_container(coh)?;
        Ok(move || properties::clear_status(&container))
    })
}
