//! The mount table as streams show it: that of the kernel, with a line for the mount point. `df`, `findmnt` and Java
//! look there for the file system of a path. Calls on descriptors get the kernel's own table, which programs may poll
//! for changes.
use crate::answer::{Answer, Fail};
use crate::{config, raw, stat, threads};
use std::ffi::{OsStr, c_int};
use std::os::unix::ffi::OsStrExt;

/// Type of the file system in the table, as that of `esker mount`.
const KIND: &str = "fuse.esker";

/// Form of the lines of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Lines with the numbers of mounts and devices (`/proc/self/mountinfo`).
    Info,
    /// Lines of `fstab` (`/proc/mounts`).
    Fstab,
}

impl Form {
    /// Form of the table that a path names; `None` for all other paths.
    #[inline]
    pub(crate) fn of_path(path: &[u8]) -> Option<Self> {
        match path {
            b"/proc/self/mountinfo" => Some(Self::Info),
            b"/proc/self/mounts" | b"/proc/mounts" | b"/etc/mtab" => Some(Self::Fstab),
            _ => None,
        }
    }
}

/// A mount as a line of a table shows it.
struct Line<'a> {
    source: &'a [u8],
    dir: &'a [u8],
    device: u64,
    read_only: bool,
}

impl Line<'_> {
    /// Returns the line of the mount table for the mount point of this process.
    fn of_mount_point() -> Self {
        let config = config::get();
        Line {
            source: config.source.as_bytes(),
            dir: &config.mount,
            device: stat::device(),
            read_only: config.read_only,
        }
    }

    /// Formats the line for the end of `table`, whose numbers of mounts it must not repeat.
    fn text(&self, form: Form, table: &[u8]) -> String {
        let (source, dir) = (escaped(self.source), escaped(self.dir));
        let access = if self.read_only { "ro" } else { "rw" };
        if form == Form::Fstab {
            return format!("{source} {dir} {KIND} {access},nosuid 0 0\n");
        }
        let (number, parent) = (free_number(table), root_number(table));
        let (major, minor) = (libc::major(self.device), libc::minor(self.device));
        format!(
            "{number} {parent} {major}:{minor} / {dir} {access},nosuid - {KIND} {source} {access}\n"
        )
    }
}

/// A field of a table, in which spaces, tabs, newlines and backslashes are written as `\ooo`.
fn escaped(field: &[u8]) -> String {
    let mut text = String::new();
    for letter in String::from_utf8_lossy(field).chars() {
        match letter {
            ' ' | '\t' | '\n' | '\\' => text += &format!("\\{:03o}", letter as u32),
            letter => text.push(letter),
        }
    }
    text
}

/// Numbers of the mounts in a table, and the directories that they are mounted on.
fn mounts(table: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    table.split(|byte| *byte == b'\n').filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let number = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
        // Parent, device and root come in between.
        Some((number, fields.nth(3)?))
    })
}

/// A number of a mount that is not in the table yet.
fn free_number(table: &[u8]) -> u32 {
    mounts(table).map(|(number, _)| number).max().unwrap_or_default().saturating_add(1)
}

/// The number of the mount at `/`, which is the parent of ours.
fn root_number(table: &[u8]) -> u32 {
    mounts(table).filter(|(_, dir)| *dir == b"/").last().map_or(1, |(number, _)| number)
}

/// Opens a copy of the table at `path` with the line of the mount point. `None` for calls of the store, for calls that
/// may write, and after an error: then the kernel answers.
pub(crate) fn open(path: &[u8], form: Form, flags: c_int) -> Option<c_int> {
    if threads::is_inside() || flags & (libc::O_ACCMODE | libc::O_CREAT) != libc::O_RDONLY {
        return None;
    }
    let opened = threads::inside(|| {
        let read = std::fs::read(OsStr::from_bytes(path));
        let mut table = read.map_err(|_| Fail::Errno(libc::EIO))?;
        let line = Line::of_mount_point().text(form, &table);
        table.extend_from_slice(line.as_bytes());
        copy(&table, flags & libc::O_CLOEXEC != 0)
    });
    opened.ok()
}

/// An anonymous file with this content, at its beginning.
fn copy(content: &[u8], close_on_exec: bool) -> Answer<c_int> {
    let fd = raw::anonymous(c"mounts", if close_on_exec { libc::MFD_CLOEXEC } else { 0 })?;
    raw::write_all_at(fd, content, 0).inspect_err(|_| raw::close(fd))?;
    Ok(fd)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[u8] = b"\
22 1 8:1 / / rw,relatime - ext4 /dev/root rw
40 22 0:35 / /mnt/a\\040b rw,nosuid shared:7 - tmpfs none rw
";

    #[test]
    fn line_of_the_mount_point_follows_those_of_the_kernel() {
        let device = libc::makedev(7, 3);
        let line = Line { source: b"tank/my run", dir: b"/a\\b", device, read_only: false };
        assert_eq!(
            line.text(Form::Info, TABLE),
            "41 22 7:3 / /a\\134b rw,nosuid - fuse.esker tank/my\\040run rw\n"
        );
        let read_only = Line { read_only: true, ..line };
        assert_eq!(
            read_only.text(Form::Fstab, TABLE),
            "tank/my\\040run /a\\134b fuse.esker ro,nosuid 0 0\n"
        );
    }

    #[test]
    fn only_mount_tables_are_recognised() {
        assert_eq!(Form::of_path(b"/proc/self/mountinfo"), Some(Form::Info));
        assert_eq!(Form::of_path(b"/etc/mtab"), Some(Form::Fstab));
        assert_eq!(Form::of_path(b"/proc/self/maps"), None);
    }
}
