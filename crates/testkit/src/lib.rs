//! What every backend must do: [`conformance`], checks that panic where it does not, and [`model`], random
//! operations on a backend beside the in-memory reference.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod model;
