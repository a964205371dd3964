//! The file system under test, and those it is compared with.
use super::super::Note;
use super::super::scratch::Scratch;
use super::container::{DfsSubject, OpenContainer};
use super::peer::Peer;
use crate::errors::Doing;
use crate::host::Host;
use crate::posix::FileLocation;
use crate::processes::Launcher;
use crate::report::Settings;
use crate::runner::Runner;
use esker::names::NODE_VARIABLE;
use esker_cli::mounts::{Media, Mount};
use esker_cli::units::rounded;
use esker_types::Result;
use serde_json::{Value, json};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The file system under test.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A directory, by system calls.
    Posix {
        /// The directory; it is created if missing.
        folder: PathBuf,
        /// Remove all files, however the benchmark ends. Otherwise they may belong to earlier or later runs.
        cleared: bool,
    },
    /// A file system in a container, by [`dfs`].
    Dfs(DfsSubject),
}

/// The file systems it is compared with.
#[derive(Clone, Debug, clap::Args)]
pub struct Baselines {
    /// Compare with none.
    #[arg(skip)]
    pub nothing: bool,
    /// Directory in memory for the comparison [default: /dev/shm]
    #[arg(long = "tmpfs", value_name = "DIR")]
    pub memory: Option<PathBuf>,
    /// Directory on a disk for the comparison [default: the directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub disk: Option<PathBuf>,
}

/// One file system.
#[derive(Clone, Debug)]
pub struct FileSystem {
    /// Name in tables.
    pub name: String,
    /// Description.
    pub about: String,
    /// The location of files.
    pub location: FileLocation,
    /// How its processes are started.
    pub launcher: Launcher,
}

/// All file systems of a benchmark; the first is the one under test.
pub struct FileSystems {
    /// In the order in which they alternate.
    pub all: Vec<FileSystem>,
    /// The machine, and the medium of the first.
    pub host: Host,
    /// File systems and programs that were not found.
    pub missing: Vec<String>,
    /// The container mounted through the kernel.
    pub(super) mounted: Option<Mounted>,
    /// The container under test, if it is one.
    pub(super) container: Option<OpenContainer>,
    /// Directories that are removed with this value, after the container.
    scratches: Vec<Scratch>,
}

impl FileSystems {
    /// Creates all that is measured: the directories, the pool and the container, and beside them those for comparison.
    pub fn new(subject: &Subject, beside: &Baselines, note: Note<'_>) -> Result<Self> {
        note("getting ready");
        let mut systems = match subject {
            Subject::Posix { folder, cleared } => Self::of_folder(folder, *cleared)?,
            Subject::Dfs(subject) => Self::of_container(subject, note)?,
        };
        if !beside.nothing {
            let (memory, disk) = (beside.memory.clone(), beside.disk.clone());
            systems.add(memory.or_else(memory_folder), "in memory", "--tmpfs")?;
            systems.add(disk.or_else(disk_folder), "on a disk", "--disk")?;
        }
        Ok(systems)
    }

    /// Begins the list with a folder of a file system. With `cleared`, files go to a new folder in it that is removed
    /// at the end.
    fn of_folder(folder: &Path, cleared: bool) -> Result<Self> {
        std::fs::create_dir_all(folder).doing(|| format!("creating {}", folder.display()))?;
        let scratch = cleared.then(|| Scratch::folder(folder)).transpose()?;
        let folder = scratch.as_ref().map_or(folder, Scratch::path).to_owned();
        Self::new_with(posix_file_system("POSIX", &folder)?, &folder, None, scratch)
    }

    /// Begins the list with the file system in a container, which processes access by the library.
    fn of_container(subject: &DfsSubject, note: Note<'_>) -> Result<Self> {
        let (container, scratch) = OpenContainer::new(subject, note)?;
        let (location, about) = (container.location(), container.about());
        // The processes reach a pool over nodes through its engines, as they would from other nodes.
        let through = subject.nodes.map(|_| (NODE_VARIABLE.to_owned(), "none".to_owned()));
        let mut launcher = Launcher::new()?;
        launcher.variables.extend(through);
        let system = FileSystem { name: "DFS".to_owned(), about, location, launcher };
        let medium = container.medium().to_owned();
        Self::new_with(system, &medium, Some(container), scratch)
    }

    /// A list with the file system under test only. `medium` is a directory on its medium.
    fn new_with(
        first: FileSystem,
        medium: &Path,
        container: Option<OpenContainer>,
        scratch: Option<Scratch>,
    ) -> Result<Self> {
        Ok(Self {
            all: vec![first],
            host: Host::for_folder(medium)?,
            missing: Vec::new(),
            mounted: None,
            container,
            scratches: scratch.into_iter().collect(),
        })
    }

    /// Settings of a report: `options`, and whether the pool of the first system has a write buffer.
    pub(super) fn settings(&self, seed: u64, options: &Value) -> Settings {
        let mut settings = Settings::new(seed, options.clone());
        if let Some(has_buffer) = self.container.as_ref().and_then(OpenContainer::write_buffer) {
            settings.options.insert("write_buffer".to_owned(), json!(has_buffer));
        }
        if let Some(start_s) = self.container.as_ref().and_then(OpenContainer::start_s) {
            settings.options.insert("start_s".to_owned(), json!(rounded(start_s)));
        }
        settings
    }

    /// Used bytes of the index of the first system's pool; none if it has no pool.
    pub fn index_bytes(&self) -> Option<u64> {
        self.container.as_ref().and_then(OpenContainer::index_bytes)
    }

    /// Adds the file system of `folder`. For `None`, notes that no file system `medium` was found, and the option that
    /// names one.
    fn add(&mut self, folder: Option<PathBuf>, medium: &str, option: &str) -> Result<()> {
        match folder {
            Some(folder) => self.add_folder(&folder),
            None => {
                self.missing.push(format!("no file system {medium} was found: give {option}"));
                Ok(())
            }
        }
    }

    /// Adds the file system of another project, if one is given.
    pub(super) fn add_peer(&mut self, peer: &Peer) -> Result<()> {
        self.all.extend(peer.file_system(&self.all)?);
        Ok(())
    }

    /// Adds a new directory in `within`, named by the type of the file system.
    fn add_folder(&mut self, within: &Path) -> Result<()> {
        let scratch = Scratch::for_plain_files(within)?;
        let mut name = Mount::for_path(within)?.fs_type;
        if self.all.iter().any(|system| system.name == name) {
            name.push_str("-2");
        }
        self.all.push(posix_file_system(&name, scratch.path())?);
        self.scratches.push(scratch);
        Ok(())
    }
}

/// A folder of a mounted file system.
fn posix_file_system(name: &str, folder: &Path) -> Result<FileSystem> {
    let mount = Mount::for_path(folder)?;
    Ok(FileSystem {
        name: name.to_owned(),
        about: format!("{} ({}, {})", folder.display(), mount.fs_type, mount.media().name()),
        location: FileLocation::Posix { folder: folder.to_owned() },
        launcher: Launcher::new()?,
    })
}

/// `/dev/shm`, if it is in memory and writable.
fn memory_folder() -> Option<PathBuf> {
    let usual = Path::new("/dev/shm");
    is_on_medium(usual, Media::Memory).then(|| usual.to_owned())
}

/// The directory for temporary files if it is on a disk, else the current directory.
fn disk_folder() -> Option<PathBuf> {
    let here = std::env::current_dir().ok();
    let candidates = [Some(std::env::temp_dir()), Some("/var/tmp".into()), here];
    candidates.into_iter().flatten().find(|folder| is_on_medium(folder, Media::Block))
}

/// A directory on the other medium: on a disk if `folder` is in memory, otherwise in memory. `None` if the machine has
/// no such medium.
pub(crate) fn second_medium(folder: &Path) -> Option<PathBuf> {
    if is_on_medium(folder, Media::Memory) { disk_folder() } else { memory_folder() }
}

/// True if a directory is on this kind of medium and writable.
fn is_on_medium(folder: &Path, media: Media) -> bool {
    let writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    writable && Mount::for_path(folder).is_ok_and(|mount| mount.media() == media)
}

/// Path of the container in intercepted processes.
const INTERCEPTED_PATH: &str = "/esker";

/// A mount that is removed when this value is dropped.
pub(super) struct Mounted {
    runner: Runner,
    dir: PathBuf,
}

impl Drop for Mounted {
    fn drop(&mut self) {
        self.runner.undo(&["umount", &self.dir.display().to_string()]);
        let _ = std::fs::remove_dir(&self.dir);
    }
}

impl FileSystems {
    /// Adds the container through the interception library and, if `mounted`, through a mount, started as the first
    /// system is. If either does not work here, it is reported as missing.
    pub(super) fn add_programs(&mut self, mounted: bool) {
        let launcher = self.all.first().map(|system| system.launcher.clone());
        let container = self.container.as_ref().map(OpenContainer::names);
        let Some((launcher, (pool, container))) = launcher.zip(container) else { return };
        let source = format!("{pool}/{container}");
        let run = self.add_run(&source, &launcher);
        let mount = if mounted { self.add_mount(&source, launcher) } else { Ok(()) };
        for (program, added) in [("run", run), ("mount", mount)] {
            if let Err(error) = added {
                self.missing.push(format!("esker {program} is not measured: {error}"));
            }
        }
    }

    /// Adds the container as `esker run` shows it to programs.
    fn add_run(&mut self, source: &str, launcher: &Launcher) -> Result<()> {
        let run = ["run", source, "--mount", INTERCEPTED_PATH, "--"];
        let runner = Runner::new(PathBuf::new(), launcher.variables.clone())?;
        let esker = runner.program.display().to_string();
        // Fails if the interception library does not work here.
        runner.run(&[&run[..], &[&esker, "--version"]].concat())?;
        let mut worker: Vec<OsString> = run.iter().map(OsString::from).collect();
        worker.push(launcher.program.clone().into());
        worker.extend(launcher.worker.iter().cloned());
        self.all.push(FileSystem {
            name: "run".to_owned(),
            about: format!("the same container through esker run, at {INTERCEPTED_PATH}"),
            location: FileLocation::Posix { folder: Path::new(INTERCEPTED_PATH).join("run") },
            launcher: Launcher { program: runner.program, worker, ..launcher.clone() },
        });
        Ok(())
    }

    /// Adds the container as `esker mount` mounts it.
    fn add_mount(&mut self, source: &str, launcher: Launcher) -> Result<()> {
        let dir = std::env::temp_dir().join(format!("esker-bench-mount-{}", std::process::id()));
        std::fs::create_dir(&dir).doing(|| format!("creating {}", dir.display()))?;
        let at = dir.display().to_string();
        let runner = Runner::new(PathBuf::new(), launcher.variables.clone())?;
        let mounted = Mounted { runner, dir };
        mounted.runner.run(&["mount", source, &at])?;
        self.all.push(FileSystem {
            name: "mount".to_owned(),
            about: format!("the same container through esker mount, at {at}"),
            location: FileLocation::Posix { folder: mounted.dir.join("mount") },
            launcher,
        });
        self.mounted = Some(mounted);
        Ok(())
    }
}
