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
