//! Snapshots of containers (`daos_cont.h`).
use crate::abi::{Anchor, EpochRange, Event, Handle, Ptr, Str};
use crate::code::{Code, Result};
use crate::container::Time;
use crate::container::properties;
use crate::handles::{self, OpenContainer};
use crate::{boundary, object_table, oit};
use esker::Container;
use esker::types::Epoch;
use std::ffi::c_int;

/// `DAOS_SNAP_OPT_CR`.
const CREATE: u32 = 1;
/// `DAOS_SNAP_OPT_OIT`.
const TABLE: u32 = 2;
/// `da_type` at the end of a listing.
const END: u16 = 3;

/// Creates a snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_create_snap(
    coh: Handle,
    epoch: Ptr<u64>,
    name: Str,
    ev: Ptr<Event>,
) -> c_int {
    daos_cont_create_snap_opt(coh, epoch, name, CREATE, ev)
}

/// Creates a snapshot. `DAOS_SNAP_OPT_OIT` changes nothing, because every snapshot has a table of its objects.
///
/// In a pool without snapshots, `DAOS_SNAP_OPT_OIT` creates a table of the objects that exist, and no snapshot.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_create_snap_opt(
    coh: Handle,
    epoch: Ptr<u64>,
    name: Str,
    opts: u32,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let container = handles::container(coh)?;
        Ok(async move {
            if opts & CREATE == 0 || !name.is_null() {
                return Err(Code::NOSYS);
            }
            epoch.needed()?.set(create(&container, opts).await?.0);
            Ok(())
        })
    })
}

/// Creates a snapshot, or a table of objects in its stead. `OVERFLOW` if the container has its maximum of them.
async fn create(open: &OpenContainer, opts: u32) -> Result<Epoch> {
    let container = &open.container;
    let most = properties::snapshots_max(container).await?;
    if most > 0 && epochs(container).await?.len() as u64 >= most {
        return Err(Code::OVERFLOW);
    }
    let epoch = match opts & TABLE != 0 && !container.capabilities().snapshots {
        true => object_table::create(container).await?,
        false => container.create_snapshot("").await?,
    };
    Time::Changed.touch(open).await;
    Ok(epoch)
}

/// The epochs of all snapshots, oldest first; in a pool without snapshots those of its tables of objects.
pub(crate) async fn epochs(container: &Container) -> Result<Vec<Epoch>> {
    match container.capabilities().snapshots {
        true => Ok(container.snapshots().await?.iter().map(|snapshot| snapshot.epoch).collect()),
        false => object_table::epochs(container).await,
    }
}

/// Removes a snapshot, or in a pool without snapshots the table of this epoch.
async fn destroy(container: &Container, epoch: Epoch) -> Result<()> {
    match container.capabilities().snapshots {
        true => Ok(container.destroy_snapshot(epoch).await?),
        false => object_table::destroy(container, epoch).await,
    }
}

/// Lists snapshots.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_list_snap(
    coh: Handle,
    nr: Ptr<c_int>,
    epochs: Ptr<u64>,
    _names: Ptr<Str>,
    anchor: Ptr<Anchor>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let container = handles::container(coh)?;
        Ok(async move { list(&container, nr, epochs, anchor).await })
    })
}

/// Lists all snapshots in one call, as far as `epochs` has room for them. `nr` becomes their number.
async fn list(
    container: &OpenContainer,
    nr: Ptr<c_int>,
    epochs: Ptr<u64>,
    anchor: Ptr<Anchor>,
) -> Result<()> {
    let room = usize::try_from(nr.get()?).map_err(|_| Code::INVAL)?;
    let mut end = anchor.get()?;
    let all = self::epochs(&container.container).await?;
    if !epochs.is_null() {
        for (index, epoch) in all.iter().take(room).enumerate() {
            epochs.at(index).set(epoch.0);
        }
    }
    nr.set(c_int::try_from(all.len()).unwrap_or(c_int::MAX));
    end.kind = END;
    anchor.set(end);
    Ok(())
}

/// Destroys a snapshot and the marks in the table of its objects.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_destroy_snap(coh: Handle, epr: EpochRange, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::container(coh)?;
        Ok(async move {
            if epr.lo != epr.hi || epr.lo == 0 {
                return Err(Code::INVAL);
            }
            let epoch = Epoch(epr.lo);
            let destroyed = destroy(&container.container, epoch).await;
            match destroyed {
                Ok(()) => Time::Changed.touch(&container).await,
                // An earlier call may have destroyed the snapshot, but not its marks.
                Err(Code::NONEXIST) => {}
                Err(code) => return Err(code),
            }
            oit::drop_marks(&container.container, epoch).await?;
            destroyed
        })
    })
}

/// Creates the object table of a snapshot again after it was destroyed. A new snapshot has a table from the start.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_snap_oit_create(
    coh: Handle,
    epoch: u64,
    name: Str,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let container = handles::container(coh)?;
        Ok(async move {
            match name.is_null() {
                true => oit::create(&container.container, Epoch(epoch)).await,
                false => Err(Code::NOSYS),
            }
        })
    })
}

/// Destroys an open table of objects, and its marks.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_snap_oit_destroy(coh: Handle, oh: Handle, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let (container, table) = (handles::container(coh)?, handles::oit(oh)?);
        Ok(async move { oit::destroy(&container.container, table.epoch()).await })
    })
}

/// Does nothing: overwritten data is freed at once, unless a snapshot needs it.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_aggregate(coh: Handle, _epoch: u64, ev: Ptr<Event>) -> c_int {
    boundary::complete_now(ev, || handles::container(coh).map(drop))
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_rollback(_coh: Handle, _epoch: u64, ev: Ptr<Event>) -> c_int {
    boundary::not_offered(ev)
}

/// Not implemented.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_subscribe(_coh: Handle, _epoch: Ptr<u64>, ev: Ptr<Event>) -> c_int {
    boundary::not_offered(ev)
}
