//! Pools (`daos_pool.h`).
pub mod connect;

pub use connect::{daos_pool_connect, daos_pool_connect2, daos_pool_disconnect};
