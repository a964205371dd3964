//! The style of the repository, as rules that run under `cargo test`.
//!
//! A rule is a plain function from the [`Tree`] of tracked files to the [`Finding`]s in it, so each
//! is tried on a few lines of text beside it, and on the whole repository in `tests/style.rs`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod arrows;
pub mod fences;
pub mod limits;
pub mod pages;
pub mod sizes;
pub mod skips;
pub mod text;
pub mod waits;

mod rust;
mod tree;

pub use tree::{Finding, Tree};
