//! Containers (`daos_cont.h`).
pub mod access;
pub mod info;
pub mod open;
pub(crate) mod properties;
pub(crate) mod rights;
pub(crate) mod times;

use crate::abi::{Event, Handle, Ptr};
use crate::{edge, handles};
use std::ffi::c_int;

/// Numbers for identifiers of objects that nobody else gets.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_alloc_oids(
    coh: Handle,
    num_oids: u64,
    oid: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let container = handles::container(coh)?;
        Ok(async move {
            oid.needed()?.set(container.container.allocate_oids(num_oids).await?);
            Ok(())
        })
    })
}
