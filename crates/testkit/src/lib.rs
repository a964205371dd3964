//! Tests for backends: [`conformance`], checks that panic if a requirement is violated, and [`model`], random
//! operations compared with the in-memory reference. [`gate`] is a backend whose operations wait, for tests of waiting;
//! [`faulty`] is one that makes a mistake, and [`between`] what both have in common. [`parts`] is a client of all parts of a
//! pool over nodes; [`place`] says where tests have their containers.
#![forbid(unsafe_code)]

pub mod between;
pub mod conformance;
pub mod faulty;
pub mod gate;
pub mod model;
pub mod parts;
pub mod place;
