//! `esker run`: programs that know only files.
mod locks;
mod program;
mod report;

use crate::open;
use crate::output::Answer;
use clap::Args;
use dfs::{Dfs, MountOptions, NewDfs};
use esker::backend::NewContainer;
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, Wait};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};

/// File name of the interception library.
const LIBRARY: &str = "libesker_preload.so";

/// Run a program that finds a file system of Esker at a path
///
/// The program, and all it starts, see the file system in the container at the mount point. It is not
/// mounted in the kernel: a library in the program (LD_PRELOAD) answers calls of the C library on paths
/// below the mount point; all others go to the system. Nothing needs to be installed or privileged. What
/// is served and what is not is described in docs/semantics.md. A statically linked program is not
/// reached, and a warning says so: use `esker mount` for it.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker run tank/home -- cp -r /data/run1 /esker/
  esker run tank/home --mount /scratch -- bash
  esker run tank/home --report -- python3 train.py /esker/set
  esker run tank/home -- mpirun -n 4 ior -a POSIX -o /esker/ior

Exit status: that of the program, or the signal that killed it (with --report, 128 and its number); 126
where it could not be run, 127 where it was not found.")]
pub(crate) struct Run {
    /// File system: a pool and a container in it, by label, UUID or URL
    #[arg(value_name = "POOL/CONT")]
    source: String,
    /// Where programs see the file system; need not exist
    #[arg(long, value_name = "PATH", default_value = "/esker", env = "ESKER_MOUNT")]
    mount: PathBuf,
    /// Make the container where there is none of this name
    #[arg(long)]
    create: bool,
    /// Refuse every change
    #[arg(long)]
    read_only: bool,
    /// At the end print to standard error what was served, and what was not
    #[arg(long)]
    report: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, last = true)]
    program: Vec<OsString>,
}

impl Run {
    /// Runs the program and ends as it did.
    pub(crate) fn run(self) -> Result<Answer> {
        let (library, mount) = (library()?, self.mount_point()?);
        let (pool, container, locks) = self.check_container()?;
        let (program, arguments) = self.program.split_first().ok_or_else(no_program)?;
        program::warn(program, &mount);
        let dir = RunDir::new()?;
        let mut command = start(program, &mount);
        command.args(arguments).env("LD_PRELOAD", preload(&library));
        command.env("ESKER_MOUNT", &mount).env("ESKER_RUN_DIR", &dir.0);
        command.env("ESKER_POOL", pool).env("ESKER_CONT", container).env("ESKER_LOCKS", locks);
        command.env_remove("ESKER_REPORT").env_remove("ESKER_READ_ONLY");
        if self.read_only {
            command.env("ESKER_READ_ONLY", "1");
        }
        let report = dir.0.join("report");
        if self.report {
            command.env("ESKER_REPORT", &report);
        }
        if !self.report {
            // In place of this process, so that signals reach the program.
            let cause = command.exec();
            return Ok(Answer::ended(not_run(program, &cause)));
        }
        let status = wait(&mut command);
        eprint!("{}", report::read(&report));
        Ok(Answer::ended(match status {
            Ok(status) => code(status),
            Err(cause) => not_run(program, &cause),
        }))
    }

    /// The mount point as programs are to write it: absolute, without detours.
    fn mount_point(&self) -> Result<PathBuf> {
        let plain: PathBuf = self.mount.components().collect();
        let is_good = plain.is_absolute()
            && plain.parent().is_some()
            && !plain.components().any(|part| part == std::path::Component::ParentDir);
        match is_good {
            true => Ok(plain),
            false => Err(Error::new(
                ErrorKind::Invalid,
                format!(
                    "{} cannot be a mount point: it must be an absolute path below /",
                    self.mount.display()
                ),
            )),
        }
    }

    /// Makes sure that there is a file system, so that its lack is told here and not by each program. The
    /// pool, the UUID of the container, and the folder for locks.
    fn check_container(&self) -> Result<(&str, String, PathBuf)> {
        let (name, label) = open::split(&self.source)?;
        let mode = if self.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let pool = Pool::connect(name, mode)?;
        if self.create {
            let new = NewContainer { label: Some(label), ..NewContainer::default() };
            match Dfs::create_container(&pool, &new, &NewDfs::default()) {
                Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
                _ => {}
            }
        }
        let container = pool.open_container(label, mode).wait()?;
        let uuid = container.info().uuid.to_string();
        let options = MountOptions { read_only: self.read_only, ..MountOptions::default() };
        Dfs::mount(container, options)?;
        Ok((name, uuid, locks::folder(&pool)?))
    }
}

/// What the processes of a run share, gone with it or with the next one.
struct RunDir(PathBuf);

/// How the folders begin that are named by the process of a run.
const RUN_DIR: &str = "esker-run-";

impl RunDir {
    fn new() -> Result<Self> {
        let place = shared_place();
        sweep(&place);
        for number in 0.. {
            let dir = place.join(format!("{RUN_DIR}{}-{number}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => return Ok(Self(dir)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(format!("making {}", dir.display()), &error)),
            }
        }
        Err(no_program())
    }
}

/// The folder for what processes share that are not of one pool.
fn shared_place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { PathBuf::from("/tmp") }
}

/// Removes what runs left that are over.
fn sweep(place: &Path) {
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(RUN_DIR));
        let process = rest.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if process.is_some_and(|process| !Path::new(&format!("/proc/{process}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The library: what `ESKER_PRELOAD` names, else beside this program or in the folder of its libraries.
fn library() -> Result<PathBuf> {
    let named = std::env::var_os("ESKER_PRELOAD").map(PathBuf::from);
    let named = named.map(|path| if path.is_dir() { path.join(LIBRARY) } else { path });
    let places = match named {
        Some(path) => vec![path],
        None => {
            let program =
                std::env::current_exe().and_then(std::fs::canonicalize).unwrap_or_default();
            let folder = program.parent().unwrap_or(Path::new(""));
            ["", "deps", "../lib/esker", "../lib"].map(|to| folder.join(to).join(LIBRARY)).into()
        }
    };
    let found = places.iter().find_map(|path| std::fs::canonicalize(path).ok());
    found.ok_or_else(|| {
        let places: Vec<_> = places.iter().map(|path| path.display().to_string()).collect();
        Error::new(
            ErrorKind::NotFound,
            format!(
                "the interception library is not there; looked for {}; set ESKER_PRELOAD to its path",
                places.join(", ")
            ),
        )
    })
}

/// Our library before those that are preloaded anyway.
fn preload(library: &Path) -> OsString {
    let mut value = library.as_os_str().to_owned();
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    if let Some(others) = others.filter(|others| others != library.as_os_str()) {
        value.push(":");
        value.push(others);
    }
    value
}

/// A program in the file system is started by one outside, which sees it.
fn start(program: &OsStr, mount: &Path) -> Command {
    if !Path::new(program).starts_with(mount) {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.arg("--").arg(program);
    command
}

/// Runs the program. What the terminal sends to end it goes to the program as well, which decides.
fn wait(command: &mut Command) -> std::io::Result<ExitStatus> {
    let mut child = command.spawn()?;
    let ignored = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGQUIT] {
        let _ = signal_hook::flag::register(signal, ignored.clone());
    }
    child.wait()
}

fn code(status: ExitStatus) -> ExitCode {
    let killed = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(killed).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

fn not_run(program: &OsStr, cause: &std::io::Error) -> ExitCode {
    eprintln!("esker: cannot run {}: {cause}", program.display());
    match cause.kind() {
        std::io::ErrorKind::NotFound => ExitCode::from(127),
        _ => ExitCode::from(126),
    }
}

fn no_program() -> Error {
    Error::new(ErrorKind::Invalid, "name the program to be run behind --")
}
