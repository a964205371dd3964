//! `esker mount` and `esker umount`: file systems in the kernel.
use crate::args::Flags;
use crate::open;
use crate::output::{Answer, say};
use clap::{Args, ValueEnum};
use dfs::{Dfs, MountOptions};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, Wait};
use esker_fuse::{Cache, Mount, Mounted, Options, Transport, When};
use rustix::stdio;
use serde_json::json;
use std::io::{ErrorKind as IoKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Tells a process that it serves a mount, and that a command waits for it.
const SERVER: &str = "ESKER_MOUNT_SERVER";
/// Byte that the server writes when the mount is ready.
const READY: u8 = b'+';

const ABOUT: &str = "\
Mount a file system for all programs

The container must hold a file system (`esker cont create --type posix`). The command returns when the mount is ready. \
A process in the background serves the mount until `esker umount DIR`, or until it receives SIGTERM. Mounting requires \
/dev/fuse, and fusermount3 (Debian: package fuse3) unless you are root.

`esker run` gives a program the same file system without a mount, and faster. Any number of mounts and processes may use \
it at the same time: a mount sees the changes of others within a second or two, and whenever a file is opened.

A container of tensors (`esker tensor`) can be mounted too, for reading: each tensor with a name is a file NAME.h5 of HDF5, \
which is made of its stored chunks while it is read. A `/` in a name makes directories.

Locks (flock, fcntl) exclude programs on the same mount from each other, but not programs that reach the file system \
another way.";

/// Mount a file system for all programs
#[derive(Args)]
#[command(long_about = ABOUT, after_long_help = "Examples:
  esker cont create tank/home --type posix
  esker mount tank/home ~/mnt
  esker mount tank/home ~/mnt --cache writeback
  esker mount tank/home ~/before --snapshot monday
  esker mount tank/tensors ~/tensors
  esker umount ~/mnt")]
pub(crate) struct MountCommand {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// Container that holds the file system
    #[arg(value_name = "POOL/CONT")]
    source: String,
    /// Directory to mount on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Serve the mount in this process, until it is unmounted or interrupted. A line on standard error
    /// reports when the mount is ready
    #[arg(long)]
    foreground: bool,
    /// Refuse all changes
    #[arg(long)]
    read_only: bool,
    /// Mount this snapshot, given by name or epoch; implies --read-only
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    /// Data that the kernel may cache
    #[arg(long, value_name = "WHAT", value_enum, default_value = "auto")]
    cache: CacheName,
    /// Way in which the kernel sends requests
    #[arg(long, value_name = "WAY", value_enum, default_value = "auto")]
    transport: MountTransport,
    /// Number of threads that serve the kernel [default: one per processor, at least 2]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Admit other users, subject to file modes (requires `user_allow_other` in /etc/fuse.conf)
    #[arg(long)]
    allow_other: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum CacheName {
    /// No data: every read and write goes to the store. Shared writable mappings do not work
    None,
    /// Data that was read or written, until another client changes it. A write that has returned is in
    /// the store
    Auto,
    /// Writes too, until fsync or close: only for files that no other client changes
    Writeback,
}

#[derive(Clone, Copy, ValueEnum)]
enum MountTransport {
    /// io_uring if the kernel has it for FUSE and it is switched on, else the device
    Auto,
    /// /dev/fuse
    Device,
    /// io_uring (Linux 6.14; `echo 1 > /sys/module/fuse/parameters/enable_uring` as root): a request takes a fraction of
    /// the time
    #[value(name = "io_uring")]
    IoUring,
}

/// Unmount a file system
#[derive(Args)]
#[command(
    long_about = "\
Unmount a file system

The command returns when all changes are in the store and the process that served the mount has ended. A mount whose \
server was killed is removed as well: nothing that programs had written is lost, except what \
`--cache writeback` still held.",
    after_long_help = "Example:
  esker umount ~/mnt"
)]
pub(crate) struct Unmount {
    #[command(flatten)]
    pub(crate) flags: Flags,
    /// Directory that the file system is mounted on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Unmount even if it is in use: programs keep the files that they have open
    #[arg(long)]
    lazy: bool,
}

impl MountCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        // The variable is set for the process that `start_server` starts.
        match (std::env::var_os(SERVER).is_some(), self.foreground) {
            (true, _) => self.serve(detach),
            (false, true) => {
                let mounted = format!("{} is mounted on {}", self.source, self.dir.display());
                self.serve(|| {
                    say(&mounted);
                    Ok(())
                })
            }
            (false, false) => self.start_server(),
        }
    }

    /// Serves the mount in this process; calls `ready` when it is ready.
    fn serve(self, ready: impl FnOnce() -> Result<()>) -> Result<Answer> {
        self.refuse_mounted()?;
        let dfs = self.open()?;
        let defaults = Options::default();
        let options = Options {
            source: self.source.clone(),
            cache: self.cache.into(),
            transport: self.transport.into(),
            threads: self.threads.unwrap_or(defaults.threads),
            snapshot: self.snapshot.is_some(),
            allow_other: self.allow_other,
        };
        Mount::new(dfs, &self.dir, &options)?.serve(ready)?;
        Ok(Answer::new(self.response(), ""))
    }

    /// Refuses to cover a mount whose server is alive. The library reports one whose server has died.
    fn refuse_mounted(&self) -> Result<()> {
        let is_alive = std::fs::metadata(&self.dir).is_ok();
        match Mounted::on(&self.dir).ok().filter(|_| is_alive) {
            None => Ok(()),
            Some(Mounted { dir, source }) => {
                let dir = dir.display();
                let message = format!(
                    "{source} is already mounted on {dir}: choose another directory, or unmount it with \
                     `esker umount {dir}`"
                );
                Err(Error::new(ErrorKind::Exists, message))
            }
        }
    }

    /// Opens the file system that is to be mounted.
    fn open(&self) -> Result<Dfs> {
        let (pool, label) = open::split(&self.source)?;
        let read_only = self.read_only || self.snapshot.is_some();
        let mode = if read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let pool = Pool::connect(&pool, mode)?;
        let container = pool.open_container(label, mode).wait()?;
        let snapshot =
            self.snapshot.as_ref().map(|name| container.find_snapshot(name).wait()).transpose()?;
        esker_tensors::filesystem::mount(&pool, label, MountOptions { read_only, snapshot })
    }

    /// Runs this command again as the server, and waits until the mount is ready. Until then the server has our
    /// standard output and standard error, and reports errors itself.
    fn start_server(self) -> Result<Answer> {
        let failed = |error| Error::io("starting the process that serves the mount", &error);
        let (mut here, there) = UnixStream::pair().map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        // The server would hold locks and pipes of the caller until the unmount.
        esker_os::keep_from_programs();
        let mut server = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(SERVER, "1")
            .stdin(Stdio::from(OwnedFd::from(there)))
            .spawn()
            .map_err(failed)?;
        let mut ready = [0];
        match here.read_exact(&mut ready) {
            Ok(()) => Ok(Answer::new(self.response(), "")),
            Err(error) if error.kind() == IoKind::UnexpectedEof => {
                let status = server.wait().map_err(failed)?.code();
                let code = status.and_then(|status| u8::try_from(status).ok());
                Ok(Answer::ended(code.map_or(ExitCode::FAILURE, ExitCode::from)))
            }
            Err(error) => Err(failed(error)),
        }
    }

    fn response(&self) -> serde_json::Value {
        json!({"source": self.source, "dir": self.dir.display().to_string()})
    }
}

impl From<CacheName> for Cache {
    fn from(name: CacheName) -> Self {
        match name {
            CacheName::None => Self::None,
            CacheName::Auto => Self::Auto,
            CacheName::Writeback => Self::Writeback,
        }
    }
}

impl From<MountTransport> for Transport {
    fn from(way: MountTransport) -> Self {
        match way {
            MountTransport::Auto => Self::Auto,
            MountTransport::Device => Self::Device,
            MountTransport::IoUring => Self::IoUring,
        }
    }
}

impl Unmount {
    pub(crate) fn run(self) -> Result<Answer> {
        let when = if self.lazy { When::Closed } else { When::Unused };
        let mounted = esker_fuse::unmount(&self.dir, when)?;
        let response = json!({"source": mounted.source, "dir": mounted.dir.display().to_string()});
        Ok(Answer::new(response, ""))
    }
}

/// Detaches from the terminal, the directory and the output of the caller, and reports that the mount is ready.
fn detach() -> Result<()> {
    let failed = |error: std::io::Error| Error::io("detaching from the terminal", &error);
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    std::env::set_current_dir("/").map_err(failed)?;
    // Standard input is the socket on which `start_server` waits.
    let waiting = stdio::stdin().try_clone_to_owned().map_err(failed)?;
    let nothing =
        std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map_err(failed)?;
    stdio::dup2_stdin(&nothing).map_err(|error| failed(error.into()))?;
    stdio::dup2_stdout(&nothing).map_err(|error| failed(error.into()))?;
    stdio::dup2_stderr(&nothing).map_err(|error| failed(error.into()))?;
    // If the caller was killed meanwhile, the mount stays.
    let _ = UnixStream::from(waiting).write_all(&[READY]);
    Ok(())
}
