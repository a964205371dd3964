//! Atomic creation and removal of directories. A directory that is being created or removed has a hidden name, so a
//! killed process leaves nothing that looks complete. The next process that works in the same parent directory cleans
//! up.
use crate::{descriptors::unlink_at, random_uuid, resolve_links};
use esker_types::{Error, ErrorKind, Result};
use rustix::fs::{Access, AtFlags, CWD, Dir, Mode, OFlags, accessat, openat};
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Prefix of the names of directories that are being removed.
const GOING: &str = ".esker-going-";
/// Prefix of the names of directories that are being created.
const COMING: &str = ".esker-coming-";

/// A kind of directory: its marker file, and how to discard an unfinished one.
#[derive(Clone, Copy)]
pub struct Kind {
    /// Name of the marker file, which is removed last. A directory that contains it is of this kind.
    pub marker: &'static str,
    /// Called before the content of a directory is removed that a killed process left. Removes what the process had
    /// created, or completes what it had to do between [`remove`]'s two steps.
    pub discard: fn(&Path),
}

/// Checks in advance that a removal can be completed: fails if this process lacks permission to change the directory.
/// A missing directory is not an error.
///
/// # Errors
/// Errors of the file system.
pub fn refuse_unless_writable(directory: &Path) -> Result<()> {
    let access = Access::WRITE_OK | Access::EXEC_OK;
    match accessat(CWD, directory, access, AtFlags::EACCESS).map_err(io::Error::from) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io_error("removing what is in", directory, &error))
        }
        _ => Ok(()),
    }
}

/// Removes a directory with its content: first its name, then its content, the marker last. Calls `declare` between the
/// two steps. Links in the directory are not followed.
///
/// # Errors
/// [`ErrorKind::NoPermission`] for another user's link in its path ([`resolve_links`]); errors of the file system. If
/// its name cannot be removed, nothing has changed. If some of its content cannot be removed, the directory is gone
/// from its path, and the message names the rest. The error of `declare`: the directory is removed.
pub fn remove(path: &Path, kind: Kind, declare: impl FnOnce() -> Result<()>) -> Result<()> {
    let path = &resolve_links(path)?;
    let parent = path.parent().unwrap_or(path);
    refuse_unless_writable(path)?;
    let going = hidden(parent, GOING)?;
    fs::rename(path, &going).map_err(|error| io_error("removing", path, &error))?;
    let declared = declare();
    let removed = remove_all(&going, kind.marker);
    finish_others(parent, kind);
    removed.map_err(|error| {
        let message = format!(
            "pool {} is removed, but some of its files are left: removing {}: {error}",
            path.display(),
            going.display()
        );
        Error::new(ErrorKind::Io, message)
    })?;
    declared
}

/// An unused hidden name in `parent` for a directory that is being created.
///
/// # Errors
/// If the kernel provides no randomness.
pub fn coming(parent: &Path) -> Result<PathBuf> {
    hidden(parent, COMING)
}

/// An unused name in `parent` that begins with `prefix`.
fn hidden(parent: &Path, prefix: &str) -> Result<PathBuf> {
    Ok(parent.join(format!("{prefix}{}", random_uuid()?)))
}

/// True for a directory that is being created or removed.
#[must_use]
pub fn is_unfinished(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with(GOING) || name.starts_with(COMING)
}

/// Removes a directory and its content, `marker` last. Another process may be removing it as well.
fn remove_all(directory: &Path, marker: &str) -> io::Result<()> {
    none_if_gone(remove_content(CWD, directory, Some(marker)))?;
    none_if_gone(fs::remove_file(directory.join(marker)))?;
    none_if_gone(fs::remove_dir(directory))
}

/// Removes the content of the directory at `path`, relative to `at`, except the entry `kept`. If another user has put a
/// link in its place, nothing is removed.
fn remove_content<P: rustix::path::Arg>(
    at: impl AsFd,
    path: P,
    kept: Option<&str>,
) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = openat(at, path, flags, Mode::empty())?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let is_kept = [Some("."), Some(".."), kept].contains(&name.to_str().ok());
        if is_kept {
            continue;
        }
        none_if_gone(match unlink_at(directory.as_fd(), name, false) {
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                remove_content(&directory, name, None)
                    .and_then(|()| unlink_at(directory.as_fd(), name, true))
            }
            removed => removed,
        })?;
    }
    Ok(())
}

/// Turns the error for a file or directory that another process has removed into success.
fn none_if_gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|error| match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}

/// Removes, as far as possible, directories of this kind in `parent` whose creation or removal a killed process of this
/// user left unfinished.
pub fn finish_others(parent: &Path, kind: Kind) {
    let user = rustix::process::geteuid().as_raw();
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        // The metadata of a symbolic link is that of the link itself.
        let is_directory_of_user = |info: fs::Metadata| info.is_dir() && info.uid() == user;
        if is_unfinished(&entry.path()) && entry.metadata().is_ok_and(is_directory_of_user) {
            finish(&entry.path(), kind);
        }
    }
}

/// Removes a directory whose process died while creating or removing it. Errors are ignored: the next process tries
/// again.
fn finish(directory: &Path, kind: Kind) {
    (kind.discard)(directory);
    if directory.join(kind.marker).exists() {
        let _ = remove_all(directory, kind.marker);
    }
    // The process may have been killed before it created the first file, or after it removed the last.
    let _ = fs::remove_dir(directory);
}

fn io_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    const KIND: Kind = Kind { marker: "marker", discard: |_| () };

    /// Creates a directory with a marker, a file and a file in a subdirectory.
    fn make(path: &Path) {
        fs::create_dir_all(path.join("inner")).unwrap();
        for name in ["marker", "one", "inner/two"] {
            fs::write(path.join(name), name).unwrap();
        }
    }

    #[test]
    fn links_in_a_removed_directory_are_not_followed() {
        let parent = std::env::temp_dir().join(format!("esker-os-{}", random_uuid().unwrap()));
        let (doomed, other) = (parent.join("doomed"), parent.join("other"));
        make(&doomed);
        make(&other);
        for place in ["out", "inner/out"] {
            std::os::unix::fs::symlink(&other, doomed.join(place)).unwrap();
        }
        remove(&doomed, KIND, || Ok(())).unwrap();
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 1);
        assert!(other.join("inner/two").exists());
        // Another user has exchanged the directory for a link after the check of its name.
        std::os::unix::fs::symlink(&other, parent.join("link")).unwrap();
        assert!(remove_all(&parent.join("link"), KIND.marker).is_err());
        assert!(other.join("marker").exists());
        fs::remove_dir_all(&parent).unwrap();
    }

    /// The removal fails after the declaration: a file is in the place of the hidden directory.
    #[test]
    fn removal_is_declared_before_content_is_removed() {
        let parent = std::env::temp_dir().join(format!("esker-os-{}", random_uuid().unwrap()));
        let (doomed, away) = (parent.join("doomed"), parent.join("away"));
        make(&doomed);
        let failed = remove(&doomed, KIND, || {
            assert!(!doomed.exists());
            let hidden = fs::read_dir(&parent).unwrap().next().unwrap().unwrap().path();
            assert!(hidden.join("inner/two").exists() && is_unfinished(&hidden));
            fs::rename(&hidden, &away).unwrap();
            fs::write(&hidden, "").unwrap();
            Ok(())
        });
        assert!(failed.unwrap_err().message().contains("some of its files are left"));
        fs::rename(&away, &doomed).unwrap();
        let declared = remove(&doomed, KIND, || Err(ErrorKind::NoSpace.into()));
        assert_eq!(declared.unwrap_err().kind(), ErrorKind::NoSpace);
        assert!(!doomed.exists());
        fs::remove_dir_all(&parent).unwrap();
    }

    /// A process that removes a directory also finishes removals in the same parent directory, such as those of nodes
    /// that share a parent directory.
    #[test]
    fn directories_in_one_parent_are_removed_concurrently() {
        let parent = std::env::temp_dir().join(format!("esker-os-{}", random_uuid().unwrap()));
        let together = Barrier::new(8);
        let rounds = |path: PathBuf| {
            let one = |_| {
                make(&path);
                together.wait();
                remove(&path, KIND, || Ok(()))
            };
            (0..500).map(one).filter_map(Result::err).collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let paths = (0..8).map(|number| parent.join(number.to_string()));
            let removing: Vec<_> = paths.map(|path| scope.spawn(|| rounds(path))).collect();
            for failed in removing {
                assert_eq!(failed.join().unwrap(), []);
            }
        });
        assert_eq!(fs::read_dir(&parent).unwrap().count(), 0);
        fs::remove_dir(&parent).unwrap();
    }
}
