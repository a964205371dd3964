//! Mapping and I/O: with LMDB ([`crate::index`]) the only module of the store with `unsafe` code.
//!
//! Each submodule makes a safe interface of a system facility (mmap, record locks, fork). None of them uses objects,
//! segments or pools.
#![allow(unsafe_code)]

mod copy;
pub(crate) mod folder;
pub(crate) mod huge;
pub(crate) mod idle;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod page_cache;
pub(crate) mod pin;
pub(crate) mod private_file;
#[cfg(target_arch = "x86_64")]
mod summed;
pub(crate) mod sys;
pub(crate) mod turn;
pub(crate) mod writing;

/// CRC-32C of bytes of which there are usually few, as in an index record. A function for data of any length takes
/// several times as long then, to find out how to sum it.
#[inline]
pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= summed::FEW_MAX && std::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE 4.2.
        return unsafe { summed::few(bytes) };
    }
    esker_types::Checksum::Crc32c.sum(bytes) as u32
}
