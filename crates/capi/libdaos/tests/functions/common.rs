//! Shared by the tests of the C functions, which confine their unsafe code to this file.
use daos::abi::{Anchor, Event, Handle, Iov, ObjId, Ptr, Sgl, Str};
use daos::container::{daos_cont_close, daos_cont_create_with_label, daos_cont_open2};
use daos::init::{daos_fini, daos_init};
use daos::object::daos_obj_generate_oid2;
use daos::pool::{daos_pool_connect2, daos_pool_disconnect};
use std::ffi::{CStr, CString, c_int, c_void};
use std::sync::atomic::{AtomicU64, Ordering};

pub(crate) const NO_PERM: c_int = -1001;
pub(crate) const NO_HDL: c_int = -1002;
pub(crate) const INVAL: c_int = -1003;
pub(crate) const EXIST: c_int = -1004;
pub(crate) const NONEXIST: c_int = -1005;
pub(crate) const ALREADY: c_int = -1008;
pub(crate) const NOSYS: c_int = -1010;
pub(crate) const TIMEDOUT: c_int = -1011;
pub(crate) const BUSY: c_int = -1012;
pub(crate) const UNINIT: c_int = -1015;
pub(crate) const TRUNC: c_int = -1016;
pub(crate) const OVERFLOW: c_int = -1017;
pub(crate) const MISMATCH: c_int = -1031;
pub(crate) const KEY2BIG: c_int = -2012;
pub(crate) const REC2BIG: c_int = -2013;
pub(crate) const TX_RESTART: c_int = -2025;
pub(crate) const NOTSUPPORTED: c_int = -2037;

/// `enum daos_otype_t`.
pub(crate) const MULTI_HASHED: u32 = 0;
pub(crate) const MULTI_UINT64: u32 = 4;
pub(crate) const KV_HASHED: u32 = 8;
pub(crate) const ARRAY: u32 = 11;
pub(crate) const ARRAY_ATTR: u32 = 12;
pub(crate) const ARRAY_BYTE: u32 = 13;

/// `DAOS_COO_RO`, `DAOS_COO_RW` and `DAOS_COO_EX`; those of pools have the same values.
pub(crate) const RO: u32 = 1;
pub(crate) const RW: u32 = 2;
pub(crate) const EX: u32 = 4;
/// `DAOS_OO_RO` and `DAOS_OO_RW`.
pub(crate) const OBJ_RO: u32 = 2;
pub(crate) const OBJ_RW: u32 = 4;

/// No transaction.
pub(crate) const NONE: Handle = Handle { cookie: 0 };
/// No event.
pub(crate) const WAIT: Ptr<Event> = Ptr::null();

/// A pointer to a value of the test.
pub(crate) fn at<T>(value: &mut T) -> Ptr<T> {
    // SAFETY: tests keep their values in place while the library uses them.
    unsafe { Ptr::new(value) }
}

/// A pointer to the first of several values.
pub(crate) fn list<T>(values: &mut [T]) -> Ptr<T> {
    // SAFETY: tests keep their values in place while the library uses them.
    unsafe { Ptr::new(values.as_mut_ptr()) }
}

/// A pointer to bytes.
pub(crate) fn bytes(bytes: &[u8]) -> Ptr<c_void> {
    // SAFETY: the library writes only to the space it is given.
    unsafe { Ptr::new(bytes.as_ptr().cast_mut().cast()) }
}

/// A pointer to space for bytes.
pub(crate) fn room(room: &mut [u8]) -> Ptr<c_void> {
    list(room).cast()
}

/// A pointer to a string.
pub(crate) fn text(text: &CStr) -> Str {
    // SAFETY: the library only reads it.
    unsafe { Ptr::new(text.as_ptr().cast_mut()) }
}

/// A pointer with this address, for handles and for arguments that must not be dereferenced.
pub(crate) fn wild<T>(address: u64) -> Ptr<T> {
    // SAFETY: handles passed as pointers are never dereferenced.
    unsafe { Ptr::new(std::ptr::without_provenance_mut(address as usize)) }
}

/// The argument of a callback as a pointer to a value of the test.
pub(crate) fn at_address<T>(address: *mut c_void) -> Ptr<T> {
    // SAFETY: tests pass their own values to callbacks.
    unsafe { Ptr::new(address.cast()) }
}

/// Attributes that are all zero.
pub(crate) fn stat() -> libc::stat {
    // SAFETY: zeros are valid numbers.
    unsafe { std::mem::zeroed() }
}

/// A directory entry that is all zero.
pub(crate) fn dirent() -> libc::dirent {
    // SAFETY: zeros are valid numbers.
    unsafe { std::mem::zeroed() }
}

/// The string at a pointer.
pub(crate) fn read(text: Str) -> String {
    text.text().unwrap().to_owned()
}

/// A buffer that contains `bytes`.
pub(crate) fn iov(bytes: &[u8]) -> Iov {
    Iov { buf: self::bytes(bytes), buf_len: bytes.len(), len: bytes.len() }
}

/// A buffer to be filled.
pub(crate) fn iov_room(bytes: &mut [u8]) -> Iov {
    let (buf_len, len) = (bytes.len(), bytes.len());
    Iov { buf: room(bytes), buf_len, len }
}

/// The start of a listing.
pub(crate) fn start() -> Anchor {
    Anchor { kind: 0, shard: 0, flags: 0, sub_anchors: 0, buf: [0; 104] }
}

/// A list of buffers.
pub(crate) fn sgl(iovs: &mut [Iov]) -> Sgl {
    Sgl { nr: iovs.len() as u32, nr_out: 0, iovs: list(iovs) }
}

/// An event that is not initialized yet.
pub(crate) fn event() -> Box<Event> {
    Box::new(Event { error: -1, space: [u64::MAX; 20], debug: 0 })
}

/// The user and the group that started this process.
pub(crate) fn real_owner() -> (u32, u32) {
    // SAFETY: they only return numbers.
    unsafe { (libc::getuid(), libc::getgid()) }
}

static NUMBERS: AtomicU64 = AtomicU64::new(1);

/// A unique number.
pub(crate) fn number() -> u64 {
    NUMBERS.fetch_add(1, Ordering::Relaxed)
}

/// A pool in memory with a container, open through C handles.
pub(crate) struct Store {
    pub(crate) poh: Handle,
    pub(crate) coh: Handle,
    pub(crate) name: CString,
}

impl Store {
    /// A new pool with a new container `test`.
    pub(crate) fn new() -> Self {
        assert_eq!(daos_init(), 0);
        let name = CString::new(format!("memory:c-{}-{}", std::process::id(), number())).unwrap();
        let poh = connect(&name);
        let make = daos_cont_create_with_label(poh, text(c"test"), Ptr::null(), Ptr::null(), WAIT);
        assert_eq!(make, 0);
        Self { poh, coh: open(poh, RW), name }
    }

    /// A new object id of this type (`DAOS_OT_*`) and class (`OC_*`).
    pub(crate) fn oid(&self, otype: u32, class: u32) -> ObjId {
        let mut oid = ObjId { lo: number(), hi: 7 };
        assert_eq!(daos_obj_generate_oid2(self.coh, at(&mut oid), otype, class, 0, 0), 0);
        oid
    }
}

/// Connects to the pool once more.
pub(crate) fn connect(name: &CStr) -> Handle {
    let mut poh = NONE;
    let done = daos_pool_connect2(text(name), Ptr::null(), RW, at(&mut poh), Ptr::null(), WAIT);
    assert_eq!(done, 0);
    poh
}

/// Opens the container `test` once more.
pub(crate) fn open(poh: Handle, mode: u32) -> Handle {
    let mut coh = NONE;
    assert_eq!(daos_cont_open2(poh, text(c"test"), mode, at(&mut coh), Ptr::null(), WAIT), 0);
    coh
}

impl Drop for Store {
    fn drop(&mut self) {
        daos_cont_close(self.coh, WAIT);
        daos_pool_disconnect(self.poh, WAIT);
        assert_eq!(daos_fini(), 0);
    }
}

/// `OC_S1`, `OC_S2`, `OC_SX`.
pub(crate) const S1: u32 = 0x0100_0001;
pub(crate) const S2: u32 = 0x0100_0002;
pub(crate) const SX: u32 = 0x0100_ffff;
