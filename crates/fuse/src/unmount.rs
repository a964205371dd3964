//! Unmounting, whether or not the server is alive.
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

/// Extended attribute of a mount's root that holds the process id of its server, in decimal.
pub(crate) const SERVER_ATTRIBUTE: &str = "esker.pid";

/// Condition for the removal of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Now; fails if it is in use.
    Unused,
    /// Lazily: detached now, and gone once programs close the files that they have open there.
    Closed,
}

/// Unmounts the FUSE file system on `dir`. Cached writes are stored first, and with [`When::Unused`] the server has
/// ended when this returns. Removes the mount of a dead server as well.
///
/// # Errors
/// [`ErrorKind::NotFound`] if nothing is mounted, [`ErrorKind::Busy`] if it is in use,
/// [`ErrorKind::NoPermission`] if another user mounted it; [`ErrorKind::TimedOut`] if the server
/// does not end.
pub fn unmount(dir: &Path, when: When) -> Result<Mounted> {
    let mounted = Mounted::on(dir)?;
    let server = server_of(&mounted.dir);
    if server.is_some() {
        write_back(&mounted.dir)?;
    }
    detach(&mounted.dir, when)?;
    match server {
        Some(server) if when == When::Unused => wait_for_end(server)?,
        _ => {}
    }
    Ok(mounted)
}

/// Unmounts `dir`. Users other than root may not, so `fusermount3` does it for them.
///
/// # Errors
/// The errors of [`unmount`].
pub(crate) fn detach(dir: &Path, when: When) -> Result<()> {
    let flags = match when {
        When::Unused => UnmountFlags::NOFOLLOW,
        When::Closed => UnmountFlags::NOFOLLOW | UnmountFlags::DETACH,
    };
    match rustix::mount::unmount(dir, flags) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(in_use_error(dir)),
        Err(Errno::PERM) => ask_fusermount(dir, when),
        Err(error) => Err(Error::io(format!("unmounting {}", dir.display()), &error.into())),
    }
}

/// Runs `fusermount3`, which unmounts for users other than root what they mounted.
fn ask_fusermount(dir: &Path, when: When) -> Result<()> {
    let mut command = Command::new("fusermount3");
    command.arg("-u").args((when == When::Closed).then_some("-z")).arg("--").arg(dir);
    let output = command.output().map_err(|error| {
        Error::io("running fusermount3 to unmount (Debian: package fuse3)", &error)
    })?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false if said.contains("busy") => Err(in_use_error(dir)),
        false => {
            let message = format!("unmounting {}: {}", dir.display(), said.trim());
            Err(Error::new(ErrorKind::NoPermission, message))
        }
    }
}

/// The error for a mount on which programs have files open.
#[cold]
fn in_use_error(dir: &Path) -> Error {
    let message = format!(
        "{} is in use: end the programs that have files open there (`fuser -vm` lists them), or unmount with --lazy",
        dir.display()
    );
    Error::new(ErrorKind::Busy, message)
}

/// The server of the mount; `None` if it died, or is not Esker.
fn server_of(dir: &Path) -> Option<Pid> {
    let mut text = [0; 16];
    let len = rustix::fs::getxattr(dir, SERVER_ATTRIBUTE, &mut text).ok()?;
    let number = std::str::from_utf8(text.get(..len)?).ok()?.parse().ok()?;
    Pid::from_raw(number)
}

/// Makes the kernel send its cached writes to the server, and the server store them.
fn write_back(dir: &Path) -> Result<()> {
    let synced = File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|error| Error::io(format!("writing cached data of {}", dir.display()), &error))
}

/// Waits until the server has ended, up to a limit. It is not an error if the server is already gone.
fn wait_for_end(server: Pid) -> Result<()> {
    let Ok(server) = pidfd_open(server, PidfdFlags::empty()) else { return Ok(()) };
    let longest = Timespec { tv_sec: ENDING_MAX.as_secs() as i64, tv_nsec: 0 };
    let mut ends = [PollFd::new(&server, PollFlags::IN)];
    loop {
        match poll(&mut ends, Some(&longest)) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(server_busy_error()),
            _ => return Ok(()),
        }
    }
}

/// The error if the server does not end after the unmount.
#[cold]
fn server_busy_error() -> Error {
    let message = "it is unmounted, but its server is still busy: the pool stays in use until that \
                   process ends";
    Error::new(ErrorKind::TimedOut, message)
}
