//! Tests for backends.
//!
//! A backend is a crate that implements [`Pool`](esker_backend::Pool) and
//! [`OpenContainer`](esker_backend::OpenContainer). [`suite!`] gives it one test for each topic of the conformance
//! suite ([`TOPICS`]); [`run_all`] runs all topics in a program. [`model`] compares it with the reference backend over
//! random operations. The how-to "Write a backend" (`docs/howto/backend.md`) makes a small backend against the suite.
//!
//! The other modules are for Esker's own tests. [`gate`] is a backend whose operations wait, for tests of waiting.
//! [`faulty`] is a backend with a fault, and [`between`] is the code that both share. [`parts`] is a client of all
//! nodes of a pool over nodes. [`place`] selects the containers of tests, and [`declaring`] is a backend with other
//! capabilities.
#![forbid(unsafe_code)]

pub mod between;
pub mod declaring;
pub mod faulty;
pub mod gate;
pub mod model;
pub mod parts;
pub mod place;
mod suite;
pub mod topics;

pub use suite::{Setup, run_topic};
pub use topics::{Make, Outcome, TOPICS, Topic, run_all};
