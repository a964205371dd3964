//! Limits of the field store.

/// Pairs of name and value that a key may have.
pub const KEY_PAIRS_MAX: usize = 64;

/// Longest spelling of a key in bytes. It fits in one key of an object (`esker_types::limits::KEY_MAX`).
pub const KEY_BYTES_MAX: usize = 1000;

/// Longest name of a pair in bytes.
pub const NAME_BYTES_MAX: usize = 64;

/// Longest value of a pair in bytes.
pub const VALUE_BYTES_MAX: usize = 255;

/// Longest text of a schema in bytes.
pub const SCHEMA_BYTES_MAX: usize = 1 << 20;

/// Rules of a schema, counted by their third level.
pub const SCHEMA_RULES_MAX: usize = 4096;

/// Different names in one schema.
pub const SCHEMA_NAMES_MAX: usize = 128;

/// Longest text of requests in bytes.
pub const REQUEST_BYTES_MAX: usize = 16 << 20;

/// Requests in one text.
pub const REQUESTS_MAX: usize = 1 << 16;

/// Values that one name of a request may expand to.
pub const REQUEST_VALUES_MAX: usize = 1 << 18;

/// Most combinations of values that a request may enumerate.
pub const COMBINATIONS_MAX: u64 = 1 << 24;

/// Bytes of a field.
pub const FIELD_BYTES_MAX: u64 = 1 << 40;

/// Most fields of a writer that wait for its flush.
pub const PENDING_MAX: usize = 1 << 20;

/// Seconds after which the writer of unflushed fields counts as dead, on pools that do not show the leases of other
/// processes.
pub const UNFLUSHED_SECONDS: u64 = 48 * 3600;

/// Markers of batches that a flush reads at a time.
pub const MARKERS_MAX: usize = 64;

/// Most stripes of the index of a database.
pub const INDEX_STRIPES_MAX: u32 = 64;

/// Most stripes of the index of a database, unless more are requested. Without that, a store in a pool over nodes has
/// one for each node.
pub const INDEX_STRIPES_DEFAULT_MAX: u32 = 16;

/// Most restarts of a change because of conflicts.
pub const RESTARTS_MAX: u32 = 1000;

/// Longest path of an adopted file in bytes.
pub const PATH_BYTES_MAX: usize = 4096;

/// Missing fields, or existing values, that an answer names.
pub const MISSING_NAMED: usize = 10;

/// Bytes of small fields that are read together, and passed from thread to thread together.
pub const AHEAD_RUN_BYTES: u64 = 256 << 10;

/// Runs of fields that are read ahead. A run is one field, or small ones of up to [`AHEAD_RUN_BYTES`].
pub const AHEAD_RUNS: usize = 16;

/// Bytes that are read ahead.
pub const AHEAD_BYTES: u64 = 64 << 20;

/// Longest GRIB message in bytes.
pub const GRIB_MESSAGE_BYTES_MAX: usize = 1 << 30;

/// Longest header of a GRIB message, in bytes, by which its identity is learned. For longer headers ecCodes is always
/// asked.
pub const GRIB_HEADER_BYTES_MAX: usize = 1 << 20;

/// Most memory for learned identities of GRIB messages, in bytes.
pub const GRIB_KINDS_BYTES_MAX: usize = 64 << 20;
