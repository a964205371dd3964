//! What is told about containers.
use super::properties;
use super::times::Time;
use crate::abi::{ContInfo, Event, Handle, Prop, Ptr};
use crate::code::Result;
use crate::property::table::CONTAINER;
use crate::{edge, handles};
use esker::Container;
use std::ffi::c_int;

/// What is told of a container that is open.
pub(crate) async fn of(container: &Container) -> Result<ContInfo> {
    let about = container.query().await?;
    let snapshots = container.snapshots().await?;
    Ok(ContInfo {
        uuid: about.uuid.0,
        lsnapshot: snapshots.last().map_or(0, |snapshot| snapshot.epoch.0),
        nhandles: about.handles,
        nsnapshots: snapshots.len() as u32,
        md_otime: Time::Opened.of(container, about.created).await?.0,
        md_mtime: Time::Changed.of(container, about.created).await?.0,
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
    edge::drive(ev, || {
        let open = handles::any_container(coh)?;
        Ok(async move {
            if !about.is_null() {
                about.set(of(&open.container).await?);
            }
            for (at, property) in properties::asked(prop, &CONTAINER)? {
                properties::show(&open, property).await?.give(at)?;
            }
            Ok(())
        })
    })
}

/// Changes properties.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_set_prop(coh: Handle, prop: Ptr<Prop>, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move { properties::set(&container, prop).await })
    })
}

/// Calls a container healthy.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_status_clear(coh: Handle, ev: Ptr<Event>) -> c_int {
    edge::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move { properties::clear_status(&container).await })
    })
}
