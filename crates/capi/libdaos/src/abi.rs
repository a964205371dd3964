//! The structures of the C interface, laid out as the headers in `include/` define them.
mod files;
mod links;
mod objects;
mod pipelines;
mod pointer;
mod pools;
mod properties;

pub use files::*;
pub use links::Link;
pub use objects::*;
pub use pipelines::{Pipeline, PipelineFilter, PipelinePart, PipelineStats};
pub use pointer::{Bytes, Ptr, Str};
pub use pools::*;
pub use properties::*;

use std::ffi::c_int;

/// `daos_handle_t`: an open pool, container, object and so on. 0 means none; for operations, no transaction.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handle {
    /// Type, slot and generation, see [`crate::handles`].
    pub cookie: u64,
}

/// `daos_epoch_range_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochRange {
    /// First epoch.
    pub lo: u64,
    /// Last epoch.
    pub hi: u64,
}

/// `d_iov_t`: one buffer.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Iov {
    /// First byte.
    pub buf: Bytes,
    /// Bytes it can hold.
    pub buf_len: usize,
    /// Bytes in use.
    pub len: usize,
}

/// `d_sg_list_t`: a list of buffers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Sgl {
    /// Entries in `iovs`.
    pub nr: u32,
    /// Out: entries that were filled.
    pub nr_out: u32,
    /// The buffers.
    pub iovs: Ptr<Iov>,
}

/// `d_rank_list_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct RankList {
    /// The ranks.
    pub ranks: Ptr<u32>,
    /// Entries in `ranks`.
    pub nr: u32,
}

/// `daos_event_t`.
#[repr(C)]
pub struct Event {
    /// The result.
    pub error: c_int,
    /// Private to the library.
    pub space: [u64; 20],
    /// Private to the library.
    pub debug: u64,
}

/// `struct timespec`.
pub type Timespec = libc::timespec;
