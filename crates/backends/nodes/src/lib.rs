//! The backend on targets of other nodes: each operation is a request to the engine of the node.
#![forbid(unsafe_code)]

mod change;
mod container;
mod fetch;
mod link;
mod pool;

pub use link::{CONNECT_TIMEOUT, Link, REQUEST_TIMEOUT, REQUESTS_MAX};
pub use pool::Remote;
