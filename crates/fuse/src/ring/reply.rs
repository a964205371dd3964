//! Replies to the kernel, as bytes.
use crate::answer::{Answer, Refusal};
use crate::directory::Listed;
use crate::served::{Opened, Space};
use fuser::{Errno, FileAttr, FileType};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Entries of a listing begin at multiples of this.
const ENTRY_ALIGNMENT: usize = 8;

/// A reply without its header.
pub(crate) enum Reply {
    Empty,
    Entry(FileAttr),
    Attr(FileAttr),
    Opened(Opened),
    Created(FileAttr, Opened),
    Bytes(Vec<u8>),
    Count(u32),
    Offset(i64),
    Space(Space),
    /// These bytes are in the payload already.
    InPlace(usize),
}

impl Reply {
    /// Writes the reply to `payload`; names and attributes may be cached for `fresh`. Returns the number of bytes.
    pub(crate) fn encode(self, payload: &mut [u8], fresh: Duration) -> Answer<usize> {
        let mut out = Out::new(payload);
        match self {
            Self::InPlace(len) => return Ok(len),
            Self::Empty => {}
            Self::Entry(attr) => entry(&mut out, &attr, fresh)?,
            Self::Attr(attr) => {
                out.u64(fresh.as_secs())?.u32(fresh.subsec_nanos())?.u32(0)?;
                attributes(&mut out, &attr)?;
            }
            Self::Opened(of) => opened(&mut out, of)?,
            Self::Created(attr, of) => {
                entry(&mut out, &attr, fresh)?;
                opened(&mut out, of)?;
            }
            Self::Bytes(bytes) => {
                out.bytes(&bytes)?;
            }
            Self::Count(count) => {
                out.u32(count)?.u32(0)?;
            }
            Self::Offset(offset) => {
                out.u64(offset as u64)?;
            }
            Self::Space(of) => space(&mut out, &of)?,
        }
        Ok(out.len)
    }
}

/// Writes the header of a reply to request `unique`. `len` is the size of its payload in bytes.
pub(crate) fn header(out: &mut [u8], unique: u64, errno: Option<Errno>, len: usize) -> Answer<()> {
    let error = errno.map_or(0, |errno| -errno.code());
    let len = HEADER_BYTES + len as u32;
    Out::new(out).u32(len)?.u32(error as u32)?.u64(unique)?;
    Ok(())
}

/// Size of the header of a reply.
const HEADER_BYTES: u32 = 16;

/// Linux: `struct fuse_entry_out`.
fn entry(out: &mut Out<'_>, attr: &FileAttr, fresh: Duration) -> Answer<()> {
    let (seconds, nanos) = (fresh.as_secs(), fresh.subsec_nanos());
    // Inode numbers are never reused, so the generation is zero.
    out.u64(attr.ino.0)?.u64(0)?.u64(seconds)?.u64(seconds)?.u32(nanos)?.u32(nanos)?;
    attributes(out, attr)
}

/// Linux: `struct fuse_attr`.
fn attributes(out: &mut Out<'_>, attr: &FileAttr) -> Answer<()> {
    let times = [attr.atime, attr.mtime, attr.ctime].map(since_1970);
    out.u64(attr.ino.0)?.u64(attr.size)?.u64(attr.blocks)?;
    for (seconds, _) in times {
        out.u64(seconds as u64)?;
    }
    for (_, nanos) in times {
        out.u32(nanos)?;
    }
    let mode = mode_bits(attr.kind) | u32::from(attr.perm);
    out.u32(mode)?.u32(attr.nlink)?.u32(attr.uid)?.u32(attr.gid)?;
    out.u32(attr.rdev)?.u32(attr.blksize)?.u32(0)?;
    Ok(())
}

/// Linux: `struct fuse_open_out`.
fn opened(out: &mut Out<'_>, (handle, treatment): Opened) -> Answer<()> {
    out.u64(handle)?.u32(treatment.bits())?.u32(0)?;
    Ok(())
}

/// Linux: `struct fuse_statfs_out`.
fn space(out: &mut Out<'_>, space: &Space) -> Answer<()> {
    out.u64(space.blocks)?.u64(space.free)?.u64(space.free)?;
    out.u64(space.files)?.u64(space.files_free)?;
    out.u32(space.block_size)?.u32(space.name_max)?.u32(space.block_size)?;
    out.zeroes(28)
}

/// A listing in the payload of a reply.
pub(crate) struct Listing<'a> {
    out: Out<'a>,
    fresh: Duration,
}

impl<'a> Listing<'a> {
    /// A listing of at most `room` bytes.
    pub(crate) fn new(payload: &'a mut [u8], room: u32, fresh: Duration) -> Self {
        let room = payload.len().min(room as usize);
        Self { out: Out::new(&mut payload[..room]), fresh }
    }

    /// Adds an entry. Returns true if it does not fit.
    pub(crate) fn add(&mut self, listed: &Listed<'_>) -> bool {
        self.out.all_or_nothing(|out| dirent(out, listed))
    }

    /// Adds an entry with its attributes. Returns true if it does not fit.
    pub(crate) fn add_with_attributes(&mut self, listed: &Listed<'_>, attr: &FileAttr) -> bool {
        let fresh = self.fresh;
        self.out.all_or_nothing(|out| {
            entry(out, attr, fresh)?;
            dirent(out, listed)
        })
    }

    pub(crate) fn reply(&self) -> Reply {
        Reply::InPlace(self.out.len)
    }
}

/// Linux: `struct fuse_dirent`, padded to the alignment of entries.
fn dirent(out: &mut Out<'_>, listed: &Listed<'_>) -> Answer<()> {
    let kind = mode_bits(listed.kind) >> 12;
    out.u64(listed.number)?.u64(listed.next)?.u32(listed.name.len() as u32)?.u32(kind)?;
    out.bytes(listed.name)?;
    out.zeroes(out.len.next_multiple_of(ENTRY_ALIGNMENT) - out.len)
}

/// Bits of a mode that tell the kind of a file.
const fn mode_bits(kind: FileType) -> u32 {
    match kind {
        FileType::NamedPipe => 0o01_0000,
        FileType::CharDevice => 0o02_0000,
        FileType::Directory => 0o04_0000,
        FileType::BlockDevice => 0o06_0000,
        FileType::RegularFile => 0o10_0000,
        FileType::Symlink => 0o12_0000,
        FileType::Socket => 0o14_0000,
    }
}

/// Seconds and nanoseconds since 1970. For earlier times the seconds are negative, and the nanoseconds still count
/// forward.
fn since_1970(time: SystemTime) -> (i64, u32) {
    let seconds = |duration: Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => (seconds(since), since.subsec_nanos()),
        Err(before) => match (seconds(before.duration()), before.duration().subsec_nanos()) {
            (seconds, 0) => (-seconds, 0),
            (seconds, nanos) => (-seconds - 1, 1_000_000_000 - nanos),
        },
    }
}

/// A buffer that is filled from its start.
struct Out<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Out<'a> {
    fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, len: 0 }
    }

    /// Appends bytes; `ERANGE` if they do not fit.
    fn bytes(&mut self, bytes: &[u8]) -> Answer<&mut Self> {
        let room = self.bytes.get_mut(self.len..self.len + bytes.len()).ok_or(TOO_LONG)?;
        room.copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(self)
    }

    fn u32(&mut self, value: u32) -> Answer<&mut Self> {
        self.bytes(&value.to_ne_bytes())
    }

    fn u64(&mut self, value: u64) -> Answer<&mut Self> {
        self.bytes(&value.to_ne_bytes())
    }

    /// Appends `len` zeros; `ERANGE` if they do not fit.
    fn zeroes(&mut self, len: usize) -> Answer<()> {
        self.bytes.get_mut(self.len..self.len + len).ok_or(TOO_LONG)?.fill(0);
        self.len += len;
        Ok(())
    }

    /// Calls `write`. If its output does not fit, undoes it and returns true.
    fn all_or_nothing(&mut self, write: impl FnOnce(&mut Self) -> Answer<()>) -> bool {
        let start = self.len;
        let full = write(self).is_err();
        if full {
            self.len = start;
        }
        full
    }
}

const TOO_LONG: Refusal = Refusal(Errno::ERANGE);

#[cfg(test)]
mod tests {
    use super::*;
    use fuser::{FopenFlags, INodeNo};

    const FRESH: Duration = Duration::new(3, 4);

    /// Attributes with a different value in each field.
    fn attr() -> FileAttr {
        let time = |seconds| UNIX_EPOCH + Duration::new(seconds, 1);
        FileAttr {
            ino: INodeNo(5),
            size: 6,
            blocks: 7,
            atime: time(8),
            mtime: UNIX_EPOCH - Duration::from_millis(800),
            ctime: time(10),
            crtime: UNIX_EPOCH,
            kind: FileType::RegularFile,
            perm: 0o644,
            nlink: 1,
            uid: 11,
            gid: 12,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }

    /// The payload of a reply.
    fn encode(reply: Reply) -> Vec<u8> {
        let mut payload = vec![0xff; 512];
        let len = reply.encode(&mut payload, FRESH).unwrap();
        payload.truncate(len);
        payload
    }

    /// The bytes as 64-bit numbers.
    fn words(bytes: &[u8]) -> Vec<u64> {
        bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
    }

    #[test]
    fn replies_have_the_layout_of_the_kernel() {
        let opened = (1, FopenFlags::FOPEN_DIRECT_IO);
        let space =
            Space { blocks: 1, free: 2, files: 3, files_free: 4, block_size: 5, name_max: 6 };
        let pair = |low: u64, high: u64| low | high << 32;
        let attributes = [5, 6, 7, 8, -1_i64 as u64, 10, pair(1, 200_000_000)];
        let more = [pair(1, 0o10_0644), pair(1, 11), pair(12, 0), 4096];
        let attributes = [&attributes[..], &more].concat();
        let entry = [&[5, 0, 3, 3, pair(4, 4)][..], &attributes].concat();
        assert_eq!(words(&encode(Reply::Entry(attr()))), entry);
        assert_eq!(words(&encode(Reply::Attr(attr()))), [&[3, 4][..], &attributes].concat());
        assert_eq!(words(&encode(Reply::Opened(opened))), [1, 1]);
        let created = [&entry[..], &[1, 1]].concat();
        assert_eq!(words(&encode(Reply::Created(attr(), opened))), created);
        let of_space = [1, 2, 2, 3, 4, pair(5, 6), 5, 0, 0, 0];
        assert_eq!(words(&encode(Reply::Space(space))), of_space);
        assert_eq!(words(&encode(Reply::Count(9))), [9]);
        assert_eq!(words(&encode(Reply::Offset(-1))), [u64::MAX]);
        assert_eq!(encode(Reply::Bytes(b"abc".to_vec())), b"abc");
        assert!(encode(Reply::Empty).is_empty());
    }

    #[test]
    fn headers_tell_the_length_and_the_error() {
        let mut bytes = [0; 16];
        header(&mut bytes, 9, None, 100).unwrap();
        assert_eq!(words(&bytes), [116, 9]);
        header(&mut bytes, 9, Some(Errno::ENOENT), 0).unwrap();
        assert_eq!(bytes[4..8], (-2_i32).to_ne_bytes());
    }

    #[test]
    fn listings_hold_entries_that_fit() {
        let listed = Listed { number: 1, next: 2, kind: FileType::Directory, name: b"name" };
        let mut payload = [0xff; 512];
        let mut listing = Listing::new(&mut payload, 70, FRESH);
        assert!(!listing.add(&listed) && !listing.add(&listed));
        assert!(listing.add(&listed) && listing.add_with_attributes(&listed, &attr()));
        assert!(matches!(listing.reply(), Reply::InPlace(64)));
        assert_eq!(words(&payload[..24]), [1, 2, 4 | 4 << 32]);
        assert_eq!(payload[24..32], *b"name\0\0\0\0");
        let mut listing = Listing::new(&mut payload, 4096, FRESH);
        assert!(!listing.add_with_attributes(&listed, &attr()));
        assert!(matches!(listing.reply(), Reply::InPlace(160)));
        assert_eq!(payload[128 + 24..160], *b"name\0\0\0\0");
    }

    #[test]
    fn replies_that_do_not_fit_are_refused() {
        let refused = Reply::Bytes(vec![0; 10]).encode(&mut [0; 9], FRESH);
        assert_eq!(refused, Err(TOO_LONG));
        assert_eq!(Reply::Entry(attr()).encode(&mut [0; 127], FRESH), Err(TOO_LONG));
    }
}
