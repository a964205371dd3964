//! Attributes by paths.
use super::mount::find;
use crate::abi::{DfsSys, Ptr, Str, Timespec};
use crate::dfs::attr::{self, stat_of};
use crate::errno::{self, Errno, Result};
use ::dfs::{Kind, SetAttr, Time};
use std::ffi::c_int;

/// Checks that the user has the permissions in `mask`, the bits of `access(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_access(sys: Ptr<DfsSys>, path: Str, mask: c_int, flags: c_int) -> c_int {
    errno::now(|| {
        if flags & libc::AT_EACCESS != 0 {
            return Err(Errno::NOTSUP);
        }
        match find(sys, path, flags)? {
            // A link itself may always be accessed.
            link if link.kind() == Kind::Symlink => Ok(()),
            node => attr::may(&node, mask),
        }
    })
}

/// Changes permissions.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_chmod(sys: Ptr<DfsSys>, path: Str, mode: libc::mode_t) -> c_int {
    errno::now(|| attr::chmod(&find(sys, path, 0)?, mode))
}

/// Changes owners.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_chown(
    sys: Ptr<DfsSys>,
    path: Str,
    uid: libc::uid_t,
    gid: libc::gid_t,
    flags: c_int,
) -> c_int {
    errno::now(|| attr::chown(&find(sys, path, flags)?, uid, gid))
}

/// Sets attributes.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_setattr(
    sys: Ptr<DfsSys>,
    path: Str,
    stat: Ptr<libc::stat>,
    flags: c_int,
    sflags: c_int,
) -> c_int {
    errno::now(|| {
        let node = find(sys, path, sflags)?;
        let set = attr::wanted(&stat.get()?, flags, node.kind())?;
        stat.set(stat_of(&node.set_attr(&set)?));
        Ok(())
    })
}

/// Converts a time of `utimensat(2)`; `None` leaves the time unchanged.
fn time(time: Timespec) -> Result<Option<Time>> {
    match time.tv_nsec {
        libc::UTIME_NOW => Ok(Some(Time::now())),
        libc::UTIME_OMIT => Ok(None),
        nanos @ 0..1_000_000_000 => Ok(Some(Time { seconds: time.tv_sec, nanos: nanos as u32 })),
        _ => Err(Errno::INVAL),
    }
}

/// Sets the time of modification, the second of `times`. The first is that of access, which is not stored.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_utimens(
    sys: Ptr<DfsSys>,
    path: Str,
    times: Ptr<Timespec>,
    flags: c_int,
) -> c_int {
    errno::now(|| {
        let node = find(sys, path, flags)?;
        let mtime = time(times.needed()?.at(1).get()?)?;
        if mtime.is_some() {
            node.set_attr(&SetAttr { mtime, ..SetAttr::default() })?;
        }
        Ok(())
    })
}

/// Stores the attributes of the node at a path in `stat`.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_sys_stat(
    sys: Ptr<DfsSys>,
    path: Str,
    flags: c_int,
    stat: Ptr<libc::stat>,
) -> c_int {
    errno::now(|| {
        stat.needed()?;
        let node = find(sys, path, flags)?;
        stat.set(stat_of(&node.attr_as_found()?));
        Ok(())
    })
}
