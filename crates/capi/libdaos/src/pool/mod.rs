//! Pools (`daos_pool.h`).
pub mod connect;
pub mod containers;
pub mod filter;
pub mod query;
