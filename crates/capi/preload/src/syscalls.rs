//! `syscall`: system calls that programs make by number.
use crate::answer::{Answer, refuse, to_c};
use crate::edge::{In, Out, Text, export};
use crate::serve::refuse_interrupting_call;
use crate::{descriptors, internal, libaio, maps, open, paths, report, threads};
use libc::c_long;
use std::ffi::{c_int, c_uint};

/// Our functions, which serve calls of `syscall`.
mod named {
    use super::{In, Out, Text, c_int, c_uint};

    // SAFETY: these functions are ours; the arguments come from C, as in calls of `syscall`.
    unsafe extern "C" {
        pub(super) safe fn read(fd: c_int, buffer: Out<u8>, length: usize) -> isize;
        pub(super) safe fn write(fd: c_int, data: In<u8>, length: usize) -> isize;
        pub(super) safe fn pread64(fd: c_int, buffer: Out<u8>, length: usize, at: i64) -> isize;
        pub(super) safe fn pwrite64(fd: c_int, data: In<u8>, length: usize, at: i64) -> isize;
        pub(super) safe fn close(fd: c_int) -> c_int;
        pub(super) safe fn close_range(first: c_uint, last: c_uint, flags: c_uint) -> c_int;
        pub(super) safe fn openat(dir: c_int, path: Text, flags: c_int, mode: u32) -> c_int;
        pub(super) safe fn lseek(fd: c_int, offset: i64, whence: c_int) -> i64;
        pub(super) safe fn fsync(fd: c_int) -> c_int;
        pub(super) safe fn ftruncate(fd: c_int, length: i64) -> c_int;
        pub(super) safe fn getdents64(fd: c_int, room: Out<u8>, size: usize) -> isize;
        pub(super) safe fn statx(
            dir: c_int,
            path: Text,
            flags: c_int,
            mask: c_uint,
            out: Out<libc::statx>,
        ) -> c_int;
        pub(super) safe fn renameat2(
            dir: c_int,
            path: Text,
            new_dir: c_int,
            new_path: Text,
            flags: c_uint,
        ) -> c_int;
        pub(super) safe fn unlinkat(dir: c_int, path: Text, flags: c_int) -> c_int;
        pub(super) safe fn readlinkat(dir: c_int, path: Text, out: Out<u8>, size: usize) -> isize;
        pub(super) safe fn utimensat(
            dir: c_int,
            path: Text,
            times: In<libc::timespec>,
            flags: c_int,
        ) -> c_int;
        pub(super) safe fn fchmodat(dir: c_int, path: Text, mode: u32, flags: c_int) -> c_int;
        pub(super) safe fn fchownat(
            dir: c_int,
            path: Text,
            user: u32,
            group: u32,
            flags: c_int,
        ) -> c_int;
        pub(super) safe fn mkdirat(dir: c_int, path: Text, mode: u32) -> c_int;
        pub(super) safe fn mknodat(dir: c_int, path: Text, mode: u32, device: u64) -> c_int;
        pub(super) safe fn name_to_handle_at(
            dir: c_int,
            path: Text,
            handle: Out<u8>,
            mount: Out<c_int>,
            flags: c_int,
        ) -> c_int;
        pub(super) safe fn open_by_handle_at(fd: c_int, handle: Out<u8>, flags: c_int) -> c_int;
        pub(super) safe fn bind(fd: c_int, address: In<u8>, length: c_uint) -> c_int;
        pub(super) safe fn connect(fd: c_int, address: In<u8>, length: c_uint) -> c_int;
        pub(super) safe fn faccessat(dir: c_int, path: Text, mode: c_int, flags: c_int) -> c_int;
        pub(super) safe fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
        pub(super) safe fn fallocate(fd: c_int, mode: c_int, offset: i64, length: i64) -> c_int;
        pub(super) safe fn copy_file_range(
            from: c_int,
            from_at: Out<i64>,
            to: c_int,
            to_at: Out<i64>,
            length: usize,
            flags: c_uint,
        ) -> isize;
        pub(super) safe fn sendfile64(to: c_int, from: c_int, at: Out<i64>, length: usize)
        -> isize;
    }
}

/// Calls our function for a system call with arguments `a`; `None` for system calls without one.
fn by_name(number: c_long, a: [usize; 6]) -> Option<c_long> {
    let int = |at: usize| a[at] as c_int;
    let uint = |at: usize| a[at] as c_uint;
    let text = |at: usize| Text::at(a[at]);
    Some(match number {
        libc::SYS_read => named::read(int(0), Out::at(a[1]), a[2]) as c_long,
        libc::SYS_write => named::write(int(0), In::at(a[1]), a[2]) as c_long,
        libc::SYS_pread64 => named::pread64(int(0), Out::at(a[1]), a[2], a[3] as i64) as c_long,
        libc::SYS_pwrite64 => named::pwrite64(int(0), In::at(a[1]), a[2], a[3] as i64) as c_long,
        libc::SYS_close => named::close(int(0)).into(),
        libc::SYS_close_range => named::close_range(uint(0), uint(1), uint(2)).into(),
        libc::SYS_openat => named::openat(int(0), text(1), int(2), uint(3)).into(),
        libc::SYS_lseek => named::lseek(int(0), a[1] as i64, int(2)),
        libc::SYS_fsync | libc::SYS_fdatasync => named::fsync(int(0)).into(),
        libc::SYS_ftruncate => named::ftruncate(int(0), a[1] as i64).into(),
        libc::SYS_getdents64 => named::getdents64(int(0), Out::at(a[1]), a[2]) as c_long,
        libc::SYS_statx => named::statx(int(0), text(1), int(2), uint(3), Out::at(a[4])).into(),
        libc::SYS_renameat2 => named::renameat2(int(0), text(1), int(2), text(3), uint(4)).into(),
        libc::SYS_unlinkat => named::unlinkat(int(0), text(1), int(2)).into(),
        libc::SYS_readlinkat => named::readlinkat(int(0), text(1), Out::at(a[2]), a[3]) as c_long,
        libc::SYS_utimensat => named::utimensat(int(0), text(1), In::at(a[2]), int(3)).into(),
        libc::SYS_fchmodat => named::fchmodat(int(0), text(1), uint(2), 0).into(),
        libc::SYS_fchownat => named::fchownat(int(0), text(1), uint(2), uint(3), int(4)).into(),
        libc::SYS_openat2 => openat2(int(0), text(1), In::at(a[2]), a[3]),
        libc::SYS_mkdirat => named::mkdirat(int(0), text(1), uint(2)).into(),
        libc::SYS_mknodat => named::mknodat(int(0), text(1), uint(2), a[3] as u64).into(),
        libc::SYS_name_to_handle_at => {
            named::name_to_handle_at(int(0), text(1), Out::at(a[2]), Out::at(a[3]), int(4)).into()
        }
        libc::SYS_open_by_handle_at => {
            named::open_by_handle_at(int(0), Out::at(a[1]), int(2)).into()
        }
        libc::SYS_bind => named::bind(int(0), In::at(a[1]), uint(2)).into(),
        libc::SYS_connect => named::connect(int(0), In::at(a[1]), uint(2)).into(),
        libc::SYS_faccessat => named::faccessat(int(0), text(1), int(2), 0).into(),
        libc::SYS_faccessat2 => named::faccessat(int(0), text(1), int(2), int(3)).into(),
        libc::SYS_dup3 => named::dup3(int(0), int(1), int(2)).into(),
        libc::SYS_fallocate => named::fallocate(int(0), int(1), a[2] as i64, a[3] as i64).into(),
        libc::SYS_copy_file_range => {
            let (from, to) = (Out::at(a[1]), Out::at(a[3]));
            named::copy_file_range(int(0), from, int(2), to, a[4], uint(5)) as c_long
        }
        libc::SYS_sendfile => named::sendfile64(int(0), int(1), Out::at(a[2]), a[3]) as c_long,
        _ => return None,
    })
}

/// Serves `openat2` without restrictions of the path walk (`RESOLVE_BENEATH` and similar). Other calls fail with
/// `ENOSYS`, because this library cannot promise these restrictions: programs then do without, as on a kernel that
/// lacks the call.
fn openat2(dir: c_int, path: Text, how: In<[u64; 3]>, size: usize) -> c_long {
    match how.get() {
        _ if size < size_of::<[u64; 3]>() => to_c(refuse(libc::EINVAL)),
        Some([flags, mode, 0]) if size == size_of::<[u64; 3]>() => {
            named::openat(dir, path, flags as c_int, mode as c_uint).into()
        }
        _ => to_c(refuse(libc::ENOSYS)),
    }
}

/// Calls whose first argument is a directory and whose second a path.
const WITH_PATH: [c_long; 15] = [
    libc::SYS_openat,
    libc::SYS_statx,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_mkdirat,
    libc::SYS_mknodat,
    libc::SYS_name_to_handle_at,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_newfstatat,
    libc::SYS_readlinkat,
    libc::SYS_utimensat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_openat2,
];

/// Calls whose first argument is a descriptor.
const WITH_DESCRIPTOR: [c_long; 13] = [
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_close,
    libc::SYS_lseek,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_ftruncate,
    libc::SYS_getdents64,
    libc::SYS_dup3,
    libc::SYS_fallocate,
    libc::SYS_open_by_handle_at,
];

/// True if a system call may concern a file of the mount point or a descriptor of this library.
fn is_ours(number: c_long, a: [usize; 6]) -> bool {
    let is_known = |fd: usize| {
        let fd = fd as c_int;
        descriptors::is_ours(fd) || internal::has(fd)
    };
    match number {
        libc::SYS_close_range | libc::SYS_bind | libc::SYS_connect => true,
        libc::SYS_copy_file_range => is_known(a[0]) || is_known(a[2]),
        libc::SYS_sendfile => is_known(a[0]) || is_known(a[1]),
        _ if WITH_DESCRIPTOR.contains(&number) => is_known(a[0]),
        _ if WITH_PATH.contains(&number) => {
            let (text, dir) = (Text::at(a[1]), a[0]);
            let path = text.bytes().unwrap_or_default();
            let names_descriptor =
                (path.is_empty() && is_known(dir)) || open::descriptor(text).is_some();
            names_descriptor || paths::is_ours(dir as c_int, path)
        }
        _ => false,
    }
}

/// Refuses `io_uring`, whose requests would bypass this library.
fn refuse_ring() -> Answer<c_long> {
    report::note(
        "io_uring was refused, because it bypasses this library; programs fall back to other calls",
    );
    refuse(libc::ENOSYS)
}

/// Defines the functions of liburing that make a ring. All refuse it, and return a negative errno as in liburing.
macro_rules! rings {
    ($($name:ident($($argument:ident),*))*) => { export! { $(
        fn $name($($argument: usize),*) -> c_int | _next {
            -threads::inside(refuse_ring).map_or_else(|error| error.errno(), |_| 0)
        }
    )* } };
}

rings! {
    io_uring_setup(_entries, _parameters)
    io_uring_queue_init(_entries, _ring, _flags)
    io_uring_queue_init_params(_entries, _ring, _parameters)
    io_uring_queue_init_mem(_entries, _ring, _parameters, _memory, _size)
}

export! {
    @inside_too
    fn syscall(
        number: c_long, a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
    ) -> c_long | next {
        let with = [a, b, c, d, e, f];
        if threads::is_inside() {
            return if is_ours(number, with) { refuse_interrupting_call() } else { next(number, a, b, c, d, e, f) };
        }
        if number == libc::SYS_io_uring_setup {
            return to_c(threads::inside(refuse_ring));
        }
        let real = |number, [a, b, c, d, e, f]: [usize; 6]| next(number, a, b, c, d, e, f);
        let answer = if is_ours(number, with) { by_name(number, with) } else { None };
        let answer = answer.or_else(|| maps::by_number(number, with, real));
        let answer = answer.or_else(|| libaio::by_number(number, with, real));
        answer.unwrap_or_else(|| real(number, with))
    }
}
