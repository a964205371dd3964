//! The kernel's mount table, as far as unmounting needs it.
use esker::types::{Error, ErrorKind, Result};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

/// A FUSE file system in the mount table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mounted {
    /// The directory it is mounted on.
    pub dir: PathBuf,
    /// The source that its server gave.
    pub source: String,
}

impl Mounted {
    /// The file system that is mounted through FUSE on `dir`. Works even if its server has died and the directory
    /// itself cannot be accessed.
    ///
    /// # Errors
    /// [`ErrorKind::NotFound`] if there is none; errors of reading the table.
    pub fn on(dir: &Path) -> Result<Self> {
        let dir = absolute(dir)?;
        let table = std::fs::read("/proc/self/mountinfo")
            .map_err(|error| Error::io("reading /proc/self/mountinfo", &error))?;
        find(&table, &dir).ok_or_else(|| {
            let message = format!("nothing is mounted through FUSE on {}", dir.display());
            Error::new(ErrorKind::NotFound, message)
        })
    }
}

/// The path in the form of the table, with symbolic links in its parents resolved. Does not access its last component,
/// because that fails on a mount without a server.
fn absolute(dir: &Path) -> Result<PathBuf> {
    let failed = |error| Error::io(format!("looking for {}", dir.display()), &error);
    let full = std::path::absolute(dir).map_err(failed)?;
    match (full.parent(), full.components().next_back()) {
        (Some(parent), Some(Component::Normal(name))) => {
            Ok(parent.canonicalize().map_err(failed)?.join(name))
        }
        _ => full.canonicalize().map_err(failed),
    }
}

/// The FUSE mount on `dir`. A line of the table has the mount point in its fifth field, and type and source after
/// ` - `. The last line that names the directory wins: later mounts hide earlier ones. Paths may have any bytes.
fn find(table: &[u8], dir: &Path) -> Option<Mounted> {
    let on_dir =
        |line: &&[u8]| fields(line).nth(4).is_some_and(|at| unescape_mount_field(at) == dir);
    let line = table.split(|byte| *byte == b'\n').rev().find(on_dir)?;
    let mut tail = fields(line).skip_while(|field| *field != b"-").skip(1);
    let (kind, source) = (tail.next()?, tail.next()?);
    let source = unescape_mount_field(source).display().to_string();
    (kind == b"fuse" || kind.starts_with(b"fuse.")).then(|| Mounted { dir: dir.to_owned(), source })
}

/// The fields of a line of the table.
fn fields(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| *byte == b' ')
}

/// Replaces the escapes in a field of the kernel's mount table: it has spaces, tabs, newlines and backslashes as `\ooo`.
#[must_use]
pub fn unescape_mount_field(field: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::new(), field);
    while let Some((&byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(code) if byte == b'\\' => {
                bytes.push(code);
                rest = &tail[3..];
            }
            _ => {
                bytes.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    const TABLE: &[u8] = b"\
22 1 8:1 / / rw,relatime - ext4 /dev/root rw
40 22 0:35 / /mnt/a\\040b rw,nosuid,nodev shared:7 - fuse tank/run1 rw,user_id=0,group_id=0
41 22 0:36 / /mnt/c rw - fuse.esker esker:/p\\054q/run1 rw
42 22 0:37 / /mnt/d rw - tmpfs none rw
43 41 0:38 / /mnt/c rw - fuse other rw
44 22 0:39 / /mnt/\xff rw - fuse bytes rw
";

    /// The source of the mount on `dir` in [`TABLE`].
    fn source(dir: impl AsRef<OsStr>) -> Option<String> {
        find(TABLE, Path::new(&dir)).map(|mounted| mounted.source)
    }

    #[test]
    fn mounts_are_found_by_their_directory() {
        assert_eq!(source("/mnt/a b").as_deref(), Some("tank/run1"));
        assert_eq!(source("/mnt/d"), None);
        assert_eq!(source("/mnt"), None);
        assert_eq!(source(OsStr::from_bytes(b"/mnt/\xff")).as_deref(), Some("bytes"));
    }

    #[test]
    fn last_of_several_mounts_on_a_directory_is_found() {
        assert_eq!(source("/mnt/c").as_deref(), Some("other"));
    }

    #[test]
    fn escapes_are_read() {
        assert_eq!(unescape_mount_field(b"/a\\040b\\134\\054"), Path::new("/a b\\,"));
        assert_eq!(unescape_mount_field(b"/a\\04"), Path::new("/a\\04"));
    }

    #[test]
    fn an_unmounted_directory_is_reported() {
        let error = Mounted::on(Path::new("/proc/self")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }
}
