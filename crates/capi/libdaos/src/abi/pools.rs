//! What is told about pools and containers.
use super::Ptr;
use std::ffi::{c_char, c_void};

/// `uuid_t`.
pub type UuidBytes = [u8; 16];

/// `struct daos_space`: bytes by kind of storage, the index of memory kind first.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Space {
    /// Bytes there are.
    pub total: [u64; 2],
    /// Bytes free.
    pub free: [u64; 2],
}

/// `struct daos_pool_space`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct PoolSpace {
    /// Of all targets.
    pub space: Space,
    /// Free on the fullest target.
    pub free_min: [u64; 2],
    /// Free on the emptiest target.
    pub free_max: [u64; 2],
    /// Free on average.
    pub free_mean: [u64; 2],
    /// Targets.
    pub ntargets: u32,
    /// Nothing.
    pub padding: u32,
}

/// `struct daos_rebuild_status`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct RebuildStatus {
    /// Version of the pool map.
    pub version: u32,
    /// Seconds it took.
    pub seconds: u32,
    /// Its error.
    pub errno: i32,
    /// 1 for none started, 2 for completed.
    pub state: i32,
    /// Version of container layouts.
    pub max_supported_layout_ver: u16,
    /// Flags.
    pub flags: u8,
    /// Nothing.
    pub reserved: u8,
    /// The rank that failed it.
    pub fail_rank: i32,
    /// Objects to look at.
    pub toberb_obj_nr: u64,
    /// Objects done.
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
    /// Its id.
    pub uuid: UuidBytes,
    /// Targets.
    pub ntargets: u32,
    /// Nodes.
    pub nnodes: u32,
    /// Targets out of service.
    pub ndisabled: u32,
    /// Version of the pool map.
    pub map_ver: u32,
    /// The rank that leads.
    pub leader: u32,
    /// In: what to tell.
    pub bits: u64,
    /// Space.
    pub space: PoolSpace,
    /// Rebuild.
    pub rebuild_st: RebuildStatus,
}

/// `daos_target_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct TargetInfo {
    /// Nothing.
    pub padding: u32,
    /// State, 4 for in service.
    pub state: u32,
    /// Nothing.
    pub perf: i32,
    /// Space.
    pub space: Space,
}

/// `daos_cont_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ContInfo {
    /// Its id.
    pub uuid: UuidBytes,
    /// Epoch of the latest snapshot.
    pub lsnapshot: u64,
    /// Open handles.
    pub nhandles: u32,
    /// Snapshots.
    pub nsnapshots: u32,
    /// When it was last opened.
    pub md_otime: u64,
    /// When its metadata last changed.
    pub md_mtime: u64,
}

/// `struct daos_pool_cont_info`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolContInfo {
    /// Its id.
    pub uuid: UuidBytes,
    /// Its label.
    pub label: [c_char; 128],
}

/// `struct daos_pool_cont_info2`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PoolContInfo2 {
    /// Id and label.
    pub id: PoolContInfo,
    /// What a query tells.
    pub cinfo: ContInfo,
    /// Nothing.
    pub reserved: [Ptr<c_void>; 2],
}

/// `daos_pool_cont_filter_part_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FilterPart {
    /// The comparison.
    pub func: u32,
    /// What is compared.
    pub key: u32,
    /// What it is compared with.
    pub value: u64,
}

/// `daos_pool_cont_filter_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Filter {
    /// How the parts go together.
    pub combine: u32,
    /// Entries in `parts`.
    pub nparts: u32,
    /// The parts.
    pub parts: Ptr<Ptr<FilterPart>>,
}
