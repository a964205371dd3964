//! libdaos on Esker: the DAOS C API on top of the client crate, binary compatible.
//!
//! [`abi`] defines the C structures, `handles` maps the cookies that C holds to open objects, and every call goes
//! through `boundary`. The other modules contain the functions, named as in the headers in `include/`; those of
//! `esker.h` are in [`stores`]. The headers say what each function does; the documentation here adds only what they
//! leave open.
#![allow(unsafe_code)]
pub mod abi;
pub mod acl;
pub mod array;
pub mod attribute;
mod boundary;
pub mod code;
mod conditions;
pub mod container;
mod convert;
pub mod dfs;
pub mod dfs_sys;
pub mod duns;
pub mod env;
mod errno;
pub mod errors;
pub mod event;
pub mod global;
mod handles;
pub mod hash;
pub mod init;
pub mod kv;
pub mod list;
pub mod memory;
pub mod mgmt;
pub mod object;
mod object_table;
pub mod oclass;
pub mod oit;
mod packing;
mod per_process;
pub mod pipeline;
pub mod pool;
pub mod property;
pub mod ranks;
pub mod snapshot;
pub mod stores;
pub mod strict;
pub mod tse;
pub mod tx;

pub use code::Code;
