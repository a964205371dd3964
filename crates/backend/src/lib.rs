//! The seam of Esker: what a storage backend implements, and what backends have in common.
#![forbid(unsafe_code)]

pub mod block;
pub mod bytes;
pub mod check;
pub mod handles;
pub mod holds;
pub mod object;
mod owned;
pub mod reply;
mod seam;

pub use owned::OwnedWrites;
pub use reply::Reply;
pub use seam::{Backend, Capabilities, NewContainer, Scope};
