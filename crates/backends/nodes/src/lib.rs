//! The backend on targets of other nodes: each operation is a request to the engine of the node.
#![forbid(unsafe_code)]

mod change;
mod container;
mod fetch;
mod link;
mod map;
mod pool;

pub use link::{CONNECT_TIMEOUT, Link, REQUEST_TIMEOUT, REQUESTS_MAX};
pub use map::{MAP_SUFFIX, MAP_VERSION, Map, Node};
pub use pool::Remote;
