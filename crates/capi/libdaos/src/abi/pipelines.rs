//! Pipelines (`daos_pipeline.h`).
use super::{Iov, Ptr};

/// `daos_pipeline_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Pipeline {
    /// Version of the structure: 1.
    pub version: u64,
    /// Entries in `filters`.
    pub num_filters: u32,
    /// Conditions that a record must meet, all of them.
    pub filters: Ptr<Ptr<PipelineFilter>>,
    /// Entries in `aggr_filters`.
    pub num_aggr_filters: u32,
    /// Aggregations of the records.
    pub aggr_filters: Ptr<Ptr<PipelineFilter>>,
}

/// `daos_filter_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PipelineFilter {
    /// Condition or aggregation, by name.
    pub filter_type: Iov,
    /// Entries in `parts`.
    pub num_parts: u32,
    /// The parts: each function is followed by its operands.
    pub parts: Ptr<Ptr<PipelinePart>>,
}

/// `daos_filter_part_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PipelinePart {
    /// Function, key or constant, by name.
    pub part_type: Iov,
    /// Type of the data, by name.
    pub data_type: Iov,
    /// Operands that follow.
    pub num_operands: u32,
    /// The akey.
    pub akey: Iov,
    /// Entries in `constant`.
    pub num_constants: usize,
    /// The constants.
    pub constant: Ptr<Iov>,
    /// Offset of the data: in bytes of a key or single value, in records of an array.
    pub data_offset: usize,
    /// Bytes or records of the data; 0 for all.
    pub data_len: usize,
}

/// `daos_pipeline_stats_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PipelineStats {
    /// Objects that were read.
    pub nr_objs: u64,
    /// Dkeys that were read.
    pub nr_dkeys: u64,
    /// Akeys that were read.
    pub nr_akeys: u64,
}
