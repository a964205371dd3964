//! Limits of the use of ecCodes.

/// Longest value of a key as text, in bytes with the terminating zero.
pub const TEXT_BYTES_MAX: usize = 1024;

/// Most keys of one name space.
pub const KEYS_MAX: usize = 4096;

/// Most values of one field: 8 GiB as numbers of 64 bits.
pub const VALUES_MAX: usize = 1 << 30;

/// Longest error message of ecCodes that becomes part of an error, in bytes.
pub const EXPLANATION_BYTES_MAX: usize = 512;
