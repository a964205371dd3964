//! The pool and the containers of another node. A lost connection is replaced by a new one.
pub(crate) mod container;
pub(crate) mod pool;
mod slots;

pub use slots::CHANGES_MAX;
