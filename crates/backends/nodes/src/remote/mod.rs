//! The pool and the containers of another node over one connection: each operation is a request to the node's engine.
mod change;
mod container;
mod fetch;
pub(crate) mod pool;
