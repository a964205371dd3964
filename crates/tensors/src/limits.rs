//! Limits of the tensor store.

/// Dimensions of a tensor.
pub const DIMENSIONS_MAX: usize = 32;

/// Bytes of one element.
pub const ITEM_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a chunk.
pub const CHUNK_BYTES_MAX: u64 = 64 << 20;

/// Bytes of a tensor, counted in complete chunks.
pub const TENSOR_BYTES_MAX: u64 = 1 << 60;

/// Longest name of a tensor in bytes.
pub const NAME_BYTES_MAX: usize = 1000;

/// Bytes of the record of a tensor: its type, shape, chunks and attributes together.
pub const RECORD_BYTES_MAX: usize = 1 << 20;

/// Levels of structured types and of lists in attributes.
pub const DEPTH_MAX: usize = 16;

/// Most parts of one PUT.
pub const PARTS_MAX: usize = 1 << 20;

/// Most restarts of a commit because other processes change the same names.
pub const RESTARTS_MAX: u32 = 1000;
