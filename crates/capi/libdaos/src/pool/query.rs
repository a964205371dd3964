//! What is told about pools.
use crate::abi::{
    Event, Handle, PoolInfo, PoolSpace, Prop, Ptr, RankList, RebuildStatus, Space, TargetInfo,
};
use crate::code::{Code, Result};
use crate::container::properties;
use crate::property::table::{self, POOL, Property};
use crate::property::value::{Value, rank_list};
use crate::{edge, handles};
use esker::Pool;
use esker::types::info::{self, Medium};
use std::ffi::c_int;

/// `DPI_ENGINES_*`.
const ENABLED: u64 = 0x04;
const DISABLED: u64 = 0x08;
const DEAD: u64 = 0x10;
/// `DRS_NOT_STARTED`.
const NOT_STARTED: i32 = 1;
/// `DAOS_TS_UP_IN`.
const UP_IN: u32 = 4;

/// On a disk the index counts as the small fast part; in memory all is of one kind, of which data cannot have what the
/// index has for itself.
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

/// Tells all there is, whatever `pi_bits` asks for: callers leave it as it comes.
pub(super) async fn tell(pool: &Pool, at: Ptr<PoolInfo>) -> Result<()> {
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

/// Tells about a pool.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_query(
    poh: Handle,
    ranks: Ptr<Ptr<RankList>>,
    about: Ptr<PoolInfo>,
    prop: Ptr<Prop>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
        let pool = handles::pool(poh)?;
        Ok(async move {
            tell(&pool.pool, about).await?;
            let bits = about.get().map_or(ENABLED, |about| about.bits);
            if !ranks.is_null() {
                ranks.set(rank_list(if out_of_service(bits) { &[] } else { &[0] })?);
            }
            for (at, property) in properties::asked(prop, &POOL)? {
                get(&pool.pool, property).await?.give(at)?;
            }
            Ok(())
        })
    })
}

/// Asks for ranks that are out of service and not for those in it.
fn out_of_service(bits: u64) -> bool {
    bits & (DISABLED | DEAD) != 0 && bits & ENABLED == 0
}

async fn get(pool: &Pool, property: &Property) -> Result<Value> {
    if property.id == table::PO_LABEL {
        return Ok(Value::Text(pool.info().await?.label));
    }
    let kept = pool.properties().get(property.name).await?;
    let kept = kept.and_then(|bytes| Value::from_bytes(property.sort, bytes));
    kept.map_or_else(|| properties::default(property), Ok)
}

/// Tells about a target.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_query_target(
    poh: Handle,
    target: u32,
    rank: u32,
    at: Ptr<TargetInfo>,
    ev: Ptr<Event>,
) -> c_int {
    edge::drive(ev, || {
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
