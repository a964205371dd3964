//! Containers (`daos_cont.h`): creating, opening, querying, closing and destroying them.
use crate::abi::{ContInfo, Event, Handle, Prop, Ptr, Str, UuidBytes};
use crate::code::{Code, Result};
use crate::handles::{Entry, Held, OpenContainer, OpenPool, kind};
use crate::property::table::CONTAINER;
use crate::{boundary, convert, handles, snapshot};
use access::Rights;
use esker::Container;
use esker::types::info::{ContainerInfo, ContainerRef, OpenMode};
use esker::types::{Epoch, Uuid};
use properties::Wanted;
use std::ffi::c_int;

pub mod access;
pub(crate) mod properties;

/// Allocates `num_oids` consecutive numbers for object ids, and stores the first in `oid`. No other caller gets them.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_alloc_oids(
    coh: Handle,
    num_oids: u64,
    oid: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let container = handles::container(coh)?;
        Ok(async move {
            oid.needed()?.set(container.container.allocate_oids(num_oids).await?);
            Ok(())
        })
    })
}

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

/// Creates a container with the UUID `wanted`, or with a new one if `wanted` is nil. Stores its UUID in `uuid`.
pub(crate) fn create_as(
    poh: Handle,
    wanted: UuidBytes,
    prop: Ptr<Prop>,
    uuid: Ptr<UuidBytes>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let pool = handles::pool(poh)?;
        let own = (wanted != [0; 16]).then_some(Uuid(wanted));
        Ok(async move { create(&pool, None, own, prop, uuid).await })
    })
}

/// Older name of [`daos_cont_create2`].
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
    boundary::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move { create(&pool, Some(label.text()?), None, prop, uuid).await })
    })
}

/// Creates a container with the UUID `own`, or with a new one. A label among the properties must equal the one given as
/// an argument.
async fn create(
    pool: &OpenPool,
    label: Option<&str>,
    own: Option<Uuid>,
    prop: Ptr<Prop>,
    uuid: Ptr<UuidBytes>,
) -> Result<()> {
    let wanted = Wanted { uuid: own, ..Wanted::read(prop)? };
    if label.is_some() && wanted.label.as_deref().is_some_and(|other| Some(other) != label) {
        return Err(Code::INVAL);
    }
    let metadata = wanted.metadata();
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
    boundary::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            coh.needed()?;
            let (mode, name) = (mode_of(flags)?, cont.text()?);
            if flags & (EVICT | EVICT_ALL) != 0 {
                evict(&pool, name, mode).await?;
            }
            let open = access::open(&pool, name, mode).await?;
            let open = if flags & WITHOUT_STATS == WITHOUT_STATS { open.untimed() } else { open };
            if open.is_timed {
                Time::Opened.touch(&open).await;
            }
            if !about.is_null() {
                about.set(info_of(&open.container).await?);
            }
            coh.set(handles::open(Entry::Container(open))?);
            Ok(())
        })
    })
}

/// `DAOS_COO_EVICT` and `DAOS_COO_EVICT_ALL`.
const EVICT: u32 = 0x20;
const EVICT_ALL: u32 = 0x40;
/// `DAOS_COO_RO` with `DAOS_COO_RO_MDSTATS`: opening does not update the times of the container.
const WITHOUT_STATS: u32 = 0x11;
/// `DAOS_COO_MASK`.
const KNOWN: u32 = 0xff;

/// Returns the mode in which flags open a container. `INVAL` if the flags are unknown or exclude each other.
fn mode_of(flags: u32) -> Result<OpenMode> {
    let mode = convert::open_mode(flags)?;
    let evicts_all = match flags & (EVICT | EVICT_ALL) {
        0 => return if flags & !KNOWN == 0 { Ok(mode) } else { Err(Code::INVAL) },
        EVICT => false,
        EVICT_ALL => true,
        _ => return Err(Code::INVAL),
    };
    // `EVICT_ALL` requires exclusive access, and `EVICT` forbids it.
    match flags & !KNOWN == 0 && evicts_all == (mode == OpenMode::Exclusive) {
        true => Ok(mode),
        false => Err(Code::INVAL),
    }
}

/// Closes the container `name`, a label or UUID, for all handles of this process, so that it can be opened in `mode`. If
/// the open would fail nevertheless, returns its error and closes nothing.
async fn evict(pool: &OpenPool, name: &str, mode: OpenMode) -> Result<()> {
    let all = pool.pool.containers().await?;
    // A container without a label has an empty one, which names none.
    let named = |about: &&ContainerInfo| match ContainerRef::parse(name) {
        ContainerRef::Label(label) => !label.is_empty() && about.label == label,
        ContainerRef::Uuid(uuid) => about.uuid == uuid,
    };
    let Some(about) = all.iter().find(named) else { return Err(Code::NONEXIST) };
    let own = own_handles(pool, about.uuid).await?;
    let Some(first) = own.first() else { return Ok(()) };
    if mode != OpenMode::ReadOnly && pool.for_containers.mode() == OpenMode::ReadOnly {
        return Err(Code::NO_PERM);
    }
    Rights::load(&first.container).await?.within(mode)?;
    let counted: u32 = own.iter().map(|open| open.handles()).sum();
    if mode == OpenMode::Exclusive && about.handles > counted {
        return Err(Code::BUSY);
    }
    for open in own {
        open.evict().await?;
    }
    Ok(())
}

/// The handles of this process on a container, except those that were evicted and are not closed yet.
async fn own_handles(pool: &OpenPool, uuid: Uuid) -> Result<Vec<Held<OpenContainer>>> {
    let pool = pool.pool.info().await?.uuid;
    let mut own = Vec::new();
    for entry in handles::open_entries() {
        let picked = entry.pick(|entry| match entry {
            Entry::Container(open) if open.container.info().uuid == uuid => Some(open),
            _ => None,
        });
        let Ok(open) = picked else { continue };
        let is_evicted = match open.container.query().await.map_err(Code::from) {
            Err(Code::NO_HDL) => true,
            found => found.map(|_| false)?,
        };
        if !is_evicted && open.pool.info().await?.uuid == pool {
            own.push(open);
        }
    }
    Ok(own)
}

/// Older name of [`daos_cont_open2`].
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

/// Closes a container, and sets the time of its last change, unless the handle leaves the times as they are.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_close(coh: Handle, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
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

/// Destroys a container with its contents.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_destroy2(
    poh: Handle,
    cont: Str,
    force: c_int,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move { Ok(pool.pool.destroy_container(cont.text()?, force != 0).await?) })
    })
}

/// Older name of [`daos_cont_destroy2`].
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_destroy(poh: Handle, cont: Str, force: c_int, ev: Ptr<Event>) -> c_int {
    daos_cont_destroy2(poh, cont, force, ev)
}

/// Information about an open container.
pub(crate) async fn info_of(container: &Container) -> Result<ContInfo> {
    let about = container.query().await?;
    let snapshots = snapshot::epochs(container).await?;
    Ok(ContInfo {
        uuid: about.uuid.0,
        lsnapshot: snapshots.last().map_or(0, |epoch| epoch.0),
        nhandles: about.handles,
        nsnapshots: snapshots.len() as u32,
        md_otime: Time::Opened.read(container, Epoch::default()).await?.0,
        md_mtime: Time::Changed.read(container, about.created).await?.0,
    })
}

/// Queries an open container.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_query(
    coh: Handle,
    about: Ptr<ContInfo>,
    prop: Ptr<Prop>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let open = handles::any_container(coh)?;
        Ok(async move {
            if !about.is_null() {
                about.set(info_of(&open.container).await?);
            }
            for (at, property) in properties::requested(prop, &CONTAINER)? {
                properties::show(&open, property).await?.write(at)?;
            }
            Ok(())
        })
    })
}

/// Changes properties.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_set_prop(coh: Handle, prop: Ptr<Prop>, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move { properties::set(&container, prop).await })
    })
}

/// Sets the status of a container to healthy.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_status_clear(coh: Handle, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let container = handles::any_container(coh)?;
        Ok(async move { properties::clear_status(&container).await })
    })
}

/// A time that is kept with a container. A failure to update it, because the pool is read-only or full, does not fail
/// the call that causes the update.
#[derive(Clone, Copy)]
pub(crate) enum Time {
    /// Time of the last open of the container.
    Opened,
    /// Time of the last change of its metadata.
    Changed,
}

impl Time {
    /// Name of the property that stores the time.
    fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Changed => "changed",
        }
    }

    /// Reads the time, which is `initial` until it is set.
    pub(crate) async fn read(self, container: &Container, initial: Epoch) -> Result<Epoch> {
        let kept = container.properties().get(self.name()).await?;
        let kept = kept.and_then(|bytes| Some(u64::from_le_bytes(bytes.try_into().ok()?)));
        Ok(kept.map_or(initial, Epoch))
    }

    /// Sets the time to now, or just after its last value. Ignores errors, as [`Time`] says.
    pub(crate) async fn touch(self, open: &OpenContainer) {
        if open.pool.mode() != OpenMode::ReadOnly {
            let _ = self.advance(open).await;
        }
    }

    /// Sets the time to now, or just after its last value, so that it always grows.
    async fn advance(self, open: &OpenContainer) -> Result<()> {
        let about = open.container.info();
        let now = Epoch::after(self.read(&open.container, about.created).await?).0.to_le_bytes();
        Ok(open.container.note_property(self.name(), &now).await?)
    }
}
