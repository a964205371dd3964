//! Paths in other file systems that refer to containers (`daos_uns.h`). An extended attribute of the path names the
//! container.
use crate::abi::{DfsAttr, DunsAttr, Handle, Ptr, Str, text_of};
use crate::container::access;
use crate::container::properties::{self, Wanted};
use crate::dfs::create;
use crate::errno::{self, Errno, Result};
use crate::property::Value;
use crate::property::table::{CO_LAYOUT_TYPE, CONTAINER};
use crate::{handles, memory};
use esker::types::info::{ContainerInfo, OpenMode};
use esker::types::{ErrorKind, Uuid};
use esker::{Pool, Wait};
use std::ffi::{CString, OsStr, c_int, c_void};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `DUNS_XATTR_NAME`.
const NAME: &std::ffi::CStr = c"user.daos";
/// `DUNS_MAX_XATTR_LEN`.
const VALUE_MAX: usize = 170;

/// Layouts of containers, `DAOS_PROP_CO_LAYOUT_*` from 1 on.
const LAYOUTS: [&str; 8] =
    ["POSIX", "HDF5", "PYTHON", "SPARK", "DATABASE", "ROOT", "SEISMIC", "METEO"];

/// The container that the attribute of a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) layout: u16,
    pub(crate) pool: String,
    pub(crate) container: String,
}

impl Link {
    /// Parses `DAOS.POSIX://POOL/CONTAINER`, up to the first NUL.
    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let end = value.iter().position(|byte| *byte == 0).unwrap_or(value.len());
        let text = std::str::from_utf8(value.get(..end)?).ok()?;
        let (layout, rest) = text.strip_prefix("DAOS.")?.split_once("://")?;
        let index = LAYOUTS.iter().position(|name| *name == layout)?;
        let (pool, container) = rest.split_once('/')?;
        let named = |name: &str| !name.is_empty() && !name.contains('/') && name.len() < 128;
        let (pool, container) = (pool.to_owned(), container.to_owned());
        (named(&pool) && named(&container)).then_some(Self {
            layout: index as u16 + 1,
            pool,
            container,
        })
    }

    /// Whether it names this pool, by UUID or label.
    fn names_pool(&self, pool: &Pool) -> Result<bool> {
        let about = pool.info().wait()?;
        Ok(match Uuid::parse(&self.pool) {
            Some(uuid) => about.uuid == uuid,
            None => about.label == self.pool,
        })
    }

    /// The value of the attribute. `None` for an unknown layout.
    fn text(&self) -> Option<String> {
        let layout = LAYOUTS.get(usize::from(self.layout).checked_sub(1)?)?;
        Some(format!("DAOS.{layout}://{}/{}", self.pool, self.container))
    }

    /// Reads the attribute of a path, without following a symlink. `None` if it has none, or the path does not exist.
    pub(crate) fn read_attribute(path: &Path) -> Result<Option<Self>> {
        let mut value = [0u8; VALUE_MAX];
        let path = c_path(path)?;
        let (at, room) = (value.as_mut_ptr().cast::<c_void>(), value.len());
        // SAFETY: all pointers are to variables of this function, with the given lengths.
        let len = unsafe { libc::lgetxattr(path.as_ptr(), NAME.as_ptr(), at, room) };
        match (usize::try_from(len), last_errno()) {
            (Ok(len), _) => Self::parse(&value[..len]).map(Some).ok_or(Errno::INVAL),
            (Err(_), libc::ENODATA | libc::ENOTSUP | libc::ENOENT) => Ok(None),
            (Err(_), libc::ERANGE) => Err(Errno::INVAL),
            (Err(_), errno) => Err(Errno(errno)),
        }
    }

    /// Stores this link to a container in the extended attribute of a path.
    pub(crate) fn put(&self, path: &Path) -> Result<()> {
        let text = self.text().and_then(|text| CString::new(text).ok()).ok_or(Errno::INVAL)?;
        let (path, value) = (c_path(path)?, text.as_bytes_with_nul());
        let (at, len) = (value.as_ptr().cast::<c_void>(), value.len());
        // SAFETY: all pointers are to variables of this function, with the given lengths.
        match unsafe { libc::lsetxattr(path.as_ptr(), NAME.as_ptr(), at, len, 0) } {
            0 => Ok(()),
            _ => Err(Errno(last_errno())),
        }
    }
}

fn c_path(path: &Path) -> Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)
}

fn last_errno() -> i32 {
    std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// `DAOS_PROP_CO_LAYOUT_POSIX`: the path is a directory.
const POSIX: u16 = 1;
/// `DAOS_PROP_CO_LAYOUT_HDF5`: the path is a file.
const HDF5: u16 = 2;

impl From<std::io::Error> for Errno {
    fn from(error: std::io::Error) -> Self {
        Self(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

fn path<'a>(path: Str) -> Result<&'a Path> {
    Ok(Path::new(OsStr::from_bytes(path.bytes()?)))
}

/// Creates the directory or file for a container of this layout, and runs `then`. Removes it again if `then` fails.
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

/// Removes the file or empty directory that stands for a container.
fn remove_entry(path: &Path) -> Result<()> {
    match path.symlink_metadata()?.is_dir() {
        true => Ok(fs::remove_dir(path)?),
        false => Ok(fs::remove_file(path)?),
    }
}

/// The link to a container, by the UUIDs of its pool and itself.
fn link(pool: &Pool, layout: u16, container: &ContainerInfo) -> Result<Link> {
    let (pool, container) = (pool.info().wait()?.uuid.to_string(), container.uuid.to_string());
    Ok(Link { layout, pool, container })
}

/// Creates a container and a path that refers to it, and stores the names of both pool and container in `attr`.
#[unsafe(no_mangle)]
pub extern "C" fn duns_create_path(poh: Handle, at: Str, attr: Ptr<DunsAttr>) -> c_int {
    errno::now(|| {
        let (pool, path, wanted) = (handles::pool(poh)?, path(at)?, attr.get()?);
        let link = with_entry(path, wanted.layout, || {
            let made = create_container(&pool.pool, &wanted)?;
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

/// Creates the container for a path, with a file system if its layout is POSIX.
fn create_container(pool: &Pool, wanted: &DunsAttr) -> Result<ContainerInfo> {
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
        // SAFETY: it points to a variable of this function.
        return create::make(pool, None, unsafe { Ptr::new(&raw mut attr) });
    }
    let mut properties = Wanted::read(wanted.props)?;
    properties.set(CO_LAYOUT_TYPE, &Value::Number(wanted.layout.into()))?;
    let metadata = properties.metadata();
    Ok(pool.create_container(&properties.describe(None, &metadata)).wait()?)
}

/// Creates a path that refers to an existing container.
#[unsafe(no_mangle)]
pub extern "C" fn duns_link_cont(poh: Handle, cont: Str, at: Str) -> c_int {
    errno::now(|| {
        let (pool, path) = (handles::pool(poh)?, path(at)?);
        let open = access::open(&pool, cont.text()?, OpenMode::ReadOnly).wait()?;
        let property = CONTAINER.iter().find(|property| property.id == CO_LAYOUT_TYPE);
        let layout = match properties::show(&open, property.ok_or(Errno::INVAL)?).wait()? {
            Value::Number(layout) => u16::try_from(layout).map_err(|_| Errno::INVAL)?,
            _ => return Err(Errno::INVAL),
        };
        let link = link(&pool.pool, layout, open.container.info())?;
        with_entry(path, layout, || link.put(path))
    })
}

/// Destroys a path and the container it refers to.
#[unsafe(no_mangle)]
pub extern "C" fn duns_destroy_path(poh: Handle, at: Str) -> c_int {
    errno::now(|| {
        let (pool, path) = (handles::pool(poh)?, path(at)?);
        // Fails for a missing path, for which `read_attribute` would return `None`.
        path.symlink_metadata()?;
        let link = Link::read_attribute(path)?.ok_or(Errno::NODATA)?;
        // Another pool may have a container of the same label, or none, and then the path would be lost.
        if !link.names_pool(&pool.pool)? {
            return Err(Errno::INVAL);
        }
        // A container that is already gone must not prevent the removal of the path.
        match pool.pool.destroy_container(&link.container, true).wait() {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        remove_entry(path)
    })
}

/// `DUNS_NO_PREFIX`, `DUNS_NO_REVERSE_LOOKUP`, `DUNS_NO_CHECK_PATH`.
const NO_PREFIX: u32 = 1 << 0;
const NO_REVERSE_LOOKUP: u32 = 1 << 1;
const NO_CHECK_PATH: u32 = 1 << 2;

const PREFIX: &[u8] = b"daos:";
/// Longest label or UUID.
const NAME_MAX: usize = 127;

/// The container a path leads to, and the rest of the path.
struct Resolved {
    link: Link,
    /// Starts with a slash, or is empty.
    rest: Vec<u8>,
}

impl Resolved {
    /// Stores the result of resolving a path in the caller's structure: pool, container, and the path below the
    /// container.
    fn write(&self, at: Ptr<DunsAttr>) -> Result<()> {
        let attr = at.get()?;
        let rel_path = match self.rest.is_empty() {
            true => Ptr::null(),
            false => memory::string(&self.rest)?,
        };
        at.set(DunsAttr { rel_path, ..with_link(attr, &self.link) });
        Ok(())
    }
}

/// The attributes with the pool and container of a link.
fn with_link(attr: DunsAttr, link: &Link) -> DunsAttr {
    let uuid = |name: &str| Uuid::parse(name).map_or([0; 16], |uuid| uuid.0);
    DunsAttr {
        layout: link.layout,
        pool: text_of(link.pool.as_bytes()),
        cont: text_of(link.container.as_bytes()),
        pool_uuid: uuid(&link.pool),
        cont_uuid: uuid(&link.container),
        ..attr
    }
}

/// Resolves a path to a container.
#[unsafe(no_mangle)]
pub extern "C" fn duns_resolve_path(path: Str, attr: Ptr<DunsAttr>) -> c_int {
    errno::always(|| {
        let (path, wanted) = (path.bytes()?, attr.get()?);
        let bare = wanted.no_prefix != 0 || wanted.flags & (NO_PREFIX | NO_CHECK_PATH) != 0;
        let resolved = match path.strip_prefix(PREFIX) {
            Some(rest) => direct(rest)?,
            None if bare => direct(path)?,
            None => indirect(path, wanted.flags & NO_REVERSE_LOOKUP == 0)?,
        };
        resolved.write(attr)
    })
}

/// Parses `//POOL/CONTAINER/REST`. The container's layout remains unknown.
fn direct(path: &[u8]) -> Result<Resolved> {
    if !path.starts_with(b"/") {
        return Err(Errno::INVAL);
    }
    let start = path.iter().position(|byte| *byte != b'/').ok_or(Errno::INVAL)?;
    let mut parts = path[start..].splitn(3, |byte| *byte == b'/');
    let mut name = || {
        let name = std::str::from_utf8(parts.next().unwrap_or_default()).ok();
        name.filter(|name| name.len() <= NAME_MAX).map(str::to_owned).ok_or(Errno::INVAL)
    };
    let (pool, container) = (name()?, name()?);
    let rest = parts.next().unwrap_or_default();
    let rest = if rest.is_empty() { Vec::new() } else { [b"/", rest].concat() };
    Ok(Resolved { link: Link { layout: 0, pool, container }, rest })
}

/// Looks for the attribute at the path, and with `upwards` also at the directories above it.
fn indirect(path: &[u8], upwards: bool) -> Result<Resolved> {
    let path = Path::new(OsStr::from_bytes(path)).canonicalize()?;
    for above in path.ancestors() {
        if let Some(link) = Link::read_attribute(above)? {
            let rest = path.strip_prefix(above).map_or(&[][..], |rest| rest.as_os_str().as_bytes());
            let rest = if rest.is_empty() { Vec::new() } else { [b"/", rest].concat() };
            return Ok(Resolved { link, rest });
        }
        if !upwards {
            break;
        }
    }
    Err(Errno::NODATA)
}

/// Parses the value of the extended attribute.
#[unsafe(no_mangle)]
pub extern "C" fn duns_parse_attr(text: Str, len: u64, attr: Ptr<DunsAttr>) -> c_int {
    errno::always(|| {
        let before = attr.get()?;
        let link = Link::parse(text.needed()?.cast::<std::ffi::c_void>().read(len)?);
        attr.set(with_link(before, &link.ok_or(Errno::INVAL)?));
        Ok(())
    })
}

/// Sets the name of the system.
#[unsafe(no_mangle)]
pub extern "C" fn duns_set_sys_name(attr: Ptr<DunsAttr>, system: Str) -> c_int {
    errno::always(|| {
        let before = attr.get()?;
        attr.set(DunsAttr { sys: memory::string(system.bytes()?)?, ..before });
        Ok(())
    })
}

/// Frees the memory that the library allocated for attributes.
#[unsafe(no_mangle)]
pub extern "C" fn duns_destroy_attr(attr: Ptr<DunsAttr>) {
    errno::always(|| {
        let before = attr.get()?;
        memory::free(before.sys);
        memory::free(before.rel_path);
        attr.set(DunsAttr { sys: Ptr::null(), rel_path: Ptr::null(), ..before });
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_a_round_trip() {
        let (pool, container) = ("tank".to_owned(), "run 1".to_owned());
        for layout in 1..=8 {
            let link = Link { layout, pool: pool.clone(), container: container.clone() };
            assert_eq!(Link::parse(link.text().unwrap().as_bytes()), Some(link));
        }
        assert_eq!(
            Link { layout: 9, pool: pool.clone(), container: container.clone() }.text(),
            None
        );
        assert_eq!(Link { layout: 0, pool, container }.text(), None);
        assert!(Link::parse(b"DAOS.HDF5://p/c\0\0").is_some());
    }

    #[test]
    fn malformed_attributes_are_rejected() {
        for value in [
            "",
            "DAOS",
            "DAOS.POSIX",
            "DAOS.POSIX://p",
            "DAOS.posix://p/c",
            "DAOS.POSIX:///c",
            "DAOS.POSIX://p/c/d",
        ] {
            assert_eq!(Link::parse(value.as_bytes()), None, "{value}");
        }
        assert_eq!(Link::parse(b"DAOS.POSIX://\xff/c"), None);
    }
}
