//! `esker mount` and `esker umount`.
use crate::args::JsonFlag;
use crate::open;
use crate::output::Answer;
use clap::{Args, ValueEnum};
use dfs::{Dfs, MountOptions};
use esker::types::info::OpenMode;
use esker::types::{Error, Result};
use esker::{Pool, Wait};
use esker_fuse::{Cache, Mount, Options, When};
use rustix::stdio;
use serde_json::json;
use std::io::{ErrorKind as IoKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, ExitCode, Stdio};

/// Says to a process that it is the server of a mount that a command of ours waits for.
const SERVER: &str = "ESKER_MOUNT_SERVER";
/// What the server says when the mount answers.
const READY: u8 = b'+';

const ABOUT: &str = "\
Mount a file system for all programs

The container must hold a file system (`esker cont create --type posix`). The command returns when the mount \
answers; a process of its own goes on serving it, until `esker umount DIR`, or SIGTERM to that process. \
It needs /dev/fuse, and fusermount3 (Debian: package fuse3) where you are not root.

Programs started with `esker run` reach the same file system faster, without this. Both may be used at \
once, by any number of processes and mounts: what others change is seen here within a second or two, \
and when a file is opened.

Locks (flock, fcntl) exclude programs on this mount from each other, not those that reach the file \
system another way.";

/// Mount a file system for all programs
#[derive(Args)]
#[command(long_about = ABOUT, after_long_help = "Examples:
  esker cont create tank home --type posix
  esker mount tank/home ~/mnt
  esker mount tank/home ~/mnt --cache writeback
  esker mount tank/home ~/before --snapshot monday
  esker umount ~/mnt")]
pub(crate) struct MountCommand {
    #[command(flatten)]
    pub(crate) json: JsonFlag,
    /// File system: a pool and a container in it, by label, UUID or URL
    #[arg(value_name = "POOL/CONT")]
    source: String,
    /// Directory to mount on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Serve the mount in this process, until it is unmounted or Ctrl-C; a line on standard error says
    /// when it answers
    #[arg(long)]
    foreground: bool,
    /// Let nothing be changed
    #[arg(long)]
    read_only: bool,
    /// Show the state of this snapshot, by name or epoch; implies --read-only
    #[arg(long, value_name = "SNAPSHOT")]
    snapshot: Option<String>,
    /// What the kernel may keep of files
    #[arg(long, value_name = "WHAT", value_enum, default_value = "auto")]
    cache: CacheName,
    /// Threads that answer the kernel (default: one per processor, at least 2)
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Let other users in, as far as the modes of files do (needs `user_allow_other` in /etc/fuse.conf)
    #[arg(long)]
    allow_other: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum CacheName {
    /// Nothing: every read and write is one of the store. Shared writable mappings do not work
    None,
    /// What was read and written, as long as nobody else changes it; writes are in the store when they
    /// return
    Auto,
    /// Also writes, until fsync or close: for files that are changed through this mount only
    Writeback,
}

/// Take a mount away
#[derive(Args)]
#[command(long_about = "\
Take a mount away

What is not yet in the store is brought there, and the process that served the mount has ended when this \
returns. A mount whose server was killed is taken away as well; nothing that its programs had \
written is lost, but for what `--cache writeback` held back.")]
pub(crate) struct Unmount {
    #[command(flatten)]
    pub(crate) json: JsonFlag,
    /// The directory it is mounted on
    #[arg(value_name = "DIR")]
    dir: PathBuf,
    /// Take it away although it is in use: programs keep the files that they have open
    #[arg(long)]
    lazy: bool,
}

impl MountCommand {
    pub(crate) fn run(self) -> Result<Answer> {
        match (std::env::var_os(SERVER).is_some(), self.foreground) {
            (true, _) => self.serve(detach),
            (false, true) => {
                let answers = format!("{} is mounted on {}", self.source, self.dir.display());
                self.serve(|| {
                    eprintln!("esker: {answers}");
                    Ok(())
                })
            }
            (false, false) => self.start_server(),
        }
    }

    /// Serves the mount here; `ready` is called when it answers.
    fn serve(self, ready: impl FnOnce() -> Result<()>) -> Result<Answer> {
        let dfs = self.open()?;
        let defaults = Options::default();
        let options = Options {
            source: self.source.clone(),
            cache: self.cache.into(),
            threads: self.threads.unwrap_or(defaults.threads),
            snapshot: self.snapshot.is_some(),
            allow_other: self.allow_other,
        };
        Mount::new(dfs, &self.dir, &options)?.serve(ready)?;
        Ok(Answer::new(self.response(), ""))
    }

    fn open(&self) -> Result<Dfs> {
        let (pool, container) = open::split(&self.source)?;
        let read_only = self.read_only || self.snapshot.is_some();
        let mode = if read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let container = Pool::connect(pool, mode)?.open_container(container, mode).wait()?;
        let snapshot =
            self.snapshot.as_ref().map(|name| container.find_snapshot(name).wait()).transpose()?;
        Dfs::mount(container, MountOptions { read_only, snapshot })
    }

    /// Starts this command anew as the server and waits until its mount answers. The server tells of
    /// errors itself: it has our standard output and standard error until then.
    fn start_server(self) -> Result<Answer> {
        let failed = |error| Error::io("starting the process that serves the mount", &error);
        let (mut here, there) = UnixStream::pair().map_err(failed)?;
        let program = std::env::current_exe().map_err(failed)?;
        let mut server = Command::new(program)
            .args(std::env::args_os().skip(1))
            .env(SERVER, "1")
            .stdin(Stdio::from(OwnedFd::from(there)))
            .spawn()
            .map_err(failed)?;
        let mut said = [0];
        match here.read_exact(&mut said) {
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

impl Unmount {
    pub(crate) fn run(self) -> Result<Answer> {
        let when = if self.lazy { When::Closed } else { When::Unused };
        let mounted = esker_fuse::unmount(&self.dir, when)?;
        let response = json!({"source": mounted.source, "dir": mounted.dir.display().to_string()});
        Ok(Answer::new(response, ""))
    }
}

/// Becomes a process of its own: of no terminal, in no directory, without anybody's output. Then says
/// that the mount answers.
fn detach() -> Result<()> {
    let failed = |error: std::io::Error| Error::io("leaving the terminal", &error);
    rustix::process::setsid().map_err(|error| failed(error.into()))?;
    std::env::set_current_dir("/").map_err(failed)?;
    let waiting = stdio::stdin().try_clone_to_owned().map_err(failed)?;
    let nothing =
        std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").map_err(failed)?;
    stdio::dup2_stdin(&nothing).map_err(|error| failed(error.into()))?;
    stdio::dup2_stdout(&nothing).map_err(|error| failed(error.into()))?;
    stdio::dup2_stderr(&nothing).map_err(|error| failed(error.into()))?;
    // Whoever waited may have been killed meanwhile; the mount stays.
    let _ = UnixStream::from(waiting).write_all(&[READY]);
    Ok(())
}
