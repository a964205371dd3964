//! Pools (`daos_pool.h`): connecting, querying, listing and filtering containers.
use crate::abi::{
    ContInfo, Event, Filter, FilterPart, Handle, PoolContInfo, PoolContInfo2, PoolInfo, PoolSpace,
    Prop, Ptr, RankList, RebuildStatus, Space, Str, TargetInfo,
};
use crate::boundary::guard;
use crate::code::{Code, Result};
use crate::container::{self, properties};
use crate::handles::{Entry, OpenPool};
use crate::property::table::{self, POOL, Property};
use crate::property::{Value, rank_list};
use crate::{boundary, convert, event, handles, memory, strict};
use esker::Pool;
use esker::types::info::{self, ContainerInfo, Medium, OpenMode};
use std::ffi::c_int;

/// Connects to a pool by label, UUID or URL. With an event, a thread for blocking work opens the pool.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_connect2(
    pool: Str,
    sys: Str,
    flags: u32,
    poh: Ptr<Handle>,
    about: Ptr<PoolInfo>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        Ok(async move {
            poh.needed()?;
            strict::check_system(if sys.is_null() { "" } else { sys.text()? })?;
            let name = pool.text()?;
            let mode = convert::open_mode(flags)?;
            let pool = event::blocking(move || Ok(OpenPool::connect(name, mode)?)).await?;
            write_info(&pool.pool, about).await?;
            poh.set(handles::open(Entry::Pool(pool))?);
            Ok(())
        })
    })
}

/// Older name of [`daos_pool_connect2`].
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

/// Disconnects from a pool. With an event, a thread for blocking work closes it.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_disconnect(poh: Handle, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let pool = handles::close_pool(poh, |pool| match pool.is_used() {
            true => Err(Code::BUSY),
            false => Ok(()),
        })?;
        Ok(event::drop_blocking(pool))
    })
}

/// `DPI_ENGINES_*`.
const ENABLED: u64 = 0x04;
const DISABLED: u64 = 0x08;
const DEAD: u64 = 0x10;
/// `DRS_NOT_STARTED`.
const NOT_STARTED: i32 = 1;
/// `DAOS_TS_UP_IN`.
const UP_IN: u32 = 4;

/// Space of a target as DAOS reports it. On a disk the index counts as the small fast tier, entry 0. In memory there is
/// one tier; data cannot use the space that is reserved for the index.
fn space(medium: Medium, space: &info::Space) -> Space {
    match medium {
        Medium::Memory | Medium::Other => {
            Space { total: [space.data_total + space.index_total, 0], free: [space.free(), 0] }
        }
        Medium::Block => Space {
            total: [space.index_total, space.data_total],
            free: [space.index_free, space.data_free],
        },
    }
}

/// Space of all targets: sums, and the smallest, largest and mean free space.
fn total(targets: &[Space]) -> PoolSpace {
    let over = |pick: fn(&Space) -> [u64; 2], join: fn(u64, u64) -> u64| {
        let each = targets.iter().map(pick);
        each.reduce(|a, b| [join(a[0], b[0]), join(a[1], b[1])]).unwrap_or_default()
    };
    let free = over(|space| space.free, u64::saturating_add);
    let count = (targets.len() as u64).max(1);
    PoolSpace {
        space: Space { total: over(|space| space.total, u64::saturating_add), free },
        free_min: over(|space| space.free, u64::min),
        free_max: over(|space| space.free, u64::max),
        free_mean: free.map(|bytes| bytes / count),
        ntargets: targets.len() as u32,
        padding: 0,
    }
}

/// Writes all information, regardless of `pi_bits`: callers do not initialise that field.
async fn write_info(pool: &Pool, at: Ptr<PoolInfo>) -> Result<()> {
    if at.is_null() {
        return Ok(());
    }
    let about = pool.info().await?;
    let targets: Vec<_> = about.targets.iter().map(|target| space(about.medium, target)).collect();
    at.set(PoolInfo {
        uuid: about.uuid.0,
        ntargets: targets.len() as u32,
        nnodes: 1,
        ndisabled: 0,
        map_ver: 1,
        leader: 0,
        bits: at.get()?.bits,
        space: total(&targets),
        rebuild_st: RebuildStatus { state: NOT_STARTED, ..Default::default() },
    });
    Ok(())
}

/// Queries a pool.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_query(
    poh: Handle,
    ranks: Ptr<Ptr<RankList>>,
    about: Ptr<PoolInfo>,
    prop: Ptr<Prop>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            write_info(&pool.pool, about).await?;
            let bits = about.get().map_or(ENABLED, |about| about.bits);
            if !ranks.is_null() {
                ranks.set(rank_list(if wants_disabled_ranks(bits) { &[] } else { &[0] })?);
            }
            for (at, property) in properties::requested(prop, &POOL)? {
                get(&pool.pool, property).await?.write(at)?;
            }
            Ok(())
        })
    })
}

/// Whether the caller asks for the ranks out of service and not for those in service.
fn wants_disabled_ranks(bits: u64) -> bool {
    bits & (DISABLED | DEAD) != 0 && bits & ENABLED == 0
}

/// Returns the stored value of a pool's property, or its default if none is stored or the stored bytes are not valid.
async fn get(pool: &Pool, property: &Property) -> Result<Value> {
    if property.id == table::PO_LABEL {
        return Ok(Value::Text(pool.info().await?.label));
    }
    let kept = pool.properties().get(property.name).await?;
    let kept = kept.and_then(|bytes| Value::from_bytes(property.sort, bytes));
    kept.map_or_else(|| properties::default(property), Ok)
}

/// Queries a target.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_query_target(
    poh: Handle,
    target: u32,
    rank: u32,
    at: Ptr<TargetInfo>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            at.needed()?;
            let about = pool.pool.info().await?;
            let known = about.targets.get(target as usize).filter(|_| rank == 0);
            let space = space(about.medium, known.ok_or(Code::NONEXIST)?);
            at.set(TargetInfo { padding: 0, state: UP_IN, perf: 0, space });
            Ok(())
        })
    })
}

/// Converts the information about a container to an entry of a list of C. A label of more than 127 bytes is cut.
fn listed(about: &ContainerInfo) -> PoolContInfo {
    let mut info = PoolContInfo { uuid: about.uuid.0, label: [0; 128] };
    let last = info.label.len() - 1;
    for (cell, byte) in info.label[..last].iter_mut().zip(about.label.bytes()) {
        *cell = byte as _;
    }
    info
}

/// Copies entries to a list of C with room for `count`, which becomes their number. `TRUNC` if they do not fit; a null
/// list only counts.
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
    boundary::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            count.needed()?;
            let all: Vec<_> = pool.pool.containers().await?.iter().map(listed).collect();
            put(&all, count, list)
        })
    })
}

/// Lists the containers that match a filter.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_filter_cont(
    poh: Handle,
    filter: Ptr<Filter>,
    count: Ptr<u64>,
    list: Ptr<PoolContInfo2>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            count.needed()?;
            let filter = ContainerFilter::read(filter)?;
            let mut found = Vec::new();
            for about in pool.pool.containers().await? {
                let described = described(&pool.pool, &about).await?;
                found.extend(described.filter(|info| filter.matches(&info.cinfo)));
            }
            put(&found, count, list)
        })
    })
}

/// Returns information about a container. None if it was destroyed since it was listed.
async fn described(pool: &Pool, about: &ContainerInfo) -> Result<Option<PoolContInfo2>> {
    let cinfo = match queried(pool, about).await {
        Ok(cinfo) => ContInfo { nhandles: about.handles, ..cinfo },
        Err(Code::NONEXIST | Code::NO_HDL) => return Ok(None),
        // It is open for exclusive use.
        Err(Code::BUSY) => without_opening(about),
        Err(code) => return Err(code),
    };
    Ok(Some(PoolContInfo2 { id: listed(about), cinfo, reserved: [Ptr::null(); 2] }))
}

/// Opens a container and returns information about it.
async fn queried(pool: &Pool, about: &ContainerInfo) -> Result<ContInfo> {
    let container = pool.open_container(&about.uuid.to_string(), OpenMode::ReadOnly).await?;
    let queried = container::info_of(&container).await;
    container.close().await?;
    queried
}

/// Information about a container that cannot be opened. Its snapshots and the time of its last open are not known, and it
/// counts as unchanged since its creation.
fn without_opening(about: &ContainerInfo) -> ContInfo {
    let (uuid, nhandles, md_mtime) = (about.uuid.0, about.handles, about.created.0);
    ContInfo { uuid, nhandles, md_mtime, ..ContInfo::default() }
}

/// `DAOS_POOL_CONT_FILTER_MAX_NPARTS`.
const PARTS_MAX: u32 = 8;
/// Most parts that can be added. A listing with more than [`PARTS_MAX`] fails.
const ADDED_MAX: u32 = 1 << 16;
const FUNCTIONS: u32 = 6;
const KEYS: u32 = 4;
const AND: u32 = 0;
const OR: u32 = 1;

/// A validated filter.
struct ContainerFilter {
    /// All parts must hold, not only one.
    all: bool,
    parts: Vec<FilterPart>,
}

impl ContainerFilter {
    /// Reads a filter of containers. A null pointer is a filter that accepts all containers.
    fn read(filter: Ptr<Filter>) -> Result<Self> {
        if filter.is_null() {
            return Ok(Self { all: true, parts: Vec::new() });
        }
        let filter = filter.get()?;
        if filter.combine > OR || filter.nparts > PARTS_MAX {
            return Err(Code::INVAL);
        }
        let parts = filter.parts.list(filter.nparts as usize)?.into_iter().map(Ptr::get);
        let parts = parts.collect::<Result<Vec<_>>>()?;
        match parts.iter().all(is_valid) {
            true => Ok(Self { all: filter.combine == AND, parts }),
            false => Err(Code::INVAL),
        }
    }

    /// True if the filter selects the container.
    fn matches(&self, about: &ContInfo) -> bool {
        let mut results = self.parts.iter().map(|part| holds(part, about));
        match self.all || self.parts.is_empty() {
            true => results.all(|holds| holds),
            false => results.any(|holds| holds),
        }
    }
}

/// Whether the numbers of the comparison and the key are known.
fn is_valid(part: &FilterPart) -> bool {
    part.func < FUNCTIONS && part.key < KEYS
}

/// True if one condition of a filter holds.
fn holds(part: &FilterPart, about: &ContInfo) -> bool {
    // DAOS's numbers of the keys.
    let value = match part.key {
        0 => about.md_otime,
        1 => about.md_mtime,
        2 => u64::from(about.nsnapshots),
        _ => u64::from(about.nhandles),
    };
    // DAOS's numbers of the comparisons.
    match part.func {
        0 => value == part.value,
        1 => value != part.value,
        2 => value < part.value,
        3 => value <= part.value,
        4 => value > part.value,
        _ => value >= part.value,
    }
}

/// Initialises a filter without parts.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_cont_filter_init(filter: Ptr<Filter>, combine: u32) -> c_int {
    if filter.is_null() || combine > OR {
        return Code::INVAL.0;
    }
    filter.set(Filter { combine, nparts: 0, parts: Ptr::null() });
    0
}

/// Adds a copy of a part to a filter.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_cont_filter_add(filter: Ptr<Filter>, part: Ptr<FilterPart>) -> c_int {
    boundary::always(|| add(filter, part))
}

/// Appends a copy of a condition to a filter of C. `INVAL` if the condition is not valid or the filter has
/// [`ADDED_MAX`] conditions.
fn add(at: Ptr<Filter>, part: Ptr<FilterPart>) -> Result<()> {
    let (filter, part) = (at.get()?, part.get()?);
    if filter.nparts >= ADDED_MAX || !is_valid(&part) {
        return Err(Code::INVAL);
    }
    let mut parts = filter.parts.list(filter.nparts as usize)?;
    parts.push(memory::one(part)?);
    let longer = memory::copy(&parts)?;
    memory::free(filter.parts);
    at.set(Filter { nparts: parts.len() as u32, parts: longer, ..filter });
    Ok(())
}

/// Frees the parts of a filter.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_cont_filter_fini(filter: Ptr<Filter>) {
    guard((), || {
        let Ok(fields) = filter.get() else { return };
        let parts = fields.parts.list(fields.nparts.min(ADDED_MAX) as usize).unwrap_or_default();
        parts.into_iter().for_each(memory::free);
        memory::free(fields.parts);
        filter.set(Filter { nparts: 0, parts: Ptr::null(), ..fields });
    });
}
