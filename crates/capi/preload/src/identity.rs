//! The identity of an open file for programs that inherit it: the name of an anonymous file of the kernel.
use crate::answer::{Answer, refuse};
use crate::limits::PATH_MAX;
use crate::{config, raw};
use esker::types::ObjectId;
use esker_preload_interface::SHOWN_PREFIX;
use std::ffi::{CStr, c_int};
use std::fmt::{self, Write};

/// The identity of an open file, stored as the name of its anonymous file.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Path in the file system, from its root.
    pub(crate) path: Box<[u8]>,
    /// The object.
    pub(crate) oid: ObjectId,
    /// Access mode, `O_DIRECTORY` and `O_PATH`.
    pub(crate) flags: c_int,
}

/// Prefix of such names, as created.
const PREFIX: &str = "esker:";
const SHOWN_SUFFIX: &[u8] = b" (deleted)";

/// Longest name of an anonymous file (Linux: 249).
const NAME_MAX: usize = 249;

/// Seals against all writes, which cannot be removed.
const SEALS: c_int =
    libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

/// A C string that is not on the heap.
struct Name {
    bytes: [u8; NAME_MAX + 1],
    length: usize,
}

impl Name {
    /// Makes a name of at most [`NAME_MAX`] bytes; [`Name::text`] fails for a longer one.
    fn format(text: fmt::Arguments<'_>) -> Self {
        let mut name = Self { bytes: [0; NAME_MAX + 1], length: 0 };
        // Marks the name as too long, so that `text` fails.
        if name.write_fmt(text).is_err() {
            name.length = name.bytes.len();
        }
        name
    }

    /// Appends the text if all of it fits into [`NAME_MAX`] bytes. Otherwise appends nothing and returns false.
    fn push(&mut self, text: &[u8]) -> bool {
        let end = self.length + text.len();
        let fits = end <= NAME_MAX;
        if fits {
            self.bytes[self.length..end].copy_from_slice(text);
            self.length = end;
        }
        fits
    }

    /// The name as C takes it. An error if it is too long.
    fn text(&self) -> Answer<&CStr> {
        match CStr::from_bytes_until_nul(&self.bytes) {
            Ok(text) if self.length <= NAME_MAX => Ok(text),
            _ => refuse(libc::ENAMETOOLONG),
        }
    }
}

impl fmt::Write for Name {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.push(text.as_bytes()) { Ok(()) } else { Err(fmt::Error) }
    }
}

/// An anonymous file without an identity, for open files that only this process has.
///
/// # Errors
/// Errors of `memfd_create`.
pub(crate) fn nameless() -> Answer<c_int> {
    readable().map(reopened)
}

/// Creates a nameless file that is empty and can be read.
///
/// # Errors
/// Errors of `memfd_create`.
pub(crate) fn readable() -> Answer<c_int> {
    sealed(&Name::format(format_args!("{PREFIX}")), b"")
}

/// Makes a file in memory with this content, which nobody can change any more.
fn sealed(name: &Name, content: &[u8]) -> Answer<c_int> {
    let fd = raw::anonymous(name.text()?, libc::MFD_ALLOW_SEALING | libc::MFD_CLOEXEC)?;
    // Best effort: a file without content or seals still identifies the open file.
    if !content.is_empty() {
        let _ = raw::write(fd, content);
        let _ = raw::seek(fd, 0, libc::SEEK_SET);
    }
    let _ = raw::control(fd, libc::F_ADD_SEALS, SEALS as usize);
    Ok(fd)
}

/// Opens an anonymous file by its path, for writing only. Calls that bypass this library then fail: reads because of
/// the mode, writes because of the seals. Also, Linux moves the offset of a file from `memfd_create` without a lock
/// (6.18: `file_seek_cur_needs_f_lock`), so two processes could read the same bytes.
fn reopened(fd: c_int) -> c_int {
    open_again(fd, libc::O_WRONLY).map_or(fd, |opened| {
        raw::close(fd);
        opened
    })
}

/// Opens the file of a descriptor again, with another access mode such as `O_WRONLY`.
fn open_again(fd: c_int, access: c_int) -> Answer<c_int> {
    let path = Name::format(format_args!("/proc/self/fd/{fd}"));
    raw::open(path.text()?, access | libc::O_CLOEXEC, 0)
}

impl Identity {
    /// Creates an anonymous file with this name. All processes that share it move its offset atomically. A path that is
    /// too long for a name becomes the content of the file.
    ///
    /// # Errors
    /// Errors of `memfd_create`.
    pub(crate) fn anonymous_file(&self) -> Answer<c_int> {
        let container = &config::get().container;
        let (flags, hi, lo) = (self.flags, self.oid.hi, self.oid.lo);
        let mut name = Name::format(format_args!("{PREFIX}{container}:{flags:x}:{hi:x}.{lo:x}:"));
        let content = if name.push(&self.path) { &b""[..] } else { &*self.path };
        sealed(&name, content).map(reopened)
    }

    /// Parses the target of a descriptor as the kernel shows it; `None` if it is not ours, or of another container.
    pub(crate) fn parse(fd: c_int, shown: &[u8]) -> Option<Self> {
        let rest = shown.strip_prefix(SHOWN_PREFIX.as_bytes())?;
        let rest = rest.strip_suffix(SHOWN_SUFFIX).unwrap_or(rest);
        let rest = rest.strip_prefix(config::get().container.as_bytes())?.strip_prefix(b":")?;
        let mut parts = rest.splitn(3, |byte| *byte == b':');
        let flags = c_int::from_str_radix(text(parts.next()?)?, 16).ok()?;
        let (hi, lo) = text(parts.next()?)?.split_once('.')?;
        let number = |digits| u64::from_str_radix(digits, 16).ok();
        let oid = ObjectId { hi: number(hi)?, lo: number(lo)? };
        let path = match parts.next()? {
            b"" => content(fd)?,
            path => path.into(),
        };
        Some(Self { path, oid, flags })
    }
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Reads the start of an anonymous file, up to [`PATH_MAX`] bytes. `None` if it cannot be read.
fn content(fd: c_int) -> Option<Box<[u8]>> {
    let (mut room, readable) = ([0; PATH_MAX], open_again(fd, libc::O_RDONLY).ok()?);
    let length = raw::read_at(readable, &mut room, 0);
    raw::close(readable);
    length.ok().map(|length| room[..length].into())
}
