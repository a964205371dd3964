//! Messages of the processes of `mdtest` and `ior`.
use super::FileLocation;
use crate::job::Member;
use crate::measure::Measured;
use serde::{Deserialize, Serialize};

/// The job of one process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job<O> {
    /// The process.
    pub member: Member,
    /// Location of its files.
    pub location: FileLocation,
    /// The options of the benchmark.
    pub options: O,
}

/// The reply of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Done {
    /// The parts of the phase: one of mdtest; opening, transfers and closing of ior.
    pub parts: Vec<Measured>,
    /// Peak resident memory of the process in bytes, with shared memory.
    pub peak_bytes: u64,
    /// Private memory at the end of the phase in bytes.
    pub own_bytes: u64,
}

impl Done {
    /// The reply with the parts of a step, and the memory of this process after it.
    pub(super) fn new(parts: Vec<Measured>) -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let (peak_bytes, own_bytes) = (bytes_in(&status, "VmHWM"), bytes_in(&status, "RssAnon"));
        Self { parts, peak_bytes, own_bytes }
    }
}

/// A size in `/proc/self/status`; 0 if it is missing.
fn bytes_in(status: &str, name: &str) -> u64 {
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kib = value.and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

#[cfg(test)]
mod tests;
