//! Plain files and their file systems.
use esker_types::{Error, Result};
use rustix::fs::{
    Access, AtFlags, CWD, FallocateFlags, OFlags, RawDir, StatVfsMountFlags, StatxFlags, Timespec,
    Timestamps, UTIME_NOW, accessat, fallocate, fstatvfs, seek, statx, syncfs, utimensat,
};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// First and largest size in bytes of the buffer for the names of a directory.
const NAMES_BYTES: usize = 32 << 10;
const NAMES_BYTES_MAX: usize = 64 << 20;
/// Bytes of an entry in that buffer besides its name, at most.
const ENTRY_BYTES: usize = 32;

/// Directory in which each descriptor of this process has a name by which its file can be opened again.
const DESCRIPTORS: &str = "/proc/self/fd";

/// Opens a file that is not a symbolic link; for writing too if `write` is set.
///
/// # Errors
/// Errors of the file system; `ELOOP` for a symbolic link.
pub fn open_plain(path: &Path, write: bool) -> io::Result<File> {
    // NONBLOCK: opening a pipe must not wait for its other end.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    match open_with(path, write, flags) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
            open_leased(path, write, DESCRIPTORS, error)
        }
        opened => opened,
    }
}

fn open_with(path: &Path, write: bool, flags: OFlags) -> io::Result<File> {
    File::options().read(true).write(write).custom_flags(flags.bits().cast_signed()).open(path)
}

/// Opens a regular file on which another process has a lease, as the server of a network file system has for a
/// delegation. Waits until the kernel has ended the lease. Returns `refused` for another kind of file, and if there is
/// no directory `descriptors`.
fn open_leased(
    path: &Path,
    write: bool,
    descriptors: &str,
    refused: io::Error,
) -> io::Result<File> {
    let found = open_with(path, false, OFlags::PATH | OFlags::NOFOLLOW)?;
    if !found.metadata()?.is_file() {
        return Err(refused);
    }
    let same = format!("{descriptors}/{}", found.as_raw_fd());
    match open_with(Path::new(&same), write, OFlags::NOCTTY) {
        // The file itself exists: it is open.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(refused),
        opened => opened,
    }
}

/// Copies the content of a file into an empty one, and leaves its holes out. Calls `after_each` after each part of at
/// most `part_bytes`.
///
/// # Errors
/// Errors of the file system.
pub fn copy_sparse(
    mut from: &File,
    mut to: &File,
    part_bytes: u64,
    after_each: impl Fn(),
) -> io::Result<()> {
    let mut at = 0;
    while let Some(data) = next_data(from, at)? {
        at = data.start;
        from.seek(SeekFrom::Start(at))?;
        to.seek(SeekFrom::Start(at))?;
        let copied = io::copy(&mut from.take(part_bytes.min(data.end - at)), &mut to)?;
        // The file was truncated meanwhile.
        if copied == 0 {
            break;
        }
        at += copied;
        after_each();
    }
    to.set_len(from.metadata()?.len().max(at))
}

/// The next range of a file, from byte `at` on, that is not a hole; `None` at its end. On file systems that do not know
/// holes, all of the file is data.
fn next_data(file: &File, at: u64) -> io::Result<Option<Range<u64>>> {
    match seek(file, rustix::fs::SeekFrom::Data(at)) {
        Ok(start) => Ok(Some(start..seek(file, rustix::fs::SeekFrom::Hole(start))?)),
        Err(Errno::NXIO) => Ok(None),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => {
            let len = file.metadata()?.len();
            Ok((at < len).then_some(at..len))
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes a network file system look up a path again, because it may have cached a file that another node has replaced
/// or removed.
pub fn look_up_again(path: &Path) {
    // The lookup is all that is wanted. If it fails, so does the next use of the path.
    let _ = statx(CWD, path, AtFlags::STATX_FORCE_SYNC, StatxFlags::INO);
}

/// The names in a directory, at one moment if they fit in 64 MiB and the file system lists that many in one call.
///
/// Between two parts of a listing, another process may replace a file by a rename. Some file systems (Btrfs, tmpfs) then list
/// neither the old nor the new one. So one call reads all names.
///
/// # Errors
/// Errors of the file system.
pub fn names_in(directory: &Path) -> io::Result<Vec<OsString>> {
    names_by(|room| read_names(directory, room))
}

/// Body of [`names_in`]. `read` is [`read_names`].
fn names_by(
    mut read: impl FnMut(usize) -> io::Result<(Vec<OsString>, u32)>,
) -> io::Result<Vec<OsString>> {
    let (mut room, mut before) = (NAMES_BYTES, u32::MAX);
    loop {
        let (mut names, calls) = read(room)?;
        if calls <= 1 {
            return Ok(names);
        }
        // FUSE lists one page per call, whatever the buffer.
        if room == NAMES_BYTES_MAX || calls >= before {
            names.sort_unstable();
            names.dedup();
            return Ok(names);
        }
        before = calls;
        let used: usize = names.iter().map(|name| name.len() + ENTRY_BYTES).sum();
        room = (2 * used.max(room)).min(NAMES_BYTES_MAX);
    }
}

/// The names in a directory, read into a buffer of `room` bytes, and the number of system calls that returned some.
/// With one call, they are those of one moment.
fn read_names(directory: &Path, room: usize) -> io::Result<(Vec<OsString>, u32)> {
    let flags = OFlags::DIRECTORY.bits().cast_signed();
    let file = File::options().read(true).custom_flags(flags).open(directory)?;
    let mut buffer = vec![MaybeUninit::uninit(); room];
    let (mut names, mut calls) = (Vec::new(), 0);
    let mut entries = RawDir::new(&file, &mut buffer);
    loop {
        let is_call = entries.is_buffer_empty();
        let Some(entry) = entries.next() else { return Ok((names, calls)) };
        calls += u32::from(is_call);
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(&name).to_owned());
        }
    }
}

/// Sets the times of a file to now, by the clock of the file system.
///
/// # Errors
/// Errors of the file system.
pub fn touch(path: &Path) -> io::Result<()> {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: now };
    Ok(utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)?)
}

/// Fails unless this process may create and remove names in a directory.
///
/// # Errors
/// Errors of the file system.
pub fn check_may_change(directory: &Path) -> io::Result<()> {
    let names = Access::WRITE_OK | Access::EXEC_OK;
    Ok(accessat(CWD, directory, names, AtFlags::EACCESS)?)
}

/// Allocates space for a range of a file, whose length does not change. Does nothing on file systems that cannot do so.
///
/// # Errors
/// `StorageFull` and other errors of the file system.
pub fn reserve(file: &File, from: u64, len: u64) -> io::Result<()> {
    allocate_in_parts(from, len, |from, len| {
        match fallocate(file, FallocateFlags::KEEP_SIZE, from, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            outcome => Ok(outcome?),
        }
    })
}

/// Allocates a range by calls of `allocate` with an offset and a length. If a signal interrupts a call, the next ones
/// are half as long: tmpfs undoes the whole interrupted call, so under periodic signals a long one would never succeed.
///
/// # Errors
/// The errors of `allocate` except `Interrupted`.
pub fn allocate_in_parts(
    from: u64,
    len: u64,
    mut allocate: impl FnMut(u64, u64) -> io::Result<()>,
) -> io::Result<()> {
    let (mut at, end, mut part) = (from, from.saturating_add(len), len);
    while at < end {
        let next = part.min(end - at);
        match allocate(at, next) {
            Ok(()) => at += next,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => part = next.div_ceil(2),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Free and total bytes of a directory's file system, as available to its user.
///
/// # Errors
/// Errors of the file system.
pub fn space_of(directory: &Path) -> Result<(u64, u64)> {
    mounted(directory).map(|info| (info.f_bavail * info.f_frsize, info.f_blocks * info.f_frsize))
}

/// Writes all data that the page cache has of a directory's file system to the medium.
///
/// # Errors
/// Errors of the file system, also of earlier writes.
pub fn sync_file_system(directory: &Path) -> Result<()> {
    let synced = File::open(directory).and_then(|file| Ok(syncfs(file)?));
    synced.map_err(|error| Error::io(directory.display(), &error))
}

/// True if a directory's file system is mounted read-only for this process.
///
/// # Errors
/// Errors of the file system.
pub fn is_read_only(directory: &Path) -> Result<bool> {
    mounted(directory).map(|info| info.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// State of the file system that contains a directory.
fn mounted(directory: &Path) -> Result<rustix::fs::StatVfs> {
    let info = File::open(directory).and_then(|file| Ok(fstatvfs(file)?));
    info.map_err(|error| Error::io(directory.display(), &error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::{FileExt, MetadataExt};
    use std::path::PathBuf;
    use std::process::{Command, Stdio};
    use std::sync::atomic::{AtomicBool, Ordering};

    /// The file system lists two names per call, whatever the buffer.
    #[test]
    fn listing_ends_where_larger_buffers_do_not_help() {
        let mut rounds = 0;
        let names = names_by(|_| {
            rounds += 1;
            Ok((["b", "a", "a"].map(OsString::from).to_vec(), 2))
        });
        assert_eq!((names.unwrap(), rounds), (["a", "b"].map(OsString::from).to_vec(), 2));
    }

    /// A timer interrupts each call for more than 1000 bytes.
    #[test]
    fn interrupted_allocation_continues_in_shorter_parts() {
        let (mut end, mut calls) = (7, 0);
        let allocate = |from, len| {
            calls += 1;
            assert_eq!(from, end);
            if len > 1000 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            end += len;
            Ok(())
        };
        allocate_in_parts(7, 10_000, allocate).unwrap();
        assert_eq!(end, 10_007);
        assert!(calls <= 21, "{calls} calls");
        let full = allocate_in_parts(0, 1, |_, _| Err(io::ErrorKind::StorageFull.into()));
        assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
        allocate_in_parts(5, 0, |_, _| panic!("there is nothing to allocate")).unwrap();
    }

    /// More names than the first buffer has room for.
    const NAMES: u32 = 3000;

    /// A directory with [`NAMES`] files, removed when the test ends.
    struct Site(PathBuf);

    impl Site {
        /// Creates the directory below `root`.
        fn new(root: &Path, name: &str) -> Self {
            let site = Self(root.join(format!("esker-names-{name}-{}", std::process::id())));
            fs::create_dir(&site.0).unwrap();
            fs::create_dir(site.0.join("listed")).unwrap();
            (0..NAMES).for_each(|number| drop(File::create_new(site.file(number)).unwrap()));
            site
        }

        fn listed(&self) -> PathBuf {
            self.0.join("listed")
        }

        fn file(&self, number: u32) -> PathBuf {
            self.listed().join(format!("file-{number}"))
        }

        /// Replaces a file by a rename.
        fn replace(&self, number: u32) {
            let new = self.0.join("new");
            drop(File::create_new(&new).unwrap());
            fs::rename(new, self.file(number)).unwrap();
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn names_are_read_by_one_call_if_the_buffer_suffices() {
        let site = Site::new(&std::env::temp_dir(), "one");
        assert!(read_names(&site.listed(), NAMES_BYTES).unwrap().1 > 1);
        let (names, calls) = read_names(&site.listed(), NAMES_BYTES * 16).unwrap();
        assert_eq!((names.len(), calls), (NAMES as usize, 1));
        let unique: BTreeSet<_> = names_in(&site.listed()).unwrap().into_iter().collect();
        assert_eq!(unique, names.into_iter().collect());
        assert_eq!(names_in(&site.file(0)).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }

    /// A process that holds a lease, as the server of a network file system does. The kernel ends it by a signal when the
    /// lease is broken.
    const HOLDER: &str = "import fcntl, os, signal, sys
file = os.open(sys.argv[1], os.O_RDWR)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
print('ready', flush=True)
signal.pause()";

    #[test]
    fn leased_files_are_opened_when_the_lease_has_ended() {
        let path = std::env::temp_dir().join(format!("esker-lease-{}", std::process::id()));
        fs::write(&path, b"content").unwrap();
        let mut python = Command::new("python3");
        python.args(["-c", HOLDER]).arg(&path).stdout(Stdio::piped()).stderr(Stdio::null());
        let Ok(mut holder) = python.spawn() else {
            return esker_testing::skip("there is no python3");
        };
        let mut told = String::new();
        BufReader::new(holder.stdout.take().unwrap()).read_line(&mut told).unwrap();
        let opened = open_plain(&path, true);
        let _ = holder.kill();
        holder.wait().unwrap();
        fs::remove_file(&path).unwrap();
        match told.as_str() {
            "ready\n" => assert_eq!(io::read_to_string(opened.unwrap()).unwrap(), "content"),
            _ => esker_testing::skip("the file system has no leases"),
        }
    }

    /// A caller would take the file for missing.
    #[test]
    fn leased_files_are_not_reported_as_missing_without_proc() {
        let path = std::env::temp_dir().join(format!("esker-no-proc-{}", std::process::id()));
        fs::write(&path, b"content").unwrap();
        let opened = |descriptors| {
            open_leased(&path, false, descriptors, io::ErrorKind::WouldBlock.into())
                .map_err(|error| error.kind())
        };
        assert_eq!(opened("/nowhere").err(), Some(io::ErrorKind::WouldBlock));
        assert_eq!(io::read_to_string(opened(DESCRIPTORS).unwrap()).unwrap(), "content");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn copies_leave_holes_out() {
        const HOLE: u64 = 4 << 20;
        let directory = std::env::temp_dir().join(format!("esker-holes-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        let (from, to) = (directory.join("from"), directory.join("to"));
        let original = File::create_new(&from).unwrap();
        for at in [0, HOLE] {
            original.write_all_at(&[7; 100], at).unwrap();
        }
        original.set_len(2 * HOLE).unwrap();
        let original = File::open(&from).unwrap();
        copy_sparse(&original, &File::create_new(&to).unwrap(), 64, || ()).unwrap();
        assert!(fs::read(&from).unwrap() == fs::read(&to).unwrap());
        let allocated = |path| fs::metadata(path).unwrap().blocks() * 512;
        assert!(allocated(&to) < HOLE || allocated(&from) >= HOLE);
        fs::remove_dir_all(directory).unwrap();
    }

    /// On tmpfs, a listing in parts misses files that are replaced meanwhile.
    #[test]
    fn files_that_are_replaced_during_a_listing_are_listed() {
        let shm = Path::new("/dev/shm");
        let memory = if shm.is_dir() { shm } else { &std::env::temp_dir() };
        let (site, done) = (Site::new(memory, "replaced"), AtomicBool::new(false));
        let counts = std::thread::scope(|scope| {
            scope.spawn(|| {
                let numbers = (0..NAMES).rev().cycle();
                numbers
                    .take_while(|_| !done.load(Ordering::Relaxed))
                    .for_each(|number| site.replace(number));
            });
            let counts: Vec<_> =
                (0..300).map(|_| names_in(&site.listed()).map(|names| names.len())).collect();
            done.store(true, Ordering::Relaxed);
            counts
        });
        assert!(counts.iter().all(|count| count.as_ref().ok() == Some(&(NAMES as usize))));
    }
}
