//! System calls of this library. They bypass the C library, so they work anywhere: in a signal handler, in a child
//! between fork and exec, and before initialisation.
use crate::answer::{Answer, Fail};
use std::arch::asm;
use std::ffi::{CStr, c_char, c_int, c_long, c_uint};

/// A system call with up to six arguments; a negative result is an errno.
///
/// # Safety
/// The arguments must be valid for the system call.
#[cfg(target_arch = "x86_64")]
pub(crate) unsafe fn call(number: c_long, with: [usize; 6]) -> isize {
    let result;
    // SAFETY: the registers are those of the system call convention; the kernel keeps the others.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") with[0], in("rsi") with[1], in("rdx") with[2],
            in("r10") with[3], in("r8") with[4], in("r9") with[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}

/// A system call with up to six arguments; a negative result is an errno.
///
/// # Safety
/// The arguments must be valid for the system call.
#[cfg(target_arch = "aarch64")]
pub(crate) unsafe fn call(number: c_long, with: [usize; 6]) -> isize {
    let result;
    // SAFETY: the registers are those of the system call convention; the kernel keeps the others.
    unsafe {
        asm!("svc 0", in("x8") number, inlateout("x0") with[0] as isize => result,
            in("x1") with[1], in("x2") with[2], in("x3") with[3],
            in("x4") with[4], in("x5") with[5], options(nostack));
    }
    result
}

/// Converts the result of a system call: values from -4095 to -1 are an errno.
fn checked(result: isize) -> Answer<isize> {
    match result {
        -4095..=-1 => Err(Fail::Errno(-result as c_int)),
        _ => Ok(result),
    }
}

/// Makes a system call whose arguments are numbers, not pointers.
fn numbers(number: c_long, a: usize, b: usize, c: usize) -> Answer<isize> {
    // SAFETY: callers pass calls that take only numbers, which cannot harm memory.
    checked(unsafe { call(number, [a, b, c, 0, 0, 0]) })
}

/// `lseek`: returns the new offset.
pub(crate) fn seek(fd: c_int, offset: i64, whence: c_int) -> Answer<i64> {
    numbers(libc::SYS_lseek, fd as usize, offset as usize, whence as usize).map(|at| at as i64)
}

/// `close`. Errors have no effect: the descriptor is free in any case.
pub(crate) fn close(fd: c_int) {
    let _ = numbers(libc::SYS_close, fd as usize, 0, 0);
}

/// `fcntl` with a number as its argument. For locks, see [`lock_range`].
pub(crate) fn control(fd: c_int, command: c_int, argument: usize) -> Answer<c_int> {
    numbers(libc::SYS_fcntl, fd as usize, command as usize, argument).map(|value| value as c_int)
}

/// `dup3`: makes `to` a duplicate of `from`, and returns it.
pub(crate) fn duplicate(from: c_int, to: c_int, flags: c_int) -> Answer<c_int> {
    numbers(libc::SYS_dup3, from as usize, to as usize, flags as usize).map(|fd| fd as c_int)
}

/// `flock`.
pub(crate) fn lock_whole(fd: c_int, operation: c_int) -> Answer<c_int> {
    numbers(libc::SYS_flock, fd as usize, operation as usize, 0).map(|value| value as c_int)
}

/// Sends a signal with a value to this process, as `sigqueue` does, but with `cause` as its `si_code`.
///
/// # Errors
/// `EINVAL` for a number that is not a signal's, `EAGAIN` if too many signals are queued.
pub(crate) fn queue_signal(signal: c_int, cause: c_int, value: usize) -> Answer<()> {
    /// `siginfo_t` of the kernel.
    #[repr(C)]
    struct Info {
        numbers: [c_int; 4],
        sender: (c_int, u32),
        value: usize,
        padding: [usize; 12],
    }
    let (pid, (user, _)) = (pid(), real_user());
    let numbers = [signal, 0, cause, 0];
    let info = Info { numbers, sender: (pid, user), value, padding: [0; 12] };
    let with = [pid as usize, signal as usize, &raw const info as usize, 0, 0, 0];
    // SAFETY: the information has the size and form that the kernel reads.
    checked(unsafe { call(libc::SYS_rt_sigqueueinfo, with) }).map(drop)
}

/// Submits one asynchronous request at this address.
///
/// # Safety
/// The address must be that of an `iocb`, whose buffer is valid until the request is complete.
pub(crate) unsafe fn submit(context: usize, request: usize) -> Answer<()> {
    let list = [request];
    // SAFETY: the list has one pointer; the caller guarantees the rest.
    match checked(unsafe {
        call(libc::SYS_io_submit, [context, 1, list.as_ptr() as usize, 0, 0, 0])
    })? {
        1 => Ok(()),
        _ => Err(Fail::Errno(libc::EAGAIN)),
    }
}

/// Id of this process, from the kernel.
pub(crate) fn pid() -> c_int {
    numbers(libc::SYS_getpid, 0, 0, 0).map_or(0, |pid| pid as c_int)
}

/// Returns the effective user and group of this process.
pub(crate) fn user() -> (u32, u32) {
    let number = |call| numbers(call, 0, 0, 0).map_or(0, |id| id as u32);
    (number(libc::SYS_geteuid), number(libc::SYS_getegid))
}

/// Returns the real user and group of this process.
pub(crate) fn real_user() -> (u32, u32) {
    let number = |call| numbers(call, 0, 0, 0).map_or(0, |id| id as u32);
    (number(libc::SYS_getuid), number(libc::SYS_getgid))
}

/// `umask`: returns the mask before.
pub(crate) fn set_umask(mask: u32) -> u32 {
    numbers(libc::SYS_umask, mask as usize, 0, 0).map_or(0, |before| before as u32)
}

/// `fchmod`.
pub(crate) fn set_mode(fd: c_int, mode: u32) -> Answer<()> {
    numbers(libc::SYS_fchmod, fd as usize, mode as usize, 0).map(drop)
}

/// `close_range`.
pub(crate) fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> Answer<c_int> {
    numbers(libc::SYS_close_range, first as usize, last as usize, flags as usize)
        .map(|value| value as c_int)
}

/// Runs `work` while the limit of open descriptors is two higher.
///
/// # Errors
/// `EMFILE` if the limit cannot be raised; errors of `work`.
pub(crate) fn beyond_limit<T>(work: impl FnOnce() -> Answer<T>) -> Answer<T> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` has space for the result.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let rlim_cur = limit.rlim_cur.saturating_add(2);
    let raised = libc::rlimit { rlim_cur, rlim_max: limit.rlim_max.max(rlim_cur) };
    // SAFETY: it only reads `raised`.
    if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } != 0 {
        return Err(Fail::Errno(libc::EMFILE));
    }
    let result = work();
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    result
}

/// Blocks all signals of the calling thread. Returns the mask before, for [`set_blocked_signals`].
pub(crate) fn block_signals() -> u64 {
    change_blocked(u64::MAX)
}

/// Sets the signals that the calling thread blocks.
pub(crate) fn set_blocked_signals(signals: u64) {
    change_blocked(signals);
}

/// Makes `signals` the set of blocked signals of this thread, and returns the set before.
fn change_blocked(signals: u64) -> u64 {
    let mut before = 0_u64;
    let (new, old) = (&raw const signals as usize, &raw mut before as usize);
    let with = [libc::SIG_SETMASK as usize, new, old, size_of::<u64>(), 0, 0];
    // SAFETY: both are sets of signals in the form of the kernel, of this size.
    // With valid arguments, the call does not fail.
    let _ = unsafe { call(libc::SYS_rt_sigprocmask, with) };
    before
}

/// Creates an anonymous file in memory (`memfd_create`) and returns its descriptor.
pub(crate) fn anonymous(name: &CStr, flags: c_uint) -> Answer<c_int> {
    let with = [name.as_ptr() as usize, flags as usize, 0, 0, 0, 0];
    // SAFETY: the name ends with a zero byte.
    checked(unsafe { call(libc::SYS_memfd_create, with) }).map(|fd| fd as c_int)
}

/// `open`: returns the descriptor.
pub(crate) fn open(path: &CStr, flags: c_int, mode: u32) -> Answer<c_int> {
    let at = libc::AT_FDCWD as usize;
    let with = [at, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0];
    // SAFETY: the path ends with a zero byte.
    checked(unsafe { call(libc::SYS_openat, with) }).map(|fd| fd as c_int)
}

/// Checks that `path`, taken relative to the descriptor `dir`, exists, following links.
pub(crate) fn find(dir: c_int, path: &CStr) -> Answer<()> {
    let with = [dir as usize, path.as_ptr() as usize, libc::F_OK as usize, 0, 0, 0];
    // SAFETY: the path ends with a zero byte.
    checked(unsafe { call(libc::SYS_faccessat, with) }).map(drop)
}

/// `mkdir`.
pub(crate) fn make_directory(path: &CStr, mode: u32) -> Answer<()> {
    let at = libc::AT_FDCWD as usize;
    let with = [at, path.as_ptr() as usize, mode as usize, 0, 0, 0];
    // SAFETY: the path ends with a zero byte.
    checked(unsafe { call(libc::SYS_mkdirat, with) }).map(drop)
}

/// `unlink`. Errors are ignored.
pub(crate) fn unlink(path: &CStr) {
    let with = [libc::AT_FDCWD as usize, path.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the path ends with a zero byte.
    let _ = unsafe { call(libc::SYS_unlinkat, with) };
}

/// `rmdir`. Errors are ignored.
pub(crate) fn remove_directory(path: &CStr) {
    let flags = libc::AT_REMOVEDIR as usize;
    let with = [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags, 0, 0, 0];
    // SAFETY: the path ends with a zero byte.
    let _ = unsafe { call(libc::SYS_unlinkat, with) };
}

/// `fchdir`.
pub(crate) fn change_directory(fd: c_int) -> Answer<()> {
    numbers(libc::SYS_fchdir, fd as usize, 0, 0).map(drop)
}

/// `readlink`: the target, at the start of `room`. It is cut off if it does not fit.
pub(crate) fn read_link<'a>(path: &CStr, room: &'a mut [u8]) -> Answer<&'a [u8]> {
    let at = libc::AT_FDCWD as usize;
    let with = [at, path.as_ptr() as usize, room.as_mut_ptr() as usize, room.len(), 0, 0];
    // SAFETY: the path ends with a zero byte, and the buffer has this length.
    let length = checked(unsafe { call(libc::SYS_readlinkat, with) })?;
    Ok(&room[..length as usize])
}

/// The ends of a pipe: for reading, and for writing. Programs do not inherit them.
pub(crate) fn pipe() -> Answer<(c_int, c_int)> {
    let mut ends = [-1_i32; 2];
    let with = [ends.as_mut_ptr() as usize, libc::O_CLOEXEC as usize, 0, 0, 0, 0];
    // SAFETY: the kernel writes two descriptors.
    checked(unsafe { call(libc::SYS_pipe2, with) })?;
    Ok((ends[0], ends[1]))
}

/// `tee`: copies up to `length` bytes that a pipe has to another pipe, and returns their number. The first one keeps them.
pub(crate) fn copy_pipe(from: c_int, to: c_int, length: usize, flags: c_uint) -> Answer<usize> {
    let with = [from as usize, to as usize, length, flags as usize, 0, 0];
    // SAFETY: nothing but numbers is passed.
    checked(unsafe { call(libc::SYS_tee, with) }).map(|count| count as usize)
}

/// `splice` between two pipes: moves up to `length` bytes, and returns their number.
pub(crate) fn splice(from: c_int, to: c_int, length: usize, flags: c_uint) -> Answer<usize> {
    let with = [from as usize, 0, to as usize, 0, length, flags as usize];
    // SAFETY: both offsets are null pointers.
    checked(unsafe { call(libc::SYS_splice, with) }).map(|count| count as usize)
}

/// `read`: returns the number of bytes read.
pub(crate) fn read(fd: c_int, room: &mut [u8]) -> Answer<usize> {
    let with = [fd as usize, room.as_mut_ptr() as usize, room.len(), 0, 0, 0];
    // SAFETY: the buffer has this length.
    checked(unsafe { call(libc::SYS_read, with) }).map(|count| count as usize)
}

/// Forks a child that may only make system calls. Returns 0 in the child, and its id in the parent. No signal reports
/// its end, so a handler of the program does not see it; [`wait`] collects it.
pub(crate) fn fork() -> Answer<c_int> {
    // SAFETY: no memory is shared, and the child continues on a copy of the stack. Callers let it use no locks.
    checked(unsafe { call(libc::SYS_clone, [0; 6]) }).map(|pid| pid as c_int)
}

/// Waits for the end of a process made by [`fork`].
pub(crate) fn wait(child: c_int) {
    let with = [child as usize, 0, libc::__WALL as usize, 0, 0, 0];
    // SAFETY: nothing but numbers is passed.
    while let Err(Fail::Errno(libc::EINTR)) = checked(unsafe { call(libc::SYS_wait4, with) }) {}
}

/// Makes the process the leader of a new session.
pub(crate) fn new_session() -> Answer<()> {
    numbers(libc::SYS_setsid, 0, 0, 0).map(drop)
}

/// Executes a program with one argument, its name. Returns if that fails. The list of variables ends with a null
/// pointer.
pub(crate) fn execute(program: &CStr, name: &CStr, variables: &[*const c_char]) {
    let arguments = [name.as_ptr(), std::ptr::null()];
    let lists = [arguments.as_ptr() as usize, variables.as_ptr() as usize];
    // SAFETY: all texts end with a zero byte, and both lists with a null pointer.
    let _ =
        unsafe { call(libc::SYS_execve, [program.as_ptr() as usize, lists[0], lists[1], 0, 0, 0]) };
}

/// Ends the process without running exit handlers.
pub(crate) fn exit() -> ! {
    loop {
        let _ = numbers(libc::SYS_exit_group, 0, 0, 0);
    }
}

/// `write`: returns the number of bytes written.
pub(crate) fn write(fd: c_int, data: &[u8]) -> Answer<usize> {
    let with = [fd as usize, data.as_ptr() as usize, data.len(), 0, 0, 0];
    // SAFETY: the data has this length.
    checked(unsafe { call(libc::SYS_write, with) }).map(|count| count as usize)
}

/// `pread`: returns the number of bytes read.
pub(crate) fn read_at(fd: c_int, room: &mut [u8], offset: i64) -> Answer<usize> {
    let with = [fd as usize, room.as_mut_ptr() as usize, room.len(), offset as usize, 0, 0];
    // SAFETY: the buffer has this length.
    checked(unsafe { call(libc::SYS_pread64, with) }).map(|count| count as usize)
}

/// `pwrite`: returns the number of bytes written.
pub(crate) fn write_at(fd: c_int, data: &[u8], offset: i64) -> Answer<usize> {
    let with = [fd as usize, data.as_ptr() as usize, data.len(), offset as usize, 0, 0];
    // SAFETY: the data has this length.
    checked(unsafe { call(libc::SYS_pwrite64, with) }).map(|count| count as usize)
}

/// Writes all of the data at an offset, by as many calls as needed.
pub(crate) fn write_all_at(fd: c_int, mut data: &[u8], mut offset: i64) -> Answer<()> {
    while !data.is_empty() {
        let done = write_at(fd, data, offset)?;
        data = &data[done..];
        offset += done as i64;
    }
    Ok(())
}

/// Makes bytes of a file zeros, and frees their space.
pub(crate) fn punch(fd: c_int, offset: u64, length: u64) -> Answer<()> {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    let with = [fd as usize, mode as usize, offset as usize, length as usize, 0, 0];
    // SAFETY: nothing but numbers is passed.
    checked(unsafe { call(libc::SYS_fallocate, with) }).map(drop)
}

/// `ftruncate`: sets the size of a file in bytes.
pub(crate) fn resize(fd: c_int, length: i64) -> Answer<()> {
    numbers(libc::SYS_ftruncate, fd as usize, length as usize, 0).map(drop)
}

/// Writes the next entries of a directory to `room` in the kernel's form. Returns their bytes; 0 at the end.
pub(crate) fn entries(fd: c_int, room: &mut [u8]) -> Answer<usize> {
    let with = [fd as usize, room.as_mut_ptr() as usize, room.len(), 0, 0, 0];
    // SAFETY: the buffer has this length.
    checked(unsafe { call(libc::SYS_getdents64, with) }).map(|count| count as usize)
}

/// The names in a listing of the kernel. They begin at byte 19 of each record.
pub(crate) fn names(records: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = records;
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes([*rest.get(16)?, *rest.get(17)?]));
        let (record, after) = rest.split_at_checked(length)?;
        rest = after;
        record.get(19..)?.split(|byte| *byte == 0).next()
    })
}

/// Sets or queries a record lock; `lock` receives the answer of the kernel.
pub(crate) fn lock_range(fd: c_int, command: c_int, lock: &mut libc::flock) -> Answer<c_int> {
    let with = [fd as usize, command as usize, std::ptr::from_mut(lock) as usize, 0, 0, 0];
    // SAFETY: the commands that callers use take a `flock` of C.
    checked(unsafe { call(libc::SYS_fcntl, with) }).map(|value| value as c_int)
}

/// Attributes of a descriptor in the kernel (`fstat`).
pub(crate) fn status(fd: c_int) -> Answer<libc::stat> {
    let mut status = std::mem::MaybeUninit::<libc::stat>::zeroed();
    let with = [fd as usize, status.as_mut_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the buffer is a `stat` of C, which is that of the kernel on 64-bit machines.
    checked(unsafe { call(libc::SYS_fstat, with) })?;
    // SAFETY: the kernel filled it.
    Ok(unsafe { status.assume_init() })
}

/// `mprotect`.
pub(crate) fn protect(start: usize, length: usize, protection: c_int) -> Answer<()> {
    numbers(libc::SYS_mprotect, start, length, protection as usize).map(drop)
}

/// Attributes of a path, following links.
pub(crate) fn status_of(path: &CStr) -> Answer<libc::stat> {
    let fd = open(path, libc::O_PATH | libc::O_CLOEXEC, 0)?;
    let status = status(fd);
    close(fd);
    status
}

/// Maps shared memory a second time (`mremap` with an old size of 0).
pub(crate) fn map_again(start: usize, length: usize) -> Answer<usize> {
    let with = [start, 0, length, libc::MREMAP_MAYMOVE as usize, 0, 0];
    // SAFETY: the kernel picks a free address; existing mappings stay as they are.
    checked(unsafe { call(libc::SYS_mremap, with) }).map(|at| at as usize)
}

/// Maps a file for reading and writing, shared with other processes.
pub(crate) fn map_shared(fd: c_int, length: usize) -> Answer<usize> {
    let protection = (libc::PROT_READ | libc::PROT_WRITE) as usize;
    let with = [0, length, protection, libc::MAP_SHARED as usize, fd as usize, 0];
    // SAFETY: the kernel picks a free address; existing mappings stay as they are.
    checked(unsafe { call(libc::SYS_mmap, with) }).map(|at| at as usize)
}

/// Bytes of a page of memory.
pub(crate) fn page_size() -> usize {
    // SAFETY: it only returns a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

/// `munmap`, for memory that nothing uses any more. Errors are ignored.
pub(crate) fn unmap(start: usize, length: usize) {
    let _ = numbers(libc::SYS_munmap, start, length, 0);
}
