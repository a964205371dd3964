//! The directory of a pool: what makes it one, and how it is named.
use super::files::{self, failed};
use esker_os::directory::{self, Kind};
use esker_types::{Error, ErrorKind, Result, Uuid};
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The file that makes a directory a pool of this layout.
pub(super) const SUPERBLOCK: &str = "esker-posix";
/// The directory of a pool: its superblock goes last.
const POOL: Kind = Kind { marker: SUPERBLOCK, discard: |_| () };
/// Where containers are, by UUID.
pub(super) const CONTAINERS: &str = "containers";
/// Which container has which label.
pub(super) const LABELS: &str = "labels";
/// Where files are written before they get their place.
pub(super) const TMP: &str = "tmp";
/// What a container or the pool says about itself.
pub(super) const META: &str = "meta";

/// Version of the layout in the superblock.
const FORMAT: &str = "1";

/// What the superblock says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosixPool {
    /// Its id.
    pub uuid: Uuid,
    /// Its name.
    pub label: String,
    /// Data and directories are synced before an operation returns.
    pub fsync: bool,
}

/// Where a `posix:` URL leads, and what it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PosixUrl {
    /// Directory of the pool.
    pub path: PathBuf,
    /// `?fsync=on` or `?fsync=off`: stands over what the pool says.
    pub fsync: Option<bool>,
}

impl PosixUrl {
    /// Reads `posix:/path`, `posix:///path`, each with or without `?fsync=on|off`; `None` for another
    /// scheme.
    ///
    /// # Errors
    /// `BadPath` for an empty path or an option there is not.
    pub fn parse(name: &str) -> Result<Option<Self>> {
        let Some(rest) = name.strip_prefix("posix:") else { return Ok(None) };
        let rest = rest.strip_prefix("//").unwrap_or(rest);
        let (path, option) = rest.split_once('?').map_or((rest, None), |(p, o)| (p, Some(o)));
        let fsync = match option {
            None => None,
            Some("fsync=on") => Some(true),
            Some("fsync=off") => Some(false),
            Some(other) => return Err(bad_url(name, &format!("`?{other}` is no option"))),
        };
        match path.is_empty() {
            true => Err(bad_url(name, "it names no directory")),
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
    /// True where `path` is a pool of this layout.
    #[must_use]
    pub fn is_at(path: &Path) -> bool {
        path.join(SUPERBLOCK).is_file()
    }

    /// Makes a pool: the directory `path`, with those it is in.
    ///
    /// # Errors
    /// `Exists` where there is anything at `path` but an empty directory; `Invalid` for a last
    /// component that is no label; what the file system says.
    pub fn create(path: &Path, fsync: bool) -> Result<Self> {
        let label = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        esker_types::check_label(label)?;
        fs::create_dir_all(path).map_err(|error| failed("making", path, &error))?;
        path.parent().into_iter().for_each(|parent| directory::finish_others(parent, POOL));
        if !files::names_in(path)?.is_empty() {
            let message = format!("{} exists and is not empty", path.display());
            return Err(Error::new(ErrorKind::Exists, message));
        }
        for name in [CONTAINERS, LABELS, TMP] {
            let place = path.join(name);
            fs::create_dir(&place).map_err(|error| failed("making", &place, &error))?;
        }
        let uuid = esker_os::random_uuid()?;
        let pool = Self { uuid, label: label.to_owned(), fsync };
        pool.write(path)?;
        Ok(pool)
    }

    /// The superblock comes last: before it, the directory is no pool.
    fn write(&self, path: &Path) -> Result<()> {
        let fsync = if self.fsync { "on" } else { "off" };
        let Self { uuid, label, .. } = self;
        let text = format!("format = {FORMAT}\nuuid = {uuid}\nlabel = {label}\nfsync = {fsync}\n");
        let new = path.join(TMP).join(SUPERBLOCK);
        let place = path.join(SUPERBLOCK);
        let written = File::create_new(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            fs::rename(&new, &place)?;
            File::open(path)?.sync_all()
        });
        written.map_err(|error| failed("writing", &place, &error))
    }

    /// What the superblock of the pool at `path` says.
    ///
    /// # Errors
    /// `NotFound` where there is none, `Incompatible` for another version, `Corrupt`.
    pub fn read(path: &Path) -> Result<Self> {
        let place = path.join(SUPERBLOCK);
        let bytes = files::read(&place)?.ok_or_else(|| no_pool(path))?;
        let text = String::from_utf8_lossy(&bytes);
        let value = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(" = "));
            lines.find(|(known, _)| *known == name).map(|(_, value)| value)
        };
        if value("format").is_some_and(|format| format != FORMAT) {
            let message = format!("{}: a format this release cannot read", place.display());
            return Err(Error::new(ErrorKind::Incompatible, message));
        }
        let pool = || {
            value("format")?;
            let fsync = value("fsync")? == "on";
            Some(Self { uuid: Uuid::parse(value("uuid")?)?, label: value("label")?.into(), fsync })
        };
        pool().ok_or_else(|| files::damaged(&place, "no superblock"))
    }

    /// Removes the pool at `path` with everything in it. Who uses it loses it. Where that is refused, nothing
    /// has changed; where it is broken off, the next one to make or destroy a pool beside it finishes it.
    ///
    /// # Errors
    /// `NotFound` where there is none; what the file system says.
    pub fn destroy(path: &Path) -> Result<()> {
        Self::read(path)?;
        directory::remove(path, POOL)
    }
}

#[cold]
fn no_pool(path: &Path) -> Error {
    let message = format!(
        "{} is no posix pool: make one with `esker pool create posix:{}`",
        path.display(),
        path.display()
    );
    Error::new(ErrorKind::NotFound, message)
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
