//! Inodes: the 88 bytes that DFS stores for each file, directory and symbolic link.
use esker::types::{Error, ErrorKind, ObjectId, ObjectType, Result};
use rustix::process::{getegid, geteuid};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Bytes of a stored inode.
pub const INODE_BYTES: usize = 88;

/// Bits of the mode for the kind (POSIX: `S_IFMT`).
pub const KIND_MASK: u32 = 0o170_000;
/// Bits of the mode that a caller may set.
pub const MODE_MASK: u32 = 0o7777;

/// The kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
}

impl Kind {
    /// The bits of the kind in a mode (POSIX: `S_IFREG`, `S_IFDIR`, `S_IFLNK`).
    #[must_use]
    pub const fn bits(self) -> u32 {
        match self {
            Self::File => 0o100_000,
            Self::Directory => 0o040_000,
            Self::Symlink => 0o120_000,
        }
    }

    /// The kind in a mode; `None` for kinds that this file system lacks.
    #[must_use]
    pub const fn from_mode(mode: u32) -> Option<Self> {
        match mode & KIND_MASK {
            0o100_000 => Some(Self::File),
            0o040_000 => Some(Self::Directory),
            0o120_000 => Some(Self::Symlink),
            _ => None,
        }
    }
}

/// An inode as stored in an entry (layout: DFS, akey `DFS_INODE`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Inode {
    /// File, directory or symbolic link.
    pub kind: Kind,
    /// Permission bits, with set-id and sticky bits.
    pub mode: u32,
    /// The object that holds the content.
    pub oid: ObjectId,
    /// Time of the last change of the content, as stored.
    pub mtime: Time,
    /// Time of the last change of its content or its attributes (POSIX: `st_ctime`).
    pub ctime: Time,
    /// Chunk size in bytes of a file, or of new files in a directory; 0 for the default of the container.
    pub chunk_size: u64,
    /// Object class of new files in a directory; 0 for the default of the container.
    pub class: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Bytes of a symbolic link's target.
    pub link_len: u64,
}

impl Inode {
    /// A new inode without permission bits, owned by root.
    pub(crate) fn new(kind: Kind, oid: ObjectId, now: Time) -> Self {
        Self {
            kind,
            mode: 0,
            oid,
            mtime: now,
            ctime: now,
            chunk_size: 0,
            class: 0,
            uid: 0,
            gid: 0,
            link_len: 0,
        }
    }

    /// The mode with the bits of the kind (POSIX: `st_mode`).
    #[must_use]
    pub const fn full_mode(&self) -> u32 {
        self.kind.bits() | self.mode
    }

    /// The inode number, unique in the container (POSIX: `st_ino`).
    #[must_use]
    pub const fn number(&self) -> u64 {
        number_of(self.oid)
    }

    /// The bytes that are stored.
    #[must_use]
    pub fn to_bytes(self) -> [u8; INODE_BYTES] {
        let mut bytes = [0; INODE_BYTES];
        let mut at = 0;
        let mut put = |field: &[u8]| {
            bytes[at..at + field.len()].copy_from_slice(field);
            at += field.len();
        };
        put(&self.full_mode().to_le_bytes());
        put(&self.oid.lo.to_le_bytes());
        put(&self.oid.hi.to_le_bytes());
        put(&self.mtime.seconds.to_le_bytes());
        put(&self.ctime.seconds.to_le_bytes());
        put(&self.chunk_size.to_le_bytes());
        put(&self.class.to_le_bytes());
        put(&u64::from(self.mtime.nanos).to_le_bytes());
        put(&u64::from(self.ctime.nanos).to_le_bytes());
        put(&self.uid.to_le_bytes());
        put(&self.gid.to_le_bytes());
        put(&self.link_len.to_le_bytes());
        bytes
    }

    /// Decodes stored bytes.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the bytes are not an inode.
    pub(crate) fn from_bytes(bytes: &[u8; INODE_BYTES]) -> Result<Self> {
        let mut fields = Fields(bytes);
        let mode = fields.u32();
        let kind = Kind::from_mode(mode).ok_or_else(|| unknown_kind_error(mode))?;
        let (lo, hi) = (fields.u64(), fields.u64());
        let (mtime, ctime) = (fields.u64(), fields.u64());
        let (chunk_size, class) = (fields.u64(), fields.u32());
        let (mtime_nanos, ctime_nanos) = (fields.u64(), fields.u64());
        let time = |seconds: u64, nanos: u64| Time {
            seconds: seconds as i64,
            nanos: (nanos % 1_000_000_000) as u32,
        };
        Ok(Self {
            kind,
            mode: mode & MODE_MASK,
            oid: ObjectId { hi, lo },
            mtime: time(mtime, mtime_nanos),
            ctime: time(ctime, ctime_nanos),
            chunk_size,
            class,
            uid: fields.u32(),
            gid: fields.u32(),
            link_len: fields.u64(),
        })
    }
}

/// The inode number of an object: the low halves of the two words of its id. They are unique, since the upper word of
/// an id is a counter and the lower word is the number of the process that created it.
pub(crate) const fn number_of(oid: ObjectId) -> u64 {
    oid.lo << 32 | oid.hi & 0xffff_ffff
}

/// Reads fields one after the other; past the end they are zero.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    /// Takes the next `N` bytes of the encoded inode; zeros if fewer are left.
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, tail) = self.0.split_first_chunk::<N>().unwrap_or((&[0; N], &[]));
        self.0 = tail;
        *head
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.take())
    }
}

#[cold]
fn unknown_kind_error(mode: u32) -> Error {
    Error::new(ErrorKind::Corrupt, format!("an entry with mode {mode:#o} is not a file of DFS"))
}

/// A point in time: seconds since 1970 (negative before), plus nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// Whole seconds.
    pub seconds: i64,
    /// Nanoseconds, below 10^9.
    pub nanos: u32,
}

impl Time {
    /// The wall clock.
    #[must_use]
    pub fn now() -> Self {
        let now = clock_gettime(ClockId::Realtime);
        Self { seconds: now.tv_sec, nanos: now.tv_nsec as u32 }
    }

    /// The absolute difference: a time that was set may be in the future.
    pub(crate) fn apart(self, other: Self) -> Duration {
        let nanos = |time: Self| i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos);
        let between = (nanos(self) - nanos(other)).unsigned_abs().min(u128::from(u64::MAX));
        Duration::from_nanos(between as u64)
    }
}

/// The type of the object that holds the content of a kind.
pub(crate) const fn object_type(kind: Kind) -> ObjectType {
    match kind {
        Kind::File => ObjectType::ArrayByte,
        Kind::Directory | Kind::Symlink => ObjectType::MultiHashed,
    }
}

/// User and group of this process. Miri lacks the system calls.
pub(crate) fn process_owner() -> (u32, u32) {
    if cfg!(miri) { (0, 0) } else { (geteuid().as_raw(), getegid().as_raw()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_inode_has_the_layout_of_dfs() {
        let inode = Inode {
            kind: Kind::File,
            mode: 0o640,
            oid: ObjectId { hi: 7, lo: 8 },
            mtime: Time { seconds: -1, nanos: 9 },
            ctime: Time { seconds: 10, nanos: 11 },
            chunk_size: 1 << 20,
            class: 12,
            uid: 13,
            gid: 14,
            link_len: 15,
        };
        let bytes = inode.to_bytes();
        assert_eq!(bytes[..4], 0o100_640u32.to_le_bytes());
        assert_eq!((bytes[4], bytes[12], bytes[20], bytes[28]), (8, 7, 0xff, 10));
        assert_eq!((bytes[38], bytes[44], bytes[48], bytes[56]), (0x10, 12, 9, 11));
        assert_eq!((bytes[64], bytes[68], bytes[72], bytes[80]), (13, 14, 15, 0));
        assert_eq!(Inode::from_bytes(&bytes).unwrap(), inode);
        assert!(Inode::from_bytes(&[0; INODE_BYTES]).is_err());
    }

    #[test]
    fn fuzz_inodes() {
        let inode =
            Inode::new(Kind::File, ObjectId { hi: 7, lo: 8 }, Time { seconds: -1, nanos: 9 });
        esker_testing::fuzz("inodes", &[inode.to_bytes().to_vec()], |bytes| {
            let mut padded = [0; INODE_BYTES];
            let len = bytes.len().min(INODE_BYTES);
            padded[..len].copy_from_slice(&bytes[..len]);
            if let Ok(inode) = Inode::from_bytes(&padded) {
                assert_eq!(Inode::from_bytes(&inode.to_bytes()).unwrap(), inode);
                let _ = (inode.number(), inode.full_mode());
            }
        });
    }
}
