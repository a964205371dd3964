//! Limits of `esker bench tx`. All are listed in `docs/limits.md`.

/// Bytes of the count at the beginning of a counter; a value has at least as many.
pub const COUNT_BYTES: usize = 8;
/// Counters of one benchmark.
pub const COUNTERS_MAX: u64 = 1 << 20;
/// Attempts to commit one transaction.
pub const RESTARTS_MAX: u32 = 1000;
