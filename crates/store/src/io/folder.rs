//! Directories of a pool, opened safely: no link is followed, and nobody may write to an entry who is not supposed
//! to.
use super::sys;
use esker_os::open_plain;
use esker_types::{Error, ErrorKind, Result};
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Write permissions in the mode of a file.
const WRITERS: u32 = 0o222;
const NOT_THE_OWNER: u32 = 0o022;

/// An open directory. Its entries must have the same owner.
pub(crate) struct Folder {
    file: File,
    /// For messages.
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
    /// Opens the directory at `path`; links on the way are followed.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = File::options().read(true).custom_flags(libc::O_DIRECTORY).open(path);
        Self::new(file.map_err(|error| failed("opening", path, &error))?, path.to_owned())
    }

    fn new(file: File, path: PathBuf) -> Result<Self> {
        let info = file.metadata().map_err(|error| failed("looking at", &path, &error))?;
        let read_only = sys::is_read_only(&file);
        let read_only = read_only.map_err(|error| failed("looking at", &path, &error))?;
        Ok(Self { file, path, owner: info.uid(), group: info.gid(), read_only })
    }

    /// True if the file system is mounted read-only for this process.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// The most access for which files in it can be opened.
    pub(crate) fn most(&self) -> Use {
        if self.read_only { Use::Read } else { Use::Write }
    }

    /// Its path, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A path to this very directory that stays valid while it is open, whatever happens to its name.
    pub(crate) fn handle(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.file.as_raw_fd()).into()
    }

    /// Verifies that nobody may write to the directory itself who may not by `mode`.
    pub(crate) fn limit_writers(&self, mode: u32) -> Result<()> {
        let info =
            self.file.metadata().map_err(|error| failed("looking at", &self.path, &error))?;
        match info.mode() & NOT_THE_OWNER & !mode {
            0 => Ok(()),
            _ => Err(self.refused(&self.path, "others may write to it", &info, mode)),
        }
    }

    /// Opens a directory in it, and verifies that nobody may write to it who may not by `mode`.
    pub(crate) fn folder(&self, name: &str, mode: u32) -> Result<Self> {
        let flags = libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let opened = File::options().read(true).custom_flags(flags).open(self.handle().join(name));
        let path = self.path.join(name);
        let folder = Self::new(opened.map_err(|error| not_opened(&path, &error))?, path)?;
        if folder.owner != self.owner {
            let info = folder.file.metadata();
            let info = info.map_err(|error| failed("looking at", &folder.path, &error))?;
            return Err(self.refused(&folder.path, "it has another owner", &info, mode));
        }
        folder.limit_writers(mode)?;
        Ok(folder)
    }

    /// Opens a file in it, and verifies that its writers are those of `mode`, or nobody.
    pub(crate) fn file(&self, name: &str, wanted: Use, mode: u32) -> Result<File> {
        let file = self.any_file(name, wanted)?;
        self.check(name, &file, mode)?;
        Ok(file)
    }

    /// As [`Folder::file`], but without [`Folder::check`].
    pub(crate) fn any_file(&self, name: &str, wanted: Use) -> Result<File> {
        let opened = open_plain(&self.handle().join(name), wanted == Use::Write);
        opened.map_err(|error| not_opened(&self.path.join(name), &error))
    }

    /// Verifies owner, type and permissions of an open file.
    pub(crate) fn check(&self, name: &str, file: &File, mode: u32) -> Result<()> {
        let info = file.metadata();
        let info = info.map_err(|error| failed("looking at", &self.path.join(name), &error))?;
        self.check_info(name, &info, mode)
    }

    /// Metadata of an entry, without opening it; `None` if there is none.
    pub(crate) fn info(&self, name: &str, mode: u32) -> Result<Option<Metadata>> {
        match std::fs::symlink_metadata(self.handle().join(name)) {
            Ok(info) => self.check_info(name, &info, mode).map(|()| Some(info)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed("looking at", &self.path.join(name), &error)),
        }
    }

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
        Err(self.refused(&self.path.join(name), trouble, info, mode))
    }

    #[cold]
    fn refused(&self, path: &Path, trouble: &str, info: &Metadata, mode: u32) -> Error {
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

    /// Creates an empty file in it.
    pub(crate) fn create(&self, name: &str, mode: u32) -> Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(mode);
        let file = options.open(self.handle().join(name)).and_then(|file| {
            file.set_permissions(Permissions::from_mode(mode))?;
            Ok(file)
        });
        file.map_err(|error| failed("making", &self.path.join(name), &error))
    }
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> Error {
    Error::io(format_args!("{doing} {}", path.display()), error)
}

/// A link is reported in two ways by `O_NOFOLLOW`.
fn not_opened(path: &Path, error: &io::Error) -> Error {
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
        _ => failed("opening", path, error),
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

    /// A pool whose entry `name` somebody has exchanged for what `exchange` makes of both paths, where the
    /// first has the content now; what opening and checking it say, and whether the content stayed.
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
    fn files_that_have_a_name_elsewhere_too_are_not_opened() {
        let link = |to: &Path, at: &Path| fs::hard_link(to, at).unwrap();
        FILES.iter().for_each(|name| refused(name, link));
    }

    #[test]
    fn only_plain_files_are_opened() {
        let socket = |_: &Path, at: &Path| {
            std::os::unix::net::UnixListener::bind(at).map(drop).unwrap();
        };
        // What is not even opened has no mode to be told of.
        FILES[4..].iter().for_each(|name| refused(name, socket));
    }

    #[test]
    fn nobody_else_may_write_to_a_pool() {
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

    /// What a member of a pool's group gets done in the directory of a target; `None` if this process may
    /// not act as another user.
    fn as_a_member(pool: &Scratch, work: &str) -> Option<bool> {
        let member = ["--reuid=65534", "--regid=65534", "--groups=1", "sh", "-c", work];
        let place = pool.path().join("target-0");
        // SAFETY: a plain question to the kernel.
        let is_root = unsafe { libc::geteuid() } == 0;
        let ran = is_root.then(|| {
            let mut program = std::process::Command::new("setpriv");
            program.args(member).current_dir(place).stderr(std::process::Stdio::null()).status()
        });
        ran.and_then(|status| status.ok()).map(|status| status.success())
    }

    #[test]
    fn members_of_the_group_exchange_no_files() {
        let mut pool = Scratch::new(24 << 20, |spec| {
            spec.targets = Some(1);
            spec.group = Some("1".to_owned());
        });
        let Some(read) = as_a_member(&pool, "cat data >/dev/null") else {
            return esker_testing::skip("this needs to be root, and setpriv");
        };
        assert!(read, "members may use the pool");
        let exchange = "mv data data.old && ln data.old other && ln -s data.old data";
        assert_eq!(as_a_member(&pool, exchange), Some(false));
        pool.reopen();
        let wide = Permissions::from_mode(0o2770);
        fs::set_permissions(pool.path().join("target-0"), wide).unwrap();
        pool.reopen();
        let exchange = "cp data data.new && mv data data.old && mv data.new data";
        assert_eq!(as_a_member(&pool, exchange), Some(true), "as in the first release");
        pool.close();
        let refused = Pool::open(&pool.path()).map(drop).unwrap_err();
        assert!(refused.message().contains("another owner"), "{refused}");
        fs::rename(pool.path().join("target-0/data.old"), pool.path().join("target-0/data"))
            .unwrap();
        pool.reopen();
    }
}
