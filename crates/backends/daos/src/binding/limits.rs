//! Limits of operations in progress in a process.

/// Most operations in progress; the start of another one waits.
pub const OPERATIONS_MAX: usize = 256;

/// Most connections to pools in progress, each of which may block until the agent answers.
pub const BLOCKING_MAX: usize = 64;

/// Most bytes of the buffers of all of them together.
pub const BYTES_MAX: usize = 128 << 20;

/// Seconds after which an operation times out, unless the URL says otherwise.
pub const TIMEOUT_SECONDS: u32 = 60;

/// Seconds that the end of the process waits for calls in progress, such as those that close handles.
pub const END_SECONDS: u64 = 1;

/// Keys that one call of a listing returns.
pub(crate) const PAGE: usize = 512;

/// Object ids that one call of a listing returns. The engine of DAOS 2.8 takes longer for a call with more room,
/// whatever the number of objects: on a busy machine, a call with room for 9 ids took 0.4 to 3.5 s, and one for 1000
/// ids 10 s for 20 objects, so that larger pages reach the time-out.
pub(crate) const OIDS_PAGE: usize = 16;

/// Extents that one call of a listing returns. DAOS does not accept more in a call without a buffer for keys
/// (`KDS_BULK_LIMIT` in `src/object/cli_shard.c`).
pub(crate) const EXTENTS_PAGE: usize = 128;

/// Bytes of keys that one call of a listing returns, unless a single key is longer.
pub(crate) const PAGE_BYTES: usize = 64 << 10;

/// Events that one call takes from the queue.
pub(crate) const EVENTS: usize = 64;
