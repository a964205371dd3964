//! Extended attributes by paths, and targets of symlinks.
use super::mount::find;
use crate::abi::{Bytes, DfsSys, Ptr, Str};
use crate::dfs::xattr::{self, give};
use crate::errno::{self, Errno};
use std::ffi::c_int;

/// Lists the names of attributes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_listxattr(
    sys: Ptr<DfsSys>,
    path: Str,
    list: Str,
    size: Ptr<u64>,
    flags: c_int,
) -> c_int {
    errno::now(|| match xattr::list(&find(sys, path, flags)?, list, size)? {
        true => Ok(()),
        false => Err(Errno::RANGE),
    })
}

/// Reads an attribute.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_getxattr(
    sys: Ptr<DfsSys>,
    path: Str,
    name: Str,
    value: Bytes,
    size: Ptr<u64>,
    flags: c_int,
) -> c_int {
    errno::now(|| {
        let found = find(sys, path, flags)?.get_xattr(xattr::name(name)?)?;
        give(&found, value, size, Errno::RANGE)
    })
}

/// Sets an attribute.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_setxattr(
    sys: Ptr<DfsSys>,
    path: Str,
    name: Str,
    value: Bytes,
    size: u64,
    flags: c_int,
    sflags: c_int,
) -> c_int {
    errno::now(|| xattr::set(&find(sys, path, sflags)?, name, (value, size), flags))
}

/// Removes an attribute.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_removexattr(
    sys: Ptr<DfsSys>,
    path: Str,
    name: Str,
    flags: c_int,
) -> c_int {
    errno::now(|| Ok(find(sys, path, flags)?.remove_xattr(xattr::name(name)?)?))
}

/// Returns the target of a symlink.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_readlink(sys: Ptr<DfsSys>, path: Str, buf: Str, size: Ptr<u64>) -> c_int {
    errno::now(|| xattr::read_link(&find(sys, path, libc::O_NOFOLLOW)?, buf, size))
}
