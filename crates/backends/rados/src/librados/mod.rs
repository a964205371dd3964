//! Binding to librados, the client library of Ceph's object store. It is loaded on first use, so builds do not need
//! it, and on a machine without it the error says what to install.
//!
//! [`Cluster`] is a connection, [`IoContext`] a namespace of a pool, [`WriteOp`] and [`ReadOp`] are atomic operations
//! on one object. Every operation is asynchronous. Its answer is a future ([`Answer`]), which owns the buffers until
//! librados is done with them, even if it is dropped. librados runs threads of its own, so a forked child cannot use
//! the connection of its parent and must open another.
//!
//! Functions, constants and their meaning: the public C API of librados (`rados/librados.h`, Ceph 16 and
//! later).
#![allow(unsafe_code)]
mod answer;
mod cluster;
mod failure;
mod io_context;
mod library;
pub mod limits;
mod plain;
mod read;
mod write;

pub use answer::Answer;
pub use cluster::{Cluster, Settings, Usage};
pub use io_context::{IoContext, Objects};
pub use library::check_library;
pub use plain::Plain;
pub use read::{Entry, Found, ReadOp};
pub use write::{Compare, WriteOp};

/// Environment variable that names the file of librados.
pub const VARIABLE: &str = "ESKER_LIBRADOS";
