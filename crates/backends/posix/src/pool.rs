//! The directory of a pool: its layout, creation and URL.
use super::files::{self, Files, io_error};
use esker_os::directory::{self, Kind};
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The file that marks a directory as a pool of this layout.
pub(super) const SUPERBLOCK: &str = "esker-posix";
/// The pool's directory and its marker file, which is removed last.
const POOL: Kind = Kind { marker: SUPERBLOCK, discard: |_| () };
/// Directory of the containers, by UUID.
pub(super) const CONTAINERS: &str = "containers";
/// Directory of the labels.
pub(super) const LABELS: &str = "labels";
/// Directory for temporary files.
pub(super) const TMP: &str = "tmp";
/// File of the metadata of a container or the pool.
pub(super) const META: &str = "meta";

/// Version of the layout, recorded in the superblock.
const FORMAT: &str = "3";
/// Versions before, which are read, and become this one when a pool is opened for writing. The first has no journal;
/// the second has files in place of lock directories, and no marks.
const EARLIER: [&str; 2] = ["1", "2"];

/// The content of the superblock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosixPool {
    /// Its UUID.
    pub uuid: Uuid,
    /// Its label.
    pub label: String,
    /// Sync data and directories before an operation returns.
    pub fsync: bool,
}

/// A parsed `posix:` URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosixUrl {
    /// The pool's directory.
    pub path: PathBuf,
    /// `?fsync=on` or `?fsync=off`: overrides the pool's setting.
    pub fsync: Option<bool>,
}

impl PosixUrl {
    /// Parses `posix:/path` or `posix:///path`, optionally with `?fsync=on|off`; `None` for another scheme.
    ///
    /// # Errors
    /// `BadPath` for an empty path or an unknown option.
    pub fn parse(name: &str) -> Result<Option<Self>> {
        let Some(rest) = name.strip_prefix("posix:") else { return Ok(None) };
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, option) = rest.split_once('?').map_or((rest, None), |(p, o)| (p, Some(o)));
        let fsync = match option {
            None => None,
            Some("fsync=on") => Some(true),
            Some("fsync=off") => Some(false),
            Some(other) => return Err(bad_url(name, &format!("`?{other}` is not an option"))),
        };
        match path.is_empty() {
            true => Err(bad_url(name, "the directory is missing")),
            false => Ok(Some(Self { path: PathBuf::from(path), fsync })),
        }
    }
}

#[cold]
fn bad_url(name: &str, cause: &str) -> Error {
    let message = format!("{name}: {cause}: use `posix:/path` or `posix:/path?fsync=on`");
    Error::new(ErrorKind::BadPath, message)
}

impl PosixPool {
    /// True if `path` is a pool of this layout.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        path.join(SUPERBLOCK).is_file()
    }

    /// Creates a pool in the directory `path`; creates missing parent directories. Completes interrupted removals of
    /// pools beside it first, and an interrupted creation in `path` itself.
    ///
    /// # Errors
    /// `Exists` if `path` exists and is not an empty directory; `Invalid` if its last component is not a valid label;
    /// errors of the file system.
    pub fn create(path: &Path, fsync: bool) -> Result<Self> {
        let label = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        esker_types::check_pool_label(label)?;
        make_directories(path).map_err(|error| io_error("making", path, &error))?;
        path.parent().into_iter().for_each(|parent| directory::finish_others(parent, POOL));
        if !files::names_in(path)?.is_empty() && !is_left_by_creation(path)? {
            let message = format!("{} exists and is not empty", path.display());
            return Err(Error::new(ErrorKind::Exists, message));
        }
        for name in [CONTAINERS, LABELS, TMP] {
            make_directory(&path.join(name))?;
        }
        let uuid = esker_os::random_uuid()?;
        let pool = Self { uuid, label: label.to_owned(), fsync };
        pool.write(path)?;
        Ok(pool)
    }

    /// Writes the superblock. Until that is done, the directory is not a pool, so it is written last. A link can be made
    /// only once: if several processes create the pool, one succeeds.
    fn write(&self, path: &Path) -> Result<()> {
        let fsync = if self.fsync { "on" } else { "off" };
        let Self { uuid, label, .. } = self;
        let text = format!("format = {FORMAT}\nuuid = {uuid}\nlabel = {label}\nfsync = {fsync}\n");
        let new = path.join(TMP).join(format!("{SUPERBLOCK}-{uuid}"));
        let superblock = path.join(SUPERBLOCK);
        let written = File::create_new(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::hard_link(&new, &superblock)?;
            File::open(path)?.sync_all()
        });
        let _ = fs::remove_file(&new);
        written.map_err(|error| io_error("writing", &superblock, &error))
    }

    /// Marks a pool of an earlier version as one of this version, so that earlier releases do not open it any more.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(super) fn upgrade(path: &Path, files: &Files) -> Result<()> {
        let superblock = path.join(SUPERBLOCK);
        let text = files::read(&superblock)?.unwrap_or_default();
        let line = |format: &str| format!("format = {format}\n");
        let rest = EARLIER.iter().find_map(|format| text.strip_prefix(line(format).as_bytes()));
        let Some(rest) = rest else { return Ok(()) };
        let new = [line(FORMAT).as_bytes(), rest].concat();
        // Without the sync, a failure of the machine after the rename could leave an empty superblock.
        let file = files.temporary(|file| {
            files::write_parts(file, &[&new])?;
            file.sync_all()
        })?;
        files.replace(&file, &superblock).map(drop)
    }

    /// Reads the superblock of the pool at `path`.
    ///
    /// # Errors
    /// `NotFound` if it does not exist, `Incompatible` for another version, `Corrupt`.
    pub fn read(path: &Path) -> Result<Self> {
        let superblock = path.join(SUPERBLOCK);
        let bytes = files::read(&superblock)?.ok_or_else(|| no_pool_error(path))?;
        let text = String::from_utf8_lossy(&bytes);
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(" = "));
            lines.find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        if value("format").is_some_and(|format| format != FORMAT && !EARLIER.contains(&format)) {
            let message = format!(
                "{}: its format is not supported by this release: use a newer release",
                superblock.display()
            );
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        let pool = || {
            value("format")?;
            let fsync = value("fsync")? == "on";
            Some(Self { uuid: Uuid::parse(value("uuid")?)?, label: value("label")?.into(), fsync })
        };
        pool().ok_or_else(|| files::damaged(&superblock, "no superblock"))
    }

    /// Removes the pool at `path` with its content, even if processes have it open. If the removal is rejected,
    /// nothing has changed; if it is interrupted, the next creation or removal of a pool in the same parent directory
    /// completes it.
    ///
    /// # Errors
    /// `NotFound` if it does not exist; errors of the file system.
    pub fn destroy(path: &Path) -> Result<()> {
        Self::read(path)?;
        directory::remove(path, POOL, || Ok(()))
    }
}

/// True if a directory has only what the creation of a pool makes before the superblock. The process was killed, or
/// found no space.
fn is_left_by_creation(path: &Path) -> Result<bool> {
    let names = files::names_in(path)?;
    let own = |name: &String| [CONTAINERS, LABELS, TMP].contains(&name.as_str());
    if !names.iter().all(own) || !names.iter().any(|name| name == CONTAINERS) {
        return Ok(false);
    }
    let has_content = !files::names_in(&path.join(CONTAINERS))?.is_empty()
        || !files::names_in(&path.join(LABELS))?.is_empty();
    let temporary = files::names_in(&path.join(TMP))?;
    Ok(!has_content && temporary.iter().all(|name| name.starts_with(SUPERBLOCK)))
}

/// Creates a directory, unless an interrupted creation has left it.
fn make_directory(path: &Path) -> Result<()> {
    match fs::create_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made.map_err(|error| io_error("making", path, &error)),
    }
}

/// Creates a directory and its missing parents, all durable.
fn make_directories(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    make_directories(parent)?;
    match fs::create_dir(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists || !path.is_dir() => Err(error),
        // A parent that may be searched but not read cannot be synced.
        _ => File::open(parent).map_or(Ok(()), |parent| parent.sync_all()),
    }
}

#[cold]
fn no_pool_error(path: &Path) -> Error {
    let message = format!(
        "{} is not a posix pool: create one with `esker pool create posix:{}`",
        path.display(),
        path.display()
    );
    Error::new(ErrorKind::NotFound, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use esker_types::info::OpenMode;

    #[test]
    fn urls_name_a_directory_and_options() {
        let parse = |name| PosixUrl::parse(name).unwrap();
        let url = |path: &str, fsync| Some(PosixUrl { path: path.into(), fsync });
        assert_eq!(parse("posix:/a/b"), url("/a/b", None));
        assert_eq!(parse("posix:///a/b?fsync=on"), url("/a/b", Some(true)));
        assert_eq!(parse("posix:b?fsync=off"), url("b", Some(false)));
        assert_eq!(parse("tank"), None);
        for bad in ["posix:", "posix:/a?sync", "posix:?fsync=on"] {
            assert_eq!(PosixUrl::parse(bad).unwrap_err().kind(), ErrorKind::BadPath);
        }
    }

    #[test]
    fn pools_of_earlier_versions_are_upgraded_when_they_are_opened_for_writing() {
        let path = std::env::temp_dir().join(format!("esker-posix-upgrade-{}", std::process::id()));
        let pool = PosixPool::create(&path, false).unwrap();
        let superblock = path.join(SUPERBLOCK);
        let text = fs::read_to_string(&superblock).unwrap();
        assert!(text.starts_with("format = 3\n"), "{text}");
        let of = |format: &str| text.replace("format = 3", &format!("format = {format}"));
        let url = PosixUrl { path: path.clone(), fsync: None };
        for earlier in EARLIER {
            fs::write(&superblock, of(earlier)).unwrap();
            for (mode, format) in [(OpenMode::ReadOnly, earlier), (OpenMode::ReadWrite, FORMAT)] {
                drop(crate::Posix::open(&url, mode).unwrap());
                assert_eq!(fs::read_to_string(&superblock).unwrap(), of(format));
                assert_eq!(PosixPool::read(&path).unwrap(), pool);
            }
        }
        fs::write(&superblock, of("4")).unwrap();
        assert_eq!(PosixPool::read(&path).unwrap_err().kind(), ErrorKind::Incompatible);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn interrupted_creation_of_a_pool_can_be_repeated() {
        let path = std::env::temp_dir().join(format!("esker-posix-again-{}", std::process::id()));
        PosixPool::create(&path, false).unwrap();
        let refused = |path| PosixPool::create(path, false).map(drop).unwrap_err().kind();
        assert_eq!(refused(&path), ErrorKind::Exists);
        fs::remove_file(path.join(SUPERBLOCK)).unwrap();
        fs::write(path.join(TMP).join("esker-posix-half"), "format").unwrap();
        fs::remove_dir(path.join(LABELS)).unwrap();
        let pool = PosixPool::create(&path, false).unwrap();
        assert_eq!(PosixPool::read(&path).unwrap(), pool);
        // A pool that has lost its superblock is not taken for an interrupted creation.
        fs::remove_file(path.join(SUPERBLOCK)).unwrap();
        fs::write(path.join(LABELS).join("label"), pool.uuid.to_string()).unwrap();
        assert_eq!(refused(&path), ErrorKind::Exists);
        fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn labels_with_a_colon_are_refused() {
        let path = std::env::temp_dir().join("memory:x");
        let refused = PosixPool::create(&path, false).map(drop);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        assert!(!path.exists());
    }
}
