//! Limits of a connection. `docs/limits.md` lists them.

/// Short pieces that a receiver is ready for.
pub const SHORT_COUNT: u16 = 32;

/// Longest short piece in bytes, with its header.
pub const SHORT_LEN: u32 = 8 << 10;

/// Long pieces that a receiver is ready for.
pub const LONG_COUNT: u16 = 4;

/// Longest long piece in bytes, with its header. Providers move it by remote access to registered memory if they can.
pub const LONG_LEN: u32 = 256 << 10;
