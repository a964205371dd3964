//! Attributes of pools and containers: names and values that users choose.
use crate::abi::{Bytes, Event, Handle, Ptr, Str};
use crate::boundary;
use crate::code::{Code, Result};
use crate::container::Time;
use crate::container::access::Rights;
use crate::handles::{self, Held, OpenContainer};
use esker::Attributes;
use esker::types::limits::ATTR_VALUE_MAX;
use std::ffi::c_int;

/// `DAOS_ATTR_NAME_MAX`.
const NAME_MAX: usize = 511;
/// Most attributes in one call.
const COUNT_MAX: usize = 1 << 16;

/// The kind of entity that has the attributes.
#[derive(Clone, Copy)]
enum Owner {
    Pool,
    Container,
}

/// The attributes of a pool, or of a container, which stays open for the operation.
struct OpenAttributes {
    attributes: Attributes,
    container: Option<Held<OpenContainer>>,
}

impl Owner {
    /// Returns the attributes of the open pool or container behind `handle`, for reading. A container must grant the
    /// right to read.
    fn readable(self, handle: Handle) -> Result<OpenAttributes> {
        self.open(handle, Rights::require_read)
    }

    /// Returns the attributes behind `handle`, for changes. A container must grant the right to write data; the right
    /// to set properties is not needed.
    fn writable(self, handle: Handle) -> Result<OpenAttributes> {
        self.open(handle, Rights::require_write)
    }

    /// The attributes behind a handle. `require` checks the rights of a container; handles of pools have none.
    fn open(
        self,
        handle: Handle,
        require: impl FnOnce(Rights) -> Result<()>,
    ) -> Result<OpenAttributes> {
        Ok(match self {
            Self::Pool => OpenAttributes {
                attributes: handles::pool(handle)?.pool.attributes(),
                container: None,
            },
            Self::Container => {
                let open = handles::any_container(handle)?;
                require(open.rights)?;
                OpenAttributes { attributes: open.container.attributes(), container: Some(open) }
            }
        })
    }
}

/// Changes attributes: each a name and its new value, or `None` to remove it. Also updates the time of the last change
/// of a container.
async fn change(
    attributes: &Attributes,
    container: Option<&OpenContainer>,
    changes: &[(&str, Option<&[u8]>)],
) -> Result<()> {
    attributes.change(changes).await?;
    if let Some(container) = container {
        Time::Changed.touch(container).await;
    }
    Ok(())
}

/// Converts the number of names that a caller passes: 1 to [`COUNT_MAX`], otherwise `INVAL`.
fn count(n: c_int) -> Result<usize> {
    match usize::try_from(n) {
        Ok(count @ 1..=COUNT_MAX) => Ok(count),
        _ => Err(Code::INVAL),
    }
}

fn names<'a>(names: Ptr<Str>, count: usize) -> Result<Vec<&'a str>> {
    names.list(count)?.into_iter().map(name).collect()
}

/// Reads the name of an attribute: 1 to [`NAME_MAX`] bytes, otherwise `INVAL`.
fn name<'a>(name: Str) -> Result<&'a str> {
    let name = name.text()?;
    match name.len() {
        1..=NAME_MAX => Ok(name),
        _ => Err(Code::INVAL),
    }
}

/// Lists the names of attributes. `size` becomes the length of all names, also if the buffer is too short.
fn list(owner: Owner, handle: Handle, buffer: Str, size: Ptr<u64>, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let open = owner.readable(handle)?;
        Ok(async move {
            let room = if buffer.is_null() { 0 } else { size.get()? };
            size.needed()?;
            let names = open.attributes.list().await?;
            let (listed, len) = listed(names.iter().map(String::as_bytes), room);
            buffer.cast::<std::ffi::c_void>().write(listed.len() as u64)?.copy_from_slice(&listed);
            size.set(len);
            Ok(())
        })
    })
}

/// The names that fit in `room` bytes, each followed by a NUL, and the length of the list of all names.
pub(crate) fn listed<'a>(names: impl Iterator<Item = &'a [u8]>, room: u64) -> (Vec<u8>, u64) {
    let (mut list, mut len) = (Vec::new(), 0);
    for name in names {
        let bytes = name.len() as u64 + 1;
        len += bytes;
        if list.len() as u64 + bytes <= room {
            list.extend_from_slice(name);
            list.push(0);
        }
    }
    (list, len)
}

/// Reads the attributes with the `n` names in `wanted`. Sets each size to that of the value, even if its buffer is too
/// short, and to 0 for a missing attribute. Fails if none of them exists.
fn get(
    owner: Owner,
    handle: Handle,
    n: c_int,
    wanted: Ptr<Str>,
    buffers: Ptr<Bytes>,
    sizes: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let open = owner.readable(handle)?;
        Ok(async move {
            sizes.needed()?;
            let mut exists = false;
            for (index, name) in names(wanted, count(n)?)?.into_iter().enumerate() {
                let buffer =
                    if buffers.is_null() { Ptr::null() } else { buffers.at(index).get()? };
                let value = open.attributes.get(name).await?;
                exists |= value.is_some();
                write(&value.unwrap_or_default(), buffer, sizes.at(index))?;
            }
            if exists { Ok(()) } else { Err(Code::NONEXIST) }
        })
    })
}

/// Writes as much of the value as fits, and its full size.
fn write(value: &[u8], buffer: Bytes, size: Ptr<u64>) -> Result<()> {
    if !buffer.is_null() {
        let fits = (value.len() as u64).min(size.get()?);
        buffer.write(fits)?.copy_from_slice(&value[..fits as usize]);
    }
    size.set(value.len() as u64);
    Ok(())
}

/// Sets the attributes with the `n` names in `wanted`. As in DAOS, their values are not empty.
fn set(
    owner: Owner,
    handle: Handle,
    n: c_int,
    wanted: Ptr<Str>,
    values: Ptr<Bytes>,
    sizes: Ptr<u64>,
    ev: Ptr<Event>,
) -> c_int {
    boundary::drive(ev, || {
        let open = owner.writable(handle)?;
        Ok(async move {
            let count = count(n)?;
            let (values, sizes) = (values.list(count)?, sizes.list(count)?);
            if sizes.contains(&0) {
                return Err(Code::INVAL);
            }
            let values = values.iter().zip(sizes).map(|(value, size)| {
                value.read_at_most(size, ATTR_VALUE_MAX as u64, Code::OVERFLOW)
            });
            let values = values.collect::<Result<Vec<_>>>()?;
            let names = names(wanted, count)?;
            let changes: Vec<_> = names.into_iter().zip(values.into_iter().map(Some)).collect();
            change(&open.attributes, open.container.as_deref(), &changes).await
        })
    })
}

/// Removes the attributes with the `n` names in `wanted`.
fn remove(owner: Owner, handle: Handle, n: c_int, wanted: Ptr<Str>, ev: Ptr<Event>) -> c_int {
    boundary::drive(ev, || {
        let open = owner.writable(handle)?;
        Ok(async move {
            let names = names(wanted, count(n)?)?;
            let changes: Vec<_> = names.into_iter().map(|name| (name, None)).collect();
            change(&open.attributes, open.container.as_deref(), &changes).await
        })
    })
}

/// The four functions for one kind of owner.
macro_rules! functions {
    ($owner:expr, $list:ident, $get:ident, $set:ident, $del:ident) => {
        /// Lists the names of attributes.
        #[unsafe(no_mangle)]
        pub extern "C" fn $list(oh: Handle, buf: Str, size: Ptr<u64>, ev: Ptr<Event>) -> c_int {
            list($owner, oh, buf, size, ev)
        }

        /// Reads the values of attributes.
        #[unsafe(no_mangle)]
        pub extern "C" fn $get(
            oh: Handle,
            n: c_int,
            names: Ptr<Str>,
            buffers: Ptr<Bytes>,
            sizes: Ptr<u64>,
            ev: Ptr<Event>,
        ) -> c_int {
            get($owner, oh, n, names, buffers, sizes, ev)
        }

        /// Sets the values of attributes.
        #[unsafe(no_mangle)]
        pub extern "C" fn $set(
            oh: Handle,
            n: c_int,
            names: Ptr<Str>,
            values: Ptr<Bytes>,
            sizes: Ptr<u64>,
            ev: Ptr<Event>,
        ) -> c_int {
            set($owner, oh, n, names, values, sizes, ev)
        }

        /// Removes attributes.
        #[unsafe(no_mangle)]
        pub extern "C" fn $del(oh: Handle, n: c_int, names: Ptr<Str>, ev: Ptr<Event>) -> c_int {
            remove($owner, oh, n, names, ev)
        }
    };
}

functions!(
    Owner::Pool,
    daos_pool_list_attr,
    daos_pool_get_attr,
    daos_pool_set_attr,
    daos_pool_del_attr
);
functions!(
    Owner::Container,
    daos_cont_list_attr,
    daos_cont_get_attr,
    daos_cont_set_attr,
    daos_cont_del_attr
);
