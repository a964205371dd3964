//! Paths that are made to stand for containers.
use super::Link;
use super::resolve::with_link;
use crate::abi::{DfsAttr, DunsAttr, Handle, Ptr, Str};
use crate::container::properties::{self, Wanted};
use crate::dfs::create;
use crate::errno::{self, Errno, Result};
use crate::handles;
use crate::property::table::{CO_LAYOUT_TYPE, CONTAINER};
use crate::property::value::Value;
use esker::types::ErrorKind;
use esker::types::info::{ContainerInfo, OpenMode};
use esker::{Pool, Wait};
use std::ffi::{OsStr, c_int};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `DAOS_PROP_CO_LAYOUT_POSIX`: a directory stands for it.
const POSIX: u16 = 1;
/// `DAOS_PROP_CO_LAYOUT_HDF5`: a file stands for it.
const HDF5: u16 = 2;

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

fn path<'a>(path: Str) -> Result<&'a Path> {
    Ok(Path::new(OsStr::from_bytes(path.bytes()?)))
}

/// Makes what stands for a container of this layout; gone again where `then` fails.
fn with_entry<T>(path: &Path, layout: u16, then: impl FnOnce() -> Result<T>) -> Result<T> {
    match layout {
        POSIX => fs::create_dir(path)?,
        HDF5 => drop(fs::File::create_new(path)?),
        _ => return Err(Errno::INVAL),
    }
    then().inspect_err(|_| {
        let _ = remove_entry(path);
    })
}

fn remove_entry(path: &Path) -> Result<()> {
    match path.symlink_metadata()?.is_dir() {
        true => Ok(fs::remove_dir(path)?),
        false => Ok(fs::remove_file(path)?),
    }
}

fn link(pool: &Pool, layout: u16, container: &ContainerInfo) -> Result<Link> {
    let (pool, container) = (pool.info().wait()?.uuid.to_string(), container.uuid.to_string());
    Ok(Link { layout, pool, container })
}

/// Makes a container and what stands for it.
#[unsafe(no_mangle)]
pub extern "C" fn duns_create_path(poh: Handle, at: Str, attr: Ptr<DunsAttr>) -> c_int {
    errno::now(|| {
        let (pool, path, wanted) = (handles::pool(poh)?, path(at)?, attr.get()?);
        let link = with_entry(path, wanted.layout, || {
            let made = make(&pool.pool, &wanted)?;
            let link = link(&pool.pool, wanted.layout, &made)?;
            link.put(path).inspect_err(|_| {
                drop(pool.pool.destroy_container(&link.container, true).wait());
            })?;
            Ok(link)
        })?;
        attr.set(with_link(wanted, &link));
        Ok(())
    })
}

fn make(pool: &Pool, wanted: &DunsAttr) -> Result<ContainerInfo> {
    if wanted.layout == POSIX {
        let mut attr = DfsAttr {
            id: 0,
            chunk_size: wanted.chunk_size,
            oclass: wanted.oclass,
            props: wanted.props,
            mode: 0,
            dir_oclass: wanted.dir_oclass,
            file_oclass: wanted.file_oclass,
            hints: wanted.hints,
        };
        // SAFETY: it is a variable of this function.
        return create::make(pool, None, unsafe { Ptr::new(&raw mut attr) });
    }
    let mut properties = Wanted::read(wanted.props)?;
    properties.set(CO_LAYOUT_TYPE, &Value::Number(wanted.layout.into()))?;
    let metadata = properties.pairs();
    Ok(pool.create_container(&properties.describe(None, &metadata)).wait()?)
}

/// Makes something stand for a container that is there.
#[unsafe(no_mangle)]
pub extern "C" fn duns_link_cont(poh: Handle, cont: Str, at: Str) -> c_int {
    errno::now(|| {
        let (pool, path) = (handles::pool(poh)?, path(at)?);
        let container = pool.pool.open_container(cont.text()?, OpenMode::ReadOnly).wait()?;
        let property = CONTAINER.iter().find(|property| property.id == CO_LAYOUT_TYPE);
        let layout = match properties::get(&container, property.ok_or(Errno::INVAL)?).wait()? {
            Value::Number(layout) => u16::try_from(layout).map_err(|_| Errno::INVAL)?,
            _ => return Err(Errno::INVAL),
        };
        let link = link(&pool.pool, layout, container.info())?;
        with_entry(path, layout, || link.put(path))
    })
}

/// Removes a path and the container it stands for.
#[unsafe(no_mangle)]
pub extern "C" fn duns_destroy_path(poh: Handle, at: Str) -> c_int {
    errno::now(|| {
        let (pool, path) = (handles::pool(poh)?, path(at)?);
        path.symlink_metadata()?;
        let link = Link::of(path)?.ok_or(Errno::NODATA)?;
        match pool.pool.destroy_container(&link.container, true).wait() {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        remove_entry(path)
    })
}
