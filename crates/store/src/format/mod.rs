//! Formats that are stored: keys and records of an index, superblock of a pool (`docs/format.md`).
pub(crate) mod keys;
pub(crate) mod long_keys;
pub(crate) mod record;
pub(crate) mod superblock;
