//! Tests for backends: [`conformance`], checks that panic if a requirement is violated, and [`model`], random
//! operations compared with the in-memory reference. [`gate`] is a backend whose operations wait, for tests of waiting.
//! [`faulty`] is a backend with a fault, and [`between`] is the code that both share. [`parts`] is a client of all
//! nodes of a pool over nodes. [`place`] selects the containers of tests. [`declaring`] is a backend with other
//! capabilities.
#![forbid(unsafe_code)]

pub mod between;
pub mod conformance;
pub mod declaring;
pub mod faulty;
pub mod gate;
pub mod model;
pub mod parts;
pub mod place;
