//! The process of an engine: it serves one part of a pool over nodes until it is told to end.
mod address;
mod descriptors;
mod log;
mod new_part;
mod part;
mod service;
mod signals;
mod upkeep;
pub(crate) mod web;

pub(crate) use address::{Address, interface_address};
pub(crate) use log::log_to;
pub(crate) use new_part::new_part;
pub(crate) use part::{claim, log_beside, map_beside};
pub(crate) use service::{Ready, Service};
pub(crate) use signals::Signals;
