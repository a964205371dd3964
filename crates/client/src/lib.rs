//! Client of the Esker object store.
//!
//! A [`Pool`] holds [`Container`]s, a container holds objects: [`Kv`] (values under keys), [`Array`]
//! (equal cells in a row) and [`Object`], the level below, where dkeys hold akeys and akeys hold
//! single values or arrays. Operations take an [`Access`]: the latest state, a snapshot, or a
//! [`Transaction`].
//!
//! Operations are futures. On local targets they are ready at the first poll; [`Wait::wait`] is the
//! blocking face, which touches no runtime.
#![forbid(unsafe_code)]

mod access;
mod array;
mod attributes;
pub mod backend;
pub mod check;
pub mod conformance;
mod container;
mod kv;
pub mod memory;
pub mod model;
pub mod names;
mod native;
mod object;
mod pool;
mod random;
mod reply;
mod transaction;

pub use access::Access;
pub use array::{Array, ArrayAttributes, ArrayRead, ArrayStat};
pub use attributes::Attributes;
pub use container::Container;
pub use esker_types as types;
pub use kv::Kv;
pub use native::Native;
pub use object::Object;
pub use pool::{Pool, check_label};
pub use reply::{Reply, Wait, block_on};
pub use transaction::Transaction;
