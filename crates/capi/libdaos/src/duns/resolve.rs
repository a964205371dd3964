//! From paths to containers.
use super::Link;
use crate::abi::{DunsAttr, Ptr, Str, text_of};
use crate::errno::{self, Errno, Result};
use crate::memory;
use esker::types::Uuid;
use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const NO_PREFIX: u32 = 1 << 0;
const NO_REVERSE_LOOKUP: u32 = 1 << 1;
const NO_CHECK_PATH: u32 = 1 << 2;

const PREFIX: &[u8] = b"daos:";
/// Longest label or UUID.
const NAME_MAX: usize = 127;

/// What a path stands for, and what is left of it.
struct Resolved {
    link: Link,
    /// With a slash before it, or empty.
    rest: Vec<u8>,
}

impl Resolved {
    fn give(&self, at: Ptr<DunsAttr>) -> Result<()> {
        let attr = at.get()?;
        let rel_path = match self.rest.is_empty() {
            true => Ptr::null(),
            false => memory::string(&self.rest)?,
        };
        at.set(DunsAttr { rel_path, ..with_link(attr, &self.link) });
        Ok(())
    }
}

/// The attributes with pool and container of a link.
pub(super) fn with_link(attr: DunsAttr, link: &Link) -> DunsAttr {
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

/// Finds out what a path stands for.
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
        resolved.give(attr)
    })
}

/// Reads `//POOL/CONTAINER/REST`; nothing is known of the container's layout.
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

/// Looks for the attribute at the path, then at the directories above it.
fn indirect(path: &[u8], upwards: bool) -> Result<Resolved> {
    let path = Path::new(OsStr::from_bytes(path)).canonicalize()?;
    for above in path.ancestors() {
        if let Some(link) = Link::of(above)? {
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

/// Reads the value of the extended attribute.
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

/// Frees what the library put into attributes.
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
