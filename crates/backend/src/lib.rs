//! The traits that a storage backend implements, code that backends share, and the backend in memory, which is the
//! reference.
//!
//! A backend implements [`Pool`] and [`OpenContainer`]; [`types`] has the types of their requests and replies. The
//! how-to "Write a backend" (`docs/howto/backend.md`) makes a small one, and the conformance suite
//! (`esker-conformance`) tests it. [`object`] has the effect of each operation on objects in memory, [`handles`] and
//! [`leases`] count uses within one process, and [`check`] rejects what no backend can do.
#![forbid(unsafe_code)]

pub mod block;
pub mod check;
mod container;
pub mod containers;
pub mod encoding;
pub mod handles;
pub mod leases;
pub mod memory;
mod merge;
pub mod object;
mod owned;
mod placement;
mod pool;
mod query;
mod removal;
mod reply;
mod take;

pub use container::{OpenContainer, Viewed};
pub use esker_types as types;
pub use esker_types::info::Capabilities;
pub use merge::{merge_objects, merge_pages, outermost};
pub use owned::OwnedWrites;
pub use placement::{Location, Placement};
pub use pool::{Metadata, MetadataChanges, NewContainer, Pool};
pub use removal::{remove_unlinked, undo_leases};
pub use reply::Reply;
pub use take::take;
