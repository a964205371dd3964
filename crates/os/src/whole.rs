//! Files that appear under their names only when they are complete.
use esker_types::{Error, Result};
use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open, stat};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Most bytes of a file's name that its temporary name contains: names have at most 255 (Linux: `NAME_MAX`).
const SHOWN_MAX: usize = 200;
/// Most symbolic links on the way to a file (Linux: `MAXSYMLINKS`).
const LINKS_MAX: usize = 40;

/// A file that has no name, or a temporary one in the same directory, until [`Draft::publish`] gives it its own. If it
/// is dropped before, it is removed. A killed process leaves nothing, except a hidden file on file systems without
/// `O_TMPFILE`.
///
/// An existing file stays as it is until then; its mode and owner become those of the new one. It is written in place
/// if it has several names or another owner, or if its directory cannot be written: then no equal file can replace it.
#[derive(Debug)]
pub struct Draft {
    /// The file, open for reading and writing.
    pub file: File,
    path: PathBuf,
    state: State,
}

/// State of a draft.
#[derive(Debug)]
enum State {
    /// It is the file itself, which is overwritten, or a draft that has its name already.
    InPlace,
    /// It has no name yet (`O_TMPFILE`).
    Nameless,
    /// It has this temporary name.
    Temporary(PathBuf),
}

impl Draft {
    /// Begins an empty draft of the file `path`. A new file gets `mode` less the umask. An existing file that cannot be
    /// replaced is truncated and written in place. A symbolic link is not followed.
    ///
    /// # Errors
    /// Errors of the file system, such as a full disk; `ELOOP` for a symbolic link. An existing file is then unchanged.
    pub fn begin(path: &Path, mode: u32) -> io::Result<Self> {
        let old = existing(path)?;
        match Self::replacing(path, mode, old.as_ref()) {
            Err(error) if old.is_some() && cannot_replace(&error) => Self::in_place(path),
            begun => begun,
        }
    }

    /// Begins a draft that replaces the file with the metadata `old`, if any. It has no name if the file system can do
    /// that, else a temporary one.
    fn replacing(path: &Path, mode: u32, old: Option<&Metadata>) -> io::Result<Self> {
        // A file with several names is not replaced: its other names would keep the old content.
        if old.is_some_and(|old| old.nlink() > 1) {
            return Err(Errno::MLINK.into());
        }
        let (file, state) = match nameless(directory_of(path), mode) {
            Ok(file) => (file.into(), State::Nameless),
            Err(_) => {
                let mut options = OpenOptions::new();
                options.read(true).write(true).create_new(true).mode(mode);
                let (file, name) = at_temporary(path, |name| options.open(name))?;
                (file, State::Temporary(name))
            }
        };
        let draft = Self { file, path: path.to_owned(), state };
        old.map_or(Ok(()), |old| draft.take_over(old))?;
        Ok(draft)
    }

    /// Copies the owner and the mode of the file with the metadata `old`, which the draft replaces.
    fn take_over(&self, old: &Metadata) -> io::Result<()> {
        let own = self.file.metadata()?;
        if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
            fchown(&self.file, Some(old.uid()), Some(old.gid()))?;
        }
        self.file.set_permissions(Permissions::from_mode(old.mode() & 0o7777))
    }

    /// Opens a file to be overwritten in place, for files that cannot be replaced.
    fn in_place(path: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).truncate(true).custom_flags(libc::O_NOFOLLOW);
        Ok(Self { file: options.open(path)?, path: path.to_owned(), state: State::InPlace })
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// Errors of the file system; an existing file of this name is then unchanged.
    pub fn publish(mut self) -> io::Result<()> {
        if let State::Nameless = self.state {
            match name_it(&self.file, &self.path) {
                // A new link does not replace a file, but a rename does.
                Err(Errno::EXIST) => {
                    let named = |name: &Path| Ok(name_it(&self.file, name)?);
                    let ((), name) = at_temporary(&self.path, named)?;
                    self.state = State::Temporary(name);
                }
                named => return Ok(named?),
            }
        }
        if let State::Temporary(name) = &self.state {
            fs::rename(name, &self.path)?;
            // The temporary name is gone, so no drop removes it.
            self.state = State::InPlace;
        }
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let State::Temporary(name) = &self.state {
            let _ = fs::remove_file(name);
        }
    }
}

/// True for the errors of [`Draft::replacing`] that mean that a file must be written in place: it has several names, or
/// this user may not create an equal file in its directory.
fn cannot_replace(error: &io::Error) -> bool {
    // A user namespace without the owner of the file reports `EINVAL` or `EOVERFLOW`, and a file system without owners
    // or permissions one of the last two.
    let causes = [
        Errno::MLINK,
        Errno::PERM,
        Errno::ACCESS,
        Errno::ROFS,
        Errno::INVAL,
        Errno::OVERFLOW,
        Errno::NOSYS,
        Errno::OPNOTSUPP,
    ];
    Errno::from_io_error(error).is_some_and(|error| causes.contains(&error))
}

/// Calls `make` with a temporary path beside `path`, and with further ones while the file exists: a process with the
/// same number, on another node or before a reboot, may have left it. Returns the result and the path.
fn at_temporary<T>(
    path: &Path,
    mut make: impl FnMut(&Path) -> io::Result<T>,
) -> io::Result<(T, PathBuf)> {
    loop {
        let name = temporary_of(path);
        match make(&name) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            made => return Ok((made?, name)),
        }
    }
}

/// The metadata of the regular file at `path`, or `None` if there is nothing. Anything else there is an error: it must
/// not be replaced.
fn existing(path: &Path) -> io::Result<Option<Metadata>> {
    match path.symlink_metadata() {
        Ok(there) if there.is_file() => Ok(Some(there)),
        Ok(there) if there.is_symlink() => Err(Errno::LOOP.into()),
        Ok(there) if there.is_dir() => Err(Errno::ISDIR.into()),
        Ok(_) => Err(Errno::EXIST.into()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// The directory of a path; `.` for a mere name.
fn directory_of(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Creates a file in `directory` without a name, which [`name_it`] can give one later.
fn nameless(directory: &Path, mode: u32) -> io::Result<OwnedFd> {
    // Under `esker run`, the directory may be one of a container: then the C library and the kernel see different ones.
    let (seen, known) = (directory.metadata()?, stat(directory)?);
    if (seen.dev(), seen.ino()) != (known.st_dev, known.st_ino) {
        return Err(Errno::OPNOTSUPP.into());
    }
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let file = open(directory, flags, Mode::from_raw_mode(mode))?;
    // Without `/proc`, the file could not get a name later.
    stat(link_to(&file))?;
    Ok(file)
}

/// Gives a file without a name the name `path`. Fails with `EEXIST` if the name is taken.
fn name_it(file: &impl AsRawFd, path: &Path) -> rustix::io::Result<()> {
    linkat(CWD, link_to(file), CWD, path, AtFlags::SYMLINK_FOLLOW)
}

/// The path in `/proc` that leads to an open file.
fn link_to(file: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Returns a path in the directory of `path` that this process has not used. Since it is in the same directory, the
/// file can be renamed to `path` atomically.
fn temporary_of(path: &Path) -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = path.file_name().unwrap_or_default().as_encoded_bytes();
    let shown = String::from_utf8_lossy(&name[..name.len().min(SHOWN_MAX)]);
    let mut unused = OsString::from(".");
    unused.push(shown.chars().take(SHOWN_MAX / 4).collect::<String>());
    unused.push(format!(".{}.{count}.part", std::process::id()));
    path.with_file_name(unused)
}

/// A file that is written under a temporary name; [`WholeFile::finish`] gives it its final name. If it is dropped
/// before, it is removed. See [`Draft`] for files that exist. A pipe or device is written directly, as is a
/// descriptor's name in `/proc` or `/dev/fd`.
pub struct WholeFile {
    path: PathBuf,
    file: BufWriter<File>,
    draft: Option<Draft>,
}

impl WholeFile {
    /// Creates the file `path`, following symbolic links. An existing file of that name is kept until the new one is
    /// complete.
    ///
    /// # Errors
    /// If the directory does not exist, or if it or an existing file cannot be written.
    pub fn create(path: &Path) -> Result<Self> {
        Self::begin(path).map_err(|error| io_error(path, &error))
    }

    /// Begins to write: to a draft that replaces the file, or to the file itself if that is a pipe or a device.
    fn begin(path: &Path) -> io::Result<Self> {
        let (path, draft) = (path.to_owned(), draft_of(path)?);
        let file = match &draft {
            Some(draft) => draft.file.try_clone()?,
            None => File::options().write(true).truncate(true).open(&path)?,
        };
        Ok(Self { path, file: BufWriter::new(file), draft })
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// If the medium is full or fails.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|error| io_error(&self.path, &error))
    }

    /// Syncs the data and gives the file its name.
    ///
    /// # Errors
    /// If the medium is full or fails; an existing file of this name is then unchanged.
    pub fn finish(mut self) -> Result<()> {
        self.publish().map_err(|error| io_error(&self.path, &error))
    }

    /// Writes out the buffer, and gives the draft the name of the file. Syncs the draft before that, so that a crash
    /// leaves the old or the new content.
    fn publish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        match self.draft.take() {
            Some(draft) => {
                draft.file.sync_data()?;
                Ok(draft.publish()?)
            }
            None => Ok(()),
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Writes a whole file: `bytes` become its content.
///
/// # Errors
/// The errors of [`WholeFile::create`] and [`WholeFile::finish`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = WholeFile::create(path)?;
    file.write(bytes)?;
    file.finish()
}

/// Checks that a file of this name can be written.
///
/// # Errors
/// The errors of [`WholeFile::create`].
pub fn check(path: &Path) -> Result<()> {
    WholeFile::create(path).map(drop)
}

/// The draft for a file, or `None` for a pipe, a device or a descriptor's name, which is written directly. Fails if an
/// existing file is not writable.
fn draft_of(path: &Path) -> io::Result<Option<Draft>> {
    let Some(path) = target_of(path)? else { return Ok(None) };
    match path.metadata() {
        Ok(there) if there.is_file() => drop(File::options().write(true).open(&path)?),
        Ok(_) => return Ok(None),
        // There is no file yet, or the draft reports the error.
        Err(_) => {}
    }
    Ok(Some(Draft::begin(&path, 0o666)?))
}

/// Follows the symbolic links of a path, and returns the path of the file. `None` if one of the links is in `/proc`:
/// such a link refers to an open file, not to a name.
fn target_of(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let directory = directory_of(&path).canonicalize()?;
        match path.read_link() {
            _ if directory.starts_with("/proc") => return Ok(None),
            Ok(target) => path = directory.join(target),
            Err(_) => return Ok(Some(path)),
        }
    }
    Err(Errno::LOOP.into())
}

fn io_error(path: &Path, error: &io::Error) -> Error {
    Error::io(format!("writing {}", path.display()), error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileTypeExt, symlink};

    /// A directory for the files of a test.
    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("esker-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn names(folder: &Path) -> usize {
        std::fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn unfinished_files_leave_no_trace() {
        let folder = folder("whole-dropped");
        let path = folder.join("a");
        write(&path, b"old").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write(b"new").unwrap();
        drop(file);
        assert_eq!((std::fs::read(&path).unwrap(), names(&folder)), (b"old".to_vec(), 1));
        write(&path, b"new").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names(&folder)), (b"new".to_vec(), 1));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn devices_are_written_directly_and_errors_name_them() {
        write(Path::new("/dev/null"), b"gone").unwrap();
        assert!(std::fs::metadata("/dev/null").unwrap().file_type().is_char_device());
        let error = write(Path::new("/dev/full"), b"no room").unwrap_err();
        assert_eq!(error.kind(), esker_types::ErrorKind::NoSpace);
        assert!(error.message().contains("/dev/full"), "{error}");
    }

    #[test]
    fn error_for_missing_directory_names_the_path() {
        let error = write(Path::new("/no/such/file"), b"").unwrap_err();
        assert!(error.message().contains("writing /no/such/file"), "{error}");
    }

    #[test]
    fn mode_links_and_several_names_of_an_existing_file_stay() {
        let folder = folder("whole-kept");
        let (path, link) = (folder.join("a"), folder.join("link"));
        std::fs::write(&path, b"old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o604)).unwrap();
        symlink("a", &link).unwrap();
        write(&link, b"through the link").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"through the link");
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o604);
        assert!(link.symlink_metadata().unwrap().is_symlink());
        let inode = path.metadata().unwrap().ino();
        std::fs::hard_link(&path, folder.join("b")).unwrap();
        write(&path, b"both").unwrap();
        assert_eq!(std::fs::read(folder.join("b")).unwrap(), b"both");
        assert_eq!(path.metadata().unwrap().ino(), inode);
        symlink("new", folder.join("dangling")).unwrap();
        write(&folder.join("dangling"), b"made").unwrap();
        assert_eq!(std::fs::read(folder.join("new")).unwrap(), b"made");
        assert_eq!(names(&folder), 5);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A file that a shell opened for a command is written in place, not replaced.
    #[test]
    fn a_descriptor_is_written_in_place() {
        let folder = folder("whole-descriptor");
        let path = folder.join("a");
        let file = File::create(&path).unwrap();
        let inode = path.metadata().unwrap().ino();
        write(&link_to(&file), b"bytes").unwrap();
        write(Path::new(&format!("/dev/fd/{}", file.as_raw_fd())), b"other").unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), names(&folder)), (b"other".to_vec(), 1));
        assert_eq!(path.metadata().unwrap().ino(), inode);
        std::fs::remove_dir_all(&folder).unwrap();
    }

    /// A disk that has no room for the draft must not cost the old content.
    #[test]
    fn file_is_truncated_only_if_it_cannot_be_replaced() {
        let refuses = |error: Errno| cannot_replace(&error.into());
        let causes = [Errno::MLINK, Errno::PERM, Errno::ACCESS];
        assert!(causes.into_iter().all(refuses));
        let failures = [Errno::NOSPC, Errno::DQUOT, Errno::IO, Errno::EXIST, Errno::MFILE];
        assert!(!failures.into_iter().any(refuses));
    }

    #[test]
    fn temporary_names_left_by_others_are_skipped() {
        let folder = folder("whole-left");
        let path = folder.join("a");
        let mut left = 3;
        let create = |name: &Path| {
            if left > 0 {
                left -= 1;
                File::create(name)?;
            }
            File::create_new(name)
        };
        let (_, name) = at_temporary(&path, create).unwrap();
        assert_eq!((left, names(&folder), name.exists()), (0, 4, true));
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn draft_replaces_file_with_longest_name() {
        let folder = folder("whole-draft");
        let path = folder.join("n".repeat(255));
        for text in ["first", "second"] {
            let draft = Draft::begin(&path, 0o640).unwrap();
            (&draft.file).write_all(text.as_bytes()).unwrap();
            draft.publish().unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let name = temporary_of(&path);
        let file = File::create(&name).unwrap();
        drop(Draft { file, path: path.clone(), state: State::Temporary(name) });
        assert_eq!((std::fs::read(&path).unwrap(), names(&folder)), (b"second".to_vec(), 1));
        symlink("a", folder.join("link")).unwrap();
        let refused = Draft::begin(&folder.join("link"), 0o600).unwrap_err();
        assert_eq!(Errno::from_io_error(&refused), Some(Errno::LOOP));
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
