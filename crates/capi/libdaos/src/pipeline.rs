//! Pipelines (`daos_pipeline.h`): the records of an object that meet conditions, and aggregations of them. DAOS runs
//! them on the servers. This library runs them in the calling process.
mod expression;
mod parse;
mod run;
mod value;

use crate::abi::{
    Anchor, Event, Handle, Iod, Iov, KeyDesc, Pipeline, PipelineFilter, PipelinePart,
    PipelineStats, Ptr, Sgl,
};
use crate::code::{Code, Result};
use crate::{boundary, handles, memory};
use run::{Arguments, Run};
use std::ffi::c_int;

pub(crate) use value::is_like;

/// Makes an empty pipeline.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pipeline_init(pipeline: Ptr<Pipeline>) {
    pipeline.set(Pipeline {
        version: 1,
        num_filters: 0,
        filters: Ptr::null(),
        num_aggr_filters: 0,
        aggr_filters: Ptr::null(),
    });
}

/// Makes an empty filter.
#[unsafe(no_mangle)]
pub extern "C" fn daos_filter_init(filter: Ptr<PipelineFilter>) {
    let filter_type = Iov { buf: Ptr::null(), buf_len: 0, len: 0 };
    filter.set(PipelineFilter { filter_type, num_parts: 0, parts: Ptr::null() });
}

/// Adds a filter to a pipeline, as a condition or an aggregation by its type. The pipeline keeps the pointer: the
/// caller must neither move nor free the filter while the pipeline is used.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pipeline_add(pipeline: Ptr<Pipeline>, filter: Ptr<PipelineFilter>) -> c_int {
    boundary::always(|| {
        let mut changed = pipeline.get()?;
        let kind = filter.get()?.filter_type;
        let (list, count) = if parse::is_named(&kind, c"DAOS_FILTER_CONDITION")? {
            (&mut changed.filters, &mut changed.num_filters)
        } else if parse::is_named(&kind, c"DAOS_FILTER_AGGREGATION")? {
            (&mut changed.aggr_filters, &mut changed.num_aggr_filters)
        } else {
            return Err(Code::INVAL);
        };
        append(list, count, filter)?;
        pipeline.set(changed);
        Ok(())
    })
}

/// Adds a part to a filter. The filter keeps the pointer: the caller must neither move nor free the part while the
/// filter is used.
#[unsafe(no_mangle)]
pub extern "C" fn daos_filter_add(filter: Ptr<PipelineFilter>, part: Ptr<PipelinePart>) -> c_int {
    boundary::always(|| {
        let mut changed = filter.get()?;
        part.needed()?;
        append(&mut changed.parts, &mut changed.num_parts, part)?;
        filter.set(changed);
        Ok(())
    })
}

/// Appends `last` to a list of `count` items: copies it to memory for one more, and frees the old memory.
fn append<T>(list: &mut Ptr<Ptr<T>>, count: &mut u32, last: Ptr<T>) -> Result<()> {
    let mut items = if *count == 0 { Vec::new() } else { list.list(*count as usize)? };
    items.push(last);
    let longer = memory::copy(&items)?;
    memory::free(std::mem::replace(list, longer));
    *count = u32::try_from(items.len()).map_err(|_| Code::INVAL)?;
    Ok(())
}

/// Checks a pipeline.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pipeline_check(pipeline: Ptr<Pipeline>) -> c_int {
    boundary::always(|| parse::parse(pipeline).map(drop))
}

/// Frees the lists of a pipeline and of its filters.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pipeline_free(pipeline: Ptr<Pipeline>) -> c_int {
    boundary::always(|| {
        let freed = pipeline.get()?;
        free_filters(freed.filters, freed.num_filters)?;
        free_filters(freed.aggr_filters, freed.num_aggr_filters)?;
        daos_pipeline_init(pipeline);
        Ok(())
    })
}

/// Frees the list of filters, and the list of parts of each. The filters and parts themselves belong to the caller.
fn free_filters(list: Ptr<Ptr<PipelineFilter>>, count: u32) -> Result<()> {
    for index in 0..count as usize {
        let at = list.needed()?.at(index).get()?;
        let filter = at.get()?;
        if filter.num_parts > 0 {
            memory::free(filter.parts.needed()?);
            at.set(PipelineFilter { num_parts: 0, parts: Ptr::null(), ..filter });
        }
    }
    memory::free(list);
    Ok(())
}

/// Runs a pipeline over the dkeys of an object.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pipeline_run(
    coh: Handle,
    oh: Handle,
    pipeline: Ptr<Pipeline>,
    th: Handle,
    flags: u64,
    dkey: Ptr<Iov>,
    nr_iods: Ptr<u32>,
    iods: Ptr<Iod>,
    anchor: Ptr<Anchor>,
    nr_kds: Ptr<u32>,
    kds: Ptr<KeyDesc>,
    sgl_keys: Ptr<Sgl>,
    sgl_recx: Ptr<Sgl>,
    recx_size: Ptr<u64>,
    sgl_agg: Ptr<Sgl>,
    stats: Ptr<PipelineStats>,
    ev: Ptr<Event>,
) -> c_int {
    let arguments = Arguments {
        nr_iods,
        iods,
        anchor,
        nr_kds,
        kds,
        keys: sgl_keys,
        values: sgl_recx,
        sizes: recx_size,
        aggregates: sgl_agg,
        stats,
    };
    // A pipeline that is not valid fails the call and leaves the event alone, as in DAOS.
    match daos_pipeline_check(pipeline) {
        0 => boundary::drive(ev, || {
            let parsed = parse::parse(pipeline)?;
            handles::any_container(coh)?;
            let (entry, via) = (handles::entry(oh)?, handles::via(th)?);
            if flags != 0 || !dkey.is_null() {
                return Err(Code::NOTSUPPORTED);
            }
            Ok(async move { Run::new(parsed, arguments)?.run(&entry, via.access()).await })
        }),
        refused => refused,
    }
}
