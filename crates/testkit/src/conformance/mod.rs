//! Requirements on every backend, as functions that check them and panic if they are violated.
//!
//! ```
//! use esker_backend::Pool;
//! use esker_backend::memory::Memory;
//! use esker_testkit::conformance;
//! use std::sync::Arc;
//!
//! conformance::single_values(&|| Arc::new(Memory::new(2)) as Arc<dyn Pool>);
//! ```
//!
//! A backend runs [`run_all`], or each entry of [`TOPICS`] as a separate test. Each topic creates one pool or two and
//! each check a container. A pool of 200 MiB is large enough if it takes single values of 4 MiB. Checks of capabilities
//! that a backend does not declare ([`esker_backend::Capabilities`]) are skipped.
mod arrays;
mod commits;
mod conditions;
mod containers;
mod extents;
mod leases;
mod listing;
mod long_keys;
mod metadata;
mod oids;
mod punch;
mod query;
mod replies;
mod single;
mod snapshots;
mod store;
mod threads;
mod transactions;

pub(crate) use extents::joined;

pub use arrays::arrays;
pub use commits::{MakePart, commits, takes_no_part};
pub use conditions::conditions;
pub use containers::containers;
pub use leases::leases;
pub use listing::listing;
pub use long_keys::long_keys;
pub use metadata::metadata;
pub use oids::oids;
pub use punch::punch;
pub use query::query;
pub use replies::replies;
pub use single::single_values;
pub use snapshots::snapshots;
pub use threads::threads;
pub use transactions::transactions;

use esker_backend::Pool;
use std::sync::Arc;

/// Creates an empty pool.
pub type Make<'a> = &'a dyn Fn() -> Arc<dyn Pool>;

/// A topic: a group of related checks.
pub type Topic = fn(Make<'_>);

/// All topics with their names, except [`commits`], which concerns pools over several nodes.
pub const TOPICS: [(&str, Topic); 15] = [
    ("containers", containers),
    ("metadata", metadata),
    ("single_values", single_values),
    ("arrays", arrays),
    ("conditions", conditions),
    ("punch", punch),
    ("listing", listing),
    ("long_keys", long_keys),
    ("query", query),
    ("snapshots", snapshots),
    ("transactions", transactions),
    ("oids", oids),
    ("leases", leases),
    ("replies", replies),
    ("threads", threads),
];

/// Runs every topic.
///
/// # Panics
/// If the backend violates a requirement.
pub fn run_all(make: Make<'_>) {
    for (_, topic) in TOPICS {
        topic(make);
    }
}
