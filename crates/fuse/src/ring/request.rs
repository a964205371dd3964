//! Requests of the kernel, parsed from their bytes.
//!
//! The kernel puts the header and the structure of the operation into one buffer, and everything else (names, values,
//! data) into the payload. <https://docs.kernel.org/filesystems/fuse/fuse-io-uring.html> describes the transport.
use crate::answer::{Answer, Refusal};
use crate::attributes::Wanted;
use crate::data::Copy;
use crate::served::Caller;
use dfs::{SetAttr, Time};
use fuser::{Errno, RenameFlags, WriteFlags};

/// Linux: `FATTR_*`, the fields that `setattr` changes.
const SET_MODE: u32 = 1 << 0;
const SET_UID: u32 = 1 << 1;
const SET_GID: u32 = 1 << 2;
const SET_SIZE: u32 = 1 << 3;
const SET_ATIME: u32 = 1 << 4;
const SET_MTIME: u32 = 1 << 5;
const SET_MTIME_NOW: u32 = 1 << 8;

/// Linux: `FUSE_READ_LOCKOWNER`.
const READ_LOCKOWNER: u32 = 1 << 1;

/// Header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) opcode: u32,
    /// Number of the request, which the reply repeats.
    pub(crate) unique: u64,
    /// Inode number.
    pub(crate) number: u64,
    pub(crate) caller: Caller,
}

impl Header {
    /// Parses `struct fuse_in_header`.
    pub(crate) fn parse(bytes: &[u8]) -> Answer<Self> {
        let mut fields = Fields(bytes);
        let _len = fields.u32()?;
        let (opcode, unique, number) = (fields.u32()?, fields.u64()?, fields.u64()?);
        let caller = Caller { uid: fields.u32()?, gid: fields.u32()? };
        Ok(Self { opcode, unique, number, caller })
    }
}

/// A range of bytes of an open file, or of positions in an open listing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) len: u32,
    /// The kernel names a lock owner for a program that bypasses the pages.
    pub(crate) bypasses: bool,
}

/// A request on the inode of its header.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Request<'a> {
    Lookup { name: &'a [u8] },
    GetAttr,
    SetAttr(Wanted),
    ReadLink,
    Symlink { name: &'a [u8], target: &'a [u8] },
    MkNod { name: &'a [u8], mode: u32 },
    MkDir { name: &'a [u8], mode: u32 },
    Unlink { name: &'a [u8] },
    RmDir { name: &'a [u8] },
    Rename { name: &'a [u8], new_parent: u64, new_name: &'a [u8], flags: RenameFlags },
    Link { name: &'a [u8] },
    Open { flags: i32 },
    Create { name: &'a [u8], flags: i32, mode: u32 },
    Read(Range),
    Write { range: Range, data: &'a [u8], how: WriteFlags, flags: i32 },
    StatFs,
    Release { handle: u64 },
    FSync,
    SetXattr { name: &'a [u8], value: &'a [u8], flags: i32 },
    GetXattr { name: &'a [u8], room: u32 },
    ListXattr { room: u32 },
    RemoveXattr { name: &'a [u8] },
    OpenDir,
    ReadDir(Range),
    ReadDirPlus(Range),
    ReleaseDir { handle: u64 },
    FSyncDir,
    Allocate { offset: u64, len: u64, mode: i32 },
    Seek { offset: i64, whence: i32 },
    Copy(Copy),
}

impl<'a> Request<'a> {
    /// Parses the structure of the operation and the payload. `ENOSYS` makes the kernel do without an operation.
    pub(crate) fn parse(header: &Header, op: &[u8], payload: &'a [u8]) -> Answer<Self> {
        let (mut op, mut payload) = (Fields(op), Fields(payload));
        Ok(match header.opcode {
            1 => Self::Lookup { name: payload.name()? },
            3 => Self::GetAttr,
            4 => Self::SetAttr(parse_attributes(&mut op, header.caller)?),
            5 => Self::ReadLink,
            6 => Self::Symlink { name: payload.name()?, target: payload.name()? },
            8 => Self::MkNod { mode: op.u32()?, name: payload.name()? },
            9 => Self::MkDir { mode: op.u32()?, name: payload.name()? },
            10 => Self::Unlink { name: payload.name()? },
            11 => Self::RmDir { name: payload.name()? },
            12 => parse_rename(op.u64()?, 0, &mut payload)?,
            13 => Self::Link { name: payload.name()? },
            14 => Self::Open { flags: op.i32()? },
            15 => parse_read(&mut op)?,
            16 => parse_write(&mut op, payload.0)?,
            17 => Self::StatFs,
            18 => Self::Release { handle: op.u64()? },
            20 => Self::FSync,
            21 => parse_set_xattr(&mut op, &mut payload)?,
            22 => Self::GetXattr { room: op.u32()?, name: payload.name()? },
            23 => Self::ListXattr { room: op.u32()? },
            24 => Self::RemoveXattr { name: payload.name()? },
            27 => Self::OpenDir,
            28 => Self::ReadDir(parse_range(&mut op)?.0),
            29 => Self::ReleaseDir { handle: op.u64()? },
            30 => Self::FSyncDir,
            35 => Self::Create { flags: op.i32()?, mode: op.u32()?, name: payload.name()? },
            43 => parse_allocate(&mut op)?,
            44 => Self::ReadDirPlus(parse_range(&mut op)?.0),
            45 => parse_rename(op.u64()?, op.u32()?, &mut payload)?,
            46 => parse_seek(&mut op)?,
            47 => Self::Copy(parse_copy(&mut op, header.number)?),
            _ => return Err(Errno::ENOSYS.into()),
        })
    }

    /// True if the kernel sends the request for any user, since it works on what another one has opened. Other
    /// requests of users other than the owner of a mount are refused if the mount is the owner's alone.
    pub(crate) const fn is_by_handle(&self) -> bool {
        matches!(
            self,
            Self::Read(_)
                | Self::ReadDir(_)
                | Self::ReadDirPlus(_)
                | Self::Write { .. }
                | Self::FSync
                | Self::FSyncDir
                | Self::Release { .. }
                | Self::ReleaseDir { .. }
        )
    }

    /// True if the reply may take long, so that another thread has to serve the queue meanwhile.
    pub(crate) const fn may_take_long(&self) -> bool {
        matches!(self, Self::FSync | Self::FSyncDir | Self::Allocate { .. } | Self::Copy(_))
    }
}

/// Parses handle, offset and length of a read, write or listing. Returns the flags of the request separately.
fn parse_range(op: &mut Fields<'_>) -> Answer<(Range, u32)> {
    let (handle, offset, len, flags) = (op.u64()?, op.u64()?, op.u32()?, op.u32()?);
    let bypasses = flags & READ_LOCKOWNER != 0;
    Ok((Range { handle, offset, len, bypasses }, flags))
}

/// Refuses offsets and lengths that are negative as a number with a sign.
fn check_offset(offset: u64) -> Answer<()> {
    i64::try_from(offset).map(|_| ()).map_err(|_| INVALID)
}

/// Parses `struct fuse_read_in`.
fn parse_read(op: &mut Fields<'_>) -> Answer<Request<'static>> {
    let (range, _) = parse_range(op)?;
    check_offset(range.offset)?;
    Ok(Request::Read(range))
}

/// Parses `struct fuse_write_in`. `payload` begins with the data.
fn parse_write<'a>(op: &mut Fields<'_>, payload: &'a [u8]) -> Answer<Request<'a>> {
    let (mut range, flags) = parse_range(op)?;
    check_offset(range.offset)?;
    let how = WriteFlags::from_bits_retain(flags);
    range.bypasses = how.contains(WriteFlags::FUSE_WRITE_LOCKOWNER);
    let _lock_owner = op.u64()?;
    let data = payload.get(..range.len as usize).ok_or(Errno::EINVAL)?;
    Ok(Request::Write { range, data, how, flags: op.i32()? })
}

/// Parses `struct fuse_setattr_in`. Skips fields of times that are not stored, and of the handle.
fn parse_attributes(op: &mut Fields<'_>, caller: Caller) -> Answer<Wanted> {
    let valid = op.u32()?;
    op.skip(12)?;
    let size = op.u64()?;
    op.skip(16)?;
    let seconds = op.u64()? as i64;
    op.skip(12)?;
    let nanos = op.u32()?;
    op.skip(4)?;
    let mode = op.u32()?;
    op.skip(4)?;
    let (uid, gid) = (op.u32()?, op.u32()?);
    if nanos >= 1_000_000_000 {
        return Err(INVALID);
    }
    let set = |bit: u32| valid & bit != 0;
    let mtime = if set(SET_MTIME_NOW) { Time::now() } else { Time { seconds, nanos } };
    Ok(Wanted {
        set: SetAttr {
            mode: set(SET_MODE).then_some(mode),
            uid: set(SET_UID).then_some(uid),
            gid: set(SET_GID).then_some(gid),
            size: set(SET_SIZE).then_some(size),
            mtime: set(SET_MTIME).then_some(mtime),
            ..SetAttr::default()
        },
        by_user: caller.is_user(),
        sets_atime: set(SET_ATIME),
    })
}

/// Parses the two names of a rename.
fn parse_rename<'a>(new_parent: u64, flags: u32, payload: &mut Fields<'a>) -> Answer<Request<'a>> {
    let (name, new_name) = (payload.name()?, payload.name()?);
    let flags = RenameFlags::from_bits_retain(flags);
    Ok(Request::Rename { name, new_parent, new_name, flags })
}

/// Parses `struct fuse_setxattr_in`, and name and value of the attribute in the payload.
fn parse_set_xattr<'a>(op: &mut Fields<'_>, payload: &mut Fields<'a>) -> Answer<Request<'a>> {
    let (len, flags, name) = (op.u32()?, op.i32()?, payload.name()?);
    Ok(Request::SetXattr { name, value: payload.bytes(len as usize)?, flags })
}

/// Parses `struct fuse_fallocate_in`.
fn parse_allocate(op: &mut Fields<'_>) -> Answer<Request<'static>> {
    let _handle = op.u64()?;
    let (offset, len) = (op.u64()?, op.u64()?);
    check_offset(offset)?;
    check_offset(len)?;
    Ok(Request::Allocate { offset, len, mode: op.i32()? })
}

/// Parses `struct fuse_lseek_in`.
fn parse_seek(op: &mut Fields<'_>) -> Answer<Request<'static>> {
    let _handle = op.u64()?;
    Ok(Request::Seek { offset: op.u64()? as i64, whence: op.i32()? })
}

/// Parses `struct fuse_copy_file_range_in`. `number` is the inode of the source.
fn parse_copy(op: &mut Fields<'_>, number: u64) -> Answer<Copy> {
    let _handle = op.u64()?;
    let (offset, to) = (op.u64()?, op.u64()?);
    let _to_handle = op.u64()?;
    let (to_offset, len) = (op.u64()?, op.u64()?);
    check_offset(offset)?;
    check_offset(to_offset)?;
    Ok(Copy { from: (number, offset), to: (to, to_offset), len })
}

/// Bytes whose fields are parsed one after another.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The next `len` bytes; `EINVAL` if fewer are left.
    fn bytes(&mut self, len: usize) -> Answer<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(len).ok_or(INVALID)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// The next `N` bytes; `EINVAL` if fewer are left.
    fn array<const N: usize>(&mut self) -> Answer<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk().ok_or(INVALID)?;
        self.0 = rest;
        Ok(*array)
    }

    fn u32(&mut self) -> Answer<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    fn i32(&mut self) -> Answer<i32> {
        self.array().map(i32::from_ne_bytes)
    }

    fn u64(&mut self) -> Answer<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// Skips `len` bytes.
    fn skip(&mut self, len: usize) -> Answer<()> {
        self.bytes(len).map(drop)
    }

    /// A name, which ends with a zero byte.
    fn name(&mut self) -> Answer<&'a [u8]> {
        let len = self.0.iter().position(|byte| *byte == 0).ok_or(INVALID)?;
        let name = self.bytes(len)?;
        self.skip(1)?;
        Ok(name)
    }
}

const INVALID: Refusal = Refusal(Errno::EINVAL);

#[cfg(test)]
mod tests {
    use super::*;

    const CALLER: Caller = Caller { uid: 7, gid: 8 };

    /// Bytes of a structure of the kernel: each number has as many bytes as the second value says, padding included.
    fn structure(fields: &[(u64, usize)]) -> Vec<u8> {
        let bytes = |(value, len): &(u64, usize)| {
            let mut bytes = value.to_le_bytes().to_vec();
            bytes.resize(*len, 0);
            bytes
        };
        fields.iter().flat_map(bytes).collect()
    }

    fn parse<'a>(opcode: u32, op: &[u8], payload: &'a [u8]) -> Answer<Request<'a>> {
        let header = Header { opcode, unique: 1, number: 2, caller: CALLER };
        Request::parse(&header, op, payload)
    }

    /// One example of each operation: its opcode, the bytes of its structure and of its payload, and the request.
    fn operations() -> Vec<(u32, Vec<u8>, &'static [u8], Request<'static>)> {
        let range = Range { handle: 1, offset: 4096, len: 3, bypasses: true };
        let read = structure(&[(1, 8), (4096, 8), (3, 4), (2, 4), (9, 8), (5, 4), (0, 4)]);
        let rename = |flags| Request::Rename {
            name: b"old",
            new_parent: 5,
            new_name: b"new",
            flags: RenameFlags::from_bits_retain(flags),
        };
        let name = b"name";
        let set = SetAttr {
            mode: Some(0o644),
            uid: None,
            gid: Some(12),
            size: Some(100),
            mtime: Some(Time { seconds: -1, nanos: 6 }),
            ..SetAttr::default()
        };
        let attributes = structure(&[
            (1 | 4 | 8 | 32, 4),
            (0, 4),
            (0, 8),
            (100, 8),
            (0, 8),
            (1, 8),
            (-1_i64 as u64, 8),
            (0, 8),
            (2, 4),
            (6, 4),
            (0, 4),
            (0o644, 4),
            (0, 4),
            (11, 4),
            (12, 4),
            (0, 4),
        ]);
        let copy = structure(&[(1, 8), (10, 8), (3, 8), (4, 8), (20, 8), (30, 8), (0, 8)]);
        let how = WriteFlags::FUSE_WRITE_LOCKOWNER;
        vec![
            (1, vec![], b"name\0", Request::Lookup { name }),
            (3, vec![0; 16], b"", Request::GetAttr),
            (
                4,
                attributes,
                b"",
                Request::SetAttr(Wanted { set, by_user: true, sets_atime: false }),
            ),
            (5, vec![], b"", Request::ReadLink),
            (6, vec![], b"name\0to\0", Request::Symlink { name, target: b"to" }),
            (8, structure(&[(0o644, 4), (0, 12)]), b"name\0", Request::MkNod { name, mode: 0o644 }),
            (9, structure(&[(0o755, 4), (0, 4)]), b"name\0", Request::MkDir { name, mode: 0o755 }),
            (10, vec![], b"name\0", Request::Unlink { name }),
            (11, vec![], b"name\0", Request::RmDir { name }),
            (12, structure(&[(5, 8)]), b"old\0new\0", rename(0)),
            (13, structure(&[(3, 8)]), b"name\0", Request::Link { name }),
            (14, structure(&[(2, 4), (0, 4)]), b"", Request::Open { flags: 2 }),
            (15, read.clone(), b"", Request::Read(range)),
            (16, read.clone(), b"abc", Request::Write { range, data: b"abc", how, flags: 5 }),
            (17, vec![], b"", Request::StatFs),
            (18, structure(&[(1, 8), (0, 8), (0, 8)]), b"", Request::Release { handle: 1 }),
            (20, vec![0; 16], b"", Request::FSync),
            (
                21,
                structure(&[(3, 4), (1, 4)]),
                b"name\0abc",
                Request::SetXattr { name, value: b"abc", flags: 1 },
            ),
            (22, structure(&[(9, 4), (0, 4)]), b"name\0", Request::GetXattr { name, room: 9 }),
            (23, structure(&[(9, 4), (0, 4)]), b"", Request::ListXattr { room: 9 }),
            (24, vec![], b"name\0", Request::RemoveXattr { name }),
            (27, vec![0; 8], b"", Request::OpenDir),
            (28, read.clone(), b"", Request::ReadDir(range)),
            (29, structure(&[(1, 8), (0, 8), (0, 8)]), b"", Request::ReleaseDir { handle: 1 }),
            (30, vec![0; 16], b"", Request::FSyncDir),
            (
                35,
                structure(&[(0o102, 4), (0o644, 4), (0, 8)]),
                b"name\0",
                Request::Create { name, flags: 0o102, mode: 0o644 },
            ),
            (
                43,
                structure(&[(1, 8), (10, 8), (20, 8), (3, 4), (0, 4)]),
                b"",
                Request::Allocate { offset: 10, len: 20, mode: 3 },
            ),
            (44, read, b"", Request::ReadDirPlus(range)),
            (45, structure(&[(5, 8), (2, 4), (0, 4)]), b"old\0new\0", rename(2)),
            (
                46,
                structure(&[(1, 8), (10, 8), (4, 4), (0, 4)]),
                b"",
                Request::Seek { offset: 10, whence: 4 },
            ),
            (47, copy, b"", Request::Copy(Copy { from: (2, 10), to: (3, 20), len: 30 })),
        ]
    }

    #[test]
    fn each_operation_is_parsed() {
        for (opcode, op, payload, request) in operations() {
            assert_eq!(parse(opcode, &op, payload), Ok(request), "opcode {opcode}");
        }
        // The kernel does without these: `flush`, `access`, one that does not exist.
        for opcode in [0, 25, 34, 4096] {
            assert_eq!(parse(opcode, &[0; 128], b"name\0"), Err(Errno::ENOSYS.into()));
        }
    }

    /// Some parts of a structure, such as padding, are not used.
    #[test]
    fn short_requests_are_refused() {
        const UNUSED: usize = 16;
        let invalid = Err(Errno::EINVAL.into());
        for (opcode, op, payload, request) in operations() {
            for len in 0..payload.len() {
                assert_eq!(parse(opcode, &op, &payload[..len]), invalid, "opcode {opcode}");
            }
            let used = !matches!(request, Request::GetAttr | Request::FSync | Request::FSyncDir);
            for len in 0..op.len().saturating_sub(UNUSED) {
                assert!(!used || parse(opcode, &op[..len], payload) == invalid, "{opcode}: {len}");
            }
        }
        for len in 0..32 {
            assert_eq!(Header::parse(&[0; 32][..len]), Err(Errno::EINVAL.into()));
        }
    }

    #[test]
    fn headers_are_parsed() {
        let bytes = structure(&[(56, 4), (3, 4), (9, 8), (2, 8), (7, 4), (8, 4), (5, 4), (0, 4)]);
        let header = Header { opcode: 3, unique: 9, number: 2, caller: CALLER };
        assert_eq!(Header::parse(&bytes), Ok(header));
    }

    #[test]
    fn negative_offsets_are_refused() {
        let op = structure(&[(1, 8), (u64::MAX, 8), (3, 4), (0, 4), (0, 16)]);
        for opcode in [15, 16, 43] {
            assert_eq!(parse(opcode, &op, b"abc"), Err(Errno::EINVAL.into()));
        }
    }

    /// An input is an opcode, the structure of the operation in 128 bytes, and the payload.
    #[test]
    fn fuzz_requests() {
        let inputs = operations().into_iter().map(|(opcode, mut op, payload, _)| {
            op.resize(128, 0);
            [&opcode.to_ne_bytes(), &op[..], payload].concat()
        });
        esker_testing::fuzz("fuse", &inputs.collect::<Vec<_>>(), |bytes| {
            let Some((opcode, rest)) = bytes.split_first_chunk() else { return };
            let (op, payload) = rest.split_at(rest.len().min(128));
            let _ = parse(u32::from_ne_bytes(*opcode), op, payload);
            let _ = Header::parse(rest);
        });
    }
}
