//! Pools of a genuine DAOS system. DAOS provides distribution, replication, erasure coding, snapshots and transactions;
//! Esker's objects are stored as DAOS objects with the same ids, classes, keys and extents. So programs written for
//! DAOS can read the data that Esker writes, and the reverse.
//!
//! docs/decisions/0050-daos-backend.md maps the operations of the backend traits to functions of DAOS, and lists the
//! operations without a counterpart.
#![deny(unsafe_code)]

mod backend;
pub mod binding;
mod conditions;
mod container;
mod fetch;
mod listing;
mod metadata;
mod names;
mod net;
mod objects;
mod oids;
mod pool;
mod proof;
mod query;
mod read;
mod rules;
mod snapshots;
mod url;
mod write;

pub use backend::Daos;
pub use url::DaosUrl;

use esker_backend::Reply;
use esker_types::{ErrorKind, Result};

/// Operations that one request makes at a time.
const JOIN_MAX: usize = 64;

/// Upper bound of record indexes of an array: DAOS uses the highest bit itself.
const RECORDS_END: u64 = 1 << 63;

/// A reply that waits for the system.
fn pending<'a, T>(work: impl Future<Output = Result<T>> + Send + 'a) -> Reply<'a, T> {
    Reply::Pending(Box::pin(work))
}

/// Replaces `NotFound` by the default value of the result, such as an empty list.
fn or_empty<T: Default>(found: Result<T>) -> Result<T> {
    match found {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(T::default()),
        other => other,
    }
}
