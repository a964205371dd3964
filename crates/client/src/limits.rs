//! Limits of operations that the client repeats or divides.

/// Attempts to punch long ranges of an array while other processes add chunks to it.
pub const PUNCH_TRIES_MAX: u32 = 10_000;

/// Chunks of arrays after which a removal of several arrays begins another commit, on a local pool.
pub const REMOVED_CHUNKS_MAX: u64 = 1024;
