//! Handles in a form that other processes can open: a magic number, then plain fields.
use crate::abi::{Handle, Iov, ObjId, Ptr, UuidBytes};
use crate::code::{Code, Result};
use crate::container::access;
use crate::handles::{self, Entry, OpenPool};
use crate::per_process::PerProcess;
use crate::{array, boundary, convert};
use esker::types::info::OpenMode;
use esker::types::{Error, ErrorKind, ObjectId, ObjectType, Uuid};
use esker::{ArrayAttributes, Wait};
use std::ffi::c_int;
use std::hash::BuildHasher;

const POOL_MAGIC: u32 = 0xdaca_0ce1;
const CONTAINER_MAGIC: u32 = 0xdaca_0cc2;
const ARRAY_MAGIC: u32 = 0xdaca_0387;
/// Bytes of a container: header, origin, UUID.
const CONTAINER_BYTES: usize = 40;
/// Bytes of an array: header, UUID of the container, object id, cell size, chunk size, and 16 unused ones.
const ARRAY_BYTES: usize = 72;

/// Writes a blob to a buffer. If the buffer is null or too short, the caller gets the size.
pub(crate) fn put(glob: Ptr<Iov>, blob: &[u8]) -> Result<()> {
    let mut iov = glob.get()?;
    let room = if iov.buf.is_null() { None } else { Some(iov.buf_len) };
    iov.buf_len = blob.len();
    match room {
        None => glob.set(iov),
        Some(room) if room < blob.len() => {
            glob.set(iov);
            return Err(Code::TRUNC);
        }
        Some(_) => {
            iov.buf.write(blob.len() as u64)?.copy_from_slice(blob);
            iov.len = blob.len();
            glob.set(iov);
        }
    }
    Ok(())
}

/// The bytes of a blob, its header included. `INVAL` unless it begins with this magic number.
pub(crate) fn take<'a>(glob: &Iov, magic: u32) -> Result<&'a [u8]> {
    if glob.buf.is_null() || glob.len > glob.buf_len || glob.len < 8 {
        return Err(Code::INVAL);
    }
    let blob = glob.buf.read(glob.len as u64)?;
    match word(blob, 0)? == magic {
        true => Ok(blob),
        false => Err(Code::INVAL),
    }
}

/// Reads the 32-bit number at offset `at` of a blob. `INVAL` if the blob is shorter.
pub(crate) fn word(blob: &[u8], at: usize) -> Result<u32> {
    let bytes = blob.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_le_bytes).ok_or(Code::INVAL)
}

/// Reads the 64-bit number at offset `at` of a blob. `INVAL` if the blob is shorter.
pub(crate) fn long(blob: &[u8], at: usize) -> Result<u64> {
    let bytes = blob.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u64::from_le_bytes).ok_or(Code::INVAL)
}

/// The first 8 bytes of a blob: its magic number, and flags or an open mode.
pub(crate) fn header(magic: u32, flags: u32) -> Vec<u8> {
    [magic.to_le_bytes(), flags.to_le_bytes()].concat()
}

/// The handle a blob was made from, and its process.
struct Origin {
    process: u64,
    cookie: u64,
}

/// Position of the origin in a blob.
const ORIGIN: std::ops::Range<usize> = 8..24;

/// A random number that identifies this process, on this machine and others.
struct ProcessId(u64);

impl Default for ProcessId {
    fn default() -> Self {
        let salt = (std::process::id(), std::time::SystemTime::now());
        Self(std::hash::RandomState::new().hash_one(salt))
    }
}

static PROCESS: PerProcess<ProcessId> = PerProcess::new();

impl Origin {
    /// Encodes the handle and the number of this process.
    fn encode(handle: Handle) -> [u8; 16] {
        let (process, cookie) = (u128::from(PROCESS.get().0), u128::from(handle.cookie));
        (cookie << 64 | process).to_le_bytes()
    }

    fn read(blob: &[u8]) -> Result<Self> {
        Ok(Self { process: long(blob, ORIGIN.start)?, cookie: long(blob, ORIGIN.start + 8)? })
    }

    /// The handle, if this process made the blob.
    fn here(&self) -> Option<Handle> {
        (self.process == PROCESS.get().0).then_some(Handle { cookie: self.cookie })
    }
}

/// Converts the error of a connect. A pool that no longer exists makes the handle in the blob invalid.
fn no_handle(error: Error) -> Code {
    match error.kind() {
        ErrorKind::NotFound => Code::NO_HDL,
        _ => Code::from(error),
    }
}

/// The mode in which another process opens a blob. Exclusive access stays with the process that made it.
pub(crate) fn shared(flags: u32) -> Result<OpenMode> {
    match convert::open_mode(flags)? {
        OpenMode::ReadOnly => Ok(OpenMode::ReadOnly),
        _ => Ok(OpenMode::ReadWrite),
    }
}

/// Converts a connection to a form that other processes can open.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_local2global(poh: Handle, glob: Ptr<Iov>) -> c_int {
    boundary::now(|| {
        let pool = handles::pool(poh)?;
        let mut blob = header(POOL_MAGIC, convert::mode_bit(pool.pool.mode()));
        blob.extend_from_slice(&Origin::encode(poh));
        blob.extend_from_slice(pool.url()?.as_bytes());
        put(glob, &blob)
    })
}

/// Connects as another process did. In the same process, the new handle becomes invalid when the original is closed.
#[unsafe(no_mangle)]
pub extern "C" fn daos_pool_global2local(glob: Iov, poh: Ptr<Handle>) -> c_int {
    boundary::now(|| {
        let blob = take(&glob, POOL_MAGIC)?;
        poh.needed()?;
        let mode = shared(word(blob, 4)?)?;
        let origin = Origin::read(blob)?;
        let url = std::str::from_utf8(&blob[ORIGIN.end..]).map_err(|_| Code::INVAL)?;
        let pool = match origin.here() {
            Some(handle) => handles::pool(handle)?.lend(),
            None => OpenPool::connect(url, mode).map_err(no_handle)?,
        };
        poh.set(handles::open(Entry::Pool(pool))?);
        Ok(())
    })
}

/// Describes an open container in a blob, with which other processes can open it: its mode, its handle in this process,
/// and its UUID.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_local2global(coh: Handle, glob: Ptr<Iov>) -> c_int {
    boundary::now(|| {
        let open = handles::any_container(coh)?;
        // The mode in which the user opened it, also if that may change its metadata only.
        let mut blob = header(CONTAINER_MAGIC, convert::mode_bit(open.described().mode()));
        blob.extend_from_slice(&Origin::encode(coh));
        blob.extend_from_slice(&open.container.info().uuid.0);
        put(glob, &blob)
    })
}

/// Opens a container as another process did. In the same process, the new handle becomes invalid when the original is
/// closed.
#[unsafe(no_mangle)]
pub extern "C" fn daos_cont_global2local(poh: Handle, glob: Iov, coh: Ptr<Handle>) -> c_int {
    boundary::now(|| {
        let pool = handles::pool(poh)?;
        let blob = take(&glob, CONTAINER_MAGIC)?;
        coh.needed()?;
        if blob.len() != CONTAINER_BYTES {
            return Err(Code::INVAL);
        }
        let uuid: UuidBytes = blob[ORIGIN.end..].try_into().map_err(|_| Code::INVAL)?;
        let open = match Origin::read(blob)?.here() {
            Some(handle) => handles::any_container(handle)?.lend(&pool),
            None => {
                let (name, mode) = (Uuid(uuid).to_string(), shared(word(blob, 4)?)?);
                let open = access::open(&pool, &name, mode).wait();
                open.map_err(|code| if code == Code::NONEXIST { Code::NO_HDL } else { code })?
                    .untimed()
            }
        };
        coh.set(handles::open(Entry::Container(open))?);
        Ok(())
    })
}

/// Converts an open array to a form that other processes can open.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_local2global(oh: Handle, glob: Ptr<Iov>) -> c_int {
    boundary::now(|| {
        let open = handles::open_array(oh)?;
        let array = open.array();
        let container = array.object().container();
        let attributes = array.attributes();
        let oid = ObjId::from(array.oid());
        let mut blob = header(ARRAY_MAGIC, open.mode);
        blob.extend_from_slice(&container.info().uuid.0);
        for number in [oid.lo, oid.hi, attributes.cell_size, attributes.chunk_size] {
            blob.extend_from_slice(&number.to_le_bytes());
        }
        blob.resize(ARRAY_BYTES, 0);
        put(glob, &blob)
    })
}

/// Opens an array as another process did. A `mode` of 0 means the mode in which that process opened it.
#[unsafe(no_mangle)]
pub extern "C" fn daos_array_global2local(
    coh: Handle,
    glob: Iov,
    mode: u32,
    oh: Ptr<Handle>,
) -> c_int {
    boundary::now(|| {
        let container = handles::container(coh)?;
        let blob = take(&glob, ARRAY_MAGIC)?;
        oh.needed()?;
        let container = &container.container;
        if blob.len() != ARRAY_BYTES || blob[8..24] != container.info().uuid.0 {
            return Err(Code::INVAL);
        }
        let oid = ObjectId { lo: long(blob, 24)?, hi: long(blob, 32)? };
        let array = match oid.object_type() {
            Some(ObjectType::Array) => container.open_array(oid, Default::default()).wait()?,
            _ => container.open_array_with_attributes(
                oid,
                ArrayAttributes { cell_size: long(blob, 40)?, chunk_size: long(blob, 48)? },
            )?,
        };
        let mode = if mode == 0 { word(blob, 4)? } else { mode };
        array::open_handle(array, mode, oh)
    })
}
