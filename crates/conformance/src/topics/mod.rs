//! Requirements on every backend, as functions that check them and panic if they are violated.
//!
//! ```
//! use esker_backend::Pool;
//! use esker_conformance::topics;
//! use esker_backend::memory::Memory;
//! use std::sync::Arc;
//!
//! let outcome = topics::single_values(&|| Arc::new(Memory::new(2)) as Arc<dyn Pool>);
//! assert!(matches!(outcome, topics::Outcome::Passed { .. }));
//! ```
//!
//! Each topic creates one pool or two and each check a container. A pool of 200 MiB is large enough if it takes single
//! values of 4 MiB. A topic is skipped if the backend does not declare the capability that it needs
//! ([`esker_backend::Capabilities`]). Other checks depend on what is declared: they verify a promise, or the refusal.
mod arrays;
mod change_ids;
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
mod read_leases;
mod replies;
mod single;
mod snapshots;
mod store;
mod threads;
mod transactions;

pub(crate) use extents::joined;

pub use arrays::arrays;
pub use change_ids::change_ids;
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
pub use read_leases::read_leases;
pub use replies::replies;
pub use single::single_values;
pub use snapshots::snapshots;
pub use threads::threads;
pub use transactions::transactions;

use esker_backend::Pool;
use std::sync::Arc;

/// Creates an empty pool.
pub type Make<'a> = &'a dyn Fn() -> Arc<dyn Pool>;

/// A topic: a group of related checks. It panics if the backend violates a requirement.
pub type Topic = fn(Make<'_>) -> Outcome;

/// Outcome of a topic of which no requirement is violated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a topic may have been skipped"]
pub enum Outcome {
    /// The backend has passed the checks.
    Passed {
        /// Number of checks.
        checks: usize,
    },
    /// The backend does not declare the capability that all checks need.
    Skipped {
        /// Its name, mostly that of a field of [`esker_backend::Capabilities`].
        capability: &'static str,
    },
}

crate::suite!(@topics list);

/// Runs every topic. Returns the outcome of each with its name.
///
/// # Panics
/// If the backend violates a requirement.
pub fn run_all(make: Make<'_>) -> Vec<(&'static str, Outcome)> {
    TOPICS.iter().map(|(name, topic)| (*name, topic(make))).collect()
}
