//! Private copies of libraries and programs, in a directory of the run, for the loader and the kernel: they map files by
//! themselves and see only those of the system.
//!
//! The path of a copy is that of the directory, followed by the path in the mount point. So paths relative to a copy lead
//! to copies, and the path that programs know is the end of the copy's path. A copy is made once for all processes of the
//! run, which share its memory, and made anew when the file has changed.
use crate::answer::{Answer, Fail, refuse};
use crate::config;
use crate::paths::{self, MountPath, shown};
use dfs::{Attr, File, Follow, Kind, Node, Open, Time};
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

/// What precedes the path in the mount point in the path of a copy; `None` if the run has no directory.
pub(crate) fn prefix() -> Option<Vec<u8>> {
    let run_dir = &config::get().run_dir;
    (!run_dir.is_empty()).then(|| [run_dir, FOLDER].concat())
}

/// The path in the mount point of the copy at `path`; `None` if that is no copy. Allocates no memory.
pub(crate) fn known(path: &[u8]) -> Option<&[u8]> {
    let run_dir = &config::get().run_dir;
    let rest = path.strip_prefix(run_dir.as_slice()).filter(|_| !run_dir.is_empty())?;
    rest.strip_prefix(FOLDER).filter(|known| paths::below_mount(known).is_some())
}

/// Makes sure that an absolute path in the mount point, without `..`, has a copy that is up to date. Returns the path of
/// the copy.
///
/// # Errors
/// Those of opening and reading the file, [`Fail::Outside`] for a link that leads out; those of writing the copy.
pub(crate) fn make(path: &[u8]) -> Answer<PathBuf> {
    MountPath::new(libc::AT_FDCWD, path)?.with_node(Follow::All, |node| {
        let known = shown(&node.path());
        update(&place(&known)?, &node)?;
        // The loader recognises a library that it has loaded under another name by its inode.
        if known != path {
            link(&place(&known)?, &place(path)?)?;
        }
        place(path)
    })
}

/// Removes the copy of what is no longer in the mount point, where the loader would find it.
pub(crate) fn remove(path: &[u8]) {
    let _ = place(path).map(fs::remove_file);
}

/// Where the copy of a path in the mount point is.
pub(crate) fn place(known: &[u8]) -> Answer<PathBuf> {
    let Some(prefix) = prefix() else { return refuse(libc::ENOENT) };
    Ok(PathBuf::from(OsString::from_vec([&prefix, known].concat())))
}

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

/// True if the copy has the size and the time of the file: it gets both when it is made.
fn is_current(copy: &Path, attr: &Attr) -> bool {
    let found = fs::symlink_metadata(copy);
    found.is_ok_and(|found| {
        found.is_file()
            && found.len() == attr.size
            && found.modified().is_ok_and(|modified| modified == time(attr.mtime))
    })
}

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

fn link(to: &Path, from: &Path) -> Answer<()> {
    match fs::read_link(from) {
        Ok(found) if found == to => Ok(()),
        _ => replace(from, |new| Ok(symlink(to, new)?)),
    }
}

/// Puts something new at a path, at once: another process may be using what is there.
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
