//! The process of an engine: it serves the pool of its node, which is a shard of a pool over nodes, until it is told to
//! end.
mod address;
mod descriptors;
mod log;
mod new_node_pool;
mod node_pool;
mod service;
mod signals;
mod upkeep;
pub(crate) mod web;

pub(crate) use address::{Address, interface_address};
pub(crate) use log::log_to;
pub(crate) use new_node_pool::create_node_pool;
pub(crate) use node_pool::{claim, log_beside, map_beside};
pub(crate) use service::{Ready, Service};
pub(crate) use signals::Signals;
