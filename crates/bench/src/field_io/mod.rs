//! Field I/O: weather fields written and read as in ECMWF's benchmark.
//!
//! "DAOS as HPC Storage: a View From Numerical Weather Prediction" (2023), section IV-B, Algorithms 1
//! and 2: a main Key-Value maps the most significant part of a field's key to a forecast. The
//! forecast's Key-Value maps the rest of the key to an Array with the field's data. [`session::Session::write`] and
//! [`session::Session::read`] follow the algorithms step by step; [`worker`] does so again and again in a process of
//! its own, and [`crate::plan::parallel`] has many do so together.
mod algorithms;
pub mod keys;
pub mod segments;
pub mod session;
pub mod worker;

pub(crate) use algorithms::ENTRY_BYTES;

use crate::clock::monotonic_ns;
use crate::traces::{EVENTS, Stamps};
use serde::{Deserialize, Serialize};

/// The mode of Field I/O (section V-B).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Mode {
    /// Containers and indexes.
    Full,
    /// All Key-Values and Arrays are in the main container.
    NoContainers,
    /// No Key-Values either: Arrays are named by the md5 of the complete key.
    NoIndex,
}

/// Contention on forecast indexes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Contention {
    /// One index per process.
    Low,
    /// One index for all processes.
    High,
}

/// The access pattern (section V-C).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Pattern {
    /// Unique writes, then unique reads by another set of processes.
    #[value(name = "A")]
    A,
    /// Repeated writes by half of the processes while the other half reads the same fields.
    #[value(name = "B")]
    B,
}

/// Identifies a field by its owner and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// The process that writes it.
    pub process: u32,
    /// Number of the field in its process, from 0.
    pub index: u32,
}

/// Events whose time is recorded, in the order of [`Stamps`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// I/O start: before the write or read function is called.
    IoStart,
    /// The object is about to be opened.
    OpenStart,
    /// The object is open.
    OpenEnd,
    /// Data is about to be written or read.
    TransferStart,
    /// Data has been written or read.
    TransferEnd,
    /// The object is about to be closed.
    CloseStart,
    /// The object is closed.
    CloseEnd,
    /// I/O end: the function has returned.
    IoEnd,
}

/// Records the times of the events of one operation.
#[derive(Clone, Copy, Debug)]
pub struct Stamper {
    zero_ns: u64,
    stamps: Stamps,
}

impl Stamper {
    /// Counts from `zero_ns` of the monotonic clock.
    pub fn new(zero_ns: u64) -> Self {
        Self { zero_ns, stamps: [0; EVENTS] }
    }

    /// Records an event at the present time.
    pub fn mark(&mut self, event: Event) {
        self.stamps[event as usize] = monotonic_ns().saturating_sub(self.zero_ns);
    }

    /// The times.
    pub fn stamps(&self) -> Stamps {
        self.stamps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_event_sets_its_own_time_stamp() {
        let mut stamper = Stamper::new(0);
        stamper.mark(Event::IoStart);
        stamper.mark(Event::IoEnd);
        let stamps = stamper.stamps();
        assert!(stamps[0] > 0 && stamps[EVENTS - 1] >= stamps[0] && stamps[3] == 0);
    }
}
