//! Paths of other file systems that stand for containers (`daos_uns.h`).
mod attr;
pub mod path;
pub mod resolve;

pub(crate) use attr::Link;
