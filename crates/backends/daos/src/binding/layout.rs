//! Structures and constants of the C API, as its headers define them for x86_64 and aarch64.
use std::ffi::{c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;

/// `daos_handle_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawHandle(pub(crate) u64);

impl RawHandle {
    /// `DAOS_HDL_INVAL`, `DAOS_TX_NONE`.
    pub(crate) const NONE: Self = Self(0);
}

/// `daos_obj_id_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawOid {
    pub(crate) lo: u64,
    pub(crate) hi: u64,
}

impl From<esker_types::ObjectId> for RawOid {
    fn from(oid: esker_types::ObjectId) -> Self {
        Self { lo: oid.lo, hi: oid.hi }
    }
}

/// `d_iov_t`, also `daos_key_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawIov {
    pub(crate) buffer: *mut c_void,
    pub(crate) capacity: usize,
    pub(crate) len: usize,
}

impl RawIov {
    /// Describes bytes for DAOS to read. libdaos writes only to buffers of outputs, so they may be constant.
    pub(crate) fn input(bytes: &[u8]) -> Self {
        Self { buffer: bytes.as_ptr().cast_mut().cast(), capacity: bytes.len(), len: bytes.len() }
    }

    /// Describes a buffer that DAOS is to fill.
    pub(crate) fn room(bytes: &mut [u8]) -> Self {
        Self { buffer: bytes.as_mut_ptr().cast(), capacity: bytes.len(), len: bytes.len() }
    }

    pub(crate) const NULL: Self = Self { buffer: ptr::null_mut(), capacity: 0, len: 0 };
}

/// `d_sg_list_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawSgl {
    pub(crate) count: u32,
    pub(crate) filled: u32,
    pub(crate) iovs: *mut RawIov,
}

/// `daos_recx_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RawRecx {
    pub(crate) index: u64,
    pub(crate) count: u64,
}

impl From<esker_types::Extent> for RawRecx {
    fn from(extent: esker_types::Extent) -> Self {
        Self { index: extent.start, count: extent.count }
    }
}

impl From<RawRecx> for esker_types::Extent {
    fn from(recx: RawRecx) -> Self {
        Self::new(recx.index, recx.count)
    }
}

/// `daos_iod_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawIod {
    pub(crate) name: RawIov,
    pub(crate) kind: c_int,
    pub(crate) size: u64,
    pub(crate) flags: u64,
    pub(crate) count: u32,
    pub(crate) recxs: *mut RawRecx,
}

/// `DAOS_IOD_SINGLE` and `DAOS_IOD_ARRAY`.
pub(crate) const SINGLE: c_int = 1;
pub(crate) const ARRAY: c_int = 2;

/// `daos_iom_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawIom {
    pub(crate) kind: c_int,
    pub(crate) capacity: u32,
    pub(crate) count: u32,
    pub(crate) flags: u32,
    pub(crate) size: u64,
    pub(crate) first: RawRecx,
    pub(crate) last: RawRecx,
    pub(crate) recxs: *mut RawRecx,
}

/// `DAOS_IOMF_DETAIL`.
pub(crate) const DETAIL: u32 = 1;

/// `daos_key_desc_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawKeyDescription {
    pub(crate) len: u64,
    pub(crate) kind: u32,
}

/// `daos_anchor_t`. Only the library uses its content, except for its kind.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawAnchor {
    kind: u16,
    shard: u16,
    flags: u32,
    sub_anchors: u64,
    buffer: [u8; 104],
}

impl RawAnchor {
    /// `DAOS_ANCHOR_INIT`: at the start.
    pub(crate) const START: Self =
        Self { kind: 0, shard: 0, flags: 0, sub_anchors: 0, buffer: [0; 104] };

    /// True if a listing has reached its end (`daos_anchor_is_eof`).
    pub(crate) fn is_end(&self) -> bool {
        self.kind == 3
    }
}

/// `daos_event_t`.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawEvent {
    pub(crate) error: c_int,
    private: [u64; 20],
    debug: u64,
}

impl RawEvent {
    pub(crate) const NEW: Self = Self { error: 0, private: [0; 20], debug: 0 };
}

/// `daos_epoch_range_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawEpochs {
    pub(crate) low: u64,
    pub(crate) high: u64,
}

/// `struct daos_pool_space`; the first number of a pair is of SCM, the second of NVMe.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawSpace {
    pub(crate) total: [u64; 2],
    pub(crate) free: [u64; 2],
    free_min: [u64; 2],
    free_max: [u64; 2],
    free_mean: [u64; 2],
    targets: u32,
    padding: u32,
}

/// `daos_pool_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawPoolInfo {
    pub(crate) uuid: [u8; 16],
    pub(crate) targets: u32,
    pub(crate) nodes: u32,
    disabled: u32,
    map_version: u32,
    leader: u32,
    /// Requested parts, as bits.
    pub(crate) bits: u64,
    pub(crate) space: RawSpace,
    rebuild: [u64; 7],
}

/// `DPI_SPACE`.
pub(crate) const WITH_SPACE: u64 = 1;

/// `daos_cont_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RawContainerInfo {
    pub(crate) uuid: [u8; 16],
    last_snapshot: u64,
    pub(crate) handles: u32,
    snapshots: u32,
    opened: u64,
    pub(crate) changed: u64,
}

/// `struct daos_pool_cont_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawNamed {
    pub(crate) uuid: [u8; 16],
    pub(crate) label: [u8; 128],
}

impl RawNamed {
    pub(crate) const EMPTY: Self = Self { uuid: [0; 16], label: [0; 128] };
}

/// `struct daos_pool_cont_info2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawListed {
    pub(crate) named: RawNamed,
    pub(crate) info: RawContainerInfo,
    reserved: [*mut c_void; 2],
}

// SAFETY: the pointers are reserved, and not followed.
unsafe impl Send for RawListed {}

impl RawListed {
    pub(crate) const EMPTY: Self = Self {
        named: RawNamed::EMPTY,
        info: RawContainerInfo {
            uuid: [0; 16],
            last_snapshot: 0,
            handles: 0,
            snapshots: 0,
            opened: 0,
            changed: 0,
        },
        reserved: [ptr::null_mut(); 2],
    };
}

/// The value of a property: a number, or a pointer to a text or to other data.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) union RawValue {
    pub(crate) number: u64,
    pub(crate) text: *mut c_char,
}

/// `struct daos_prop_entry`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct RawProperty {
    pub(crate) kind: u32,
    pub(crate) flags: u16,
    pub(crate) reserved: u16,
    pub(crate) value: RawValue,
}

/// `daos_prop_t`.
#[repr(C)]
pub(crate) struct RawProperties {
    pub(crate) count: u32,
    pub(crate) reserved: u32,
    pub(crate) entries: *mut RawProperty,
}

/// `DAOS_PROP_PO_LABEL`.
pub(crate) const POOL_LABEL: u32 = 1;
/// `DAOS_PROP_CO_LABEL`.
pub(crate) const LABEL: u32 = 0x1001;
/// `DAOS_PROP_CO_LAYOUT_TYPE`.
pub(crate) const LAYOUT_TYPE: u32 = 0x1002;
/// `DAOS_PROP_CO_CSUM`.
pub(crate) const CHECKSUM: u32 = 0x1004;
/// `DAOS_PROP_CO_ROOTS`.
pub(crate) const ROOTS: u32 = 0x1011;
/// `DAOS_PROP_CO_ALLOCED_OID`.
pub(crate) const ALLOCATED: u32 = 0x1013;

const _: () = {
    assert!(size_of::<RawOid>() == 16);
    assert!(size_of::<RawIov>() == 24);
    assert!(size_of::<RawSgl>() == 16);
    assert!(size_of::<RawRecx>() == 16);
    assert!(size_of::<RawIod>() == 64);
    assert!(size_of::<RawIom>() == 64);
    assert!(size_of::<RawKeyDescription>() == 16);
    assert!(size_of::<RawAnchor>() == 120);
    assert!(size_of::<RawEvent>() == 176);
    assert!(size_of::<RawEpochs>() == 16);
    assert!(size_of::<RawSpace>() == 88);
    assert!(size_of::<RawPoolInfo>() == 192);
    assert!(size_of::<RawContainerInfo>() == 48);
    assert!(size_of::<RawNamed>() == 144);
    assert!(size_of::<RawListed>() == 208);
    assert!(size_of::<RawProperty>() == 16);
    assert!(size_of::<RawProperties>() == 16);
};

// Offsets of members, from DAOS's headers.
const _: () = {
    assert!(offset_of!(RawOid, hi) == 8);
    assert!(offset_of!(RawSgl, iovs) == 8);
    assert!(offset_of!(RawIod, kind) == 24 && offset_of!(RawIod, size) == 32);
    assert!(offset_of!(RawIod, flags) == 40 && offset_of!(RawIod, count) == 48);
    assert!(offset_of!(RawIod, recxs) == 56);
    assert!(offset_of!(RawIom, count) == 8 && offset_of!(RawIom, flags) == 12);
    assert!(offset_of!(RawIom, size) == 16 && offset_of!(RawIom, first) == 24);
    assert!(offset_of!(RawIom, last) == 40 && offset_of!(RawIom, recxs) == 56);
    assert!(offset_of!(RawAnchor, buffer) == 16);
    assert!(offset_of!(RawEvent, error) == 0 && offset_of!(RawEvent, private) == 8);
    assert!(offset_of!(RawSpace, free) == 16 && offset_of!(RawSpace, targets) == 80);
    assert!(offset_of!(RawPoolInfo, targets) == 16 && offset_of!(RawPoolInfo, nodes) == 20);
    assert!(offset_of!(RawPoolInfo, bits) == 40 && offset_of!(RawPoolInfo, space) == 48);
    assert!(offset_of!(RawPoolInfo, rebuild) == 136);
    assert!(offset_of!(RawContainerInfo, handles) == 24);
    assert!(offset_of!(RawContainerInfo, changed) == 40);
    assert!(offset_of!(RawNamed, label) == 16 && offset_of!(RawListed, info) == 144);
    assert!(offset_of!(RawProperty, value) == 8 && offset_of!(RawProperties, entries) == 8);
};
