//! Client of the Esker object store.
#![forbid(unsafe_code)]

pub mod backend;
mod reply;

pub use esker_types as types;
pub use reply::{Reply, block_on};
