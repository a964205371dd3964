//! Finds the file system and the medium of a path.
use esker::types::{Error, Result};
use esker_fuse::unescape_mount_field;
use std::path::{Path, PathBuf};

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point.
    pub point: PathBuf,
    /// Its type as the kernel names it (`ext4`, `tmpfs`).
    pub fs_type: String,
    /// Its device or source.
    pub source: String,
    /// Mounted with direct access to persistent memory.
    pub dax: bool,
}

/// Medium of a file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Media {
    /// Memory.
    Memory,
    /// A device of this machine.
    Block,
    /// A server that other machines can reach.
    Network,
}

/// Types of network file systems.
const NETWORK: &str =
    "nfs nfs4 cifs smb3 smbfs lustre gpfs beegfs ceph 9p afs glusterfs pvfs2 orangefs panfs wekafs";

impl Mount {
    /// Finds the file system that contains `path`; the path must exist.
    ///
    /// # Errors
    /// If the path or the table of mounts cannot be read.
    pub fn for_path(path: &Path) -> Result<Self> {
        let path = path
            .canonicalize()
            .map_err(|error| Error::io(format!("looking for {}", path.display()), &error))?;
        let table = std::fs::read("/proc/self/mountinfo")
            .map_err(|error| Error::io("reading /proc/self/mountinfo", &error))?;
        Ok(find(&table, &path))
    }

    /// Medium of the file system, by its type and source.
    #[must_use]
    pub fn media(&self) -> Media {
        match self.fs_type.as_str() {
            "tmpfs" | "ramfs" | "hugetlbfs" => Media::Memory,
            fs_type
                if NETWORK.split(' ').any(|known| known == fs_type)
                    || fs_type.starts_with("fuse.") =>
            {
                Media::Network
            }
            _ if self.dax => Media::Memory,
            _ => Media::Block,
        }
    }
}

impl Media {
    /// Name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Block => "block",
            Self::Network => "network",
        }
    }
}

/// Finds the innermost mount that contains the path. If several have the same mount point, the last one hides the
/// others.
fn find(table: &[u8], path: &Path) -> Mount {
    let mounts = table.split(|byte| *byte == b'\n').filter_map(parse);
    let above = mounts.filter(|mount| path.starts_with(&mount.point));
    above.max_by_key(|mount| mount.point.components().count()).unwrap_or_else(|| Mount {
        point: PathBuf::from("/"),
        fs_type: "unknown".to_owned(),
        source: String::new(),
        dax: false,
    })
}

/// Parses a line of `/proc/self/mountinfo`: `36 35 98:0 /root /point options [optional ...] - type source
/// super-options`. Paths may have any bytes.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let (point, options) = (fields.nth(4)?, fields.next()?);
    let mut device = fields.skip_while(|field| *field != b"-").skip(1);
    let (fs_type, source) = (device.next()?, device.next()?);
    let is_dax = |options: &[u8]| {
        let mut options = options.split(|byte| *byte == b',');
        options.any(|one| one == b"dax" || one == b"dax=always")
    };
    Some(Mount {
        point: unescape_mount_field(point),
        fs_type: String::from_utf8_lossy(fs_type).into_owned(),
        source: unescape_mount_field(source).display().to_string(),
        dax: is_dax(options) || device.next().is_some_and(is_dax),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    const TABLE: &[u8] = b"\
21 1 254:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
22 21 0:5 / /dev rw - devtmpfs dev rw
23 22 0:20 / /dev/shm rw - tmpfs shm rw,size=1g
24 21 0:30 / /net/my\\040data rw - nfs4 server:/data rw
25 21 259:0 / /pmem rw - xfs /dev/pmem0 rw,dax=always
26 21 0:40 / /over rw - ext4 /dev/vdb rw
27 26 0:41 / /over rw - fuse.sshfs me@there: rw
28 21 0:42 / /b\xfd rw - tmpfs none rw
";

    #[test]
    fn the_innermost_mount_is_found() {
        let fs_type = |path: &str| find(TABLE, Path::new(path)).fs_type;
        assert_eq!(fs_type("/dev/shm/pool"), "tmpfs");
        assert_eq!(fs_type("/dev/shmother"), "devtmpfs");
        assert_eq!(fs_type("/home"), "ext4");
        assert_eq!(fs_type("/net/my data/x"), "nfs4");
        assert_eq!(fs_type("/over/there"), "fuse.sshfs");
        let bytes = OsStr::from_bytes(b"/b\xfd/x");
        assert_eq!(find(TABLE, Path::new(bytes)).fs_type, "tmpfs");
        assert_eq!(find(b"", Path::new("/x")).fs_type, "unknown");
    }

    #[test]
    fn the_medium_follows_from_the_file_system() {
        let media = |path: &str| find(TABLE, Path::new(path)).media().name();
        assert_eq!(media("/dev/shm"), "memory");
        assert_eq!(media("/pmem"), "memory");
        assert_eq!(media("/usr"), "block");
        assert_eq!(media("/net/my data"), "network");
        assert_eq!(media("/over"), "network");
    }

    #[test]
    fn the_root_of_this_machine_is_mounted() {
        assert_ne!(Mount::for_path(Path::new("/proc")).unwrap().fs_type, "unknown");
        assert!(Mount::for_path(Path::new("/no/such/path")).is_err());
    }
}
