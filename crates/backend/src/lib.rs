//! The seam of Esker: what a storage backend implements, and what backends have in common.
#![forbid(unsafe_code)]

pub mod block;
pub mod check;
mod container;
pub mod encoding;
pub mod handles;
pub mod leases;
pub mod object;
mod owned;
mod pool;
mod reply;

pub use container::OpenContainer;
pub use owned::OwnedWrites;
pub use pool::{Capabilities, Metadata, MetadataChanges, NewContainer, Pool};
pub use reply::Reply;
