//! The identity of an open file in a form that survives exec: the name of its anonymous file.
use crate::answer::Answer;
use crate::limits::PATH_MAX;
use crate::{config, raw};
use esker::types::ObjectId;
use std::ffi::{CString, c_int, c_uint};

/// What was opened, and how.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    /// Path in the file system, from its root.
    pub(crate) path: Box<[u8]>,
    /// The object.
    pub(crate) oid: ObjectId,
    /// Access mode, `O_DIRECTORY` and `O_PATH`.
    pub(crate) flags: c_int,
}

/// Prefix of such names, as created and as the kernel shows them.
const PREFIX: &str = "esker:";
const SHOWN_PREFIX: &[u8] = b"/memfd:esker:";
const SHOWN_SUFFIX: &[u8] = b" (deleted)";

/// Longest name of an anonymous file (Linux: 249).
const NAME_MAX: usize = 249;

/// Nobody may write to it, and the seals cannot be removed.
const SEALS: c_int =
    libc::F_SEAL_SEAL | libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE;

impl Identity {
    /// An anonymous file with this name. A path that is too long for a name is its content.
    ///
    /// # Errors
    /// Those of `memfd_create`.
    pub(crate) fn make_descriptor(&self, cloexec: bool) -> Answer<c_int> {
        let container = &config::get().container;
        let (flags, hi, lo) = (self.flags, self.oid.hi, self.oid.lo);
        let head = format!("{PREFIX}{container}:{flags:x}:{hi:x}.{lo:x}:");
        let fits = head.len() + self.path.len() <= NAME_MAX;
        let name = [head.as_bytes(), if fits { &self.path } else { b"" }].concat();
        let name = CString::new(name).unwrap_or_default();
        let cloexec: c_uint = if cloexec { libc::MFD_CLOEXEC } else { 0 };
        let fd = raw::anonymous(&name, libc::MFD_ALLOW_SEALING | cloexec)?;
        if !fits {
            let _ = raw::write(fd, &self.path);
            let _ = raw::seek(fd, 0, libc::SEEK_SET);
        }
        let _ = raw::control(fd, libc::F_ADD_SEALS, SEALS as usize);
        Ok(fd)
    }

    /// Parses the target of a descriptor as the kernel shows it; `None` if it is not ours, or of another container.
    pub(crate) fn parse(fd: c_int, shown: &[u8]) -> Option<Self> {
        let rest = shown.strip_prefix(SHOWN_PREFIX)?;
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

fn content(fd: c_int) -> Option<Box<[u8]>> {
    let mut room = [0; PATH_MAX];
    let length = raw::read_at(fd, &mut room, 0).ok()?;
    Some(room[..length].into())
}
