//! Paths that name open descriptors: `/dev/fd/N`, `/proc/self/fd/N`, `/dev/stdin` and its like.
use crate::answer::Answer;
use crate::edge::Text;
use crate::open_file::OpenFile;
use crate::paths::shown;
use crate::{descriptors, raw};
use std::ffi::c_int;

/// The descriptor that a path names, if that is a file of the mount point.
#[inline]
pub(crate) fn descriptor(path: Text) -> Option<c_int> {
    let path =
        path.bytes().filter(|path| path.starts_with(b"/dev/") || path.starts_with(b"/proc/"))?;
    parse(path).filter(|fd| descriptors::is_ours(*fd))
}

fn parse(path: &[u8]) -> Option<c_int> {
    match path {
        b"/dev/stdin" => return Some(libc::STDIN_FILENO),
        b"/dev/stdout" => return Some(libc::STDOUT_FILENO),
        b"/dev/stderr" => return Some(libc::STDERR_FILENO),
        _ => {}
    }
    let number = path.strip_prefix(b"/dev/fd/").or_else(|| {
        let rest = path.strip_prefix(b"/proc/")?;
        let after_self = rest.strip_prefix(b"self").or_else(|| {
            let digits = rest.iter().position(|byte| !byte.is_ascii_digit())?;
            let pid: c_int = std::str::from_utf8(&rest[..digits]).ok()?.parse().ok()?;
            (pid == raw::pid()).then(|| &rest[digits..])
        })?;
        after_self.strip_prefix(b"/fd/")
    })?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Opens the same file again, as Linux does.
pub(crate) fn reopen(fd: c_int, flags: c_int) -> Answer<c_int> {
    let node = descriptors::get(fd)?.node()?;
    let flags = flags & !(libc::O_CREAT | libc::O_EXCL);
    descriptors::allot(OpenFile::new(node, flags)?, flags & libc::O_CLOEXEC != 0)
}

/// The path of a descriptor as programs see it.
pub(crate) fn target(fd: c_int) -> Answer<Vec<u8>> {
    let file = descriptors::get(fd)?;
    Ok(shown(&file.node()?.path()))
}
