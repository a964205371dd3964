//! Objects, arrays, keys and listings.
use super::{Iov, Ptr};

/// `daos_obj_id_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjId {
    /// The lower 64 bits, chosen by the caller.
    pub lo: u64,
    /// Type, class and 32 bits that the caller chooses.
    pub hi: u64,
}

/// `daos_range_t`: cells of an array.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    /// The first cell.
    pub idx: u64,
    /// Number of cells or records.
    pub len: u64,
}

/// `daos_array_iod_t`: ranges of cells of an array.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ArrayIod {
    /// Entries in `rgs`.
    pub nr: u64,
    /// The ranges.
    pub rgs: Ptr<Range>,
    /// Out: bytes beyond the end.
    pub nr_short_read: u64,
    /// Out: bytes read.
    pub nr_read: u64,
}

/// `daos_array_stbuf_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ArrayStbuf {
    /// Size in cells.
    pub size: u64,
    /// Epoch of the latest change.
    pub max_epoch: u64,
}

/// `daos_recx_t`: records of an array value.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recx {
    /// The first record.
    pub idx: u64,
    /// Number of cells or records.
    pub nr: u64,
}

/// `daos_iod_type_t`: a single value.
pub const IOD_SINGLE: u32 = 1;
/// `daos_iod_type_t`: an array value.
pub const IOD_ARRAY: u32 = 2;

/// `daos_iod_t`: the values to read or write under one akey.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Iod {
    /// The akey.
    pub name: Iov,
    /// [`IOD_SINGLE`] or [`IOD_ARRAY`].
    pub kind: u32,
    /// Bytes of a record.
    pub size: u64,
    /// Conditional flags of this akey.
    pub flags: u64,
    /// Entries in `recxs`.
    pub nr: u32,
    /// Ranges of an array.
    pub recxs: Ptr<Recx>,
}

/// `DAOS_IOMF_DETAIL`.
pub const IOMF_DETAIL: u32 = 1;

/// `daos_iom_t`: the ranges that a fetch found.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Iom {
    /// Type of the values, as in [`Iod`].
    pub kind: u32,
    /// Entries in `recxs`.
    pub nr: u32,
    /// Number of ranges found.
    pub nr_out: u32,
    /// [`IOMF_DETAIL`] or 0.
    pub flags: u32,
    /// Bytes of a record.
    pub size: u64,
    /// The first range found.
    pub recx_lo: Recx,
    /// The last range found.
    pub recx_hi: Recx,
    /// The ranges.
    pub recxs: Ptr<Recx>,
}

/// `daos_key_desc_t`: one key of a listing.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyDesc {
    /// Bytes of the key.
    pub key_len: u64,
    /// Kind of value.
    pub val_type: u32,
}

/// `daos_anchor_t`: the position of a listing.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Anchor {
    /// 0 at the start, 3 at the end.
    pub kind: u16,
    /// The shard.
    pub shard: u16,
    /// Private to the library.
    pub flags: u32,
    /// Private to the library.
    pub sub_anchors: u64,
    /// The position.
    pub buf: [u8; 104],
}
