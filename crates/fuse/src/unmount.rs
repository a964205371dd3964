//! Taking a mount away, whoever serves it and whether they still do.
use crate::limits::ENDING_MAX;
use crate::table::Mounted;
use esker::types::{Error, ErrorKind, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::File;
use std::path::Path;
use std::process::Command;

/// Name of the attribute of a mount's root that holds the id of the process that serves it, in decimal.
pub(crate) const SERVER_ATTRIBUTE: &str = "esker.pid";

/// When a mount goes away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Now, and not at all where somebody uses it.
    Unused,
    /// From the tree now; those who have files open there go on until they close them.
    Closed,
}

/// Takes away what is mounted through FUSE on `dir`. What is not yet in the store is brought there, and
/// with [`When::Unused`] the serving process has ended when this returns. A mount whose server died is
/// taken away as well.
///
/// # Errors
/// [`ErrorKind::NotFound`] where nothing is mounted, [`ErrorKind::Busy`] where it is in use,
/// [`ErrorKind::NoPermission`] where it is somebody else's; [`ErrorKind::TimedOut`] where the server
/// does not end.
pub fn unmount(dir: &Path, when: When) -> Result<Mounted> {
    let mounted = Mounted::on(dir)?;
    let server = server_of(&mounted.dir);
    if server.is_some() {
        bring_home(&mounted.dir)?;
    }
    detach(&mounted.dir, when)?;
    match server {
        Some(server) if when == When::Unused => wait_for_end(server)?,
        _ => {}
    }
    Ok(mounted)
}

/// Takes a mount out of the tree.
///
/// # Errors
/// As for [`unmount`].
pub(crate) fn detach(dir: &Path, when: When) -> Result<()> {
    let flags = match when {
        When::Unused => UnmountFlags::NOFOLLOW,
        When::Closed => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(dir, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(in_use(dir)),
        Err(Errno::PERM) => ask_fusermount(dir, when),
        Err(error) => Err(Error::io(format!("unmounting {}", dir.display()), &error.into())),
    }
}

/// Only root may unmount; `fusermount3` may, for those who mounted.
fn ask_fusermount(dir: &Path, when: When) -> Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg("-u").args((when == When::Closed).then_some("-z")).arg("--").arg(dir);
    let output = command.output().map_err(|error| {
        Error::io("running fusermount3, which unmounts for users (Debian: package fuse3)", &error)
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(in_use(dir)),
        false => {
            let message = format!("unmounting {}: {}", dir.display(), said.trim());
            Err(Error::new(ErrorKind::NoPermission, message))
        }
    }
}

#[cold]
fn in_use(dir: &Path) -> Error {
    let message = format!(
        "{} is in use: end what has files open there (`fuser -vm` lists it), or unmount with --lazy",
        dir.display()
    );
    Error::new(ErrorKind::Busy, message)
}

/// The process that serves the mount; `None` where it died, or is none of ours.
fn server_of(dir: &Path) -> Option<Pid> {
    let mut text = [0; 16];
    let len = rustix::fs::getxattr(dir, SERVER_ATTRIBUTE, &mut text).ok()?;
    let number = std::str::from_utf8(text.get(..len)?).ok()?.parse().ok()?;
    Pid::from_raw(number)
}

fn bring_home(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| Error::io(format!("writing what {} has not", dir.display()), &error))
}

fn wait_for_end(server: Pid) -> Result<()> {
    let Ok(server) = pidfd_open(server, PidfdFlags::empty()) else { return Ok(()) };
    let longest = Timespec { tv_sec: ENDING_MAX.as_secs() as i64, tv_nsec: 0 };
    let mut ends = [PollFd::new(&server, PollFlags::IN)];
    loop {
        match poll(&mut ends, Some(&longest)) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(still_there()),
            _ => return Ok(()),
        }
    }
}

#[cold]
fn still_there() -> Error {
    let message = "it is unmounted, but the process that served it is still busy: the pool stays in \
                   use until that has ended";
    Error::new(ErrorKind::TimedOut, message)
}
