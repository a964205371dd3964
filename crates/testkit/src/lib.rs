//! What every backend must do: [`conformance`], checks that panic where it does not, and [`model`], random
//! operations on a backend beside the in-memory reference. [`gate`] is a backend for tests of whoever waits.
#![forbid(unsafe_code)]

pub mod conformance;
pub mod gate;
pub mod model;
