//! The traits that a storage backend implements, and code that backends share.
#![forbid(unsafe_code)]

pub mod block;
pub mod check;
mod container;
pub mod encoding;
pub mod handles;
pub mod leases;
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
