//! Unix sockets, whose names are paths. The store has no sockets, so names in the mount point are refused.
use crate::answer::{Answer, Fail, Returned, fail, refuse, to_c};
use crate::edge::{In, export};
use crate::paths::{self, MountPath};
use crate::report;
use crate::serve::serve;
use dfs::Follow;
use std::ffi::{c_int, c_uint};

type Address = In<u8>;

/// Bytes before the path in an address (Linux: `struct sockaddr_un`), and the most bytes of an address.
const FAMILY: usize = size_of::<libc::sa_family_t>();
const ADDRESS_MAX: usize = size_of::<libc::sockaddr_un>();

/// The path in the address of a Unix socket, if it is in the mount point. Names that begin with a zero byte are not
/// paths.
fn path_of<'a>(address: Address, length: c_uint) -> Option<&'a [u8]> {
    let bytes = address.values(length as usize);
    let (family, path) = bytes.split_first_chunk::<FAMILY>()?;
    let is_unix = c_int::from(libc::sa_family_t::from_ne_bytes(*family)) == libc::AF_UNIX;
    let path = path.split(|byte| *byte == 0).next()?;
    (is_unix && bytes.len() <= ADDRESS_MAX && paths::is_ours(libc::AT_FDCWD, path)).then_some(path)
}

/// Answers a call with an address: `ours` if it is a path in the mount point, else `theirs`. If a link leads out,
/// `theirs` gets the address of its target.
fn by_address<T: Returned>(
    (address, length): (Address, c_uint),
    ours: impl FnOnce(&MountPath<'_>) -> Answer<T>,
    theirs: impl FnOnce(Address, c_uint) -> T,
) -> T {
    let Some(path) = path_of(address, length) else { return theirs(address, length) };
    match serve(|| ours(&MountPath::new(libc::AT_FDCWD, path)?)) {
        Err(Fail::Outside(host)) if host.len() < ADDRESS_MAX - FAMILY => {
            let family = (libc::AF_UNIX as libc::sa_family_t).to_ne_bytes();
            let address = [&family[..], &host, b"\0"].concat();
            theirs(In::from_slice(&address), address.len() as c_uint)
        }
        Err(Fail::Outside(_)) => fail(libc::ENAMETOOLONG),
        answer => to_c(answer),
    }
}

/// Refuses to make a socket, with the errors of file systems that do not support them.
fn refuse_socket(path: &MountPath<'_>) -> Answer<c_int> {
    let last = path.last()?;
    if last.is_special() || last.find()?.is_some() {
        return refuse(libc::EADDRINUSE);
    }
    report::warn_once(
        "a Unix socket cannot be bound in the mount point: choose another directory for it, for example by TMPDIR",
    );
    refuse(libc::EPERM)
}

/// Refuses a connection with `ECONNREFUSED`, because no process listens in the mount point. Errors of the path come
/// first.
fn refuse_connection<T>(path: &MountPath<'_>) -> Answer<T> {
    path.node(Follow::All)?;
    refuse(libc::ECONNREFUSED)
}

/// Sends a message; refuses it if the receiver is a path in the mount point.
fn send(message: In<libc::msghdr>, theirs: impl FnOnce(In<libc::msghdr>) -> isize) -> isize {
    let Some(mut sent) = message.get() else { return theirs(message) };
    by_address(
        (In::at(sent.msg_name as usize), sent.msg_namelen),
        refuse_connection,
        |address, length| {
            (sent.msg_name, sent.msg_namelen) = (address.address() as *mut _, length);
            theirs(In::from_slice(&[sent]))
        },
    )
}

export! {
    fn bind(fd: c_int, address: Address, length: c_uint) -> c_int | next {
        by_address((address, length), refuse_socket, |address, length| next(fd, address, length))
    }

    fn connect(fd: c_int, address: Address, length: c_uint) -> c_int | next {
        by_address((address, length), refuse_connection, |address, length| next(fd, address, length))
    }

    fn sendto(
        fd: c_int, data: In<u8>, size: usize, flags: c_int, address: Address, length: c_uint,
    ) -> isize | next {
        let theirs = |address, length| next(fd, data, size, flags, address, length);
        by_address((address, length), refuse_connection, theirs)
    }

    fn sendmsg(fd: c_int, message: In<libc::msghdr>, flags: c_int) -> isize | next {
        send(message, |message| next(fd, message, flags))
    }
}
