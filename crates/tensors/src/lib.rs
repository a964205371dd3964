//! The tensor store: immutable n-dimensional arrays by UUID and by name, on the objects of Esker.
//!
//! A [`TensorStore`] stores tensors in a container. [`TensorStore::put`] stores a complete tensor.
//! [`TensorStore::begin`] starts a [`Put`]: many processes write its parts without communicating, and its commit makes
//! the tensor visible. A [`Tensor`] is open for reading, completely or in hyperslabs ([`Slab`]). Layout and messages
//! are described in `docs/format.md` ("The tensors of a container").
#![forbid(unsafe_code)]

mod audit;
mod bands;
mod dtype;
pub mod filesystem;
mod grid;
pub mod hdf5;
pub mod limits;
mod messages;
pub mod npy;
mod slab;
mod store;
mod strided;

pub use bands::bands;
pub use dtype::{DataType, Field};
pub use grid::Grid;
pub use messages::{Attribute, AttributeList, Value};
pub use slab::Slab;
pub use store::{Checked, Collected, Listed, Located, NewTensor, Put, Tensor, TensorStore};
pub use strided::Strided;

/// The how-to, whose Rust code is compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/howto/tensors.md")]
pub struct HowTo;
