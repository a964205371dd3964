//! Engines and their clients. One program of tests: each would compile all of an engine again.
mod commits;
mod conformance;
mod connections;
mod fuzz;
mod life;
mod tls;
