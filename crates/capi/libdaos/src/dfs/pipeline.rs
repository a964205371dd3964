//! Filters of listings, which are not offered.
use crate::abi::{Anchor, Dfs, DfsObj, DfsPipeline, ObjId, Predicate, Ptr};
use std::ffi::c_int;

/// Not offered.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_pipeline_create(
    _dfs: Ptr<Dfs>,
    _predicate: Predicate,
    _flags: u64,
    _pipeline: Ptr<Ptr<DfsPipeline>>,
) -> c_int {
    libc::ENOTSUP
}

/// Not offered.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_pipeline_destroy(_pipeline: Ptr<DfsPipeline>) -> c_int {
    libc::ENOTSUP
}

/// Not offered.
#[unsafe(no_mangle)]
pub extern "C" fn dfs_readdir_with_filter(
    _dfs: Ptr<Dfs>,
    _obj: Ptr<DfsObj>,
    _pipeline: Ptr<DfsPipeline>,
    _anchor: Ptr<Anchor>,
    _nr: Ptr<u32>,
    _dirs: Ptr<libc::dirent>,
    _oids: Ptr<ObjId>,
    _chunk_sizes: Ptr<u64>,
    _scanned: Ptr<u64>,
) -> c_int {
    libc::ENOTSUP
}
