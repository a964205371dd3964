//! Limits of operations that the client repeats.

/// Attempts to punch long ranges of an array while other processes add chunks to it.
pub const PUNCH_TRIES_MAX: u32 = 10_000;
