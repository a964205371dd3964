//! Benchmarks of Esker: what the medium gives, what the store makes of it, and the ratio.
//!
//! A benchmark is a few real processes ([`fleet`]) that do the same [`job::LoadStep`] at the same time, and
//! a [`report::Report`] of what they measured. The limit is measured by the same processes, on the
//! same medium, between the same phases.
//!
//! First use of fresh memory is ten times slower than its reuse, so all that is measured has been
//! touched before: the limit's file as well as the segments of the pool.
//!
//! [`field_io`] is the benchmark of the papers: its processes stamp every event ([`traces`]), all figures
//! follow from the stamps ([`metrics`]), and several nodes meet through files ([`rendezvous`]).
#![forbid(unsafe_code)]

pub mod buffer;
pub mod clock;
pub mod field_io;
pub mod fields;
pub mod fleet;
pub mod host;
pub mod interrupt;
pub mod job;
pub mod latency;
pub mod limit;
pub mod load;
pub mod measure;
pub mod metrics;
pub mod mounts;
pub mod paper;
pub mod parallel;
pub mod payload;
pub mod pin;
pub mod plan;
pub mod posix;
pub mod rendezvous;
pub mod report;
pub mod runner;
mod show;
pub mod table;
pub mod traces;
pub mod units;
pub mod whole;
pub mod worker;
