//! The style of the repository, as rules that run under `cargo test`.
//!
//! A rule is a function from the [`Tree`] of tracked files to its [`Finding`]s. Each rule has unit tests on a few
//! lines of text, and runs on the whole repository in `tests/style.rs`.
#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod arrows;
pub mod facts;
pub mod fences;
pub mod layers;
pub mod limits;
pub mod pages;
pub mod sizes;
pub mod test_rules;
pub mod text;
pub mod words;

mod rust;
mod tree;

pub use tree::{Finding, Tree};
