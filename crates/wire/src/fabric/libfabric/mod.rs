//! Binding to libfabric, the library for fast networks. It is loaded on first use, so builds do not need it, and on a
//! machine without it the error says what to install.
//!
//! An [`Endpoint`] sends and receives tagged messages in slots of memory that is registered with the network. Which
//! network that is depends on the *provider*: `tcp;ofi_rxm`, `shm`, `verbs;ofi_rxm`, `cxi`, `opx` and others. Users
//! choose it by libfabric's own environment variable, `FI_PROVIDER`.
//!
//! libfabric has locks of its own, so a forked child must not use it if its parent has loaded it ([`is_usable`]).
//!
//! Functions, structures, constants and their meaning: the public C API of libfabric (`rdma/fabric.h` and others,
//! version 1.9 and later).
#![allow(unsafe_code)]
mod endpoint;
mod failure;
mod hints;
mod layout;
mod library;
mod memory;
mod objects;

pub(crate) use endpoint::{Done, Endpoint, Settings};
pub use library::{check_library, is_usable};

/// Environment variable that names the file of libfabric.
pub const VARIABLE: &str = "ESKER_LIBFABRIC";
