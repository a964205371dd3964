//! Directories of a pool, opened safely: links are not followed, and files with unexpected writers are refused.
use super::sys;
use esker_os::open_plain;
use esker_types::{Error, ErrorKind, Result};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Write permissions of all users in the mode of a file.
const WRITERS: u32 = 0o222;
const WRITERS_BUT_OWNER: u32 = 0o022;

/// An open directory. Its entries must have the same owner as the directory.
pub(crate) struct Folder {
    file: File,
    /// Path, for messages.
    path: PathBuf,
    owner: u32,
    group: u32,
    read_only: bool,
}

/// Access for which a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// Read only.
    Read,
    /// Read and write.
    Write,
}

impl Folder {
    /// Opens the directory at `path`. Links in the path are followed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path);
        Self::new(file.map_err(|error| io_error("opening", path, &error))?, path.to_owned())
    }

    /// An open directory, with its owner, its group, and the mode in which its file system is mounted.
    fn new(file: File, path: PathBuf) -> Result<Self> {
        let info =
            file.metadata().map_err(|error| io_error("reading the metadata of", &path, &error))?;
        let read_only = sys::is_read_only(&file);
        let read_only =
            read_only.map_err(|error| io_error("reading the metadata of", &path, &error))?;
        Ok(Self { file, path, owner: info.uid(), group: info.gid(), read_only })
    }

    /// True if the file system is mounted read-only for this process.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Maximum access for which its files can be opened.
    pub(crate) fn most(&self) -> Use {
        if self.read_only { Use::Read } else { Use::Write }
    }

    /// Path of the directory, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path to this open directory. It stays valid if the directory is renamed or replaced.
    pub(crate) fn handle(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Verifies that only users with write permission in `mode` may write to the directory itself.
    pub(crate) fn limit_writers(&self, mode: u32) -> Result<()> {
        let info = self
            .file
            .metadata()
            .map_err(|error| io_error("reading the metadata of", &self.path, &error))?;
        match info.mode() & WRITERS_BUT_OWNER & !mode {
            0 => Ok(()),
            _ => Err(self.changed_error(&self.path, "others may write to it", &info, mode)),
        }
    }

    /// Opens a subdirectory, and verifies that only users with write permission in `mode` may write to it.
    pub(crate) fn folder(&self, name: &str, mode: u32) -> Result<Self> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let opened = File::options().read(true).custom_flags(flags).open(self.handle().join(name));
        let path = self.path.join(name);
        let folder = Self::new(opened.map_err(|error| open_error(&path, &error))?, path)?;
        if folder.owner != self.owner {
            let info = folder.file.metadata();
            let info =
                info.map_err(|error| io_error("reading the metadata of", &folder.path, &error))?;
            return Err(self.changed_error(&folder.path, "it has another owner", &info, mode));
        }
        folder.limit_writers(mode)?;
        Ok(folder)
    }

    /// Opens a file, and verifies that it has the write permissions in `mode` or none.
    pub(crate) fn file(&self, name: &str, wanted: Use, mode: u32) -> Result<File> {
        let file = self.any_file(name, wanted)?;
        self.check(name, &file, mode)?;
        Ok(file)
    }

    /// Variant of [`Folder::file`] without [`Folder::check`].
    pub(crate) fn any_file(&self, name: &str, wanted: Use) -> Result<File> {
        let opened = open_plain(&self.handle().join(name), wanted == Use::Write);
        opened.map_err(|error| open_error(&self.path.join(name), &error))
    }

    /// Verifies that an open file has the owner, the type and the write permissions of `mode` with which it was
    /// created.
    pub(crate) fn check(&self, name: &str, file: &File, mode: u32) -> Result<()> {
        let info = file.metadata();
        let info = info
            .map_err(|error| io_error("reading the metadata of", &self.path.join(name), &error))?;
        self.check_info(name, &info, mode)
    }

    /// Metadata of an entry, without opening it; `None` if it does not exist. Fails if it is not as it was created with
    /// `mode`.
    pub(crate) fn info(&self, name: &str, mode: u32) -> Result<Option<Metadata>> {
        match std::fs::symlink_metadata(self.handle().join(name)) {
            Ok(info) => self.check_info(name, &info, mode).map(|()| Some(info)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("reading the metadata of", &self.path.join(name), &error)),
        }
    }

    /// Fails if a file is not as it was created with `mode`. A file without any write permission is accepted.
    fn check_info(&self, name: &str, info: &Metadata, mode: u32) -> Result<()> {
        let shared = mode & 0o020 != 0;
        let writers = info.mode() & WRITERS;
        let trouble = match () {
            () if !info.is_file() => "it is not a regular file",
            () if info.uid() != self.owner => "it has another owner",
            () if shared && info.gid() != self.group => "it has another group",
            () if info.nlink() > 1 => "it has a second hard link",
            () if writers != 0 && writers != mode & WRITERS => "its write permissions differ",
            () => return Ok(()),
        };
        Err(self.changed_error(&self.path.join(name), trouble, info, mode))
    }

    /// Error for an entry that is not as the pool was created. `trouble` says how it differs, `mode` is the expected
    /// one.
    #[cold]
    fn changed_error(&self, path: &Path, trouble: &str, info: &Metadata, mode: u32) -> Error {
        let message = format!(
            "{} is not as the pool was created: {trouble} (user {}, group {}, mode {:o}; expected: \
             user {}, group {}, mode {mode:o}). Find out who changed it, then restore it",
            path.display(),
            info.uid(),
            info.gid(),
            info.mode() & 0o7777,
            self.owner,
            self.group,
        );
        Error::new(ErrorKind::NoPermission, message)
    }

    /// Creates an empty file in the directory, with the permissions `mode`.
    pub(crate) fn create(&self, name: &str, mode: u32) -> Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = options.open(self.handle().join(name)).and_then(|file| {
            // The umask of the process may have removed permissions.
            file.set_permissions(Permissions::from_mode(mode))?;
            Ok(file)
        });
        file.map_err(|error| io_error("creating", &self.path.join(name), &error))
    }
}

fn io_error(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}

/// Error of opening a file or directory without which a pool cannot be used: if it is missing, names the remedy.
pub(crate) fn missing_part_error(error: Error) -> Error {
    match error.kind() {
        ErrorKind::NotFound => Error::new(
            ErrorKind::Corrupt,
            format!(
                "a part of the pool is missing: {error}; restore it, or copy what is left into a new pool with \
                 `esker pool salvage`"
            ),
        ),
        _ => error,
    }
}

/// Error of an open with `O_NOFOLLOW`, which reports a link in one of two ways.
fn open_error(path: &Path, error: &io::Error) -> Error {
    let is_link = || path.symlink_metadata().is_ok_and(|info| info.is_symlink());
    match error.raw_os_error() {
        Some(libc::ELOOP | libc::ENOTDIR) if is_link() => Error::new(
            ErrorKind::NoPermission,
            format!(
                "{} is a link, which a pool must not contain: find out who put it there, then restore \
                 the original",
                path.display()
            ),
        ),
        _ => io_error("opening", path, error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Pool;
    use crate::tests::Scratch;
    use std::fs;
    use std::os::unix::fs::symlink;

    const FILES: [&str; 5] =
        ["pool", "control", "target-1/data", "target-1/index/data.mdb", "target-1/index/lock.mdb"];
    const FOLDERS: [&str; 2] = ["target-0", "target-1/index"];

    /// Replaces the entry `name` of a pool by what `exchange` creates, which gets the paths of the saved entry and of
    /// the new one. Expects that opening and checking the pool fail and do not change the saved entry.
    fn refused(name: &str, exchange: impl Fn(&Path, &Path)) {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        let (place, away) = (pool.path().join(name), pool.path().with_file_name("away"));
        fs::rename(&place, &away).unwrap();
        exchange(&away, &place);
        let content =
            || (away.is_file().then(|| fs::read(&away).unwrap()), away.metadata().unwrap().len());
        let before = content();
        let checked = Pool::check(&pool.path(), true, &mut |_, _| {}).map(drop);
        for outcome in [Pool::open(&pool.path()).map(drop), checked] {
            let error = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoPermission, "{name}: {error}");
            assert!(error.message().contains(&*place.to_string_lossy()), "{name}: {error}");
        }
        assert!(content() == before, "{name} was written to");
        fs::remove_file(&place).unwrap();
        fs::rename(&away, &place).unwrap();
        pool.reopen();
    }

    #[test]
    fn links_in_a_pool_are_not_followed() {
        let link = |to: &Path, at: &Path| symlink(to, at).unwrap();
        FILES.iter().chain(&FOLDERS).for_each(|name| refused(name, link));
    }

    #[test]
    fn files_with_a_second_hard_link_are_refused() {
        let link = |to: &Path, at: &Path| fs::hard_link(to, at).unwrap();
        FILES.iter().for_each(|name| refused(name, link));
    }

    #[test]
    fn only_regular_files_are_opened() {
        let socket = |_: &Path, at: &Path| {
            std::os::unix::net::UnixListener::bind(at).map(drop).unwrap();
        };
        // Only entries that are not opened by the superblock code can be sockets here.
        FILES[4..].iter().for_each(|name| refused(name, socket));
    }

    #[test]
    fn missing_part_of_a_pool_is_named_with_the_remedy() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        let away = pool.path().with_file_name("away");
        for name in FILES[1..4].iter().chain(&FOLDERS) {
            let place = pool.path().join(name);
            fs::rename(&place, &away).unwrap();
            let checked = Pool::check(&pool.path(), true, &mut |_, _| {}).map(drop);
            for outcome in [Pool::open(&pool.path()).map(drop), checked] {
                let error = outcome.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{name}: {error}");
                for part in [&*place.to_string_lossy(), "esker pool salvage"] {
                    assert!(error.message().contains(part), "{name}: {error}");
                }
            }
            fs::rename(&away, &place).unwrap();
        }
        pool.reopen();
    }

    #[test]
    fn pool_writable_by_other_users_is_refused() {
        let mut pool = Scratch::new(24 << 20, |spec| spec.targets = Some(2));
        pool.close();
        let change = |name: &str, mode: u32| {
            fs::set_permissions(pool.path().join(name), Permissions::from_mode(mode)).unwrap();
        };
        let opened = || Pool::open(&pool.path()).map(drop).map_err(|error| error.kind());
        for (name, mode) in
            FILES.iter().map(|name| (name, 0o600)).chain(FOLDERS.iter().map(|name| (name, 0o700)))
        {
            change(name, mode | 0o044);
            assert_eq!(opened(), Ok(()), "{name} may be read by others");
            for wide in [0o020, 0o002] {
                change(name, mode | wide);
                assert_eq!(opened(), Err(ErrorKind::NoPermission), "{name} {:o}", mode | wide);
            }
            change(name, mode);
        }
        change("", 0o777);
        assert_eq!(opened(), Err(ErrorKind::NoPermission));
        change("", 0o755);
        assert_eq!(opened(), Ok(()));
    }

    /// Runs a shell command in the directory of a target as a member of the pool's group; true if it succeeded. `None`
    /// if this process may not act as another user.
    fn run_as_member(pool: &Scratch, work: &str) -> Option<bool> {
        let member = ["--reuid=65534", "--regid=65534", "--groups=1", "sh", "-c", work];
        let place = pool.path().join("target-0");
        // SAFETY: a system call without arguments.
        let is_root = unsafe { libc::geteuid() } == 0;
        let ran = is_root.then(|| {
            let mut program = std::process::Command::new("setpriv");
            program.args(member).current_dir(place).stderr(std::process::Stdio::null()).status()
        });
        ran.and_then(|status| status.ok()).map(|status| status.success())
    }

    /// Members of the group write to the files of a pool, but cannot change the set of files. In pools of the first
    /// release they could, which is detected.
    #[test]
    fn group_members_cannot_replace_files() {
        let mut pool = Scratch::new(24 << 20, |spec| {
            spec.targets = Some(1);
            spec.group = Some("1".to_owned());
        });
        let Some(read) = run_as_member(&pool, "cat data >/dev/null") else {
            return esker_testing::skip("this needs to be root, and setpriv");
        };
        assert!(read, "members may use the pool");
        let exchange = "mv data data.old && ln data.old other && ln -s data.old data";
        assert_eq!(run_as_member(&pool, exchange), Some(false));
        pool.reopen();
        let wide = Permissions::from_mode(0o2770);
        fs::set_permissions(pool.path().join("target-0"), wide).unwrap();
        pool.reopen();
        let exchange = "cp data data.new && mv data data.old && mv data.new data";
        assert_eq!(run_as_member(&pool, exchange), Some(true), "as in the first release");
        pool.close();
        let refused = Pool::open(&pool.path()).map(drop).unwrap_err();
        assert!(refused.message().contains("another owner"), "{refused}");
        fs::rename(pool.path().join("target-0/data.old"), pool.path().join("target-0/data"))
            .unwrap();
        pool.reopen();
    }
}
