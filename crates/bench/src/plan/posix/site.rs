//! Where the work is done: the file system in question, and those beside it.
use super::super::Note;
use super::super::scratch::Scratch;
use super::container::{DfsSubject, OpenContainer};
use super::through::Mounted;
use crate::fleet::Launcher;
use crate::host::Host;
use crate::mounts::{Media, Mount};
use crate::posix::FilePlace;
use esker_types::{Error, Result};
use std::path::{Path, PathBuf};

/// The file system in question.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A folder, by the calls of the system.
    Posix {
        /// The folder; it is made where it is missing.
        folder: PathBuf,
        /// All that is made is removed, however the benchmark ends. Else what is there may be of an
        /// earlier one, or for a later one.
        cleared: bool,
    },
    /// A file system in a container, by the calls of [`dfs`].
    Dfs(DfsSubject),
}

/// What is measured beside it.
#[derive(Clone, Debug)]
pub struct Beside {
    /// Nothing is.
    pub nothing: bool,
    /// A folder in memory; the usual one where none is given.
    pub memory: Option<PathBuf>,
    /// A folder on the disk; one that is found where none is given.
    pub disk: Option<PathBuf>,
}

/// One file system.
#[derive(Clone, Debug)]
pub struct Site {
    /// What it is called in tables.
    pub name: String,
    /// What it is.
    pub about: String,
    /// Where files are.
    pub place: FilePlace,
    /// How its processes are started.
    pub launcher: Launcher,
}

/// All file systems of a benchmark; the first is the one in question.
pub struct Sites {
    /// In the order in which they take turns.
    pub all: Vec<Site>,
    /// The machine, and the medium of the first.
    pub host: Host,
    /// What was looked for and not found.
    pub missing: Vec<String>,
    /// The container through the kernel.
    pub(super) mounted: Option<Mounted>,
    /// The one in question, where it is one.
    pub(super) container: Option<OpenContainer>,
    /// Folders that go when this does, after the container.
    scratches: Vec<Scratch>,
}

impl Sites {
    /// Makes what has to be there.
    ///
    /// # Errors
    /// Where a folder cannot be made.
    pub fn new(
        launcher: &Launcher,
        subject: &Subject,
        beside: &Beside,
        note: Note<'_>,
    ) -> Result<Self> {
        note("getting ready");
        let mut sites = match subject {
            Subject::Posix { folder, cleared } => Self::of_folder(launcher, folder, *cleared)?,
            Subject::Dfs(subject) => Self::of_container(launcher, subject, note)?,
        };
        if !beside.nothing {
            sites.add_memory(launcher, beside.memory.as_deref())?;
            sites.add_disk(launcher, beside.disk.as_deref())?;
        }
        Ok(sites)
    }

    fn of_folder(launcher: &Launcher, folder: &Path, cleared: bool) -> Result<Self> {
        make(folder)?;
        let scratch = cleared.then(|| Scratch::folder(launcher, folder)).transpose()?;
        let folder = scratch.as_ref().map_or(folder, Scratch::path);
        Ok(Self {
            all: vec![posix_site(launcher, "POSIX", folder)?],
            host: Host::of(folder)?,
            missing: Vec::new(),
            mounted: None,
            container: None,
            scratches: scratch.into_iter().collect(),
        })
    }

    fn of_container(launcher: &Launcher, subject: &DfsSubject, note: Note<'_>) -> Result<Self> {
        let (container, scratch) = OpenContainer::new(launcher, subject, note)?;
        let (place, about) = (container.place(&subject.folder), container.about());
        let site = Site { name: "DFS".to_owned(), about, place, launcher: launcher.clone() };
        Ok(Self {
            all: vec![site],
            host: Host::of(container.medium())?,
            missing: Vec::new(),
            mounted: None,
            container: Some(container),
            scratches: scratch.into_iter().collect(),
        })
    }

    /// Bytes of the index that the pool of the first one uses; none where it has no pool.
    #[must_use]
    pub fn index_bytes(&self) -> Option<u64> {
        self.container.as_ref().and_then(OpenContainer::index_bytes)
    }

    fn add_memory(&mut self, launcher: &Launcher, given: Option<&Path>) -> Result<()> {
        match given.map(Path::to_owned).or_else(memory_folder) {
            Some(folder) => self.add_folder(launcher, &folder),
            None => {
                self.missing.push("no file system in memory was found: give --tmpfs".to_owned());
                Ok(())
            }
        }
    }

    fn add_disk(&mut self, launcher: &Launcher, given: Option<&Path>) -> Result<()> {
        match given.map(Path::to_owned).or_else(disk_folder) {
            Some(folder) => self.add_folder(launcher, &folder),
            None => {
                self.missing.push("no file system on a disk was found: give --disk".to_owned());
                Ok(())
            }
        }
    }

    /// A folder of its own in `within`, called after the type of the file system.
    fn add_folder(&mut self, launcher: &Launcher, within: &Path) -> Result<()> {
        let scratch = Scratch::beside(launcher, within)?;
        let mut name = Mount::of(within)?.sort;
        if self.all.iter().any(|site| site.name == name) {
            name.push_str("-2");
        }
        self.all.push(posix_site(launcher, &name, scratch.path())?);
        self.scratches.push(scratch);
        Ok(())
    }
}

fn posix_site(launcher: &Launcher, name: &str, folder: &Path) -> Result<Site> {
    let mount = Mount::of(folder)?;
    Ok(Site {
        name: name.to_owned(),
        about: format!("{} ({}, {})", folder.display(), mount.sort, mount.media().name()),
        place: FilePlace::Posix { folder: folder.to_owned() },
        launcher: launcher.clone(),
    })
}

fn make(folder: &Path) -> Result<()> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Error::io(format!("creating {}", folder.display()), &error))
}

fn memory_folder() -> Option<PathBuf> {
    let usual = Path::new("/dev/shm");
    lies_on(usual, Media::Memory).then(|| usual.to_owned())
}

/// Where temporary files go, if that is a disk; else where this program was started.
fn disk_folder() -> Option<PathBuf> {
    let here = std::env::current_dir().ok();
    let candidates = [Some(std::env::temp_dir()), Some("/var/tmp".into()), here];
    candidates.into_iter().flatten().find(|folder| lies_on(folder, Media::Block))
}

fn lies_on(folder: &Path, media: Media) -> bool {
    let writable = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_ok();
    writable && Mount::of(folder).is_ok_and(|mount| mount.media() == media)
}
