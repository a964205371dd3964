//! The pool and the containers of another node, over whatever connection there is: a lost one is made again.
pub(crate) mod container;
pub(crate) mod pool;
mod slots;

pub use slots::CHANGES_MAX;
