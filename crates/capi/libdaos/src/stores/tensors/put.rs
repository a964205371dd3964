//! PUTs of tensors: begun by one process, written by many, committed by one.
use super::attributes::{self, Attr};
use super::{TensorInfo, dimensions};
use crate::abi::{Bytes, Event, Handle, Ptr, Str};
use crate::stores::arguments;
use crate::stores::call::{self, opened};
use crate::stores::failure::Result;
use esker_tensors::{DataType, NewTensor, Put, Strided, TensorStore};
use std::ffi::c_int;

/// `ESKER_UUID_SIZE`: bytes of a UUID as text, with its NUL.
const UUID_SIZE: u64 = 37;

/// Begins a tensor, and stores a handle of its PUT in `put`. Null `chunks` leave the shape of the chunks to the store.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_begin(
    tsh: Handle,
    dtype: Str,
    ndim: u32,
    shape: Ptr<u64>,
    chunks: Ptr<u64>,
    attrs: Ptr<Attr>,
    attr_count: u32,
    put: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let store = opened::<TensorStore>(tsh)?;
        let mut new = described(dtype, ndim, shape)?;
        if !chunks.is_null() {
            new.chunks = Some(dimensions(chunks, ndim, "chunks")?);
        }
        new.attributes = attributes::parse(attrs, attr_count)?;
        arguments::needed(put, "put")?;
        Ok(move || call::open(store.begin(&new)?, put))
    })
}

/// A new tensor with default chunks and no attributes.
fn described(dtype: Str, ndim: u32, shape: Ptr<u64>) -> Result<NewTensor> {
    let data_type = DataType::parse(arguments::text(dtype, "dtype")?)?;
    Ok(NewTensor::new(data_type, &dimensions(shape, ndim, "shape")?))
}

/// Copies the token of a PUT, by which other processes join it.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_token(put: Handle, token: Str) -> c_int {
    call::now(|| {
        let put = opened::<Put>(put)?;
        arguments::give_text(arguments::needed(token, "token")?, UUID_SIZE, &put.token(), "token")
    })
}

/// Opens a PUT that another process has begun.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_join(
    tsh: Handle,
    token: Str,
    put: Ptr<Handle>,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let store = opened::<TensorStore>(tsh)?;
        let token = arguments::text(token, "token")?.to_owned();
        arguments::needed(put, "put")?;
        Ok(move || call::open(store.resume(&token)?, put))
    })
}

/// Describes the tensor of a PUT.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_put_query(put: Handle, info: Ptr<TensorInfo>) -> c_int {
    call::now(|| {
        let put = opened::<Put>(put)?;
        arguments::needed(info, "info")?.set(TensorInfo::from_put(&put)?);
        Ok(())
    })
}

/// Writes the part of a tensor that begins at index `start` and has `count` elements in each dimension.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_write(
    put: Handle,
    ndim: u32,
    start: Ptr<u64>,
    count: Ptr<u64>,
    data: Bytes,
    size: u64,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let put = opened::<Put>(put)?;
        let start = dimensions(start, ndim, "start")?;
        let count = dimensions(count, ndim, "count")?;
        let data = arguments::bytes(data, size, "data")?;
        let part = Strided::contiguous(data, &count, put.data_type()?.size()?)?;
        Ok(move || Ok(put.write(&start, &part)?))
    })
}

/// Makes a tensor visible, by its UUID and, if `name` is not null, by that name.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_commit(put: Handle, name: Str, uuid: Str, ev: Ptr<Event>) -> c_int {
    call::run(ev, || {
        let put = opened::<Put>(put)?;
        let name = arguments::optional_text(name, "name")?.map(str::to_owned);
        Ok(move || {
            let committed = put.commit(name.as_deref())?;
            arguments::give_text(uuid, UUID_SIZE, &committed.to_string(), "uuid")
        })
    })
}

/// Aborts a PUT and frees its elements.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_abort(put: Handle, ev: Ptr<Event>) -> c_int {
    call::run(ev, || {
        let put = opened::<Put>(put)?;
        Ok(move || Ok(put.abort()?))
    })
}

/// Closes the handle of a PUT. The PUT itself continues.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_put_close(put: Handle, ev: Ptr<Event>) -> c_int {
    call::close::<Put>(put, ev)
}

/// Stores a complete tensor, with a name if `name` is not null, and writes its UUID to `uuid`.
#[unsafe(no_mangle)]
pub extern "C" fn esker_tensor_put(
    tsh: Handle,
    dtype: Str,
    ndim: u32,
    shape: Ptr<u64>,
    data: Bytes,
    size: u64,
    name: Str,
    uuid: Str,
    ev: Ptr<Event>,
) -> c_int {
    call::run(ev, || {
        let store = opened::<TensorStore>(tsh)?;
        let new = described(dtype, ndim, shape)?;
        let data = arguments::bytes(data, size, "data")?;
        let whole = Strided::contiguous(data, &new.shape, new.data_type.size()?)?;
        let name = arguments::optional_text(name, "name")?.map(str::to_owned);
        Ok(move || {
            let stored = store.put(&new, &whole, name.as_deref())?;
            arguments::give_text(uuid, UUID_SIZE, &stored.to_string(), "uuid")
        })
    })
}
