//! Mapping and I/O: with LMDB ([`crate::index`]) the only place of the store where `unsafe` lives.
//!
//! Everything here turns a system facility (mmap, record locks, fork) into a safe one. No
//! knowledge of objects, segments or pools belongs here.
#![allow(unsafe_code)]

mod copy;
pub(crate) mod folder;
pub(crate) mod huge;
pub(crate) mod idle;
pub(crate) mod lock;
pub(crate) mod map;
pub(crate) mod own;
pub(crate) mod pin;
#[cfg(target_arch = "x86_64")]
mod summed;
pub(crate) mod sys;
pub(crate) mod turn;
pub(crate) mod writing;
