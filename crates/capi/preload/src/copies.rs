//! Private copies of libraries and programs, in a directory of the run. The loader and the kernel need them, because
//! they map files themselves and see only files of the system.
//!
//! The path of a copy is that of the directory, followed by the path in the mount point. So paths relative to a copy
//! lead to copies, and the path that programs know is the end of the copy's path. All processes of the run share one
//! copy and its memory. It is replaced when the file has changed.
use crate::answer::{Answer, Fail, refuse};
use crate::config;
use crate::paths::{self, MountPath, shown};
use dfs::{Attr, Follow, Kind, Open, Time};
use esker_preload_interface::{File, Node};
use std::ffi::{CString, OsString};
use std::fs;
use std::io::{self, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The directory of the copies in the run directory.
const FOLDER: &[u8] = b"/libraries";

/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// Permissions of a copy, and of the directories that lead to it.
const FILE_MODE: u32 = 0o500;
const FOLDER_MODE: u32 = 0o700;

/// Prefix of the paths of copies, which precedes the path in the mount point; `None` if the run has no directory.
pub(crate) fn prefix() -> Option<Vec<u8>> {
    folder_in(&config::get().run_dir)
}

/// Directory of the copies in a run directory; `None` if there is none.
pub(crate) fn folder_in(run_dir: &[u8]) -> Option<Vec<u8>> {
    (!run_dir.is_empty()).then(|| [run_dir, FOLDER].concat())
}

/// The path in the mount point of the copy at `path`; `None` if that is not a copy. Allocates no memory.
pub(crate) fn path_in_mount(path: &[u8]) -> Option<&[u8]> {
    let run_dir = &config::get().run_dir;
    let rest = path.strip_prefix(run_dir.as_slice()).filter(|_| !run_dir.is_empty())?;
    rest.strip_prefix(FOLDER).filter(|known| paths::below_mount(known).is_some())
}

/// Makes sure that the file at an absolute path in the mount point, without `..`, has a copy that is up to date.
/// Returns the path of the copy.
///
/// # Errors
/// Errors of opening and reading the file, [`Fail::Outside`] for a link that leads out, errors of writing the copy.
pub(crate) fn make(path: &[u8]) -> Answer<PathBuf> {
    MountPath::new(libc::AT_FDCWD, path)?.with_node(Follow::All, |node| {
        let known = shown(&node.path()?);
        update(&path_of(&known)?, &node)?;
        // The loader recognises a library that it has loaded under another name by its inode.
        if known != path {
            make_link(&path_of(&known)?, &path_of(path)?)?;
        }
        path_of(path)
    })
}

/// Removes the copy of the library at `path`, which is no longer in the mount point: the loader would still find the
/// copy.
pub(crate) fn remove(path: &[u8]) {
    let _ = path_of(path).map(fs::remove_file);
}

/// Path of the copy of the file at `known`, its path in the mount point. `ENOENT` if the run has no directory.
pub(crate) fn path_of(known: &[u8]) -> Answer<PathBuf> {
    let Some(prefix) = prefix() else { return refuse(libc::ENOENT) };
    Ok(PathBuf::from(OsString::from_vec([&prefix, known].concat())))
}

/// Makes the file at `copy` a current copy of `node`, unless it is one already.
fn update(copy: &Path, node: &Node) -> Answer<()> {
    let attr = node.attr()?;
    if node.kind() != Kind::File {
        return refuse(libc::EISDIR);
    }
    if is_current(copy, &attr) {
        return Ok(());
    }
    let file = node.open(Open::READ)?;
    replace(copy, |new| {
        let mut options = fs::OpenOptions::new();
        let mut out = options.write(true).create_new(true).mode(FILE_MODE).open(new)?;
        write(&file, &mut out)?;
        Ok(out.set_modified(time(attr.mtime))?)
    })
}

/// True if the copy has the size and the modification time of the file. Each copy gets that time when it is made.
fn is_current(copy: &Path, attr: &Attr) -> bool {
    let found = fs::symlink_metadata(copy);
    found.is_ok_and(|found| {
        found.is_file()
            && found.len() == attr.size
            && found.modified().is_ok_and(|modified| modified == time(attr.mtime))
    })
}

/// Converts a file time to a `SystemTime`. A time outside its range becomes 1970.
fn time(of: Time) -> SystemTime {
    let (whole, part) =
        (Duration::from_secs(of.seconds.unsigned_abs()), Duration::from_nanos(of.nanos.into()));
    let second = match of.seconds {
        0.. => UNIX_EPOCH.checked_add(whole),
        _ => UNIX_EPOCH.checked_sub(whole),
    };
    // Programs may set any time.
    second.and_then(|second| second.checked_add(part)).unwrap_or(UNIX_EPOCH)
}

/// Writes the content of a file to its copy.
fn write(file: &File, out: &mut fs::File) -> Answer<()> {
    let (mut room, mut offset) = (vec![0; CHUNK], 0);
    loop {
        let length = file.read_at(offset, &mut room)?;
        out.write_all(&room[..length])?;
        offset += length as u64;
        if length < room.len() {
            return Ok(());
        }
    }
}

/// Makes `link` a symbolic link to `target`. Replaces a file or link of that name.
fn make_link(target: &Path, link: &Path) -> Answer<()> {
    match fs::read_link(link) {
        Ok(found) if found == target => Ok(()),
        _ => replace(link, |new| Ok(symlink(target, new)?)),
    }
}

/// Atomically replaces the file at `path`, because another process may be using the old one. `make` creates the new
/// file at the temporary path that it gets.
fn replace(path: &Path, make: impl FnOnce(&Path) -> Answer<()>) -> Answer<()> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = path.parent().unwrap_or(path);
    fs::DirBuilder::new().recursive(true).mode(FOLDER_MODE).create(folder)?;
    let new = folder.join(format!(".new.{}.{number}", std::process::id()));
    let done = make(&new).and_then(|()| Ok(fs::rename(&new, path)?));
    if done.is_err() {
        let _ = fs::remove_file(&new);
    }
    done
}

impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        Self::Errno(error.raw_os_error().unwrap_or(libc::EIO))
    }
}

/// A path in the form of C.
pub(crate) fn c_string(path: &Path) -> Answer<CString> {
    CString::new(path.as_os_str().as_bytes()).or_else(|_| refuse(libc::EINVAL))
}
