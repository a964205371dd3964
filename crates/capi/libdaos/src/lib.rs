//! libdaos on Esker: the DAOS C API over the client crate, binary compatible.
//!
//! [`abi`] has the structures of C, `handles` what is behind the cookies C holds, `edge` what every
//! call goes through. The other rooms hold the functions, named as in the headers of `include/`,
//! which say what each does; documentation here only adds to them.
#![allow(unsafe_code)]
pub mod abi;
pub mod acl;
pub mod array;
pub mod attribute;
pub mod clock;
pub mod code;
pub mod container;
mod convert;
pub mod dfs;
pub mod dfs_sys;
pub mod duns;
mod edge;
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
pub mod oclass;
pub mod oit;
mod per_process;
pub mod pool;
pub mod property;
pub mod ranks;
pub mod snapshot;
pub mod tse;
pub mod tx;

pub use code::Code;
