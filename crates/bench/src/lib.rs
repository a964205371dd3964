//! Benchmarks of Esker: the rate of the store, the rate of its medium, and their ratio.
//!
//! A benchmark starts several processes ([`processes`]). Each has a job, then takes one step after the other together
//! with the others, and returns its measurements ([`worker::Work`]). A [`plan`] has the options of a benchmark, starts
//! its processes, names the steps and writes a [`report::Report`]. The same processes measure the limit, on the same
//! medium, between the phases of the store.
//!
//! The first use of fresh memory is ten times slower than its reuse. Memory is therefore touched before it is measured:
//! the file that measures the medium's limit as well as the segments of the pool.
//!
//! [`field_io`] is the benchmark of the papers. Its processes record the time of every event ([`traces`]), [`metrics`]
//! computes all figures from these times, and nodes synchronize through files ([`rendezvous`]).
#![forbid(unsafe_code)]

pub mod buffer;
pub mod clock;
mod errors;
pub mod field_io;
pub mod fields;
pub mod host;
pub mod interrupt;
pub mod job;
pub mod latency;
pub mod limit;
pub mod load;
pub mod measure;
pub mod metrics;
mod names;
pub mod paper;
pub mod parallel;
pub mod payload;
pub mod pin;
pub mod plan;
pub mod plots;
pub mod posix;
pub mod processes;
mod python;
pub mod rendezvous;
pub mod report;
pub mod runner;
mod runtime;
mod show;
pub mod table;
pub mod traces;
pub mod worker;
