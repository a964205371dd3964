//! The extended attribute that makes a path stand for a container.
use crate::errno::{Errno, Result};
use std::ffi::{CString, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `DUNS_XATTR_NAME`.
const NAME: &std::ffi::CStr = c"user.daos";
/// `DUNS_MAX_XATTR_LEN`.
const VALUE_MAX: usize = 170;

/// Layouts of containers, `DAOS_PROP_CO_LAYOUT_*` from 1 on.
const LAYOUTS: [&str; 8] =
    ["POSIX", "HDF5", "PYTHON", "SPARK", "DATABASE", "ROOT", "SEISMIC", "METEO"];

/// What a path stands for, as its attribute says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) layout: u16,
    pub(crate) pool: String,
    pub(crate) container: String,
}

impl Link {
    /// Reads `DAOS.POSIX://POOL/CONTAINER`; NULs behind it do not count.
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

    fn text(&self) -> Option<String> {
        let layout = LAYOUTS.get(usize::from(self.layout).checked_sub(1)?)?;
        Some(format!("DAOS.{layout}://{}/{}", self.pool, self.container))
    }

    /// The attribute of a path itself, none where it has none.
    pub(crate) fn of(path: &Path) -> Result<Option<Self>> {
        let mut value = [0u8; VALUE_MAX];
        let path = c_path(path)?;
        let (at, room) = (value.as_mut_ptr().cast::<c_void>(), value.len());
        // SAFETY: all places are of this function and as long as said.
        let len = unsafe { libc::lgetxattr(path.as_ptr(), NAME.as_ptr(), at, room) };
        match (usize::try_from(len), last_errno()) {
            (Ok(len), _) => Self::parse(&value[..len]).map(Some).ok_or(Errno::INVAL),
            (Err(_), libc::ENODATA | libc::ENOTSUP | libc::ENOENT) => Ok(None),
            (Err(_), libc::ERANGE) => Err(Errno::INVAL),
            (Err(_), errno) => Err(Errno(errno)),
        }
    }

    /// Gives a path the attribute.
    pub(crate) fn put(&self, path: &Path) -> Result<()> {
        let text = self.text().and_then(|text| CString::new(text).ok()).ok_or(Errno::INVAL)?;
        let (path, value) = (c_path(path)?, text.as_bytes_with_nul());
        let (at, len) = (value.as_ptr().cast::<c_void>(), value.len());
        // SAFETY: all places are of this function and as long as said.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
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
    fn what_is_no_value_is_none() {
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
