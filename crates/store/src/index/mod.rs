//! Index of a target: the LMDB environment, its transactions, and its pages as a file.
pub(crate) mod entries;
pub(crate) mod lmdb;
pub(crate) mod pages;
pub(crate) mod txn;
