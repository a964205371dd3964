//! A mounted file system, from mounting to unmounting.
use crate::filesystem::Device;
use crate::limits::{READ_AHEAD_BYTES, THREADS_MAX};
use crate::options::{Options, Transport};
use crate::passing::Dropper;
use crate::ring::{Fallback, Layout, Rings, check_ring};
use crate::served::Served;
use crate::spare::Spare;
use crate::unmount::{When, detach};
use dfs::Dfs;
use esker::types::{Error, ErrorKind, Result};
use fuser::{Config, MountOption, Session, SessionACL};
use rustix::io::Errno;
use rustix::process::geteuid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::linux::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// The device through which the kernel sends requests.
const DEVICE: &str = "/dev/fuse";

/// Files and threads that a mount needs besides those that answer the kernel through the device.
const SPARE: usize = 6;

/// A file system mounted on a directory. Dropping it unmounts it.
pub struct Mount {
    session: Session<Device>,
    rings: Option<ToStart>,
    dfs: Dfs,
    dir: PathBuf,
    threads: usize,
}

/// Requests over io_uring, which the kernel has accepted and [`Mount::serve`] starts.
struct ToStart {
    served: Arc<Served>,
    device: OwnedFd,
    layout: Layout,
    fallback: Fallback,
    options: Options,
}

impl Mount {
    /// Mounts `dfs` on `dir`. Requests wait until [`Self::serve`] runs.
    ///
    /// # Errors
    /// [`ErrorKind::Invalid`] for invalid options, [`ErrorKind::NotFound`] if the directory or FUSE does not exist, or
    /// `fusermount3` for a user other than root; errors of the system.
    pub fn new(dfs: Dfs, dir: &Path, options: &Options) -> Result<Self> {
        check(dir, options)?;
        let read_only = dfs.is_read_only();
        let wanted = wanted_rings(options)?;
        let (dropper, to_drop) = Dropper::new();
        let served = Served::new(dfs.clone(), options.cache, options.snapshot, dropper);
        let (served, uses_ring) = (Arc::new(served), Arc::new(AtomicBool::new(false)));
        let device = Device {
            served: Arc::clone(&served),
            ring_payload: wanted.as_ref().map(|(layout, _)| layout.payload_bytes),
            uses_ring: Arc::clone(&uses_ring),
        };
        let session = start(device, dir, &config(options, read_only))?;
        to_drop.start(session.notifier()).map_err(no_thread_error)?;
        // The kernel has answered in `Device::init` whether it uses rings.
        let accepted = wanted.filter(|_| uses_ring.load(Ordering::Relaxed));
        if accepted.is_none() && options.transport == Transport::IoUring {
            return Err(refused());
        }
        let rings = accepted.map(|(layout, fallback)| {
            let device = session.as_fd().try_clone_to_owned();
            let options = options.clone();
            device.map(|device| ToStart { served, device, layout, fallback, options })
        });
        let opening = |error| Error::io("opening the device of the mount again", &error);
        let rings = rings.transpose().map_err(opening)?;
        Ok(Self { session, rings, dfs, dir: absolute(dir)?, threads: options.threads })
    }

    /// Answers the kernel until the file system is unmounted, by any process or because this one receives SIGHUP,
    /// SIGINT or SIGTERM. Calls `ready` once the mount answers. If files are open, the first signal detaches the mount
    /// and waits for them; the second one ends the process.
    ///
    /// # Errors
    /// Errors of `ready`, of the connection to the kernel, and of the final write-back.
    pub fn serve(self, ready: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut rings = None;
        let start_rings = || {
            rings = self.rings.map(ToStart::start).transpose()?.flatten();
            Ok(())
        };
        let served = serve(self.session, (&self.dir, self.threads), start_rings, ready);
        // If the connection failed, the mount may still be there, and its threads do not end.
        if let (Ok(()), Some(rings)) = (&served, rings) {
            rings.join();
        }
        served.and(self.dfs.flush())
    }
}

impl ToStart {
    /// Starts to serve the kernel over io_uring. Returns `None` if that fails and the device will do.
    fn start(self) -> Result<Option<Rings>> {
        let only_uid = (!self.options.allow_other).then(|| geteuid().as_raw());
        match Rings::start(self.served, self.device, &self.layout, only_uid, self.fallback) {
            Ok(rings) => Ok(Some(rings)),
            Err(_) if self.options.transport == Transport::Auto => Ok(None),
            Err(error) => Err(Error::io("serving the kernel over io_uring", &error)),
        }
    }
}

/// The entries to ask the kernel for, and the way back to the device; `None` if the mount will use the device only.
fn wanted_rings(options: &Options) -> Result<Option<(Layout, Fallback)>> {
    match (options.transport, check_ring()) {
        (Transport::Device, _) | (Transport::Auto, Err(_)) => Ok(None),
        (Transport::IoUring, Err(error)) => Err(error),
        (transport, Ok(())) => {
            match Layout::of_machine(options.threads).zip(Fallback::new().ok()) {
                None if transport == Transport::IoUring => Err(refused()),
                wanted => Ok(wanted),
            }
        }
    }
}

#[cold]
fn no_thread_error(error: std::io::Error) -> Error {
    Error::io("starting a thread for the mount", &error)
}

/// The kernel does not serve this mount over io_uring, which the user asked for.
#[cold]
fn refused() -> Error {
    let message = "the kernel cannot serve this mount over io_uring: mount with --transport device";
    Error::new(ErrorKind::NotSupported, message)
}

fn start(device: Device, dir: &Path, config: &Config) -> Result<Session<Device>> {
    Session::new(device, dir, config)
        .map_err(|error| Error::io(format!("mounting on {}", dir.display()), &error))
}

fn absolute(dir: &Path) -> Result<PathBuf> {
    dir.canonicalize().map_err(|error| Error::io(format!("looking for {}", dir.display()), &error))
}

/// Answers the kernel until the file system is unmounted, through the device by `threads` threads. Signals detach it.
/// Calls `ready` once the mount answers.
///
/// `start_rings` may use up all files and threads that this process may have. So the files and threads that serve the
/// device are reserved before the call.
fn serve(
    session: Session<Device>,
    (dir, threads): (&Path, usize),
    start_rings: impl FnOnce() -> Result<()>,
    ready: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let failed = |error| Error::io(format!("serving {}", dir.display()), &error);
    let mut signals = listen().map_err(failed)?;
    let listening = signals.handle();
    let spare = Spare::keep(threads + SPARE).map_err(failed)?;
    start_rings()?;
    drop(spare);
    let session = session.spawn().map_err(failed)?;
    thread::scope(|scope| {
        let on_signals = || signals.forever().for_each(|_| end(dir));
        let listener = thread::Builder::new().spawn_scoped(scope, on_signals);
        // This mount itself answers the request for its root, so then it is ready.
        let root = listener.and_then(|_| std::fs::metadata(dir)).map_err(failed);
        let answered = root.and_then(|root| {
            read_ahead(root.st_dev());
            ready()
        });
        if answered.is_err() {
            end(dir);
        }
        let served = session.join().map_err(failed);
        listening.close();
        answered.and(served)
    })
}

/// Sets the read-ahead of the kernel to the size of one request. Only root may do so; for others the kernel's default
/// stays.
fn read_ahead(device: u64) {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let setting = format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb");
    let _ = std::fs::write(setting, (READ_AHEAD_BYTES / 1024).to_string());
}

/// Checks the number of threads, the directory to mount on, and that the machine has FUSE.
fn check(dir: &Path, options: &Options) -> Result<()> {
    if !(1..=THREADS_MAX).contains(&options.threads) {
        let message =
            format!("{} threads: the number of threads is 1 to {THREADS_MAX}", options.threads);
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    match std::fs::metadata(dir) {
        Ok(found) if !found.is_dir() => {
            let message =
                format!("{} is not a directory: choose a directory to mount on", dir.display());
            return Err(Error::new(ErrorKind::NotDirectory, message));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let message =
                format!("there is no directory {0} to mount on: `mkdir -p {0}`", dir.display());
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Ok(_) => {}
        Err(error) if error.raw_os_error() == Some(Errno::NOTCONN.raw_os_error()) => {
            return Err(stale_mount_error(dir));
        }
        Err(error) => return Err(Error::io(format!("mounting on {}", dir.display()), &error)),
    }
    match Path::new(DEVICE).exists() {
        true => Ok(()),
        false => Err(no_device_error()),
    }
}

/// The error for a directory on which a mount without a server is left.
#[cold]
fn stale_mount_error(dir: &Path) -> Error {
    let dir = dir.display();
    let message =
        format!("{dir} is a mount whose server died: remove it with `esker umount {dir}`");
    Error::new(ErrorKind::Busy, message)
}

/// The error for a machine without FUSE.
#[cold]
fn no_device_error() -> Error {
    let message = format!(
        "this machine has no {DEVICE}: load the kernel module `fuse`, or let the container have the \
         device"
    );
    Error::new(ErrorKind::NotFound, message)
}

/// The mount options in the form of `fuser`.
fn config(options: &Options, read_only: bool) -> Config {
    // A comma would end the option.
    let source = options.source.replace(',', "_");
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(source),
        MountOption::Subtype("esker".to_owned()),
        MountOption::DefaultPermissions,
        MountOption::NoAtime,
    ];
    config.mount_options.extend(read_only.then_some(MountOption::RO));
    config.acl = if options.allow_other { SessionACL::All } else { SessionACL::Owner };
    config.n_threads = Some(options.threads);
    config.clone_fd = true;
    config
}

/// Receives SIGHUP, SIGINT and SIGTERM. The first one sets a flag. A second one finds the flag set and has its default
/// effect, which ends the process.
fn listen() -> std::io::Result<Signals> {
    let signaled = Arc::new(AtomicBool::new(false));
    let signals = [SIGHUP, SIGINT, SIGTERM];
    for signal in signals {
        flag::register_conditional_default(signal, Arc::clone(&signaled))?;
        flag::register(signal, Arc::clone(&signaled))?;
    }
    Signals::new(signals)
}

/// Detaches the mount. If programs have files open there, says so and detaches it lazily: the session then ends when
/// they close them.
fn end(dir: &Path) {
    let left = detach(dir, When::Unused).or_else(|error| match error.kind() {
        ErrorKind::Busy => {
            let _ = writeln!(
                std::io::stderr(),
                "esker: {} is detached, and stays for programs that have files open there",
                dir.display()
            );
            detach(dir, When::Closed)
        }
        _ => Err(error),
    });
    if let Err(error) = left {
        let _ = writeln!(std::io::stderr(), "esker: {error}");
    }
}
