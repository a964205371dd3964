//! Information about pools and containers.
use super::Ptr;
use std::ffi::{c_char, c_void};

/// `uuid_t`.
pub type UuidBytes = [u8; 16];

/// `struct daos_space`: bytes by kind of storage; entry 0 is memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// Total bytes.
    pub total: [u64; 2],
    /// Free bytes.
    pub free: [u64; 2],
}

/// `struct daos_pool_space`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolSpace {
    /// Space of all targets together.
    pub space: Space,
    /// Free bytes of the fullest target.
    pub free_min: [u64; 2],
    /// Free bytes of the emptiest target.
    pub free_max: [u64; 2],
    /// Mean of the free bytes of a target.
    pub free_mean: [u64; 2],
    /// Number of targets.
    pub ntargets: u32,
    /// Unused.
    pub padding: u32,
}

/// `struct daos_rebuild_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RebuildStatus {
    /// Version of the pool map.
    pub version: u32,
    /// Duration in seconds.
    pub seconds: u32,
    /// Error of the rebuild.
    pub errno: i32,
    /// 1 for not started, 2 for completed.
    pub state: i32,
    /// Version of container layouts.
    pub max_supported_layout_ver: u16,
    /// Flags.
    pub flags: u8,
    /// Unused.
    pub reserved: u8,
    /// The rank on which the rebuild failed.
    pub fail_rank: i32,
    /// Objects to rebuild.
    pub toberb_obj_nr: u64,
    /// Objects rebuilt.
    pub obj_nr: u64,
    /// Records moved.
    pub rec_nr: u64,
    /// Bytes moved.
    pub size: u64,
}

/// `daos_pool_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolInfo {
    /// UUID.
    pub uuid: UuidBytes,
    /// Number of targets.
    pub ntargets: u32,
    /// Number of nodes.
    pub nnodes: u32,
    /// Number of targets that are out of service.
    pub ndisabled: u32,
    /// Version of the pool map.
    pub map_ver: u32,
    /// The rank of the leader.
    pub leader: u32,
    /// In: which information the caller wants.
    pub bits: u64,
    /// Space.
    pub space: PoolSpace,
    /// Status of the rebuild.
    pub rebuild_st: RebuildStatus,
}

/// `daos_target_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetInfo {
    /// Unused.
    pub padding: u32,
    /// State, 4 for in service.
    pub state: u32,
    /// Unused.
    pub perf: i32,
    /// Space.
    pub space: Space,
}

/// `daos_cont_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ContInfo {
    /// UUID.
    pub uuid: UuidBytes,
    /// Epoch of the latest snapshot.
    pub lsnapshot: u64,
    /// Number of open handles.
    pub nhandles: u32,
    /// Number of snapshots.
    pub nsnapshots: u32,
    /// Epoch of the last open.
    pub md_otime: u64,
    /// Epoch of the last change of metadata.
    pub md_mtime: u64,
}

/// `struct daos_pool_cont_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolContInfo {
    /// UUID.
    pub uuid: UuidBytes,
    /// Label.
    pub label: [c_char; 128],
}

/// `struct daos_pool_cont_info2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolContInfo2 {
    /// Id and label.
    pub id: PoolContInfo,
    /// The result of a query.
    pub cinfo: ContInfo,
    /// Unused.
    pub reserved: [Ptr<c_void>; 2],
}

/// `daos_pool_cont_filter_part_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilterPart {
    /// The comparison.
    pub func: u32,
    /// The quantity to compare.
    pub key: u32,
    /// The value to compare it with.
    pub value: u64,
}

/// `daos_pool_cont_filter_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Filter {
    /// Operator that combines the results of the parts.
    pub combine: u32,
    /// Entries in `parts`.
    pub nparts: u32,
    /// The parts.
    pub parts: Ptr<Ptr<FilterPart>>,
}
