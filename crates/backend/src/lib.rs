//! The traits that a storage backend implements, code that backends share, and the backend in memory, which is the reference.
#![forbid(unsafe_code)]

pub mod block;
pub mod check;
mod container;
pub mod encoding;
pub mod handles;
pub mod leases;
pub mod memory;
mod merge;
pub mod object;
mod owned;
mod placement;
mod pool;
mod reply;

pub use container::OpenContainer;
pub use esker_types::info::Capabilities;
pub use merge::{merge_objects, outermost};
pub use owned::OwnedWrites;
pub use placement::{Location, Placement};
pub use pool::{Metadata, MetadataChanges, NewContainer, Pool};
pub use reply::Reply;
