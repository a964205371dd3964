//! Limits of operations that the client repeats or divides.

/// Attempts to punch long ranges of an array while other processes add chunks to it.
pub const ARRAY_TRIES_MAX: u32 = 10_000;

/// Chunks of arrays after which a removal of several arrays begins another commit, on a local pool.
pub const REMOVED_CHUNKS_MAX: u64 = 1024;

/// Bytes of one chunk of an array in one request to another machine. Longer reads and writes of a chunk are split.
pub const ARRAY_REQUEST_BYTES_MAX: u64 = 256 << 20;

/// Chunks of an array that one change of a pool on another machine punches. Above it, another change begins.
pub const PUNCHED_CHUNKS_MAX: usize = 1 << 16;
