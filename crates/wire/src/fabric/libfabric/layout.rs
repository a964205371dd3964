//! Structures and constants of libfabric's headers, as far as they are used here.
//!
//! Objects of libfabric begin with a [`Fid`] and have tables of functions. The inline functions of its headers call
//! through these tables.
use std::ffi::{c_char, c_int, c_void};

/// The requested version of the API: 1.9.
pub(crate) const VERSION: u32 = 1 << 16 | 9;

pub(crate) const FI_TAGGED: u64 = 1 << 3;
pub(crate) const FI_RECV: u64 = 1 << 10;
pub(crate) const FI_SEND: u64 = 1 << 11;
pub(crate) const FI_TRANSMIT: u64 = FI_SEND;
pub(crate) const FI_NUMERICHOST: u64 = 1 << 55;
pub(crate) const FI_SOURCE: u64 = 1 << 57;

pub(crate) const FI_CONTEXT: u64 = 1 << 59;
pub(crate) const FI_CONTEXT2: u64 = 1 << 52;
pub(crate) const FI_ORDER_SAS: u64 = 1 << 8;

pub(crate) const FI_EP_RDM: c_int = 3;
pub(crate) const FI_THREAD_DOMAIN: c_int = 3;
pub(crate) const FI_RM_ENABLED: c_int = 2;
pub(crate) const FI_CQ_FORMAT_MSG: c_int = 2;
pub(crate) const FI_WAIT_NONE: c_int = 0;
pub(crate) const FI_WAIT_FD: c_int = 3;

pub(crate) const FI_MR_LOCAL: c_int = 1 << 2;
pub(crate) const FI_MR_VIRT_ADDR: c_int = 1 << 4;
pub(crate) const FI_MR_ALLOCATED: c_int = 1 << 5;
pub(crate) const FI_MR_PROV_KEY: c_int = 1 << 6;
pub(crate) const FI_MR_ENDPOINT: c_int = 1 << 9;

pub(crate) const FI_GETWAIT: c_int = 5;
pub(crate) const FI_ENABLE: c_int = 6;

/// Formats of addresses that hold an internet address.
pub(crate) const INTERNET_FORMATS: std::ops::RangeInclusive<u32> = 1..=3;
pub(crate) const FI_SOCKADDR_IN: u32 = 2;
pub(crate) const FI_SOCKADDR_IN6: u32 = 3;
/// An address that is a text.
pub(crate) const FI_ADDR_STR: u32 = 9;

/// Any source.
pub(crate) const FI_ADDR_UNSPEC: u64 = u64::MAX;
pub(crate) const FI_EAGAIN: isize = 11;
pub(crate) const FI_EAVAIL: isize = 259;

/// `fi_info`: an offer of a provider, or hints for one. Only the library allocates these.
#[repr(C)]
pub(crate) struct Info {
    pub(crate) next: *mut Info,
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) addr_format: u32,
    pub(crate) src_addrlen: usize,
    pub(crate) dest_addrlen: usize,
    pub(crate) src_addr: *mut c_void,
    pub(crate) dest_addr: *mut c_void,
    pub(crate) handle: *mut Fid,
    pub(crate) tx_attr: *mut DirectionAttributes,
    pub(crate) rx_attr: *mut DirectionAttributes,
    pub(crate) ep_attr: *mut EndpointAttributes,
    pub(crate) domain_attr: *mut DomainAttributes,
    pub(crate) fabric_attr: *mut FabricAttributes,
}

/// The first fields of `fi_tx_attr` and `fi_rx_attr`, which are the same.
#[repr(C)]
pub(crate) struct DirectionAttributes {
    pub(crate) caps: u64,
    pub(crate) mode: u64,
    pub(crate) op_flags: u64,
    pub(crate) msg_order: u64,
}

#[repr(C)]
pub(crate) struct EndpointAttributes {
    pub(crate) kind: c_int,
    pub(crate) protocol: u32,
    pub(crate) protocol_version: u32,
    pub(crate) max_msg_size: usize,
}

#[repr(C)]
pub(crate) struct DomainAttributes {
    pub(crate) domain: *mut Fid,
    pub(crate) name: *mut c_char,
    pub(crate) threading: c_int,
    pub(crate) control_progress: c_int,
    pub(crate) data_progress: c_int,
    pub(crate) resource_mgmt: c_int,
    pub(crate) av_type: c_int,
    pub(crate) mr_mode: c_int,
}

#[repr(C)]
pub(crate) struct FabricAttributes {
    pub(crate) fabric: *mut Fid,
    pub(crate) name: *mut c_char,
    pub(crate) prov_name: *mut c_char,
}

/// First member of every object (`struct fid`).
#[repr(C)]
pub(crate) struct Fid {
    pub(crate) class: usize,
    pub(crate) context: *mut c_void,
    pub(crate) ops: *const FidOps,
}

#[repr(C)]
pub(crate) struct FidOps {
    pub(crate) size: usize,
    pub(crate) close: unsafe extern "C" fn(*mut Fid) -> c_int,
    pub(crate) bind: unsafe extern "C" fn(*mut Fid, *mut Fid, u64) -> c_int,
    pub(crate) control: unsafe extern "C" fn(*mut Fid, c_int, *mut c_void) -> c_int,
}

/// A function that is not used here.
pub(crate) type Unused = *const c_void;

#[repr(C)]
pub(crate) struct Fabric {
    pub(crate) fid: Fid,
    pub(crate) ops: *const FabricOps,
}

#[repr(C)]
pub(crate) struct FabricOps {
    pub(crate) size: usize,
    pub(crate) domain:
        unsafe extern "C" fn(*mut Fid, *mut Info, *mut *mut Fid, *mut c_void) -> c_int,
    pub(crate) passive_ep: Unused,
    pub(crate) eq_open: Unused,
    pub(crate) wait_open: Unused,
    pub(crate) trywait: unsafe extern "C" fn(*mut Fid, *mut *mut Fid, c_int) -> c_int,
}

#[repr(C)]
pub(crate) struct Domain {
    pub(crate) fid: Fid,
    pub(crate) ops: *const DomainOps,
    pub(crate) memory: *const MemoryOps,
}

#[repr(C)]
pub(crate) struct DomainOps {
    pub(crate) size: usize,
    pub(crate) av_open:
        unsafe extern "C" fn(*mut Fid, *mut AvAttributes, *mut *mut Fid, *mut c_void) -> c_int,
    pub(crate) cq_open:
        unsafe extern "C" fn(*mut Fid, *mut CqAttributes, *mut *mut Fid, *mut c_void) -> c_int,
    pub(crate) endpoint:
        unsafe extern "C" fn(*mut Fid, *mut Info, *mut *mut Fid, *mut c_void) -> c_int,
}

#[repr(C)]
pub(crate) struct MemoryOps {
    pub(crate) size: usize,
    /// Object, memory, length, access, offset, key, flags, result, context.
    pub(crate) reg: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        u64,
        u64,
        u64,
        u64,
        *mut *mut Fid,
        *mut c_void,
    ) -> c_int,
}

#[repr(C)]
pub(crate) struct Registration {
    pub(crate) fid: Fid,
    pub(crate) descriptor: *mut c_void,
}

/// Attributes of an address table.
#[repr(C)]
pub(crate) struct AvAttributes {
    pub(crate) kind: c_int,
    pub(crate) rx_ctx_bits: c_int,
    pub(crate) count: usize,
    pub(crate) ep_per_node: usize,
    pub(crate) name: *const c_char,
    pub(crate) map_addr: *mut c_void,
    pub(crate) flags: u64,
}

#[repr(C)]
pub(crate) struct Av {
    pub(crate) fid: Fid,
    pub(crate) ops: *const AvOps,
}

#[repr(C)]
pub(crate) struct AvOps {
    pub(crate) size: usize,
    /// Object, addresses, their number, results, flags, context.
    pub(crate) insert:
        unsafe extern "C" fn(*mut Fid, *const c_void, usize, *mut u64, u64, *mut c_void) -> c_int,
}

/// Attributes of a completion queue.
#[repr(C)]
pub(crate) struct CqAttributes {
    pub(crate) size: usize,
    pub(crate) flags: u64,
    pub(crate) format: c_int,
    pub(crate) wait_obj: c_int,
    pub(crate) signaling_vector: c_int,
    pub(crate) wait_cond: c_int,
    pub(crate) wait_set: *mut Fid,
}

#[repr(C)]
pub(crate) struct Cq {
    pub(crate) fid: Fid,
    pub(crate) ops: *const CqOps,
}

#[repr(C)]
pub(crate) struct CqOps {
    pub(crate) size: usize,
    pub(crate) read: unsafe extern "C" fn(*mut Fid, *mut c_void, usize) -> isize,
    pub(crate) readfrom: Unused,
    pub(crate) readerr: unsafe extern "C" fn(*mut Fid, *mut CqError, u64) -> isize,
}

/// A completed operation.
#[repr(C)]
pub(crate) struct CqMessage {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
}

/// A failed operation.
#[repr(C)]
pub(crate) struct CqError {
    pub(crate) context: *mut c_void,
    pub(crate) flags: u64,
    pub(crate) len: usize,
    pub(crate) buffer: *mut c_void,
    pub(crate) data: u64,
    pub(crate) tag: u64,
    pub(crate) olen: usize,
    pub(crate) error: c_int,
    pub(crate) prov_errno: c_int,
    pub(crate) err_data: *mut c_void,
    pub(crate) err_data_size: usize,
}

#[repr(C)]
pub(crate) struct RawEndpoint {
    pub(crate) fid: Fid,
    pub(crate) ops: Unused,
    pub(crate) cm: *const CmOps,
    pub(crate) msg: Unused,
    pub(crate) rma: Unused,
    pub(crate) tagged: *const TaggedOps,
}

#[repr(C)]
pub(crate) struct CmOps {
    pub(crate) size: usize,
    pub(crate) setname: Unused,
    pub(crate) getname: unsafe extern "C" fn(*mut Fid, *mut c_void, *mut usize) -> c_int,
}

#[repr(C)]
pub(crate) struct TaggedOps {
    pub(crate) size: usize,
    /// Endpoint, memory, length, descriptor, source, tag, bits to ignore, context.
    pub(crate) recv: unsafe extern "C" fn(
        *mut Fid,
        *mut c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
    pub(crate) recvv: Unused,
    pub(crate) recvmsg: Unused,
    /// Endpoint, memory, length, descriptor, destination, tag, context.
    pub(crate) send: unsafe extern "C" fn(
        *mut Fid,
        *const c_void,
        usize,
        *mut c_void,
        u64,
        u64,
        *mut c_void,
    ) -> isize,
}

// The positions of fields in the headers of libfabric 1.17 on 64-bit machines.
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(offset_of!(Info, addr_format) == 24 && offset_of!(Info, src_addr) == 48);
    assert!(offset_of!(Info, tx_attr) == 72 && offset_of!(Info, fabric_attr) == 104);
    assert!(offset_of!(DirectionAttributes, msg_order) == 24);
    assert!(offset_of!(EndpointAttributes, max_msg_size) == 16);
    assert!(offset_of!(DomainAttributes, threading) == 16);
    assert!(offset_of!(DomainAttributes, mr_mode) == 36);
    assert!(offset_of!(FabricAttributes, prov_name) == 16);
    assert!(offset_of!(Fid, ops) == 16 && offset_of!(FidOps, control) == 24);
    assert!(offset_of!(FabricOps, trywait) == 40 && offset_of!(DomainOps, endpoint) == 24);
    assert!(offset_of!(Domain, memory) == 32 && offset_of!(Registration, descriptor) == 24);
    assert!(offset_of!(CqOps, readerr) == 24 && offset_of!(CqError, error) == 56);
    assert!(size_of::<CqAttributes>() == 40 && size_of::<AvAttributes>() == 48);
    assert!(size_of::<CqMessage>() == 24 && size_of::<CqError>() == 80);
    assert!(offset_of!(RawEndpoint, cm) == 32 && offset_of!(RawEndpoint, tagged) == 56);
    assert!(offset_of!(CmOps, getname) == 16 && offset_of!(TaggedOps, send) == 32);
};
