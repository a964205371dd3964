//! Tensors (`esker.h`): immutable arrays of n dimensions.
mod attributes;
mod info;
mod put;

pub use attributes::{Attr, esker_tensor_attribute, esker_tensor_attribute_name};
pub use info::TensorInfo;
pub use put::{
    esker_tensor_abort, esker_tensor_begin, esker_tensor_commit, esker_tensor_join,
    esker_tensor_put, esker_tensor_put_close, esker_tensor_put_query, esker_tensor_token,
    esker_tensor_write,
};

use super::arguments;
use super::call::{self, opened};
use super::failure::{Failure, Result};
use super::fields::{CREATE, DOIT};
use crate::abi::{Bytes, Event, Handle, Ptr, Str};
use crate::handles;
use esker::types::Epoch;
use esker_tensors::limits::DIMENSIONS_MAX;
use esker_tensors::{Collected, Listed, Slab, Tensor, TensorStore};
use std::ffi::{c_int, c_uint};
use std::time::Duration;

/// Tensors that a listing found.
pub(crate) struct TensorList(Vec<Listed>);

/// `esker_slab_t`: indexes of one dimension.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlabArgument {
    /// The first index.
    pub start: u64,
    /// The distance of an index to the next.
    pub step: u64,
    /// Number of indexes.
    pub count: u64,
}

impl From<SlabArgument> for Slab {
    fn from(slab: SlabArgument) -> Self {
        Self { start: slab.start, step: slab.step, count: slab.count }
    }
}

/// Reads one entry for each of `ndim` dimensions. `name` is the name of the argument, for errors.
fn dimensions<T: Copy>(entries: Ptr<T>, ndim: u32, name: &str) -> Result<Vec<T>> {
    arguments::list(entries, ndim, DIMENSIONS_MAX, "DIMENSIONS_MAX", name)
}

/// Opens the tensor store of a container.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_store_open(
    coh: Handle,
    flags: c_uint,
    tsh: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        arguments::flags(flags, CREATE)?;
        arguments::needed(tsh, "tsh")?;
        let container = handles::container(coh)?.container.clone();
        Ok(move || {
            let store = match flags & CREATE {
                0 => TensorStore::open_in(container)?,
                _ => TensorStore::open_or_create_in(container)?,
            };
            call::open(store, tsh)
        })
    })
}

/// Opens a tensor store in the state of a snapshot of its container.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_store_at(
    tsh: Handle,
    epoch: u64,
    snapshot: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let store = opened::<TensorStore>(tsh)?;
        arguments::needed(snapshot, "snapshot")?;
        Ok(move || call::open(store.at(Epoch(epoch))?, snapshot))
    })
}

/// Closes a tensor store.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_store_close(tsh: Handle, ev: Ptr<Event>) -> c_int {
    call::close::<TensorStore>(tsh, ev)
}

/// Opens a tensor by its name or UUID.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_open(
    tsh: Handle,
    name: Str,
    th: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let store = opened::<TensorStore>(tsh)?;
        let name = arguments::text(name, "name")?.to_owned();
        arguments::needed(th, "th")?;
        Ok(move || call::open(store.open_tensor(&name)?, th))
    })
}

/// Closes a tensor.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_close(th: Handle, ev: Ptr<Event>) -> c_int {
    call::close::<Tensor>(th, ev)
}

/// Describes an open tensor.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_query(th: Handle, info: Ptr<TensorInfo>) -> c_int {
    call::now(|| {
        let tensor = opened::<Tensor>(th)?;
        arguments::needed(info, "info")?.set(TensorInfo::from_tensor(&tensor)?);
        Ok(())
    })
}

/// Reads a tensor, or a selection of its elements.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_get(
    th: Handle,
    slabs: Ptr<SlabArgument>,
    ndim: u32,
    buf: Bytes,
    size: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let tensor = opened::<Tensor>(th)?;
        let slabs = selection(&tensor, slabs, ndim)?;
        arguments::needed(size, "size")?;
        Ok(move || {
            let bytes = tensor.bytes_of(&slabs)? as u64;
            arguments::fill(buf, size, bytes, |room| Ok(tensor.read(&slabs, room)?))
        })
    })
}

/// The selected elements, one slab for each dimension; all elements if `slabs` is null and `ndim` is 0.
fn selection(tensor: &Tensor, slabs: Ptr<SlabArgument>, ndim: u32) -> Result<Vec<Slab>> {
    if !slabs.is_null() || ndim > 0 {
        let slabs = dimensions(slabs, ndim, "slabs")?;
        return Ok(slabs.into_iter().map(Slab::from).collect());
    }
    Ok(Slab::whole(tensor.grid().shape()))
}

/// Lists the visible tensors of a store.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_list(
    tsh: Handle,
    list: Ptr<Handle>,
    count: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let store = opened::<TensorStore>(tsh)?;
        arguments::needed(list, "list")?;
        Ok(move || {
            let found = store.list()?;
            let number = found.len() as u64;
            call::open(TensorList(found), list)?;
            count.set(number);
            Ok(())
        })
    })
}

/// Describes a tensor of a list.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_entry(list: Handle, index: u64, info: Ptr<TensorInfo>) -> c_int {
    call::now(|| {
        let listed = opened::<TensorList>(list)?;
        let entry = usize::try_from(index).ok().and_then(|index| listed.0.get(index));
        let entry = entry.ok_or_else(|| {
            Failure::invalid(format!("tensor {index} of a list of {}", listed.0.len()))
        })?;
        arguments::needed(info, "info")?.set(TensorInfo::from_listed(entry)?);
        Ok(())
    })
}

/// Closes a list.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_list_close(list: Handle, ev: Ptr<Event>) -> c_int {
    call::close::<TensorList>(list, ev)
}

/// Removes a tensor.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_remove(tsh: Handle, name: Str, ev: Ptr<Event>) -> c_int {
    call::run(ev, || {
        let store = opened::<TensorStore>(tsh)?;
        let name = arguments::text(name, "name")?.to_owned();
        Ok(move || {
            store.remove(&name)?;
            Ok(())
        })
    })
}

/// Gives a tensor another name.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_rename(tsh: Handle, from: Str, to: Str, ev: Ptr<Event>) -> c_int {
    call::run(ev, || {
        let store = opened::<TensorStore>(tsh)?;
        let from = arguments::text(from, "from")?.to_owned();
        let to = arguments::text(to, "to")?.to_owned();
        Ok(move || Ok(store.rename(&from, &to)?))
    })
}

/// `esker_tensor_collected_t`: tensors and objects that a collection freed, or would free.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CollectedCounts {
    /// PUTs that were never committed.
    pub puts: u64,
    /// Tensors that were removed or replaced.
    pub removed: u64,
    /// Objects that belong to no tensor.
    pub objects: u64,
    /// PUTs and removed tensors that stay: they are too young, or a process reads them.
    pub kept: u64,
}

impl From<Collected> for CollectedCounts {
    fn from(collected: Collected) -> Self {
        let Collected { puts, removed, objects, kept } = collected;
        Self { puts, removed, objects, kept }
    }
}

/// Frees PUTs that began `age_s` seconds ago or earlier and were never committed, and removed tensors that no process
/// reads. Without `ESKER_DOIT`, only counts them.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_collect(
    tsh: Handle,
    age_s: u64,
    flags: c_uint,
    counts: Ptr<CollectedCounts>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        arguments::flags(flags, DOIT)?;
        let store = opened::<TensorStore>(tsh)?;
        Ok(move || {
            let collected = store.collect(Duration::from_secs(age_s), flags & DOIT != 0)?;
            counts.set(collected.into());
            Ok(())
        })
    })
}
