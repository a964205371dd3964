//! The process of an engine: it serves one part of a pool over nodes until it is told to end.
mod address;
mod log;
mod part;
mod service;
mod web;

pub(crate) use address::{Address, interface_address};
pub(crate) use log::log_to;
pub(crate) use part::{claim, log_beside, map_beside};
pub(crate) use service::{Ready, Service};
