//! Properties of files and of the machine.
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Kinds of file systems that make a difference for a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileSystem {
    /// A file system in memory, such as tmpfs.
    Memory,
    /// A local file system on a device.
    Local,
    /// A file system that other machines share, and the name of its type.
    Network(&'static str),
}

/// Magic numbers of statfs(2) of file systems that are shared with other machines.
const NETWORK: [(i64, &str); 12] = [
    (0x6969, "NFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x4750_4653, "GPFS"),
    (0x517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x00c3_6400, "CephFS"),
    (0x0102_1997, "9p"),
    (0x5346_414f, "AFS"),
    (0x6573_5546, "FUSE"),
    (0x1983_0326, "BeeGFS"),
    (0x7461_636f, "OCFS2"),
];
const MEMORY: [i64; 2] = [0x0102_1994, 0x8584_58f6];

/// The file system of `file`.
pub(crate) fn file_system(file: &File) -> io::Result<FileSystem> {
    let magic = magic(file)?;
    if MEMORY.contains(&magic) {
        return Ok(FileSystem::Memory);
    }
    let network = NETWORK.iter().find(|(known, _)| *known == magic);
    Ok(network.map_or(FileSystem::Local, |(_, name)| FileSystem::Network(name)))
}

/// Magic number of the file system of `file`.
fn magic(file: &File) -> io::Result<i64> {
    // SAFETY: `statfs` is plain data, for which all zeros is a valid value.
    let mut info: libc::statfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open while `file` is borrowed, and `info` is a local variable.
    match unsafe { libc::fstatfs(file.as_raw_fd(), &raw mut info) } {
        0 => Ok(info.f_type as i64),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Metadata of an open file.
pub(crate) fn info_of(file: BorrowedFd<'_>) -> io::Result<libc::stat> {
    // SAFETY: `stat` is plain data, for which all zeros is a valid value.
    let mut info: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open while `file` is borrowed, and `info` is a local variable.
    match unsafe { libc::fstat(file.as_raw_fd(), &raw mut info) } {
        0 => Ok(info),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Bytes that are free for this user on the file system of `file`.
pub(crate) fn free_space(file: &File) -> io::Result<u64> {
    space(file).map(|(free, _)| free)
}

/// Bytes that are free for this user on the file system of `file`, and its size.
pub(crate) fn space(file: &File) -> io::Result<(u64, u64)> {
    let info = mounted(file)?;
    let unit = info.f_frsize as u64;
    Ok((info.f_bavail as u64 * unit, info.f_blocks as u64 * unit))
}

/// True if the file system of `file` is mounted read-only.
pub(crate) fn is_read_only(file: &File) -> io::Result<bool> {
    Ok(mounted(file)?.f_flag & libc::ST_RDONLY != 0)
}

fn mounted(file: &File) -> io::Result<libc::statvfs> {
    // SAFETY: `statvfs` is plain data, for which all zeros is a valid value.
    let mut info: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open while `file` is borrowed, and `info` is a local variable.
    match unsafe { libc::fstatvfs(file.as_raw_fd(), &raw mut info) } {
        0 => Ok(info),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Allocates the blocks of `len` bytes at `offset`. Then later writes to them do not run out of space, and accesses
/// through a mapping do not kill the process.
pub(crate) fn reserve(file: &File, offset: u64, len: u64) -> io::Result<()> {
    esker_os::allocate_in_parts(offset, len, |offset, len| {
        let (offset, len) = (offset as libc::off_t, len as libc::off_t);
        // SAFETY: a call on an open descriptor that accesses no memory.
        match unsafe { libc::posix_fallocate(file.as_raw_fd(), offset, len) } {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error)),
        }
    })
}

/// Allocates a range of a file; returns false if the file system is full.
pub(crate) fn try_reserve(file: &File, part: &Range<u64>) -> io::Result<bool> {
    has_room(reserve(file, part.start, part.end - part.start))
}

/// Returns false instead of the error that the file system is full.
pub(crate) fn has_room(reserved: io::Result<()>) -> io::Result<bool> {
    match reserved {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(false),
        Err(error) => Err(error),
    }
}

/// Releases the blocks of `len` bytes at `offset`, which then read as zeros. The length of the file does not change.
///
/// # Errors
/// `Unsupported` on file systems without holes.
pub(crate) fn punch(file: &File, offset: u64, len: u64) -> io::Result<()> {
    // SAFETY: a call on an open descriptor that accesses no memory.
    let result = unsafe {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        libc::fallocate(file.as_raw_fd(), mode, offset as libc::off_t, len as libc::off_t)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Makes the disk begin to store `len` bytes at `offset` that were written, and does not wait for it. This only saves
/// time: a later sync is still necessary, and reports errors.
pub(crate) fn start_write_out(file: &File, offset: u64, len: u64) {
    // SAFETY: a call on an open descriptor that accesses no memory.
    unsafe {
        let (offset, len) = (offset as libc::off64_t, len as libc::off64_t);
        libc::sync_file_range(file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE);
    }
}

/// Magic numbers of statfs(2) of file systems that write changed blocks to where they were, so that they need no space:
/// ext4 and XFS. On XFS, this does not apply to blocks that files share.
const IN_PLACE: [i64; 2] = [0xef53, 0x5846_5342];

/// True if the file system of `file` overwrites blocks in place.
pub(crate) fn overwrites_in_place(file: &File) -> io::Result<bool> {
    Ok(IN_PLACE.contains(&magic(file)?))
}

/// True if nothing was ever written to a range of a file, so that it is read without access to the disk.
///
/// # Errors
/// `Unsupported` or `InvalidInput` on file systems that cannot tell.
pub(crate) fn is_unwritten(file: &File, part: &Range<u64>) -> io::Result<bool> {
    // SAFETY: a call on an open descriptor that accesses no memory. No code uses the position that it changes.
    let data = unsafe { libc::lseek(file.as_raw_fd(), part.start as libc::off_t, libc::SEEK_DATA) };
    match io::Error::last_os_error() {
        _ if data >= 0 => Ok(data as u64 >= part.end),
        // There is no data up to the end of the file.
        error if error.raw_os_error() == Some(libc::ENXIO) => Ok(true),
        error => Err(error),
    }
}

/// Milliseconds since the machine started, without suspensions. It takes some nanoseconds, and lags behind by some
/// milliseconds.
pub(crate) fn coarse_time_ms() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the call writes to a local variable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &raw mut time) };
    time.tv_sec as u64 * 1000 + time.tv_nsec as u64 / 1_000_000
}

/// Page size of this machine, in bytes.
pub(crate) fn page_bytes() -> u64 {
    // SAFETY: a call that accesses no memory.
    unsafe { libc::sysconf(libc::_SC_PAGESIZE) as u64 }
}

/// A number that changes with every boot of the machine.
///
/// # Errors
/// `Io` if /proc has none. Then shared atomics of other processes cannot be trusted.
pub(crate) fn boot_id() -> io::Result<u64> {
    static KNOWN: AtomicU64 = AtomicU64::new(0);
    let known = KNOWN.load(Ordering::Relaxed);
    if known != 0 {
        return Ok(known);
    }
    let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    let id = esker_types::Checksum::Crc64.sum(text.trim().as_bytes()) | 1;
    KNOWN.store(id, Ordering::Relaxed);
    Ok(id)
}

/// The PID namespace of this process in the lower half, its time namespace in the upper half. Record locks and LMDB
/// identify processes by PID, and read leases end by the clock.
pub(crate) fn namespaces() -> u64 {
    let inode = |path| std::fs::metadata(path).map_or(0, |info| info.ino());
    inode("/proc/self/ns/pid") | inode("/proc/self/ns/time") << 32
}

/// True if this process has a writable mapping of `file` that begins at `address`.
pub(crate) fn is_mapped_at(file: &File, address: u64) -> io::Result<bool> {
    let inode = file.metadata()?.ino().to_string();
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    Ok(maps.lines().any(|line| {
        let mut fields = line.split_whitespace();
        let begin = fields.next().and_then(|range| range.split_once('-')).map(|(begin, _)| begin);
        begin.and_then(|begin| u64::from_str_radix(begin, 16).ok()) == Some(address)
            && fields.next() == Some("rw-s")
            && fields.nth(2) == Some(&inode)
    }))
}

/// Initial and maximum buffer size for a group entry, which lists all members.
const GROUP_BYTES: usize = 16 << 10;
const GROUP_BYTES_MAX: usize = 16 << 20;

/// Registers a function that is called when the process ends by `exit` or returns from `main`.
pub(crate) fn at_exit(run: extern "C" fn()) {
    // SAFETY: the function exists as long as its library, which the C library does not unload before the call.
    unsafe { libc::atexit(run) };
}

/// Id of the group of this name, from any source that the system is configured for (its own file, LDAP, SSSD); `None`
/// if the group does not exist.
///
/// # Errors
/// `Io` if the lookup fails.
pub fn group_id(name: &str) -> io::Result<Option<u32>> {
    let name = CString::new(name)?;
    let mut bytes = GROUP_BYTES;
    loop {
        match group_in(&name, bytes) {
            Err(error) if error.raw_os_error() == Some(libc::ERANGE) && bytes < GROUP_BYTES_MAX => {
                bytes *= 4;
            }
            Err(error) if is_no_group(&error) => return Ok(None),
            other => return other,
        }
    }
}

/// Looks up the id of a group with a buffer of `bytes` bytes; `None` if there is no such group. Fails with `ERANGE` if
/// its entry is longer than the buffer.
fn group_in(name: &CString, bytes: usize) -> io::Result<Option<u32>> {
    let mut record = vec![0; bytes];
    let mut group = std::mem::MaybeUninit::<libc::group>::uninit();
    let (at, room, mut found) = (group.as_mut_ptr(), record.as_mut_ptr(), std::ptr::null_mut());
    // SAFETY: all pointers are to local variables of the given lengths, and the name ends in a zero byte.
    match unsafe { libc::getgrnam_r(name.as_ptr(), at, room, bytes, &raw mut found) } {
        // SAFETY: on success `found` is null or points to the group.
        0 => Ok(unsafe { found.as_ref() }.map(|group| group.gr_gid)),
        code => Err(io::Error::from_raw_os_error(code)),
    }
}

/// True for the error codes by which systems report that a group does not exist, according to the manual page.
fn is_no_group(error: &io::Error) -> bool {
    let codes = [libc::ENOENT, libc::ESRCH, libc::EBADF, libc::EPERM];
    error.raw_os_error().is_some_and(|code| codes.contains(&code))
}
