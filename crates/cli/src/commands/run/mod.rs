//! `esker run`: programs that see a container as files.
mod locks;
mod report;
mod sweep;
mod unshared;

use crate::args::configured;
use crate::open;
use crate::output::{Answer, say};
use crate::programs::on_path;
use clap::Args;
use dfs::{Dfs, MountOptions, NewDfs, PreloadObstacle};
use esker::backend::NewContainer;
use esker::names::{self, Named, POOLS_VARIABLE};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, Result};
use esker::{Pool, PosixUrl};
use rustix::fs::{StatVfs, StatVfsMountFlags, statvfs};
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, ExitStatus};
use sweep::Namespace;

/// File name of the interception library.
const LIBRARY: &str = "libesker_preload.so";

/// Run a program that sees the file system in a container
///
/// The program and its children see the file system at the mount point. The kernel mounts nothing: a library that
/// is preloaded into the program (LD_PRELOAD) serves the C library's calls on paths below the mount point, and
/// passes all other calls on. This requires no installation and no privileges. docs/semantics.md lists which calls are
/// served. The library cannot be loaded into a statically linked program; a warning says so: use `esker mount`.
///
/// A container of tensors (`esker tensor`) is shown too, for reading: each tensor with a name is a file NAME.h5 of
/// HDF5, which is made of its stored chunks while it is read. A `/` in a name makes directories.
#[derive(Args)]
#[command(after_long_help = "Examples:
  esker run tank/home -- cp -r /data/run1 /esker/
  esker run tank/home --mount /scratch -- bash
  esker run tank/home --report -- python3 train.py /esker/set
  esker run tank/home -- mpirun -n 4 ior -a POSIX -o /esker/ior
  esker run tank/tensors -- h5dump -H /esker/t2m.h5

The exit status is that of the program: with --report, 128 plus the number of the signal that killed it; 126 \
if it could not be executed, 127 if it was not found.")]
pub(crate) struct Run {
    /// Container that holds the file system, or tensors
    #[arg(value_name = "POOL/CONT")]
    source: String,
    /// Mount point: the path at which the program sees the file system. It need not exist
    #[arg(long, value_name = "PATH", default_value = configured("mount").unwrap_or("/esker"), env = "ESKER_MOUNT")]
    mount: PathBuf,
    /// Create the container if it does not exist
    #[arg(long)]
    create: bool,
    /// Refuse all changes
    #[arg(long)]
    read_only: bool,
    /// When the program ends, print to standard error which calls were served and which were not
    #[arg(long)]
    report: bool,
    /// Program to run, and its arguments
    #[arg(value_name = "PROGRAM", required = true, trailing_var_arg = true)]
    program: Vec<OsString>,
}

impl Run {
    /// Runs the program, and returns its exit status.
    pub(crate) fn run(self) -> Result<Answer> {
        let (library, mount) = (library()?, self.mount_point()?);
        let (pool, container, locks) = self.check_container()?;
        let (program, arguments) = self.program.split_first().ok_or_else(no_program)?;
        warn_if_unreached(program, &mount);
        let dir = RunDir::new()?;
        unshared::mark(&dir.0);
        let mut command = start(program, &mount);
        command.args(arguments).env("LD_PRELOAD", preload(&library));
        command.env("ESKER_MOUNT", &mount).env("ESKER_RUN_DIR", &dir.0);
        command.env("ESKER_POOL", pool).env("ESKER_CONT", container).env("ESKER_LOCKS", locks);
        command
            .env("ESKER_SOURCE", &self.source)
            .envs(pools().map(|paths| (POOLS_VARIABLE, paths)));
        // An `esker run` around this one may have set these.
        command.env_remove("ESKER_REPORT").env_remove("ESKER_READ_ONLY");
        if self.read_only {
            command.env("ESKER_READ_ONLY", "1");
        }
        let report = dir.0.join("report");
        if self.report {
            command.env("ESKER_REPORT", &report);
        }
        if !self.report {
            // The program replaces this process, so that signals reach it.
            let cause = command.exec();
            return Ok(Answer::ended(not_run(program, &cause)));
        }
        let status = report::wait(&mut command);
        let counted = report::total(&std::fs::read_to_string(&report).unwrap_or_default());
        let _ = std::io::Write::write_all(&mut std::io::stderr(), counted.as_bytes());
        Ok(Answer::ended(match status {
            Ok(status) => code(status),
            Err(cause) => not_run(program, &cause),
        }))
    }

    /// The mount point as an absolute path without `.` and `..`.
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

    /// Checks that the container holds a file system or tensors, so that an error is reported once and not by each
    /// process. Returns the pool, the UUID of the container, and the directory for locks.
    fn check_container(&self) -> Result<(String, String, PathBuf)> {
        let (name, label) = open::split(&self.source)?;
        let mode = if self.read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let pool = Pool::connect(&name, mode)?;
        if self.create {
            let new = NewContainer::named(label);
            match Dfs::create_container(&pool, &new, &NewDfs::default()) {
                Err(error) if error.kind() != ErrorKind::Exists => return Err(error),
                _ => {}
            }
        }
        let options = MountOptions { read_only: self.read_only, ..MountOptions::default() };
        let uuid = esker_tensors::filesystem::mount(&pool, label, options)?
            .container()
            .info()
            .uuid
            .to_string();
        Ok((absolute(&name)?, uuid, locks::folder(&pool)?))
    }
}

/// The name of a pool that leads to it from any working directory.
///
/// # Errors
/// Errors of finding the working directory.
fn absolute(name: &str) -> Result<String> {
    // Other names are not those of paths.
    let Ok(named) = names::resolve(name) else { return Ok(name.to_owned()) };
    let path = std::path::absolute(named.path()).map_err(|cause| {
        Error::io(format_args!("finding the directory of {}", named.path().display()), &cause)
    })?;
    let Some(path) = path.to_str() else { return Ok(name.to_owned()) };
    Ok(match named {
        Named::Posix(PosixUrl { fsync: Some(fsync), .. }) => {
            format!("posix:{path}?fsync={}", if fsync { "on" } else { "off" })
        }
        Named::Nodes(_) => format!("nodes:{path}"),
        // The kind is found again by what is there.
        Named::Native(_) | Named::Posix(_) => format!("esker:{path}"),
    })
}

/// Value of ESKER_POOLS that is valid in any working directory of the program. `None` if the variable is not set, or
/// not a list of paths.
fn pools() -> Option<OsString> {
    let paths = std::env::var_os(POOLS_VARIABLE)?;
    let paths = std::env::split_paths(&paths);
    std::env::join_paths(paths.map(|path| std::path::absolute(&path).unwrap_or(path))).ok()
}

/// A directory that the processes of a run share. It is removed at the end of the run, or by a later one.
struct RunDir(PathBuf);

/// Beginning of the names of these directories; the process ID of the run follows.
const RUN_DIR: &str = "esker-run-";

impl RunDir {
    fn new() -> Result<Self> {
        let place = directory_of_runs();
        sweep::sweep(&place);
        let suffix = Namespace::own().map_or_else(String::new, |namespace| namespace.suffix());
        for number in 0.. {
            let dir = place.join(format!("{RUN_DIR}{}-{number}{suffix}", std::process::id()));
            match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => return Ok(Self(dir)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(Error::io(format!("creating {}", dir.display()), &error)),
            }
        }
        // Not reached: there are more numbers than runs.
        Err(no_program())
    }
}

/// The directory for what processes share outside a pool.
fn shared_place() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.to_owned() } else { PathBuf::from("/tmp") }
}

/// Like [`shared_place`], but a directory from which programs and libraries can be executed.
fn directory_of_runs() -> PathBuf {
    let place = shared_place();
    let is_noexec = |space: StatVfs| space.f_flag.contains(StatVfsMountFlags::NOEXEC);
    let can_execute = !statvfs(&place).is_ok_and(is_noexec);
    if can_execute { place } else { PathBuf::from("/tmp") }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The interception library: the one that `ESKER_PRELOAD` names, or the one next to this program or in the directory of
/// its libraries.
fn library() -> Result<PathBuf> {
    let named = std::env::var_os("ESKER_PRELOAD").filter(|path| !path.is_empty());
    let named = named.map(PathBuf::from);
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
                "the interception library was not found; tried {}: set ESKER_PRELOAD to its path",
                places.join(", ")
            ),
        )
    })
}

/// The value of LD_PRELOAD: the libraries that it names already, which see all calls, such as those that record them;
/// then ours.
fn preload(library: &Path) -> OsString {
    let others = std::env::var_os("LD_PRELOAD").filter(|others| !others.is_empty());
    let Some(mut value) = others.filter(|others| others != library.as_os_str()) else {
        return library.as_os_str().to_owned();
    };
    value.push(":");
    value.push(library);
    value
}

/// A program inside the file system is started by `env`, which sees the file system.
fn start(program: &OsStr, mount: &Path) -> Command {
    if !Path::new(program).starts_with(mount) {
        return Command::new(program);
    }
    let mut command = Command::new("env");
    command.arg("--").arg(program);
    command
}

/// Exit code of the command: that of the program, or 128 and the signal, as in a shell.
fn code(status: ExitStatus) -> ExitCode {
    let killed = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(killed).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Reports that the program could not be executed. Returns the exit status of a shell: 127 if it was not found, else
/// 126.
fn not_run(program: &OsStr, cause: &std::io::Error) -> ExitCode {
    say(Error::io(format_args!("cannot execute {}", program.display()), cause));
    match cause.kind() {
        std::io::ErrorKind::NotFound => ExitCode::from(127),
        _ => ExitCode::from(126),
    }
}

fn no_program() -> Error {
    Error::new(ErrorKind::Invalid, "name the program to run")
}

/// Warns if the library cannot be loaded into the program. The library itself warns about programs that it starts.
fn warn_if_unreached(program: &OsStr, mount: &Path) {
    let Some(path) = find(program).filter(|path| !path.starts_with(mount)) else { return };
    if let Some(why) = PreloadObstacle::find(&path) {
        let (name, mount) = (path.display(), mount.display());
        say(format_args!("warning: {name} {}: it does not see {mount}", why.cause()));
    }
}

/// The file that is executed, found as a shell finds it.
fn find(program: &OsStr) -> Option<PathBuf> {
    let has_slash = program.as_encoded_bytes().contains(&b'/');
    if has_slash { Some(program.into()) } else { on_path(program) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_are_found_from_any_working_directory() {
        let here = std::env::current_dir().unwrap();
        for (name, found) in [
            ("esker:./pools/tank", "esker:HERE/pools/tank"),
            ("esker://pools/tank", "esker:HERE/pools/tank"),
            ("posix:./p", "esker:HERE/p"),
            ("posix:./p?fsync=on", "posix:HERE/p?fsync=on"),
            ("nodes:tank.map", "nodes:HERE/tank.map"),
            ("nodes:/shared/tank.map", "nodes:/shared/tank.map"),
            ("rados:data?conf=c", "rados:data?conf=c"),
            ("memory:m", "memory:m"),
        ] {
            let found = found.replace("HERE", &here.display().to_string());
            assert_eq!(absolute(name).unwrap(), found, "{name}");
        }
    }
}
