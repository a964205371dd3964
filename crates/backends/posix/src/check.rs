//! The check of a posix pool: whether every file is what its name says.
use super::bundle;
use super::chunk::Chunk;
use super::container::label_path;
use super::files::{self, io_error};
use super::form::Kind;
use super::journal::check_journal;
use super::kv;
use super::lock::is_lock;
use super::meta::Meta;
use super::open::object_of;
use super::pool::{CONTAINERS, LABELS, META, PosixPool, TMP};
use esker_types::{ObjectId, Result, Uuid};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Number of pauses of a check for labels and containers that do not fit together yet, and the length of each.
const LABEL_PAUSES_MAX: u32 = 100;
const LABEL_PAUSE: Duration = Duration::from_millis(10);

/// The result of a check of a posix pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PosixCheck {
    /// Damaged files, each with a description.
    pub problems: Vec<String>,
    /// Number of files of containers, objects and labels.
    pub files: u64,
    /// Total size of these files in bytes.
    pub bytes: u64,
    /// Size of temporary files in bytes. Temporary files of ended processes are removed after a day.
    pub temporary_bytes: u64,
    /// Pauses so far for labels that did not fit.
    pauses: u32,
}

impl PosixPool {
    /// Checks all files of the pool at `path`. Values of Key-Values and records of Arrays have no checksums: the
    /// check only verifies that they are readable.
    ///
    /// # Errors
    /// `NotFound` if the pool does not exist; errors of the file system.
    pub fn check(path: &Path) -> Result<PosixCheck> {
        Self::read(path)?;
        let mut check = PosixCheck::default();
        for name in files::names_in(&path.join(CONTAINERS))? {
            check.check_container(path, &path.join(CONTAINERS).join(name))?;
        }
        // A dead process may have left the lock of a label.
        let names = files::names_in(&path.join(LABELS))?;
        for name in names.into_iter().filter(|name| !is_lock(name)) {
            check.check_label(path, &path.join(LABELS).join(name))?;
        }
        check.temporary_bytes = bytes_under(&path.join(TMP))?;
        Ok(check)
    }
}

impl PosixCheck {
    /// Returns the result; adds an error to the problems in place of it.
    fn note<T>(&mut self, outcome: Result<T>) -> Option<T> {
        outcome.map_err(|error| self.problems.push(error.to_string())).ok()
    }

    /// Counts a file and its bytes.
    fn count(&mut self, path: &Path) -> Result<()> {
        if let Some(info) = files::info(path)? {
            self.files += 1;
            self.bytes += info.len();
        }
        Ok(())
    }

    /// Checks that a label refers to a container.
    fn check_label(&mut self, pool: &Path, path: &Path) -> Result<()> {
        self.count(path)?;
        if !becomes_true(&mut self.pauses, || is_label_valid(pool, path))? {
            self.problems.push(format!(
                "{}: a label of a container that does not exist: remove the label",
                path.display()
            ));
        }
        Ok(())
    }

    /// Checks that the label of a container refers to it.
    fn check_own_label(&mut self, pool: &Path, Meta { uuid, label, .. }: &Meta) -> Result<()> {
        if !becomes_true(&mut self.pauses, || has_own_label(pool, *uuid))? {
            self.problems.push(format!(
                "container {uuid}: its label {label:?} does not refer to it: set a label with `esker cont set-prop \
                 posix:{}/{uuid} label:{label}`",
                pool.display()
            ));
        }
        Ok(())
    }

    /// Checks the metadata, the label and the journal of a container of `pool`, then its objects.
    fn check_container(&mut self, pool: &Path, path: &Path) -> Result<()> {
        let meta = Meta::read(&path.join(META));
        match self.note(meta).flatten() {
            Some(meta) => self.check_own_label(pool, &meta)?,
            // A process has destroyed it since it was listed.
            None if files::is_missing(path) => return Ok(()),
            None => self.problems.push(format!(
                "{}: the metadata of a container is missing: restore the file, or remove the container",
                path.display()
            )),
        }
        let journal = check_journal(path);
        self.note(journal);
        for name in files::names_in(path)? {
            let path = path.join(&name);
            match (object_of(&name), path.is_dir()) {
                (Some(oid), true) => self.check_directory(oid, &path),
                (Some(oid), false) => self.check_file(oid, &path),
                (None, true) => {}
                (None, false) => self.count(&path)?,
            }
        }
        Ok(())
    }

    /// Checks the files of an object that is a directory.
    fn check_directory(&mut self, oid: ObjectId, path: &Path) {
        for name in self.note(files::names_in(path)).unwrap_or_default() {
            self.check_file(oid, &path.join(name));
        }
    }

    /// Counts and checks a file of an object. Adds an error to the problems.
    fn check_file(&mut self, oid: ObjectId, path: &Path) {
        let checked = self.count(path).and_then(|()| check_content(oid, path));
        self.note(checked);
    }
}

/// Calls `is_right` until it is true: another process may be creating, renaming or destroying a container, which takes
/// several steps. `pauses` counts the pauses of a whole check, so that many damaged labels take no longer than one.
pub(super) fn becomes_true(pauses: &mut u32, is_right: impl Fn() -> Result<bool>) -> Result<bool> {
    while !is_right()? {
        if *pauses == LABEL_PAUSES_MAX {
            return Ok(false);
        }
        *pauses += 1;
        std::thread::sleep(LABEL_PAUSE);
    }
    Ok(true)
}

/// True if the label file at `path` refers to a container, or is gone.
pub(super) fn is_label_valid(pool: &Path, path: &Path) -> Result<bool> {
    let Some(text) = files::read(path)? else { return Ok(true) };
    let uuid = std::str::from_utf8(&text).ok().and_then(Uuid::parse);
    Ok(uuid.is_some_and(|uuid| pool.join(CONTAINERS).join(uuid.to_string()).is_dir()))
}

/// True if the label of a container refers to it, if it has none, or if the container is gone.
pub(super) fn has_own_label(pool: &Path, uuid: Uuid) -> Result<bool> {
    let text = uuid.to_string();
    let meta = Meta::read(&pool.join(CONTAINERS).join(&text).join(META))?;
    let Some(meta) = meta.filter(|meta| !meta.label.is_empty()) else { return Ok(true) };
    let stored = files::read(&label_path(pool, &meta.label))?;
    Ok(stored.as_deref() == Some(text.as_bytes()))
}

/// Checks a file of an object according to the object's type. Lock files have no content.
fn check_content(oid: ObjectId, path: &Path) -> Result<()> {
    match Kind::from_oid(oid) {
        _ if is_lock(&path.to_string_lossy()) => Ok(()),
        Kind::Kv => kv::check_file(oid.dkey_kind(), path),
        Kind::Array => Chunk::open(path, false)?.map_or(Ok(()), |chunk| chunk.check()),
        Kind::General => match files::read(path)? {
            Some(bytes) => bundle::read(&bytes, oid, path).map(drop),
            None => Ok(()),
        },
    }
}

/// Bytes of all files below a directory.
fn bytes_under(path: &Path) -> Result<u64> {
    let mut bytes = 0;
    for name in files::names_in(path)? {
        let path = path.join(name);
        match fs::symlink_metadata(&path) {
            Ok(info) if info.is_dir() => bytes += bytes_under(&path)?,
            Ok(info) => bytes += info.len(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(io_error("looking at", &path, &error)),
        }
    }
    Ok(bytes)
}
