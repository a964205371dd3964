//! librados, the client library of Ceph's object store: found and loaded when it is first wanted, so that
//! nothing is needed to build and a machine without it gets an error that says what to install.
//!
//! [`Cluster`] is a connection, [`Place`] a namespace of a pool, [`WriteOp`] and [`ReadOp`] what is done to
//! one object as a whole: all of it at once, or nothing. Every operation is asynchronous; its answer is a
//! future ([`Answer`]) that owns its buffers until librados is done with them, whether or not somebody still
//! waits. librados keeps threads, so a connection is of no use in a child made by fork: open another.
//!
//! Functions, constants and their meaning: the public C API of librados (`rados/librados.h`, Ceph 16 and
//! later).
mod answer;
mod api;
mod cluster;
mod failure;
mod library;
pub mod limits;
mod list;
mod place;
mod plain;
mod read;
mod write;

pub use answer::Answer;
pub use cluster::{Cluster, Settings, Usage};
pub use list::Objects;
pub use place::Place;
pub use plain::Plain;
pub use read::{Entry, Found, ReadOp};
pub use write::{Compare, WriteOp};

/// Environment variable that names the file of librados.
pub const VARIABLE: &str = "ESKER_LIBRADOS";
