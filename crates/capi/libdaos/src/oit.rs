//! Object id tables.

/// A table of a snapshot.
pub(crate) struct Oit;
