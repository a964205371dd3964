//! Binding to libdaos, the client library of a genuine DAOS system. It is loaded on first use, so builds do not need
//! it. On a machine without it, the error names the package to install. Esker's own library of that name implements the
//! same interface on Esker's pools. It is recognised and refused, because it would call this backend again.
//!
//! [`Pool`] is a connection, [`Container`] an open container of it, [`Object`] an object, [`Tx`] a transaction. Every
//! operation that leaves the machine is asynchronous: it is launched with an event of the process's event queue, and
//! its answer is a future. The operation owns its keys and buffers until libdaos is done with them, even if the future
//! is dropped or times out. The number of operations in progress is limited ([`limits`]). libdaos cannot be used in a
//! forked child of a process that uses it, so a child gets an error.
//!
//! Functions, structures, constants and their meaning: the public C API of libdaos 2.x (`daos.h`).
#![allow(unsafe_code)]
mod attributes;
mod call;
mod causes;
mod container;
mod failure;
mod fetch;
mod layout;
mod library;
pub mod limits;
mod list;
mod object;
mod pool;
mod property;
mod query;
mod queue;
mod start;
mod system;
mod transaction;

pub use attributes::Attributes;
pub use container::{Container, ContainerMode, Opened};
pub use fetch::{AkeyFetch, Fetched};
pub use library::{OWN_VARIABLE, SYMBOLS, VARIABLE, check_library};
pub use list::{Keys, ListedExtent};
pub use object::{AkeyUpdate, Content, Object};
pub use pool::{Listed, Pool, PoolState};
pub use property::NewContainer;
pub use query::Outermost;
pub use transaction::Tx;
