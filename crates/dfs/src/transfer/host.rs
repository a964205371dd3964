//! The host's own file system as a side of a copy.
use super::tree::{Child, Meta, Tree};
use crate::{IDENTITY_ATTRIBUTE, Kind, Time};
use esker::types::{Error, ErrorKind, Result};
use esker_os::whole::Draft;
use rustix::fs::{self, AtFlags, CWD, Gid, Mode, OFlags, SeekFrom, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fmt::Display;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

/// Bytes that the names of extended attributes, and the value of one, may have (Linux: `XATTR_LIST_MAX`,
/// `XATTR_SIZE_MAX`).
const XATTR_BYTES_MAX: usize = 64 << 10;
/// Bytes that the identity of an entry may have: a UUID and an object ID.
const IDENTITY_BYTES_MAX: usize = 128;
/// Mode bits by which the owner may read and write a file.
const OWNER_WRITES: u32 = 0o600;
/// Mode bits that another owner could misuse.
const SET_ID: u32 = 0o6000;

/// The host's file system. A node is a path.
#[derive(Clone, Copy, Debug, Default)]
pub struct Host;

/// An open file of the host.
#[derive(Debug)]
pub struct HostFile {
    opened: Opened,
    path: Arc<Path>,
}

/// A file that was opened, to read or to write.
#[derive(Debug)]
enum Opened {
    /// An existing file, to read.
    Old(File),
    /// A new file, which gets its name when it is complete. The number, if any, has the mode bits that it may keep then:
    /// the owner has more until it is complete.
    New(Draft, Option<u32>),
}

impl HostFile {
    /// The open file.
    fn file(&self) -> &File {
        match &self.opened {
            Opened::Old(file) => file,
            Opened::New(draft, _) => &draft.file,
        }
    }
}

impl Tree for Host {
    type Node = Arc<Path>;
    type File = HostFile;

    fn path(&self, node: &Arc<Path>) -> Vec<u8> {
        node.as_os_str().as_bytes().to_vec()
    }

    /// The metadata of a path; a symbolic link is not followed.
    fn meta(&self, node: &Arc<Path>) -> Result<Meta> {
        let stat = fs::lstat(&**node)
            .map_err(|cause| io_error("reading the attributes of", node, cause))?;
        Ok(meta_of(&stat))
    }

    /// Identity of a file as a mount of Esker reports it; `None` on other file systems.
    fn identity(&self, node: &Arc<Path>) -> Option<String> {
        let mut text = [0; IDENTITY_BYTES_MAX];
        let len = fs::lgetxattr(&**node, IDENTITY_ATTRIBUTE, &mut text[..]).ok()?;
        String::from_utf8(text[..len].to_vec()).ok()
    }

    /// Lists a directory until `each` returns false.
    fn entries(
        &self,
        dir: &Arc<Path>,
        each: &mut dyn FnMut(Child<Arc<Path>>) -> bool,
    ) -> Result<()> {
        let unreadable = |cause| Error::io(describe("listing", dir), &cause);
        for entry in std::fs::read_dir(dir).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = kind_of(entry.file_type().map_err(unreadable)?);
            let name = entry.file_name().as_bytes().to_vec();
            if !each(Child { name, node: entry.path().into(), kind }) {
                break;
            }
        }
        Ok(())
    }

    /// The entry of this name with its metadata; `None` if it does not exist.
    fn find(&self, dir: &Arc<Path>, name: &[u8]) -> Result<Option<(Arc<Path>, Meta)>> {
        let path = within(dir, name);
        match fs::lstat(&*path) {
            Ok(stat) => Ok(Some((path, meta_of(&stat)))),
            Err(Errno::NOENT) => Ok(None),
            Err(cause) => Err(io_error("reading the attributes of", &path, cause)),
        }
    }

    /// The target of a symbolic link.
    fn target(&self, link: &Arc<Path>) -> Result<Vec<u8>> {
        let target = fs::readlink(&**link, Vec::new());
        let target = target.map_err(|cause| io_error("reading the link", link, cause))?;
        Ok(target.into_bytes())
    }

    /// Names and values of the extended attributes; none on a file system without them.
    fn xattrs(&self, node: &Arc<Path>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let unreadable = |cause| io_error("reading extended attributes of", node, cause);
        if let Err(Errno::OPNOTSUPP) | Ok(0) = fs::llistxattr_query(&**node) {
            return Ok(Vec::new());
        }
        let mut names = vec![0u8; XATTR_BYTES_MAX];
        let listed = fs::llistxattr(&**node, &mut names[..]).map_err(unreadable)?;
        let names = names[..listed].split(|byte| *byte == 0).filter(|name| !name.is_empty());
        let value = |name: &[u8]| {
            let mut value = vec![0; XATTR_BYTES_MAX];
            let len = fs::lgetxattr(&**node, name, &mut value[..]).map_err(unreadable)?;
            value.truncate(len);
            Ok((name.to_vec(), value))
        };
        names.map(value).collect()
    }

    /// Opens a file for reading.
    fn open(&self, file: &Arc<Path>) -> Result<HostFile> {
        open(file).map_err(|cause| io_error("opening", file, cause))
    }

    /// Fills the buffer from `offset` on, unless the file ends before. Repeats reads that are short or interrupted.
    fn read(&self, file: &HostFile, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match file.file().read_at(&mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
                Err(cause) => return Err(Error::io(describe("reading", &file.path), &cause)),
            }
        }
        Ok(filled)
    }

    /// Start and end of the next data, by `SEEK_DATA` and `SEEK_HOLE`; `None` if only a hole follows.
    fn data(&self, file: &HostFile, offset: u64) -> Result<Option<(u64, u64)>> {
        let seek = |to| fs::seek(file.file(), to);
        let start = match seek(SeekFrom::Data(offset)) {
            // No data follows.
            Err(Errno::NXIO) => return Ok(None),
            start => start,
        };
        let range = start.and_then(|start| Ok((start, seek(SeekFrom::Hole(start))?)));
        range.map(Some).map_err(|cause| io_error("looking for holes in", &file.path, cause))
    }

    /// Creates a directory to which its owner can write, whatever the mode in `meta`.
    fn mkdir(&self, dir: &Arc<Path>, name: &[u8], meta: &Meta) -> Result<Arc<Path>> {
        let path = within(dir, name);
        // Its owner must be able to create entries in it; the mode is set when it is complete.
        let made = fs::mkdirat(CWD, &*path, Mode::from_raw_mode(meta.mode & 0o777 | 0o700));
        made.map_err(|cause| io_error("making the directory", &path, cause))?;
        Ok(path)
    }

    /// Creates a symbolic link. Owner and time are set later.
    fn symlink(
        &self,
        dir: &Arc<Path>,
        name: &[u8],
        target: &[u8],
        _meta: &Meta,
    ) -> Result<Arc<Path>> {
        let path = within(dir, name);
        let made = fs::symlinkat(target, CWD, &*path);
        made.map_err(|cause| io_error("making the symbolic link", &path, cause))?;
        Ok(path)
    }

    /// Begins a [`Draft`] of the file, so that readers do not see an incomplete one unless it must be written in place.
    fn create(&self, dir: &Arc<Path>, name: &[u8], meta: &Meta) -> Result<(Arc<Path>, HostFile)> {
        let path = within(dir, name);
        let begin = || begin(&path, meta.mode & 0o777);
        let begun = match begin() {
            // A file that may not be opened, or is being executed, is removed and created again.
            Err(Errno::ACCESS | Errno::TXTBSY) => fs::unlink(&*path).and_then(|()| begin()),
            begun => begun,
        };
        let opened = begun.map_err(|cause| io_error("creating", &path, cause))?;
        let file = HostFile { opened, path: Arc::clone(&path) };
        Ok((path, file))
    }

    /// Writes all the bytes at `offset`.
    fn write(&self, file: &HostFile, offset: u64, data: &[u8]) -> Result<()> {
        let written = file.file().write_all_at(data, offset);
        written.map_err(|cause| Error::io(describe("writing", &file.path), &cause))
    }

    /// Truncates the file, or extends it by a hole.
    fn set_len(&self, file: &HostFile, size: u64) -> Result<()> {
        let set = file.file().set_len(size);
        set.map_err(|cause| Error::io(describe("setting the length of", &file.path), &cause))
    }

    /// Sets owner, mode and time before the file gets its name, so that a file with the name is complete.
    fn finish(&self, node: &Arc<Path>, file: HostFile, keep: Option<&Meta>) -> Result<()> {
        let set = match (keep, &file.opened) {
            (Some(meta), _) => set_owner_mode_time(file.file(), meta),
            (None, Opened::New(draft, Some(mode))) => narrow_mode(&draft.file, *mode),
            _ => Ok(()),
        };
        set.map_err(|cause| io_error("setting mode and time of", node, cause))?;
        match file.opened {
            Opened::New(draft, _) => {
                draft.publish().map_err(|error| io_error("naming", node, errno(&error)))
            }
            Opened::Old(_) => Ok(()),
        }
    }

    /// A draft is gone once it is closed, unless it is written in place.
    fn abandon(&self, _dir: &Arc<Path>, _name: &[u8], _made: &Arc<Path>) -> Result<()> {
        Ok(())
    }

    /// Removes a file or a symbolic link.
    fn remove(&self, dir: &Arc<Path>, name: &[u8]) -> Result<()> {
        let path = within(dir, name);
        fs::unlink(&*path).map_err(|cause| io_error("removing", &path, cause))
    }

    /// Sets an extended attribute, not through a symbolic link.
    fn set_xattr(&self, node: &Arc<Path>, name: &[u8], value: &[u8]) -> Result<()> {
        let set = fs::lsetxattr(&**node, name, value, fs::XattrFlags::empty());
        set.map_err(|cause| io_error("setting an extended attribute of", node, cause))
    }

    fn set_file_xattr(
        &self,
        node: &Arc<Path>,
        file: &HostFile,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let set = fs::fsetxattr(file.file(), name, value, fs::XattrFlags::empty());
        set.map_err(|cause| io_error("setting an extended attribute of", node, cause))
    }

    /// Sets owner, mode and time, in this order: a change of the owner clears set-id bits. Links have no mode.
    fn set_meta(&self, node: &Arc<Path>, meta: &Meta) -> Result<()> {
        let (uid, gid) = (Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)));
        let still = AtFlags::SYMLINK_NOFOLLOW;
        let set_mode = |mode| match meta.kind {
            Some(Kind::Symlink) => Ok(()),
            _ => fs::chmod(&**node, mode),
        };
        allowed_mode(fs::chownat(CWD, &**node, uid, gid, still), meta.mode)
            .and_then(set_mode)
            .and_then(|()| fs::utimensat(CWD, &**node, &times(meta.mtime), still))
            .map_err(|cause| io_error("setting mode and time of", node, cause))
    }
}

/// The error number of an error; `EIO` if it has none.
fn errno(error: &std::io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

/// The path of an entry of a directory.
fn within(dir: &Path, name: &[u8]) -> Arc<Path> {
    dir.join(OsStr::from_bytes(name)).into()
}

/// Opens a file for reading, but not through a symbolic link.
fn open(path: &Arc<Path>) -> rustix::io::Result<HostFile> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = fs::open(&**path, flags, Mode::empty())?;
    Ok(HostFile { opened: Opened::Old(fd.into()), path: Arc::clone(path) })
}

/// Begins a draft of a file with this mode. Its owner may write to it until it is complete, but a file that it replaces
/// keeps its own mode.
fn begin(path: &Path, mode: u32) -> rustix::io::Result<Opened> {
    let is_widened = mode & OWNER_WRITES != OWNER_WRITES;
    let is_narrowed = is_widened && matches!(fs::lstat(path), Err(Errno::NOENT));
    let draft = Draft::begin(path, mode | OWNER_WRITES).map_err(|error| errno(&error))?;
    Ok(Opened::New(draft, is_narrowed.then_some(mode)))
}

/// Removes all permission bits of a file but those in `mode`.
fn narrow_mode(file: &File, mode: u32) -> rustix::io::Result<()> {
    let own = fs::fstat(file)?.st_mode;
    fs::fchmod(file, Mode::from_raw_mode(own & mode))
}

/// Sets owner, mode and, last, time.
fn set_owner_mode_time(file: &File, meta: &Meta) -> rustix::io::Result<()> {
    let owned = fs::fchown(file, Some(Uid::from_raw(meta.uid)), Some(Gid::from_raw(meta.gid)));
    fs::fchmod(file, allowed_mode(owned, meta.mode)?)?;
    fs::futimens(file, &times(meta.mtime))
}

/// The mode to set after the owner. Only root may change owners; for other users the copy stays theirs, and loses the
/// set-id bits.
fn allowed_mode(owned: rustix::io::Result<()>, mode: u32) -> rustix::io::Result<Mode> {
    match owned {
        Ok(()) => Ok(Mode::from_raw_mode(mode)),
        Err(Errno::PERM) => Ok(Mode::from_raw_mode(mode & !SET_ID)),
        Err(cause) => Err(cause),
    }
}

/// Time of the last access and of the last change, both set to `mtime`.
fn times(mtime: Time) -> Timestamps {
    let time = Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanos.into() };
    Timestamps { last_access: time, last_modification: time }
}

/// Metadata of a file of the host.
fn meta_of(stat: &fs::Stat) -> Meta {
    Meta {
        kind: Kind::from_mode(stat.st_mode),
        mode: stat.st_mode & 0o7777,
        uid: stat.st_uid,
        gid: stat.st_gid,
        size: stat.st_size as u64,
        stored: stat.st_blocks as u64 * 512,
        names: stat.st_nlink,
        mtime: Time { seconds: stat.st_mtime, nanos: stat.st_mtime_nsec as u32 },
    }
}

/// Kind of a file of the host; `None` for a device, pipe or socket.
fn kind_of(kind: std::fs::FileType) -> Option<Kind> {
    match () {
        () if kind.is_dir() => Some(Kind::Directory),
        () if kind.is_symlink() => Some(Kind::Symlink),
        () if kind.is_file() => Some(Kind::File),
        () => None,
    }
}

/// The action and the path, for messages.
fn describe(action: &str, path: &Path) -> impl Display {
    format!("{action} {}", path.display())
}

/// The error of a system call, with a text of its own if the file system does not support what was asked.
#[cold]
fn io_error(action: &str, path: &Path, cause: Errno) -> Error {
    match cause {
        Errno::OPNOTSUPP => Error::new(
            ErrorKind::NotSupported,
            format!("{}: the file system there does not support it", describe(action, path)),
        ),
        _ => Error::io(describe(action, path), &cause.into()),
    }
}
